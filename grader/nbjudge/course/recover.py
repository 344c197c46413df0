"""What a student's editor has done to a notebook without meaning to: undone where only one reading is possible.

A renamed notebook, an answer that lost its mark, an answer merged into a locked cell, a written answer in two pieces,
a test that stands before its answer. Each repair leaves a note for the instructor; what is ambiguous stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from nbjudge.model import Cell, Notebook

JsonCell = dict[str, Any]
DEFINES = re.compile(r"^(?:async )?(?:(def|class) +(\w+)|(\w+) *(?::[^=\n]+)?=(?!=))", re.MULTILINE)
HIDDEN = re.compile(r"^[^\n]*BEGIN HIDDEN TESTS.*?(?:END HIDDEN TESTS[^\n]*(?:\n|\Z)|\Z)", re.DOTALL | re.MULTILINE)


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
    cells: list[JsonCell], claims: MutableMapping[str, list[JsonCell]], rows: Sequence[Cell]
) -> Iterator[str]:
    """Finds answers that no cell claims to be: by the cell's id, by what they define, inside a locked cell."""
    for row in rows:
        if not row.solution or row.grade_id in claims:
            continue
        claimed = {id(cell) for name in claims for cell in claims[name] if name in {known.grade_id for known in rows}}
        free = [cell for cell in cells if id(cell) not in claimed]
        like = [cell for cell in free if cell["id"] == row.grade_id] or [cell for cell in free if _answers(cell, row)]
        if len(like) == 1:
            claims[row.grade_id] = like
            yield f"the answer {row.grade_id!r} had lost its mark and was recognised by what it holds"
        elif (made := _taken_out(cells, claims, row, rows)) is not None:
            claims[row.grade_id] = [made]
            yield f"the answer {row.grade_id!r} was found inside a locked cell and taken out of it"


def _answers(cell: JsonCell, row: Cell) -> bool:
    wanted = defined(row.source)
    return cell["cell_type"] == row.cell_type == "code" and bool(wanted) and wanted <= defined(cell["source"])


def _taken_out(
    cells: list[JsonCell], claims: Mapping[str, list[JsonCell]], row: Cell, rows: Sequence[Cell]
) -> JsonCell | None:
    """A new cell with what was merged into a locked one, where that answers `row`."""
    wanted = defined(row.source)
    for locked in rows:
        for cell in claims.get(locked.grade_id, ()) if locked.locked and wanted else ():
            rest = cell["source"].replace(released(locked.source).strip(), "").strip()
            if rest != cell["source"].strip() and wanted <= defined(rest):
                place = next(index for index, other in enumerate(cells) if other is cell)
                made = {**cell, "id": f"taken-out-{place}", "source": rest, "metadata": {}}
                cells.insert(place + (not locked.grade), made)
                return made
    return None


def rejoined(copies: Sequence[JsonCell], row: Cell) -> JsonCell | None:
    """A written answer in several pieces, put together in the first: a person reads them all."""
    pieces = list(dict.fromkeys(cell["source"] for cell in copies if cell["source"] != row.source))
    if len(pieces) < 2:
        return None
    copies[0]["source"] = "\n\n".join(pieces)
    for cell in copies[1:]:
        cell["source"] = ""
    return copies[0]


def put_behind_answers(cells: list[JsonCell], places: Mapping[str, JsonCell], rows: Sequence[Cell]) -> Iterator[str]:
    """Moves a test that stands before the answer that it tests to right behind it."""
    answers: list[Cell] = []
    tested = False
    for row in rows:
        if row.solution and not row.grade:
            answers, tested = [*([] if tested else answers), row], False
        elif row.grade and not row.solution and row.cell_type == "code" and row.grade_id in places:
            tested = True
            if _moved(cells, places[row.grade_id], [places[one.grade_id] for one in answers if one.grade_id in places]):
                yield f"the test {row.grade_id!r} stood before its answer and was moved behind it"


def _moved(cells: list[JsonCell], test: JsonCell, answers: Sequence[JsonCell]) -> bool:
    order = {id(cell): index for index, cell in enumerate(cells)}
    last = max((order[id(answer)] for answer in answers), default=-1)
    if last < order[id(test)]:
        return False
    cells.insert(last, cells.pop(order[id(test)]))
    return True
