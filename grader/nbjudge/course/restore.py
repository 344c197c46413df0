"""A submitted notebook → the assignment's own cells around the student's answers.

What a student may have done to nbgrader's metadata, on purpose or by copy and paste, is undone here from the
gradebook's rows: flags, points, types, copies, deletions. Only the source of answers and of added cells stays the
student's. At the end nbgrader's own preprocessors overwrite and check, against these rows instead of a database.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

import nbformat
from nbgrader.api import MissingEntry
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import LimitOutput, OverwriteCells
from nbgrader.utils import compute_checksum

from nbjudge.model import Notebook, SourceCell

JsonCell = dict[str, Any]
Gives = Callable[[str], set[str]]  # a cell's source → the names that it gives a value
DEFINES = re.compile(r"^(?:async )?(?:(def|class) +(\w+)|(\w+) *(?::[^=\n]+)?=(?!=))", re.MULTILINE)
HIDDEN = re.compile(r"^[^\n]*BEGIN HIDDEN TESTS.*?(?:END HIDDEN TESTS[^\n]*(?:\n|\Z)|\Z)", re.DOTALL | re.MULTILINE)
KNOWN_MARKS = 1 << 12
QUIET = logging.getLogger("grader.quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
LOST_ANSWER = "answer cell {name!r} is missing from what was handed in"
PUT_BACK = "This cell was missing from the submission; the grader put it back.\n\n"


@dataclass(frozen=True, slots=True)
class Restored:
    """A notebook ready to be run, and what had to be repaired, for the instructor."""

    document: dict[str, Any]
    notes: tuple[str, ...]


def restored(text: str, notebook: Notebook) -> Restored:
    """The canonical text of a submission with every cell of the assignment as the gradebook has it.

    Whatever was unclear has become a note.
    """
    document = json.loads(text)
    notes: list[str] = []
    claims = _claims(document["cells"])
    notes.extend(lost_answers(document["cells"], claims, notebook.cells))
    places: dict[str, JsonCell] = {}
    for row in notebook.cells:
        copies = claims.pop(row.grade_id, [])
        if copies:
            original, said = _original(copies, row)
            places[row.grade_id] = original
            _mark(original, row)
            if len(copies) > 1:
                notes.append(f"cell {row.grade_id!r} was there {len(copies)} times; {said}")
    notes.extend(put_in_order(document["cells"], places, notebook.cells))
    notes.extend(f"cell {grade_id!r} is none of this assignment's" for grade_id in sorted(claims))
    notes.extend(_put_back_missing(document["cells"], notebook.cells))
    document["metadata"] = {"kernelspec": json.loads(notebook.kernelspec or "{}"), "naming": asdict(notebook.naming)}
    return Restored(_overwritten(document, notebook), tuple(notes))


def grade_id(cell: Mapping[str, Any]) -> str | None:
    """The cell's key in the gradebook, where it has one."""
    given = cell["metadata"].get("nbgrader")
    value = given.get("grade_id") if isinstance(given, dict) else None
    return value if isinstance(value, str) else None


def sealed(row: SourceCell) -> SourceCell:
    """A cell with the checksum that nbgrader gives what it releases."""
    cell = {"cell_type": row.cell_type, "source": row.source, "metadata": {"nbgrader": metadata(row)}}
    return replace(row, checksum=compute_checksum(nbformat.from_dict(cell)))  # type: ignore[no-untyped-call]  # nbformat has no types


def _claims(cells: Sequence[JsonCell]) -> dict[str, list[JsonCell]]:
    """grade_id → the cells that claim it; takes nbgrader's metadata off every cell on the way."""
    claims: dict[str, list[JsonCell]] = {}
    for cell in cells:
        name = grade_id(cell)
        cell["metadata"].pop("nbgrader", None)
        if name is not None:
            claims.setdefault(name, []).append(cell)
    return claims


