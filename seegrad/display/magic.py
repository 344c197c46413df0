"""`%%see`: run a cell as usual, then show its autograd graph, its diagnoses, and torch's own error unchanged."""

from __future__ import annotations

import argparse
import ast
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import MAGIC_NO_VAR_EXPAND_ATTR
from IPython.display import display

from seegrad.capture.mode import Detail
from seegrad.capture.probes.places import is_users
from seegrad.display.ahead import HELP, step_ahead
from seegrad.display.assigned import say_passed
from seegrad.display.widget import asks, running_number, show
from seegrad.learn.progress import note_cell
from seegrad.model.recording import Recording
from seegrad.quiz import KINDS
from seegrad.recorder import record
from seegrad.words.languages import _, counted


@dataclass(frozen=True, slots=True)
class ReadyCell:
    """A cell ready to run: its statements, and its last expression where it ends in one."""

    file: str
    text: str
    body: ast.Module
    last: ast.Expression | None


class MagicLine(argparse.ArgumentParser):
    """The line after `%%see`."""

    def __init__(self) -> None:
        super().__init__("%%see", description=__doc__, add_help=False, exit_on_error=False)
        self.add_argument("--step", type=int, default=-1, help="the step to show first; -1 is the last one")
        self.add_argument("--ask", choices=sorted(KINDS), help="a question to answer before the rest is shown")
        self.add_argument(
            "--ahead", choices=HELP, help="a question before each step of backward: with help, or without"
        )
        self.add_argument("--tensors", default="", help="names that a versions question asks for, with commas between")
        self.add_argument("--nodes", default="", help="Functions that a saves question asks for, with commas between")
        self.add_argument("--name", default="", help="the variable in the line of Python under the answer")
        self.add_argument("--as", dest="kept", default="", help="a name for what was recorded, to use in later cells")
        self.add_argument("--content", action="store_true", help="compare bytes too: finds writes that no op made")
        self.add_argument("--check-nan", action="store_true", help="find where the first NaN or infinity began")

    def error(self, message: str) -> NoReturn:
        """Say what was wrong with the line; IPython shows it without a traceback."""
        raise UsageError(
            _("%%see: {problem}. Usage: {usage}").format(
                problem=message, usage=self.format_usage()[len("usage: ") :].strip()
            )
        )


def see(line: str, cell: str) -> Any:
    """Record this cell, show its graph, and say what went wrong.

    Options: `--step N`, `--ask KIND`, `--ahead help|alone`, `--tensors a,b`,
    `--nodes MulBackward0`, `--name q7`, `--as rec`, `--content`, `--check-nan`.

    While the picture waits for an answer torch's error waits too: it would tell the answer, and is the picture's last
    step anyway. So a cell that asks ends in the same way whether or not it raises.
    """
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    options = _options(line)
    prepared = prepare(shell, cell)
    error: Exception | None = None
    value: Any = None
    try:
        code = prepared.file, 1, prepared.text
        detail: Detail = "content" if options.content else "default"
        with record(detail, code, check_nan=options.check_nan, values=True) as rec:
            value = run(prepared, shell.user_ns)
    except Exception as raised:  # whatever the learner's cell raises is shown, then raised again
        error = raised
    if options.kept:
        shell.user_ns[options.kept] = rec
    picture = _picture(rec.recording, options)
    display(picture)  # type: ignore[no-untyped-call]  # IPython's display has no types
    if error is not None and not (isinstance(error, RuntimeError) and asks(picture)):
        keep_traceback(shell, error)
        raise error
    return value


see.__doc__ = str(see.__doc__).replace("KIND", "|".join(KINDS))
setattr(see, MAGIC_NO_VAR_EXPAND_ATTR, True)  # a cell's `{x}` and `$x` are Python, not IPython's


def _options(line: str) -> argparse.Namespace:
    parser = MagicLine()
    try:
        return parser.parse_args(shlex.split(line))
    except (argparse.ArgumentError, ValueError) as error:
        parser.error(str(error))


def _picture(recording: Recording, options: argparse.Namespace) -> Any:
    if options.ahead:
        return step_ahead(recording, helped=options.ahead == HELP[0])
    tensors, nodes = _names(options.tensors), _names(options.nodes)
    return show(recording, options.step, options.ask, tensors=tensors, nodes=nodes, name=options.name)


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def prepare(shell: Any, cell: str) -> ReadyCell:
    """Compile a cell as IPython would: its own syntax translated, its source known to tracebacks.

    Raises: SyntaxError as Python says it.
    """
    text = shell.transform_cell(cell)
    file = shell.compile.cache(text, running_number(shell), cell)
    tree = ast.parse(text, file)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    return ReadyCell(file, text, tree, ast.Expression(last.value) if isinstance(last, ast.Expr) else None)


def run(cell: ReadyCell, namespace: dict[str, Any]) -> Any:
    """Run the cell in the user's namespace and return the value of its last expression."""
    exec(compile(cell.body, cell.file, "exec"), namespace)  # noqa: S102  # running the learner's cell is what this is for
    if cell.last is None:
        return None
    return eval(compile(cell.last, cell.file, "eval"), namespace)  # noqa: S307  # the same


def keep_traceback(shell: Any, error: BaseException) -> None:
    """Show the traceback from the learner's own line on, and of it what is the learner's; `%tb` shows the rest."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    steps = list(_steps(trace))
    own = [step for step in steps if _is_own(step.tb_frame.f_code.co_filename)]
    told = shell.InteractiveTB.structured_traceback
    shown: list[list[str]] = [told(type(error), error, trace)]
    if 0 < len(own) < len(steps):
        shown.append([*told(type(error), error, _chained(own)), _folded(len(steps) - len(own))])

    def in_turn() -> list[str]:
        return shown.pop() if len(shown) > 1 else shown[0]

    error._render_traceback_ = in_turn  # type: ignore[attr-defined]  # IPython asks it when the cell ends, then at `%tb`


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    """The calls of a traceback, from the outermost inwards."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_own(file: str) -> bool:
    """Is this a cell, or a file that the learner has written, and no library?"""
    return is_users(file) and "-packages" not in file


def _chained(steps: list[TracebackType]) -> TracebackType | None:
    """A traceback of these calls alone."""
    trace = None
    for step in reversed(steps):
        trace = TracebackType(trace, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return trace


def _folded(count: int) -> str:
    return counted(
        "{count} call inside the libraries is left out here: `%tb` in the next cell shows it.",
        "{count} calls inside the libraries are left out here: `%tb` in the next cell shows them.",
        count,
    ).format(count=count)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext seegrad`."""
    shell.register_magic_function(see, "cell")
    shell.events.register("post_run_cell", note_cell)
    shell.events.register("post_run_cell", say_passed)
