"""Calls made on someone's behalf: a warning raised inside names that caller's line, as if we weren't there.

Python files a warning under the code that called torch. Between the user's line and torch stands the recorder;
without this, every warning would name the recorder and be shown once instead of once a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

STAND_IN = "<recorded call>"
"""Name of the stand-in's code: what `record` takes out of tracebacks again."""

_OURS = ("seegrad.capture.mode", __name__)
_FILES = (__file__, str(Path(__file__).parents[1] / "mode.py"))
_OVERRIDES = str(Path("torch", "overrides.py"))
_ENTRY = re.compile(r'  File "(?P<file>.*)", line \d+, in (?P<function>.*)')

# On one line, so that whatever line is given as its first is the line of every instruction.
_CALL: CodeType = compile("lambda function, args, kwargs: function(*args, **kwargs)", STAND_IN, "eval").co_consts[0]


@lru_cache(maxsize=4096)
def _code(file: str, line: int) -> CodeType:
    return _CALL.replace(co_filename=file, co_firstlineno=line, co_name=STAND_IN)


def call_as(frame: FrameType, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)` as though `frame` had made the call."""
    return FunctionType(_code(frame.f_code.co_filename, frame.f_lineno or 1), frame.f_globals)(function, args, kwargs)


def caller(frame: FrameType) -> FrameType:
    """The frame that called torch, seen from `__torch_function__`'s own caller.

    A function of torch that is written in Python reaches a mode through `torch.overrides`: two frames to skip.
    """
    while frame.f_globals.get("__name__") == "torch.overrides" and frame.f_back and frame.f_back.f_back:
        frame = frame.f_back.f_back
    return frame


# -- our own frames taken out of what the user reads: tracebacks, and the stacks that anomaly mode keeps and prints
#
# With a mode on, a Python function of torch is entered twice: once to hand over to the mode, then for real. Both the
# recorder's frames and the handing over go.


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