def _original(copies: Sequence[JsonCell], row: SourceCell) -> tuple[JsonCell, str]:
    """The cell that counts, and how it was found: Jupyter gives a copy a new id and drops `deletable`."""
    if row.locked or row.task:
        return min(copies, key=lambda cell: not _looks_original(cell, row)), "one was kept as the original"
    if row.grade and (whole := rejoined(copies, row)) is not None:
        return whole, "all that was written was put together, in order"
    changed = [cell for cell in copies if cell["source"] != row.source]
    return (changed[-1] if changed else copies[0]), "the last that was written counts, the others run before it"


def _looks_original(cell: JsonCell, row: SourceCell) -> bool:
    return cell["id"] == row.grade_id or cell["metadata"].get("deletable") is False


def _mark(cell: JsonCell, row: SourceCell) -> None:
    """Makes `cell` the one of `row`: type, flags, points, and the source where it is locked."""
    if cell["cell_type"] != row.cell_type:
        cell["cell_type"] = row.cell_type
        for name in ("outputs", "execution_count", "attachments"):
            cell.pop(name, None)
        if row.cell_type == "code":
            cell |= {"outputs": [], "execution_count": None}
    cell["metadata"]["nbgrader"] = metadata(row)
    if row.locked:
        cell["source"] = row.source


def metadata(row: SourceCell) -> dict[str, Any]:
    """nbgrader's metadata (schema 3) of a cell of the assignment."""
    fields: dict[str, Any] = {
        "grade_id": row.grade_id,
        "cell_type": row.cell_type,
        "checksum": row.checksum,
        "grade": row.grade,
        "solution": row.solution,
        "locked": row.locked,
        "task": row.task,
        "schema_version": 3,
    }
    if row.grade or row.task:
        fields["points"] = row.points
    return fields


def _put_back_missing(cells: list[JsonCell], rows: Sequence[SourceCell]) -> Iterator[str]:
    """Inserts deleted cells after the one that precedes them in the course; never an answer's stub, which is only told.

    A stub put back could redefine what the student wrote in another cell.
    """
    places = {name: index for index, cell in enumerate(cells) if (name := grade_id(cell)) is not None}
    place = -1
    for row in rows:
        if row.grade_id in places:
            place = places[row.grade_id]
            continue
        if row.solution and not row.grade:
            yield LOST_ANSWER.format(name=row.grade_id)
            continue
        place += 1
        cells.insert(place, _new_cell(row))
        places = {name: index + (index >= place) for name, index in places.items()} | {row.grade_id: place}
        yield f"cell {row.grade_id!r} was missing and was put back"


def _new_cell(row: SourceCell) -> JsonCell:
    source = row.source if row.locked else PUT_BACK + row.source
    cell: JsonCell = {"cell_type": row.cell_type, "id": _cell_id(row), "metadata": {}, "source": source}
    if row.cell_type == "code":
        cell |= {"outputs": [], "execution_count": None}
    cell["metadata"]["nbgrader"] = metadata(row)
    return cell


def _cell_id(row: SourceCell) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in row.grade_id)
    return f"put-back-{kept}"[:64]


# --- what a student's editor has done without meaning to: undone where only one reading is possible -------------------
# A renamed notebook, an answer that lost its mark, an answer merged into a locked cell, a written answer in two pieces,
# a test that stands before its answer. Each repair leaves a note for the instructor; what is ambiguous stays as it is.


def recognised(handed_in: Mapping[str, str], wanted: Sequence[Notebook]) -> tuple[dict[str, str], dict[str, str]]:
    """The assignment's notebooks by name, and under which other name each was handed in.

    A file under another name is taken where it alone holds cells of the notebook that is missing.
    """
    found = {notebook.name: handed_in[notebook.name] for notebook in wanted if notebook.name in handed_in}
    others = {name: _keys(text) for name, text in handed_in.items() if name not in found}
    names = {}
    for notebook in wanted:
        keys = {cell.grade_id for cell in notebook.cells}
        like = [name for name, theirs in others.items() if keys & theirs]
        if notebook.name not in found and len(like) == 1:
            found[notebook.name], names[notebook.name] = handed_in[like[0]], like[0]
    return found, names


