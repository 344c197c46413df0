"""A submitted notebook → the assignment's own cells around the student's answers.

What a student may have done to nbgrader's metadata, on purpose or by copy and paste, is undone here from the
gradebook's rows: flags, points, types, copies, deletions. Only the source of answers and of added cells stays the
student's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbjudge.course.recover import DEFINES, lost_answers, put_behind_answers, rejoined
from nbjudge.model import Cell, Notebook

JsonCell = dict[str, Any]
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
    notes.extend(put_behind_answers(document["cells"], places, notebook.cells))
    notes.extend(f"cell {grade_id!r} is none of this assignment's" for grade_id in sorted(claims))
    notes.extend(_put_back_missing(document["cells"], notebook.cells))
    document["metadata"] = {"kernelspec": json.loads(notebook.kernelspec or "{}"), "asked": asked(notebook.cells)}
    return Restored(document, tuple(notes))


def asked(rows: Sequence[Cell]) -> dict[str, list[str]]:
    """The names that the released answers define at their top, and which of these are classes.

    >>> asked([Cell("q", "code", "class A:\\n    pass\\ndef sum(x): ...\\nb = 1", None, 1, False, True, False, False)])
    {'names': ['A', 'b', 'sum'], 'classes': ['A']}
    """
    released = "\n".join(row.source for row in rows if row.solution and row.cell_type == "code")
    found = [(how or "=", name or other) for how, name, other in DEFINES.findall(released)]
    names = sorted({name for _, name in found})
    return {"names": names, "classes": sorted({name for how, name in found if how == "class"})}


def grade_id(cell: Mapping[str, Any]) -> str | None:
    """The cell's key in the gradebook, where it has one."""
    given = cell["metadata"].get("nbgrader")
    value = given.get("grade_id") if isinstance(given, dict) else None
    return value if isinstance(value, str) else None


def _claims(cells: Sequence[JsonCell]) -> dict[str, list[JsonCell]]:
    """grade_id → the cells that claim it; takes nbgrader's metadata off every cell on the way."""
    claims: dict[str, list[JsonCell]] = {}
    for cell in cells:
        name = grade_id(cell)
        cell["metadata"].pop("nbgrader", None)
        if name is not None:
            claims.setdefault(name, []).append(cell)
    return claims


def _original(copies: Sequence[JsonCell], row: Cell) -> tuple[JsonCell, str]:
    """The cell that counts, and how it was found: Jupyter gives a copy a new id and drops `deletable`."""
    if row.locked or row.task:
        return min(copies, key=lambda cell: not _looks_original(cell, row)), "one was kept as the original"
    if row.grade and (whole := rejoined(copies, row)) is not None:
        return whole, "all that was written was put together, in order"
    changed = [cell for cell in copies if cell["source"] != row.source]
    return (changed[-1] if changed else copies[0]), "the last that was written counts, the others run before it"


def _looks_original(cell: JsonCell, row: Cell) -> bool:
    return cell["id"] == row.grade_id or cell["metadata"].get("deletable") is False


def _mark(cell: JsonCell, row: Cell) -> None:
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


def metadata(row: Cell) -> dict[str, Any]:
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


def _put_back_missing(cells: list[JsonCell], rows: Sequence[Cell]) -> Iterator[str]:
    """Inserts deleted cells after the one that precedes them in the course; never an answer's stub.

    A stub put back could redefine what the student wrote in another cell.
    """
    places = {name: index for index, cell in enumerate(cells) if (name := grade_id(cell)) is not None}
    place = -1
    for row in rows:
        if row.grade_id in places:
            place = places[row.grade_id]
            continue
        if row.solution and not row.grade:
            continue
        place += 1
        cells.insert(place, _new_cell(row))
        places = {name: index + (index >= place) for name, index in places.items()} | {row.grade_id: place}
        yield f"cell {row.grade_id!r} was missing and was put back"


def _new_cell(row: Cell) -> JsonCell:
    source = row.source if row.locked else PUT_BACK + row.source
    cell: JsonCell = {"cell_type": row.cell_type, "id": _cell_id(row), "metadata": {}, "source": source}
    if row.cell_type == "code":
        cell |= {"outputs": [], "execution_count": None}
    cell["metadata"]["nbgrader"] = metadata(row)
    return cell


def _cell_id(row: Cell) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in row.grade_id)
    return f"put-back-{kept}"[:64]
