"""The user's frames, and the line of source at which each is: a Place. Ours are kept out of what the user reads."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import signal
import sys
import sysconfig
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from dis import opmap
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from seegrad.capture.probes.torch_private import MODULE_CALL
from seegrad.model.recording import Place

Code = tuple[str, int, str]
"""Source given by hand: the file name its code objects carry, the number of its first line, its text."""

MAX_DEPTH = 32
"""User frames that are searched for a tensor's name, from the innermost outwards."""

STAND_IN = "<recorded call>"
"""Name of the stand-in's code: what `record` takes out of tracebacks again."""

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

BRANCHES = ast.ExceptHandler | ast.match_case
"""Parts of statements that hold statements and are none."""

ATTEMPTS = 5
"""How often a text is parsed that another thread's parsing has disturbed."""

CELL = re.compile(r"In\[(\d+)\]")

_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_OURS = f"{Path(__file__).parents[2]}{os.sep}"
_LAYERS = f"{_TORCH}nn{os.sep}"
STEPS: CodeType | None = getattr(torch.optim.Optimizer.profile_hook_step(print), "__code__", None)
"""Every step of an optimiser passes through this code."""
LOADING = torch.utils.data.dataloader.__file__
"""Every batch of a loader passes through this file."""

_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
_PARSING = threading.Lock()
_OUR_MODULES = __name__.rpartition(".")[0].rpartition(".")[0]
_OUR_FILES = (__file__, str(Path(__file__).parents[1] / "mode.py"))
_OVERRIDES = str(Path("torch", "overrides.py"))
_TAKES_ALL = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_ENTRY = re.compile(r'  File "(?P<file>.*)", line \d+, in (?P<function>.*)')


@lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """True for a file that is neither torch's, nor ours, nor Python's own library."""
    path = str(Path(file).absolute())
    if path.startswith((_TORCH, _OURS)) or file.startswith("<frozen"):
        return False
    return "site-packages" in path or not path.startswith(_STANDARD)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code, from `frame` outwards."""
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename) and code.co_name != STAND_IN and not _passes_on(frame, code):
            break
        frame = frame.f_back
    return frame


def _passes_on(frame: FrameType, code: CodeType) -> bool:
    """True for a package's wrapper in its `return wrapped(*args, **kwargs)`: whoever called it says what is done."""
    if code.co_flags & _TAKES_ALL != _TAKES_ALL or code.co_argcount > 1 or "-packages" not in code.co_filename:
        return False
    return code.co_code[frame.f_lasti] == opmap["CALL_FUNCTION_EX"]


def user_frames(frame: FrameType | None, block: FrameType | None) -> list[FrameType]:
    """The frames of the user's code from the one that holds the block, first, down to `frame`."""
    return way_in(frame, block)[0]


def way_in(frame: FrameType | None, block: FrameType | None) -> tuple[list[FrameType], FrameType | None]:
    """The same, and the frame of the innermost call of a module, or of a loader around it: all in one walk outwards."""
    found: list[FrameType] = []
    call = None
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            if code.co_name != STAND_IN and not _passes_on(frame, code):
                found.append(frame)
                if frame is block or len(found) == MAX_DEPTH:
                    break
        elif code.co_filename == LOADING or (call is None and code is MODULE_CALL):
            call = frame
        frame = frame.f_back
    return found[::-1], call


def outside_packages(frames: list[FrameType]) -> list[FrameType]:
    """The same without those at the end that run an installed package's code; all, where there's nothing else."""
    own = [number for number, frame in enumerate(frames) if "-packages" not in frame.f_code.co_filename]
    return frames[: own[-1] + 1] if own else frames


def caller(frame: FrameType) -> FrameType:
    """The frame that called torch, seen from `__torch_function__`'s own caller.

    A function of torch that is written in Python reaches a mode through `torch.overrides`: two frames to skip.
    """
    while frame.f_globals.get("__name__") == "torch.overrides" and frame.f_back and frame.f_back.f_back:
        frame = frame.f_back.f_back
    return frame


def step_behind(frame: FrameType | None) -> int | None:
    """The address of the frame in which torch steps an optimiser, where torch's own code alone leads on to `frame`.

    Layers are called by a closure, whoever's it is. By its address: to hold the frame would keep what it holds.
    """
    while frame is not None:
        code = frame.f_code
        if code is STEPS:
            return id(frame)
        if not code.co_filename.startswith(_TORCH) or code.co_filename.startswith(_LAYERS):
            break
        frame = frame.f_back
    return None


