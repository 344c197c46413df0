"""Calls made on someone's behalf: a warning raised inside names that caller's line, as if we weren't there.

Python files a warning under the code that called torch. Between the user's line and torch stands the recorder;
without this, every warning would name the recorder and be shown once instead of once a line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import Any

STAND_IN = "<recorded call>"
"""Name of the stand-in's code: what `record` takes out of tracebacks again."""

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
