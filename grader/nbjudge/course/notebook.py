"""The text of a submitted .ipynb → the same notebook, rebuilt as nbformat 4.5 from the fields that grading needs.

nbformat's own reader accepts what its validator then rejects, and keeps whatever it doesn't know. Here a field is
either understood or gone: no outputs, no tags, no widget state, no metadata of notebook or kernel.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

CELL_TYPES = frozenset({"code", "markdown", "raw"})
KEPT_METADATA = frozenset({"nbgrader", "deletable", "editable"})
MAX_CELLS = 5000
CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Unreadable(Exception):
    """Why a submission can't be graded, as the sentence that instructor and student read."""


def canonical(content: bytes, name: str) -> str:
    """The notebook as nbformat 4.5 JSON text without outputs.

    Raises `Unreadable` where it isn't a notebook.

    >>> canonical(b"{}", "ps1.ipynb")
    Traceback (most recent call last):
    nbjudge.course.notebook.Unreadable: 'ps1.ipynb' is not a notebook: it has no list of cells
    """
    fields = _json(content, name)
    cells = [_cell(cell, index, name) for index, cell in enumerate(_cells(fields, name))]
    _make_ids_unique(cells)
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    text = json.dumps(document, ensure_ascii=False, sort_keys=True)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unreadable(f"{name!r} holds text that is not valid Unicode") from None
    return text


def _json(content: bytes, name: str) -> dict[str, Any]:
    try:
        fields = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable(f"{name!r} is not a notebook: it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise Unreadable(
            f"{name!r} is not a notebook: its JSON breaks off or is damaged at line {error.lineno}, "
            f"column {error.colno}; open it in Jupyter, save it again, and hand that in"
        ) from None
    except (ValueError, RecursionError):
        raise Unreadable(
            f"{name!r} is not a notebook: its JSON is nested too deeply or holds an endless number"
        ) from None
    if not isinstance(fields, dict):
        raise Unreadable(f"{name!r} is not a notebook: its JSON is a {type(fields).__name__}, not an object")
    return fields


def _cells(fields: Mapping[str, Any], name: str) -> list[Any]:
    major = fields.get("nbformat")
    if isinstance(major, int) and major > 4:
        raise Unreadable(f"{name!r} is of notebook format {major}; this grader reads formats 3 and 4")
    cells = fields.get("cells")
    if cells is None and isinstance(fields.get("worksheets"), list):
        sheets = [sheet.get("cells") for sheet in fields["worksheets"] if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if not isinstance(cells, list):
        raise Unreadable(f"{name!r} is not a notebook: it has no list of cells")
    if len(cells) > MAX_CELLS:
        raise Unreadable(f"{name!r} has {len(cells)} cells; allowed are {MAX_CELLS}")
    return cells


def _cell(cell: Any, index: int, name: str) -> dict[str, Any]:
    """One cell; nbformat 3 calls a code cell's source `input` and knows headings."""
    if not isinstance(cell, dict):
        raise Unreadable(f"cell {index + 1} of {name!r} is not an object")
    kind = cell.get("cell_type")
    source = _joined(cell.get("source", cell.get("input", "")))
    if kind == "heading":
        kind, source = "markdown", f"# {source or ''}"
    if kind not in CELL_TYPES or source is None:
        raise Unreadable(f"cell {index + 1} of {name!r} is neither code nor text")
    rebuilt = {
        "cell_type": kind,
        "id": _given_id(cell),
        "metadata": _metadata(cell.get("metadata")),
        "source": source,
    }
    if kind == "code":
        rebuilt |= {"outputs": [], "execution_count": None}
    elif isinstance(attachments := _attachments(cell.get("attachments")), dict) and attachments:
        rebuilt["attachments"] = attachments
    return rebuilt


def _joined(source: Any) -> str | None:
    if isinstance(source, str):
        return source
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    return None


def _metadata(metadata: Any) -> dict[str, Any]:
    if not isinstance(metadata, dict):
        return {}
    return {name: value for name, value in metadata.items() if name in KEPT_METADATA}


def _attachments(attachments: Any) -> dict[str, dict[str, str]]:
    """Pictures pasted into text: file name → mime type → base64; everything else is dropped."""
    if not isinstance(attachments, dict):
        return {}
    kept = {}
    for file_name, bundle in attachments.items():
        pictures = bundle.items() if isinstance(bundle, dict) else ()
        images = {mime: data for mime, data in pictures if mime.startswith("image/") and isinstance(data, str)}
        if images:
            kept[file_name] = images
    return kept


def _given_id(cell: Mapping[str, Any]) -> str:
    """The cell's own id where it has a valid one: it tells an original cell from its copy."""
    given = cell.get("id")
    return given if isinstance(given, str) and CELL_ID.fullmatch(given) else ""


def _make_ids_unique(cells: Iterable[dict[str, Any]]) -> None:
    """Ids come from place and content, so that the same notebook is the same text wherever it is read."""
    used: set[str] = set()
    for index, cell in enumerate(cells):
        if not cell["id"] or cell["id"] in used:
            digest = hashlib.sha256(f"{index}\0{cell['cell_type']}\0{cell['source']}".encode("utf-8", "replace"))
            cell["id"] = digest.hexdigest()[:16]
        used.add(cell["id"])
