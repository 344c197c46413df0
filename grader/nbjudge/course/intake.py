"""A submitted folder → a Submission, or one with the reason why it can't be graded. Executes nothing.

Everything here was written by somebody who may want to harm: sizes are bounded before a byte is read, links are
refused, and a notebook is rebuilt from the few fields that grading needs, so that odd ones never reach a later stage.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.utils import parse_utc

from nbjudge.model import Limits, Submission

MAX_FILES = 1000
TIMESTAMP_BYTES = 256
OFFSET = re.compile(r"\s+(?=[+-]\d\d:?\d\d$)")
YEARS = range(1970, 9999)  # of a moment that means the same in every time zone
IGNORED = (".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", ".DS_Store")
CELL_TYPES = frozenset({"code", "markdown", "raw"})
KEPT_METADATA = frozenset({"deletable", "editable"})
MAX_CELLS = 1000
CELL_CHARS = 1_000_000
PATH_BYTES = 200  # below the folder: graded, it stands in a longer one
PARTS = 500_000  # of a notebook's JSON: brackets and colons, each of which may stand for an object to be made
GRADE_ID_CHARS = 200
CLEAR = "clear all outputs, save, and hand it in again"
CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Unreadable(Exception):
    """Why a submission can't be graded, as the sentence that instructor and student read."""


def read(folder: Path, student: str, assignment: str, limits: Limits | None = None) -> Submission:
    """What `student` handed in for `assignment`, or a Submission whose `refusal` says in one sentence what is wrong.

    Never raises for what a student may have put there; an `OSError` of the machine's (a full disk, no permission)
    becomes a refusal too, so that one folder never stops a class.
    """
    try:
        return _read(folder, student, assignment, limits or Limits())
    except Unreadable as error:
        return Submission(student, assignment, refusal=str(error))
    except OSError as error:
        return Submission(student, assignment, refusal=f"the folder could not be read: {error.strerror or error}")


def _read(folder: Path, student: str, assignment: str, limits: Limits) -> Submission:
    _refuse_linked_folders(folder)
    notebooks: dict[str, str] = {}
    files: dict[str, bytes] = {}
    timestamp = None
    left_bytes = limits.submission_bytes
    for path in _plain_files(folder):
        name = path.relative_to(folder).as_posix()
        if name == "timestamp.txt":
            timestamp = _timestamp(path)
        elif name.endswith(".ipynb") and "/" not in name:
            content = _notebook(path, limits)
            left_bytes -= len(content)
            notebooks[name.removesuffix(".ipynb")] = canonical(content, name)
        elif not name.endswith(".ipynb"):
            files[name], size_bytes = _bounded(path, left_bytes)
            left_bytes -= size_bytes
        if left_bytes < 0:
            raise Unreadable(f"the files together are larger than {_megabytes(limits.submission_bytes)}")
    return Submission(student, assignment, notebooks, files, timestamp)


def moment(timestamp: str | None) -> datetime | None:
    """When it was handed in, UTC; None where nothing or nothing readable says so.

    >>> moment("2026-02-03 13:00 +0100"), moment("garbage")
    (datetime.datetime(2026, 2, 3, 12, 0), None)
    """
    try:  # nbgrader takes an offset behind a blank for seconds, or for nothing
        found: datetime | None = parse_utc(OFFSET.sub("", timestamp)) if timestamp else None
    except Exception:  # whatever a parser raises on a text that somebody else has chosen: it can't be read
        return None
    return found if found and found.year in YEARS else None


def stamp(when: datetime) -> str:
    """The same moment as nbgrader writes it and everybody's parser reads it.

    >>> stamp(datetime(2026, 2, 3, 12))
    '2026-02-03 12:00:00.000000 UTC'
    """
    return f"{when.isoformat(' ', 'microseconds')} UTC"


def handed_in(folder: Path) -> datetime | None:
    """What the folder's own timestamp says; None where there is none that can be read."""
    try:
        return moment(_timestamp(folder / "timestamp.txt"))
    except OSError:
        return None


def _timestamp(path: Path) -> str:
    return _bounded(path, TIMESTAMP_BYTES)[0].decode("utf-8", "replace").strip()


def _refuse_linked_folders(folder: Path) -> None:
    for path in (folder, folder.parent):
        if path.is_symlink():
            raise Unreadable(f"the folder {path.name!r} is a symbolic link; hand in the files themselves")
    if not folder.is_dir():
        raise Unreadable(f"{folder.name!r} is a file, not a folder")


