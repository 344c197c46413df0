"""Masters: a chapter or an assignment as one `.py` in jupytext's py:percent format, and the notebook made from it.

A cell starts with `# %%` or `# %% [markdown]`. Options follow on the same line, as `name=value`:

==================  ===========================================================================
`tags=[...]`        as in Jupyter; `"raises-exception"` on a cell that is meant to raise
`grade_id="..."`    nbgrader's key of the cell; together with
`kind="solution"`   a cell that the student fills in; the answer stands between
                    `### BEGIN SOLUTION` and `### END SOLUTION`
`kind="test"`       a cell of tests worth `points=N`; what students mustn't see stands between
                    `### BEGIN HIDDEN TESTS` and `### END HIDDEN TESTS`
`kind="manual"`     a free answer worth `points=N`, graded by hand
`kind="given"`      a cell that the student can't change (a rubric, say)
==================  ===========================================================================

Nothing here runs a cell or touches nbgrader: text in, notebook out, and back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat

FORMAT = "py:percent"
NBFORMAT: Any = nbformat  # its functions carry no types
KINDS = {  # kind → nbgrader's grade, solution, locked
    "solution": (False, True, False),
    "test": (True, False, True),
    "manual": (True, True, False),
    "given": (False, False, True),
}
WITH_POINTS = {"test", "manual"}
OPTIONS = {"tags", "grade_id", "kind", "points"}
JUPYTEXT_OPTIONS = "tags,grade_id,kind,points,-all"
REGIONS = {"SOLUTION": {"solution", "manual"}, "HIDDEN TESTS": {"test"}}  # region → kinds that may hold it
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}


class BookError(Exception):
    """The course can't be built. Says which file, which line, and what to do."""


@dataclass(frozen=True, slots=True)
class MasterCell:
    """One cell of a master. `line` is that of its `# %%`; `kind`, `grade_id`, `points` are None in a plain cell."""

    line: int
    cell_type: str
    source: str
    tags: tuple[str, ...] = ()
    grade_id: str | None = None
    kind: str | None = None
    points: float | None = None


@dataclass(frozen=True, slots=True)
class Master:
    """One master, read and checked. `name` is the file's, without `.py`."""

    name: str
    path: Path
    text: str
    cells: tuple[MasterCell, ...]


def read_master(path: Path) -> Master:
    """Read and check one master. Raises BookError for whatever nbgrader or Jupyter would stumble over later."""
    text = path.read_text(encoding="utf-8")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"# %%(\s|$)", line)]
    if not lines:
        raise BookError(f"{path}: no cell. Start each cell with `# %%` or `# %% [markdown]`.")
    cells = jupytext.reads(text, fmt=FORMAT).cells
    if len(cells) != len(lines):
        raise BookError(
            f"{path}:1: text before the first `# %%`, or an empty cell. Give each cell its marker and a body."
        )
    master = Master(
        path.stem, path, text, tuple(_cell(path, line, cell) for line, cell in zip(lines, cells, strict=True))
    )
    check_grade_ids(master)
    return master


def _cell(path: Path, line: int, cell: Any) -> MasterCell:
    options = {name: value for name, value in cell.metadata.items() if not name.startswith("lines_to_")}  # jupytext's
    unknown = sorted(options.keys() - OPTIONS)
    if unknown:
        raise BookError(f"{path}:{line}: unknown option `{unknown[0]}`. A cell takes {', '.join(sorted(OPTIONS))}.")
    made = MasterCell(
        line,
        cell.cell_type,
        cell.source,
        tuple(options.get("tags", ())),
        options.get("grade_id"),
        options.get("kind"),
        options.get("points"),
    )
    for problem in _problems(made):
        raise BookError(f"{path}:{line}: {problem}")
    return made


def _problems(cell: MasterCell) -> Iterator[str]:
    """What is wrong with one cell, as sentences that say what to do."""
    if cell.cell_type == "raw":
        yield "a raw cell. Use code or markdown."
    if (cell.kind is None) != (cell.grade_id is None):
        yield "`grade_id` and `kind` go together. Give both or none."
    if cell.kind is not None and cell.kind not in KINDS:
        yield f'kind="{cell.kind}" is unknown. Use one of {", ".join(KINDS)}.'
    if cell.grade_id is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", cell.grade_id):
        yield f'grade_id="{cell.grade_id}" may hold letters, digits, `-` and `_` only, at most 64.'
    if (cell.kind in WITH_POINTS) != (cell.points is not None):
        yield "`points` belongs to kind `test` or `manual`, and to each of them. Add or remove it."
    if cell.kind == "test" and cell.cell_type != "code":
        yield "a test is a code cell. Remove `[markdown]`, or use kind `manual`."
    yield from _region_problems(cell)