def _keys(text: str) -> set[str]:
    """The grade_ids that a notebook's cells claim."""
    cells = json.loads(text).get("cells", ())
    marks = [cell.get("metadata", {}).get("nbgrader") for cell in cells]
    return {mark["grade_id"] for mark in marks if isinstance(mark, dict) and isinstance(mark.get("grade_id"), str)}


def defined(source: str) -> set[str]:
    """The names that a cell gives a value at its top.

    >>> sorted(defined("import x\\nclass A:\\n    b = 1\\ndef f(): ...\\nc: int = 2\\nf() == 3"))
    ['A', 'c', 'f']
    """
    return {name or other for _, name, other in DEFINES.findall(source)}


def released(source: str) -> str:
    """A cell as the students got it: without its hidden tests."""
    return HIDDEN.sub("", source)


def lost_answers(
    cells: list[JsonCell], claims: MutableMapping[str, list[JsonCell]], rows: Sequence[SourceCell]
) -> Iterator[str]:
    """Finds answers that no cell claims to be: by the cell's id, by what they define, inside a locked cell."""
    known, gives = {row.grade_id for row in rows}, cache(defined)  # however many answers are lost, a text is read once
    for row in rows:
        if not row.solution or row.grade_id in claims:
            continue
        claimed = {id(cell) for name in claims.keys() & known for cell in claims[name]}
        free = [cell for cell in cells if id(cell) not in claimed]
        like = [cell for cell in free if cell["id"] == row.grade_id]
        like = like or [cell for cell in free if _answers(cell, row, gives)]
        if len(like) == 1:
            claims[row.grade_id] = like
            yield f"the answer {row.grade_id!r} had lost its mark and was recognised by what it holds"
        elif (made := _taken_out(cells, claims, row, rows, gives)) is not None:
            claims[row.grade_id] = [made]
            yield f"the answer {row.grade_id!r} was found inside a locked cell and taken out of it"


def _answers(cell: JsonCell, row: SourceCell, gives: Gives) -> bool:
    wanted = defined(row.source)
    return cell["cell_type"] == row.cell_type == "code" and bool(wanted) and wanted <= gives(cell["source"])


def _taken_out(
    cells: list[JsonCell],
    claims: Mapping[str, list[JsonCell]],
    row: SourceCell,
    rows: Sequence[SourceCell],
    gives: Gives,
) -> JsonCell | None:
    """A new cell with what was merged into a locked one, where that answers `row`."""
    wanted = defined(row.source)
    for locked in rows:
        for cell in claims.get(locked.grade_id, ()) if locked.locked and wanted else ():
            rest = cell["source"].replace(released(locked.source).strip(), "").strip()
            if rest != cell["source"].strip() and wanted <= gives(rest):
                place = next(index for index, other in enumerate(cells) if other is cell)
                made = {**cell, "id": f"taken-out-{place}", "source": rest, "metadata": {}}
                cells.insert(place + (not locked.grade), made)
                return made
    return None


def rejoined(copies: Sequence[JsonCell], row: SourceCell) -> JsonCell | None:
    """A written answer in several pieces, put together in the first: a person reads them all."""
    pieces = list(dict.fromkeys(cell["source"] for cell in copies if cell["source"] != row.source))
    if len(pieces) < 2:
        return None
    copies[0]["source"] = "\n\n".join(pieces)
    for cell in copies[1:]:
        cell["source"] = ""
    return copies[0]