# -- calls made on someone's behalf: a warning raised inside names that caller's line, as if we weren't there
#
# Python files a warning under the code that called torch. Between the user's line and torch stands the recorder;
# without this, every warning would name the recorder and be shown once instead of once a line.

# On one line, so that whatever line is given as its first is the line of every instruction.
_CALL: CodeType = compile("lambda function, args, kwargs: function(*args, **kwargs)", STAND_IN, "eval").co_consts[0]


MOST_SPOTS = 4096
"""So many are remembered, of stand-ins and of a Source's lines."""

Spot = tuple[CodeType, Place, tuple[str, int]]
"""An instruction of this code; its Place; its file and line. While the code is here, nobody else gets its address."""

_STAND_INS: dict[tuple[int, int], tuple[CodeType, CodeType, FunctionType | None]] = {}
"""By the code's address and the instruction's: the code, which keeps its address while it's here, and its stand-in;
of torch's own code, which stays, as a function.

To ask a frame for its line, Python reads the table of lines from the function's beginning.
"""


def _stand_in(frame: FrameType) -> tuple[CodeType, CodeType, FunctionType | None]:
    code = frame.f_code
    if len(_STAND_INS) >= MOST_SPOTS:
        _STAND_INS.clear()
    line = frame.f_lineno or 1
    made = _CALL.replace(co_filename=code.co_filename, co_firstlineno=line, co_name=STAND_IN)
    function = FunctionType(made, frame.f_globals) if code.co_filename.startswith(_TORCH) else None
    known = _STAND_INS[id(code), frame.f_lasti] = code, made, function
    return known