def _plain_files(folder: Path) -> Iterator[Path]:
    """Every file, in one order everywhere; refuses links, pipes, devices, and more than MAX_FILES."""
    waiting = [folder]
    seen = 0
    while waiting:
        for entry in sorted(os.scandir(waiting.pop()), key=lambda entry: entry.name):
            if any(fnmatch.fnmatch(entry.name, pattern) for pattern in IGNORED):
                continue
            seen += 1
            if seen > MAX_FILES:
                raise Unreadable(f"more than {MAX_FILES} files")
            if len(os.fsencode(os.path.relpath(entry.path, folder))) > PATH_BYTES:
                raise Unreadable(f"the path of {_shown(entry.name)} is longer than {PATH_BYTES} bytes")
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                if entry.name.endswith(".ipynb"):
                    raise Unreadable(f"{_shown(entry.name)} is a folder, not a notebook")
                waiting.append(Path(entry.path))
            elif stat.S_ISREG(mode):
                yield Path(entry.path)
            else:
                raise Unreadable(f"{_shown(entry.name)} is {_kind(mode)}; hand in the files themselves")


def plain_file(path: Path, limit_bytes: int) -> bytes:
    """All of a file that a command is to read; `Unreadable` for a link, a pipe, a folder, or one that is too large."""
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            raise Unreadable(f"{_shown(path.name)} is {_kind(mode)}; name the file itself")
        content, size_bytes = _bounded(path, limit_bytes)
    except OSError as error:
        raise Unreadable(f"{_shown(path.name)} can't be read: {error.strerror or error}") from None
    if size_bytes > limit_bytes:
        raise Unreadable(
            f"{_shown(path.name)} is too large: {_megabytes(size_bytes)}, allowed are {_megabytes(limit_bytes)}"
        )
    return content


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a folder"


def _bounded(path: Path, limit_bytes: int) -> tuple[bytes, int]:
    """The file's bytes where they are within the limit, and its size; O_NOFOLLOW closes the gap since the listing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        size_bytes = os.fstat(descriptor).st_size
        content = b"" if size_bytes > limit_bytes else file.read(limit_bytes + 1)
    return content, max(size_bytes, len(content))


def _notebook(path: Path, limits: Limits) -> bytes:
    content, size_bytes = _bounded(path, limits.notebook_bytes)
    if size_bytes > limits.notebook_bytes:
        raise Unreadable(
            f"{_shown(path.name)} is too large: {_megabytes(size_bytes)}, allowed are "
            f"{_megabytes(limits.notebook_bytes)}; {CLEAR}"
        )
    return content


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:79] + "…")


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.1f} MB"


# --- one notebook ----------------------------------------------------------------------------------------------------
# nbformat's own reader accepts what its validator then rejects, and keeps whatever it doesn't know. Here a field is
# either understood or gone: no outputs, no tags, no widget state, no metadata of notebook or kernel.


def canonical(content: bytes, name: str) -> str:
    """The notebook as nbformat 4.5 JSON text without outputs.

    Raises `Unreadable` where it isn't a notebook.

    >>> canonical(b"{}", "ps1.ipynb")
    Traceback (most recent call last):
    nbjudge.course.intake.Unreadable: 'ps1.ipynb' is not a notebook: it has no list of cells
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


def with_marks(content: bytes, name: str) -> list[dict[str, Any]]:
    """The cells as `canonical` rebuilds them, each with the marks of nbgrader's that the file gives it, or none.

    >>> with_marks(b'{"cells": [{"cell_type": "code", "source": "x", "metadata": 3}]}', "a.ipynb")[0]["metadata"]
    {'nbgrader': {}}
    """
    given = _cells(_json(content, name), name)
    rebuilt = json.loads(canonical(content, name))["cells"]
    return [
        {**cell, "metadata": {"nbgrader": _object(_object(one.get("metadata")).get("nbgrader"))}}
        for cell, one in zip(rebuilt, given, strict=True)
    ]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _json(content: bytes, name: str) -> dict[str, Any]:
    if sum(map(content.count, (b"{", b"[", b":"))) > PARTS:
        raise Unreadable(f"{_shown(name)} has too many parts; {CLEAR}")
    try:
        fields = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable(f"{name!r} is not a notebook: it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise Unreadable(
            f"{name!r} is not a notebook: its JSON breaks off or is damaged at line {error.lineno}, "
            f"column {error.colno}. Take the copy that you worked in, or a checkpoint (.ipynb_checkpoints beside it), "
            "see that Jupyter opens it, and hand that in"
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
    if not isinstance(kind, str) or kind not in CELL_TYPES or source is None:
        raise Unreadable(f"cell {index + 1} of {name!r} is neither code nor text")
    if len(source) > CELL_CHARS:
        raise Unreadable(f"cell {index + 1} of {name!r} is longer than {CELL_CHARS} characters")
    rebuilt: dict[str, Any] = {
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
    given = _object(metadata)
    kept: dict[str, Any] = {name: given[name] for name in KEPT_METADATA if type(given.get(name)) is bool}
    grade_id = _object(given.get("nbgrader")).get("grade_id")
    if isinstance(grade_id, str) and len(grade_id) <= GRADE_ID_CHARS:
        kept["nbgrader"] = {"grade_id": grade_id}
    return kept


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