def put_in_order(cells: list[JsonCell], places: Mapping[str, JsonCell], rows: Sequence[SourceCell]) -> Iterator[str]:
    """Puts locked cells and tests back between the answers where the course has them; answers stay where they are.

    What the student has added stays behind the cell that it followed.
    """
    present = [row for row in rows if row.grade_id in places]
    for number, row in enumerate(present):
        if row.solution or row.cell_type != "code":
            continue
        earlier = [one for one in present[:number] if one.cell_type == "code"]
        later = present[number + 1 :]
        before, after = ([places[one.grade_id] for one in some] for some in (earlier, later))
        answers = [places[one.grade_id] for one in later if one.solution and one.cell_type == "code"]
        if _moved(cells, places[row.grade_id], before, after, answers):
            test = row.grade and any(one.solution for one in earlier)
            said = "its answer and was moved behind it" if test else "or behind other cells and was put back"
            yield f"the {'test' if row.grade else 'locked cell'} {row.grade_id!r} stood before {said}"


def _moved(
    cells: list[JsonCell],
    cell: JsonCell,
    before: Sequence[JsonCell],
    after: Sequence[JsonCell],
    answers: Sequence[JsonCell],
) -> bool:
    """Moves `cell` behind all of `before` and, where that is possible, in front of `answers`."""
    order = {id(one): index for index, one in enumerate(cells)}
    place, first = order[id(cell)], max((order[id(one)] for one in before), default=-1)
    last = min((order[id(one)] for one in answers), default=len(cells))
    if first < place < last or (last < first < place):
        return False
    target = min((order[id(one)] for one in after if order[id(one)] > first), default=len(cells))
    target = first + 1 if last < first else target
    cells.insert(target - (target > place), cells.pop(place))
    return True


# --- nbgrader's preprocessors, against an Assignment -----------------------------------------------------------------


class _Rows:
    """What OverwriteCells asks of a Gradebook."""

    def __init__(self, notebook: Notebook) -> None:
        self._cells = {cell.grade_id: cell for cell in notebook.cells}

    def find_source_cell(self, name: str, _notebook: str, _assignment: str) -> SimpleNamespace:
        cell = self._cells.get(name)
        if cell is None:
            raise MissingEntry(name)
        return SimpleNamespace(
            name=name,
            cell_type=cell.cell_type,
            locked=cell.locked,
            source=cell.source,
            checksum=cell.checksum,
            max_score=cell.points,
        )

    find_graded_cell = find_source_cell


class _OverwriteFromRows(OverwriteCells):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's step with the rows handed in instead of read from a database."""

    def __init__(self, notebook: Notebook) -> None:
        super().__init__(log=QUIET)
        self.gradebook = _Rows(notebook)
        self.notebook_id, self.assignment_id = notebook.name, ""

    def run(self, document: Any) -> Any:
        for index, cell in enumerate(document.cells):
            document.cells[index], _ = self.preprocess_cell(cell, {}, index)
        return document


class _Marks(MetadataValidator):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's check of its metadata; what has passed once passes again, and most of it is the same for a class."""

    def __init__(self) -> None:
        super().__init__()
        self.log = QUIET
        self._passed: set[str] = set()

    def validate_cell(self, cell: Any) -> None:
        marks = json.dumps([cell.cell_type, cell.metadata.get("nbgrader")], sort_keys=True)
        if marks not in self._passed:
            super().validate_cell(cell)
            if len(self._passed) < KNOWN_MARKS:
                self._passed.add(marks)


@lru_cache(maxsize=1)
def _marks() -> _Marks:
    return _Marks()


def _overwritten(document: Mapping[str, Any], notebook: Notebook) -> dict[str, Any]:
    """The document after nbgrader's own step, and checked."""
    node = _OverwriteFromRows(notebook).run(_node(document))
    _marks().validate_nb(node)
    return dict(json.loads(json.dumps(node)))


def shortened(node: Any) -> Any:
    """An executed notebook within nbgrader's limit of lines, and checked."""
    shorter, _ = LimitOutput(log=QUIET).preprocess(node, {})
    _marks().validate_nb(shorter)
    return shorter


def _node(document: Any) -> Any:
    return nbformat.from_dict(document)  # type: ignore[no-untyped-call] # nbformat types it nowhere