def _region_problems(cell: MasterCell) -> Iterator[str]:
    for region, kinds in REGIONS.items():
        marks = re.findall(rf"^\s*### (BEGIN|END) {region}\s*$", cell.source, re.MULTILINE)
        if marks != ["BEGIN", "END"] * (len(marks) // 2):
            yield f"`### BEGIN {region}` and `### END {region}` don't pair. Each BEGIN needs its END."
        if marks and cell.kind not in kinds:
            yield f"a {region} region in a cell of kind {cell.kind}. It belongs to kind {' or '.join(sorted(kinds))}."
        if region == "SOLUTION" and cell.kind == "solution" and not marks:
            yield "a solution without `### BEGIN SOLUTION` … `### END SOLUTION`: the whole cell would be removed."


def check_grade_ids(master: Master) -> None:
    """Raise BookError for a `grade_id` used twice: nbgrader would drop one of the two."""
    first: dict[str, int] = {}
    for cell in master.cells:
        if cell.grade_id is None:
            continue
        if cell.grade_id in first:
            raise BookError(
                f'{master.path}:{cell.line}: grade_id="{cell.grade_id}" is also that of line '
                f"{first[cell.grade_id]}. Give each cell its own."
            )
        first[cell.grade_id] = cell.line


def cell_ids(master: Master) -> tuple[str, ...]:
    """The cells' ids: the `grade_id`, else a hash of chapter, type and source (and of how often that came before)."""
    seen: dict[str, int] = {}
    ids = []
    for cell in master.cells:
        key = f"{master.name}\0{cell.cell_type}\0{cell.source}"
        seen[key] = seen.get(key, 0) + 1
        ids.append(cell.grade_id or hashlib.sha256(f"{key}\0{seen[key]}".encode()).hexdigest()[:12])
    return tuple(ids)


def to_notebook(master: Master) -> Any:
    """A master as a notebook without outputs, with nbgrader's metadata (schema 3) where a cell has a `grade_id`."""
    book = NBFORMAT.v4.new_notebook(metadata=_copy(METADATA))
    for cell, identity in zip(master.cells, cell_ids(master), strict=True):
        make = NBFORMAT.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
        made = make(cell.source, id=identity)
        if cell.tags:
            made.metadata["tags"] = list(cell.tags)
        if cell.kind is not None:
            made.metadata["nbgrader"] = _nbgrader(cell)
        book.cells.append(made)
    return book


def _nbgrader(cell: MasterCell) -> dict[str, Any]:
    grade, solution, locked = KINDS[cell.kind or ""]
    metadata = {
        "grade": grade,
        "grade_id": cell.grade_id,
        "locked": locked,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    return metadata if cell.points is None else {**metadata, "points": cell.points}


def canonical(master: Master) -> str:
    """The master's text as `from_notebook` would write it: blank lines as jupytext sets them."""
    return from_notebook(to_notebook(master), master.path)


def from_notebook(book: Any, path: Path) -> str:
    """An instructor's notebook as the text of its master: the way back of `to_notebook`. Outputs are dropped.

    Raises BookError for a cell that a master can't say: a task, a graded read-only text, a cell that splits.
    """
    plain = NBFORMAT.v4.new_notebook()
    for number, cell in enumerate(book.cells, 1):
        made = NBFORMAT.from_dict({**cell, "metadata": _options(cell, path, number)})
        if made.cell_type == "code":
            made.outputs, made.execution_count = [], None
        plain.cells.append(made)
    plain.metadata["jupytext"] = {"cell_metadata_filter": JUPYTEXT_OPTIONS, "notebook_metadata_filter": "-all"}
    text = str(jupytext.writes(plain, fmt=FORMAT))
    _demand_same([cell.source.strip() for cell in plain.cells], text, path)
    return text


def _demand_same(sources: list[str], text: str, path: Path) -> None:
    """jupytext splits a cell at a marker within it, and not after a string that goes on."""
    back = [cell.source.strip() for cell in jupytext.reads(text, fmt=FORMAT).cells]
    if back != sources:
        lost = next((number for number, (was, now) in enumerate(zip(sources, back, strict=False), 1) if was != now), 1)
        causes = "a line that means something there (`# %%`, `##+`), a string without its end, or `#!` as its first"
        raise BookError(f"{path}: cell {lost} can't be one cell of a master: it has {causes}. Reword it.")


def _options(cell: Any, path: Path, number: int) -> dict[str, Any]:
    """nbgrader's metadata of one cell → a master's options."""
    tags = cell.metadata.get("tags")
    options: dict[str, Any] = {"tags": list(tags)} if tags else {}
    nbgrader = cell.metadata.get("nbgrader", {})
    if nbgrader.get("task"):
        raise BookError(f"{path}: cell {number} is a task. Make it a question in plain markdown and a manual answer.")
    kind = _kind(bool(nbgrader.get("grade")), bool(nbgrader.get("solution")), bool(nbgrader.get("locked")))
    if kind is None:
        return options
    options.update(grade_id=nbgrader["grade_id"], kind=kind)
    return {**options, "points": nbgrader["points"]} if kind in WITH_POINTS else options


def _kind(grade: bool, solution: bool, locked: bool) -> str | None:
    """The kind with these flags; nbgrader locks a test in any case, and never a solution."""
    if grade:
        return "manual" if solution else "test"
    if solution:
        return "solution"
    return "given" if locked else None


def read_notebook(path: Path) -> Any:
    """A notebook from disk, as nbformat 4. Raises BookError when it isn't one."""
    try:
        return NBFORMAT.read(path, as_version=4)
    except (ValueError, nbformat.ValidationError) as error:
        raise BookError(f"{path} isn't a notebook: {error}. Restore it, or delete it and build.") from error


def notebook_of(data: bytes) -> Any:
    """A notebook from its bytes, as nbformat 4."""
    return NBFORMAT.reads(data.decode(), as_version=4)


def notebook_bytes(book: Any) -> bytes:
    """A notebook as it is stored: JSON, sorted keys, one newline at the end."""
    return (str(NBFORMAT.writes(book)).rstrip("\n") + "\n").encode()


def _copy(value: dict[str, Any]) -> dict[str, Any]:
    return {key: _copy(item) if isinstance(item, dict) else item for key, item in value.items()}
