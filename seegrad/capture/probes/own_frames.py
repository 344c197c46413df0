"""Our own frames taken out of what the user reads: tracebacks, and the stacks that anomaly mode keeps and prints.

With a mode on, a Python function of torch is entered twice: once to hand over to the mode, then for real. Both the
recorder's frames and the handing over go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from seegrad.capture.probes.caller import STAND_IN, call_as

_OURS = ("seegrad.capture.mode", call_as.__module__)
_FILES = (str(Path(__file__).with_name("caller.py")), str(Path(__file__).parents[1] / "mode.py"))
_OVERRIDES = str(Path("torch", "overrides.py"))
_ENTRY = re.compile(r'  File "(?P<file>.*)", line \d+, in (?P<function>.*)')


def without_us(error: BaseException) -> None:
    """Make an error, its causes and its context read as though there had been no recorder."""
    for each in _chain(error):
        _mend(each)


def _chain(error: BaseException) -> Iterator[BaseException]:
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__]


def _mend(error: BaseException) -> None:
    steps = []
    step = error.__traceback__
    while step is not None:
        steps.append(step)
        step = step.tb_next
    ours = {i for i, each in enumerate(steps) if _is_ours(each.tb_frame)}
    ours |= _handed_over(ours, {i for i, each in enumerate(steps) if _module(each.tb_frame) == "torch.overrides"})
    kept = [each for i, each in enumerate(steps) if i not in ours]
    for each, following in zip(kept, [*kept[1:], None], strict=True):
        each.tb_next = following
    error.__traceback__ = kept[0] if kept else None


def _handed_over(ours: set[int], handing: set[int]) -> set[int]:
    """The steps that hand over to us, each with the function of torch that it's from; not those to another mode."""
    to_us = {i for i in handing if i + 1 in ours}
    return to_us | {i - 1 for i in to_us}


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_name == STAND_IN or _module(frame) in _OURS


def _module(frame: FrameType) -> Any:
    return frame.f_globals.get("__name__")


def clean_stack(entries: list[str]) -> None:
    """Take our entries out of a stack as `traceback.format_stack()` gives it, in place.

    >>> stack = ['  File "a.py", line 1, in f\\n    y.add_(1)\\n', '  File "a.py", line 1, in <recorded call>\\n']
    >>> clean_stack(stack)
    >>> len(stack)
    1
    """
    heads = [_ENTRY.match(entry) for entry in entries]
    ours = {i for i, head in enumerate(heads) if head and (head["file"] in _FILES or head["function"] == STAND_IN)}
    ours |= _handed_over(ours, {i for i, head in enumerate(heads) if head and head["file"].endswith(_OVERRIDES)})
    entries[:] = [entry for i, entry in enumerate(entries) if i not in ours]
