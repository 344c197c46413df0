"""A program of the corpus with its mend applied: what a sentence advises is done to its source, and recorded."""

from __future__ import annotations

import inspect
import linecache
import re
import textwrap
import warnings
from dataclasses import dataclass
from typing import Any

import torch

import seegrad
from tests.data.programs import programs


@dataclass(frozen=True)
class Mended:
    """What was recorded, and the program's own variables at its end."""

    recording: seegrad.Recording
    held: dict[str, Any]

    @property
    def kinds(self) -> list[str]:
        """Of its Diagnoses."""
        return [each.kind for each in self.recording.diagnoses]


def mended(name: str, *edits: tuple[str, str], detail: Any = "default", check_functions: bool = False) -> Mended:
    """Each edit replaces the one place that it names; what the program raises is raised."""
    run = programs()[name].run
    text = textwrap.dedent(inspect.getsource(run))
    text = re.sub(r"  # (culprit|victim|instead|named).*", "", text[text.index("def ") :])
    for old, new in edits:
        assert text.count(old) == 1, f"{name}: {old!r} stands there {text.count(old)} times"
        text = text.replace(old, new)
    text += "    return locals()\n"
    file, space = f"<{name}, mended>", dict(run.__globals__)
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    exec(compile(text, file, "exec"), space)  # noqa: S102  # our own program, one line of it changed
    torch.manual_seed(0)
    with (
        warnings.catch_warnings(action="ignore"),
        seegrad.record(detail=detail, check_functions=check_functions) as rec,
    ):
        held = space[name]()
    return Mended(rec.recording, held)