def call_as(frame: FrameType, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)` as though `frame` had made the call."""
    _, made, known = _STAND_INS.get((id(frame.f_code), frame.f_lasti)) or _stand_in(frame)
    return (known or FunctionType(made, frame.f_globals))(function, args, kwargs)


# -- our own frames taken out of what the user reads: tracebacks, and the stacks that anomaly mode keeps and prints
#
# With a mode on, a Python function of torch is entered twice: once to hand over to the mode, then for real. Both the
# recorder's frames and the handing over go.


def without_us(error: BaseException) -> None:
    """Make an error, its causes and its context read as though there had been no recorder."""
    for each in _chain(error):
        _mend(each)


def is_signalled(error: BaseException) -> bool:
    """True for an error that a handler of the user's has raised: signals come at any moment, ours too.

    >>> is_signalled(ValueError())
    False
    """
    handlers = {getattr(signal.getsignal(each), "__code__", None) for each in signal.valid_signals()} - {None}
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code not in handlers:
        step = step.tb_next
    return step is not None


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
    frames = [each.tb_frame for each in steps]
    ours = _our_steps(frames)
    ours |= _with_their_callers({i for i, frame in enumerate(frames) if _hands_over(frame)})
    following = None
    for each in [each for i, each in enumerate(steps) if i not in ours][::-1]:
        each.tb_next, following = following, each
    error.__traceback__ = following


def _our_steps(frames: Sequence[FrameType]) -> set[int]:
    """Our own frames, and torch's and Python's that they've called; not what was called on the user's behalf."""
    ours, reading = set(), False
    for i, frame in enumerate(frames):
        code = frame.f_code
        if code.co_name == STAND_IN or not _is_of_us(_module(frame)):
            reading = reading and code.co_name != STAND_IN and not is_users(code.co_filename)
        else:
            reading = code.co_name != "__torch_function__"
        if reading or _is_ours(frame):
            ours.add(i)
    return ours


def _with_their_callers(handing: set[int]) -> set[int]:
    """The steps that hand over to us, each with the function of torch that it's from; not those to another mode."""
    return handing | {i - 1 for i in handing}


def _hands_over(frame: FrameType) -> bool:
    """True for torch's own step to us: our frames may be out of this traceback already."""
    return _module(frame) == "torch.overrides" and _is_of_us(type(frame.f_locals.get("mode")).__module__)


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_name == STAND_IN or _is_of_us(_module(frame))


def _is_of_us(module: Any) -> bool:
    return str(module).startswith(_OUR_MODULES)


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
    ours = {i for i, head in enumerate(heads) if head and (head["file"] in _OUR_FILES or head["function"] == STAND_IN)}
    ours |= _with_their_callers(
        {i for i, head in enumerate(heads) if head and head["file"].endswith(_OVERRIDES) and i + 1 in ours}
    )
    entries[:] = [entry for i, entry in enumerate(entries) if i not in ours]


# -- lines of source


def display_file(file: str) -> str:
    """`In [3]` for a notebook cell, the path as Python has it otherwise.

    IPython's compiler knows which cell a file name stands for; it's found through `sys.modules`, not imported.
    """
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    asked = getattr(getattr(shell, "compile", None), "format_code_name", None)
    label = asked(file) if asked is not None else None  # ("Cell", "In[3]"), None for what is no cell
    cell = CELL.fullmatch(label[1]) if label else None
    return f"In [{cell[1]}]" if cell else file


class Source:
    """Lines of source, by hand-given code first, then as Python's own tracebacks find them."""

    def __init__(self, code: Code | None = None) -> None:
        self._file, self._first, text = code or ("", 1, "")
        self._lines = text.splitlines()
        self._places: dict[tuple[str, int], Place] = {}
        self._spots: dict[tuple[int, int], Spot] = {}  # by the code's address and the instruction's
        self.given = bool(self._lines)  # by hand
        self._whole = "\n" * (self._first - 1) + "\n".join(self._lines)
        self._texts: dict[
            str, tuple[list[str], str]
        ] = {}  # of files, put together once from the lines that Python keeps

    def is_given(self, file: str) -> bool:
        """True for the file whose code was given by hand."""
        return self.given and file == self._file

    def line(self, file: str, number: int) -> str:
        """One line without its indentation, empty where there's no source."""
        index = number - self._first
        if file == self._file and 0 <= index < len(self._lines):
            return self._lines[index].strip()
        return linecache.getline(file, number).strip()

    def place(self, frame: FrameType | None) -> Place | None:
        """Where `frame` is now."""
        return None if frame is None else self._spot(frame)[1]

    def way(self, frames: Sequence[FrameType]) -> tuple[Place, ...]:
        """Where each of these is now."""
        return tuple([self._spot(frame)[1] for frame in frames])

    def line_of(self, frame: FrameType | None) -> tuple[str, int] | None:
        """The file and the line that `frame` is at."""
        return None if frame is None else self._spot(frame)[2]

    def _spot(self, frame: FrameType) -> Spot:
        code, at = frame.f_code, frame.f_lasti
        known = self._spots.get((id(code), at))
        if known is None:
            if len(self._spots) >= MOST_SPOTS:
                self._spots.clear()
            number = frame.f_lineno or 0
            known = code, self.place_at(frame, number), (code.co_filename, number)
            self._spots[id(code), at] = known
        return known

    def start(self, frame: FrameType | None) -> Place | None:
        """Where the block begins; code that was given by hand has no line before its first."""
        return None if self._lines else self.place(frame)

    def shown(self, file: str) -> str:
        """The file as a Place names it."""
        return display_file(file)

    def place_at(self, frame: FrameType, number: int) -> Place:
        """A given line of the file that `frame` runs."""
        return self.at(frame.f_code.co_filename, number)

    def at(self, file: str, number: int) -> Place:
        """A given line of a file."""
        known = self._places.get((file, number))
        if known is None:
            known = self._places[file, number] = Place(display_file(file), number, self.line(file, number))
        return known

    def raised_on(self, error: BaseException) -> Place | None:
        """The innermost line of the user's code in an error's traceback."""
        place, step = None, error.__traceback__
        while step is not None:
            frame = step.tb_frame
            if user_frame(frame) is frame:
                place = self.place_at(frame, step.tb_lineno)
            step = step.tb_next
        return place

    def between(self, before: tuple[str, int] | None, now: tuple[str, int] | None) -> Place | None:
        """The line that most likely wrote bytes after the event on line `before`, up to the event on line `now`."""
        if before is None:
            return None
        file, first = before
        last = now[1] if now is not None and now[0] == file and now[1] > first else first + 1
        number = likely_write(self.text(file), first, last) or first
        return self.at(file, number)

    def text(self, file: str) -> str:
        """All of a file, each line where its number says."""
        if file == self._file:
            return self._whole
        lines = linecache.getlines(file)
        known = self._texts.get(file)
        if known is None or known[0] is not lines:
            known = self._texts[file] = lines, "".join(lines)
        return known[1]

    def block(self, frame: FrameType | None) -> tuple[tuple[int, str], ...]:
        """The lines to show: the hand-given code, or the body of the `with` that `frame` is entering."""
        if self._lines:
            return tuple(enumerate(self._lines, self._first))
        if frame is None:
            return ()
        file = frame.f_code.co_filename
        return with_body("".join(linecache.getlines(file, frame.f_globals)), frame.f_lineno or 0)

    def file(self, frame: FrameType | None) -> str:
        """The file that `block` shows, as a Place names it."""
        if self._lines or frame is None:
            return display_file(self._file)
        return display_file(frame.f_code.co_filename)


@lru_cache(maxsize=32)
def with_body(text: str, line: int) -> tuple[tuple[int, str], ...]:
    """Lines of the innermost `with` statement's body whose head holds `line`; empty where there is none.

    >>> with_body("with record():\\n    a = 1\\n    b = 2\\n", 1)
    ((2, 'a = 1'), (3, 'b = 2'))
    """
    found = [
        node
        for node in nodes(text)
        if isinstance(node, ast.With | ast.AsyncWith)
        and node.lineno <= line < max(node.body[0].lineno, node.lineno + 1)
    ]
    if not found:
        return ()
    body = max(found, key=lambda node: node.lineno).body
    first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
    lines = textwrap.dedent("\n".join(text.splitlines()[first - 1 : last])).split("\n")
    return tuple(enumerate(lines, first))


def likely_write(text: str, first: int, last: int) -> int | None:
    """Among the statements on lines `first` to `last` - 1, the line of the one that looks most like a write.

    >>> likely_write("n = x.numpy()\\nm = 1\\nn[:] = 0\\nprint(m)\\nx.sum()", 1, 5)
    3
    """
    ranked = sorted(statements(text, first, last), key=lambda statement: (write_rank(statement), -statement.lineno))
    return ranked[0].lineno if ranked else None


def statements(text: str, first: int, last: int) -> list[ast.Assign | ast.AugAssign | ast.Expr]:
    """The simple statements that begin on lines `first` to `last` - 1."""
    simple = (each for each in nodes(text) if isinstance(each, ast.Assign | ast.AugAssign | ast.Expr))
    return sorted((each for each in simple if first <= each.lineno < last), key=lambda each: each.lineno)


@lru_cache(maxsize=32)
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Every node of a program's tree; none of what doesn't parse."""
    return tuple(_nodes(text))


@lru_cache(maxsize=32)
def definitions(text: str) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, ...]:
    """Its functions and classes."""
    return tuple([each for each in nodes(text) if isinstance(each, DEFINITIONS)])


def around(text: str, line: int) -> list[ast.AST]:
    """The module and the statements in it that hold a line, the outermost first.

    >>> [type(each).__name__ for each in around("for x in y:\\n    a = 1\\n    b = 2\\n", 2)]
    ['Module', 'For', 'Assign']
    """
    found = list(nodes(text)[:1])
    for each in found:  # grows
        parts = [inner for inner in ast.iter_child_nodes(each) if not isinstance(inner, ast.expr)]
        parts += [inner for part in parts if isinstance(part, BRANCHES) for inner in part.body]
        held = (inner for inner in parts if isinstance(inner, ast.stmt))
        found += [inner for inner in held if inner.lineno <= line <= (inner.end_lineno or 0)]
    return found


def _nodes(text: str) -> Iterator[ast.AST]:
    """Every node of a program's tree; none of what doesn't parse."""
    for _ in range(ATTEMPTS):
        try:
            with _PARSING:
                return ast.walk(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError):
            break
        except SystemError:  # Python 3.11 loses count where two threads parse at once, and one may be the user's
            continue
    return iter(())


PLAIN = 3
"""The rank of a statement that doesn't look like a write."""


def write_rank(statement: ast.stmt) -> int:
    """0 for `x[…] = …`, 1 for `x += …`, 2 for a call, 3 for the rest."""
    if isinstance(statement, ast.AugAssign):
        return 0 if isinstance(statement.target, ast.Subscript) else 1
    if isinstance(statement, ast.Assign):
        return 0 if any(isinstance(target, ast.Subscript) for target in statement.targets) else PLAIN
    return 2
