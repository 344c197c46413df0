"""nbconvert's exporter for feedback and formgrader, whose pages are made in a confined process: `shown.page`.

Here a page only gets what the gradebook knows. One warm process makes the pages of a command or server, one after
another. What takes longer than `PAGE_S` is made once more with every piece as it was typed.
"""

from __future__ import annotations

import atexit
import base64
import copy
import functools
import json
import threading
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nbconvert.exporters import HTMLExporter
from tornado.web import StaticFileHandler
from traitlets import List

from nbjudge.errors import SandboxError
from nbjudge.model import Limits
from nbjudge.process.scribe import OVER, Scribe
from nbjudge.process.zygote import Zygote
from nbjudge.shown.text import files_named

PAGE_S = 6.0  # of CPU time
LIMITS = Limits(processes=8)
PRELOAD = ("nbconvert.exporters", "nbjudge.shown.page")
FILES_BYTES = 16 << 20  # of the pictures beside a notebook
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg"})
NO_PAGE = "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>{title}</title></head><body><p>{said}</p>"
SAID = "The page of {name} can't be shown: {why}."
NAMED = """var name = [this.model.get("last_name"), this.model.get("first_name")].filter(Boolean).join(", ")
            || this.model.get("%s");"""
MENDED = {
    "utils.js": ('.attr("href", prefix + path)', '.attr("href", base_url + prefix + path)'),
    "manage_students.js": ('var name = last_name + ", " + first_name;', NAMED % "id"),
    "manage_submissions.js": ('var name = last_name + ", " + first_name;', NAMED % "student"),
}
"""What formgrader's own scripts say, and what they have to say instead: a link to a folder leads out of any server that
lies below an address, as a hub's do, and a student without a name is called “None, None”."""
WITHHELD = "%s: %d pieces are shown as they were typed or not at all; the first: %s"


class SafePages(HTMLExporter):
    """An HTMLExporter that converts nothing in its own process."""

    default_preprocessors: Any = List([]).tag(config=True)  # they'd look at a student's text

    def from_notebook_node(self, nb: Any, resources: Any = None, **_kw: Any) -> tuple[Any, Any]:
        """The page, and the resources that it was made with."""
        resources = self._init_resources(resources)  # type: ignore[no-untyped-call]  # nbconvert has few types
        nb, resources = self._preprocess(copy.deepcopy(nb), resources)  # type: ignore[no-untyped-call]  # the same
        asked = {
            "notebook": nb,
            "resources": {name: value for name, value in resources.items() if name != HIDE},
            "config": _plain_traits(self),
            "hide": resources.get(HIDE) or None,
            "files": dict(_pictures(nb, resources.get("metadata", {}).get("path"))),
        }
        body = json.dumps(asked, default=lambda _value: None).encode("utf-8", "replace")
        name = str(resources.get("unique_key") or resources.get("notebook_id") or "notebook")
        packet = _ask({"op": "page", "cpu_ms": round(1000 * PAGE_S)}, body) or _ask({"op": "page", "cpu_ms": 0}, body)
        if why := OVER.format(seconds=PAGE_S) if packet is None else packet.header.get("problem"):
            self.log.error("%s", SAID.format(name=name, why=why))
            return NO_PAGE.format(title=escape(name), said=escape(SAID.format(name=name, why=why))), resources
        if withheld := packet.header.get("withheld"):
            self.log.warning(WITHHELD, name, len(withheld), withheld[0])
        return packet.body.decode("utf-8", "replace"), resources


class MendedScripts(StaticFileHandler):
    """Formgrader's files as they are, but for the lines of `MENDED`; its methods are tornado's hooks."""

    @classmethod
    def get_content(
        cls, abspath: str, start: int | None = None, end: int | None = None
    ) -> Generator[bytes, None, None]:
        """The bytes of a file, or a part of them."""
        yield _mended(Path(abspath))[start:end]

    def get_content_size(self) -> int:
        """Of all of it."""
        return len(_mended(Path(str(self.absolute_path))))

    def get_modified_time(self) -> datetime:
        """Always now: a browser asks whether it has these bytes, not whether nbgrader's file is newer."""
        return datetime.now(UTC)


def _mended(path: Path) -> bytes:
    before, after = MENDED.get(path.name, ("", ""))
    return path.read_bytes().replace(before.encode(), after.encode()) if before else path.read_bytes()


WEB = SimpleNamespace(StaticFileHandler=MendedScripts)
"""In the place of formgrader's `tornado.web`, of which it takes this alone."""

HIDE = "nbjudge_hide"  # of the resources: between which two marks a line is hidden


def _pictures(nb: Any, folder: str | None) -> Iterator[tuple[str, str]]:
    """The pictures beside a notebook that its text names, as base64: a page asks nobody for them."""
    paths = [path for path in sorted(Path(folder).rglob("*")) if path.suffix.lower() in SUFFIXES] if folder else []
    found = {path.relative_to(folder or ".").as_posix(): path for path in paths}
    left_bytes = FILES_BYTES
    for name in files_named(" ".join(map(str, nb.cells)).replace("\\n", " "), found) if found else ():
        path = found[name]
        if path.is_symlink() or not path.is_file():
            continue
        if (left_bytes := left_bytes - path.stat().st_size) >= 0:
            yield name, base64.b64encode(path.read_bytes()).decode("ascii")


def _plain_traits(exporter: HTMLExporter) -> dict[str, Any]:
    """The exporter's configuration that is data and says how a page looks."""
    traits = {
        name: value for name, value in exporter.config.HTMLExporter.items() if isinstance(value, str | list | bool)
    }
    return {name: value for name, value in traits.items() if name not in ("preprocessors", "filters")}


# --- the one process -------------------------------------------------------------------------------------------------

_ONE_AT_A_TIME = threading.Lock()


def _ask(said: dict[str, Any], body: bytes) -> Any:
    """The answer, None where none came in time. A process that was ended meanwhile is replaced."""
    with _ONE_AT_A_TIME:
        try:
            return _scribe().ask(said, body, PAGE_S)[0]
        except SandboxError:  # its zygote has gone
            _scribe.cache_clear()
            return _scribe().ask(said, body, PAGE_S)[0]


@functools.cache
def _scribe() -> Scribe:
    """Started with the first page. It runs no student's code, so it asks for no walls that a machine hasn't got."""
    zygote = Zygote(PRELOAD, limits=LIMITS, trust_students=True, roles=("scribe",))
    scribe = Scribe(zygote)
    atexit.register(zygote.close)
    atexit.register(scribe.close)  # before its zygote
    return scribe
