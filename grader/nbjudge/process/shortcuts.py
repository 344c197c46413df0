"""What IPython and its libraries do anew for each cell or traceback, though the answer is known: asked once, or not.

Nothing that a cell can see is another for it.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import stack_data
from ipykernel import compiler, ipkernel
from pygments.formatters.terminal256 import Terminal256Formatter

NAMES = 256  # of cells' files that are remembered
COLOURS = 4096


def take(shell: Any) -> None:
    """In the zygote, once: the shell's own ways are the shorter ones from here on."""
    compiler.murmur2_x86 = _checksum  # Python's own arithmetic takes a millisecond a cell
    shell.compile.get_code_name = lru_cache(NAMES)(_known_as_no_module(shell.compile.get_code_name))
    shell.should_run_async = _where_it_may_be(shell.should_run_async)
    shell.displayhook.semicolon_at_end_of_expression = _with_a_semicolon(
        shell.displayhook.semicolon_at_end_of_expression
    )
    ipkernel._accepts_parameters = _asked_once(ipkernel._accepts_parameters)  # type: ignore[attr-defined]  # it is there
    shell._format_exception_for_storage = _named  # the history's: nobody reads one, and it is a traceback made twice
    _colour_once()
    styled = lru_cache(NAMES)(stack_data.style_with_executing_node)  # type: ignore[attr-defined]  # it is there
    stack_data.style_with_executing_node = styled  # type: ignore[attr-defined]  # the same


def _checksum(text: str, seed: int) -> int:
    """What a cell's file is called by: only a debugger's front end works it out too."""
    return zlib.crc32(text.encode("utf-8", "replace"), seed)


def _known_as_no_module(name_of: Callable[..., str]) -> Callable[..., str]:
    """Say of each cell's file that no module is in it: `inspect` else looks through them all for every traceback."""

    def named(raw: str, transformed: str, number: int) -> str:
        name = name_of(raw, transformed, number)
        inspect.modulesbyfile[name] = ""
        return name

    return named


def _where_it_may_be(should_run_async: Callable[..., bool]) -> Callable[..., bool]:
    """A cell without either word isn't compiled once more, to be told that it has nothing to wait for."""

    def asked(raw: str, *, transformed_cell: str | None = None, **more: Any) -> bool:
        text = raw if transformed_cell is None else transformed_cell
        may_be = "await" in text or "async" in text
        return may_be and should_run_async(raw, transformed_cell=transformed_cell, **more)

    return asked


def _with_a_semicolon(ends_with_one: Callable[[str], bool]) -> Callable[[str], bool]:
    """A cell is read token by token only where there is a semicolon in it."""
    return lambda text: ";" in text and ends_with_one(text)


def _asked_once(accepts: Callable[..., dict[str, bool]]) -> Callable[..., dict[str, bool]]:
    """A method's parameters don't change from cell to cell."""

    @lru_cache(NAMES)
    def known(method: Callable[..., Any], names: tuple[str, ...]) -> dict[str, bool]:
        return accepts(method, list(names))

    return lambda method, names: known(method, tuple(names))


def _named(error: BaseException, *_rest: Any, **_more: Any) -> dict[str, Any]:
    return {"ename": type(error).__name__, "evalue": str(error), "traceback": []}


def _colour_once() -> None:
    """A style's colours are looked for among a terminal's 256 once, not once a traceback."""
    anybody = Terminal256Formatter()
    look = Terminal256Formatter._closest_color
    nearest = lru_cache(COLOURS)(lambda *rgb: look(anybody, *rgb))
    Terminal256Formatter._closest_color = lambda _self, *rgb: nearest(*rgb)
    set_up = Terminal256Formatter._setup_styles

    @lru_cache(NAMES)
    def known(style: Any, bold: bool, underline: bool, italic: bool) -> dict[str, tuple[str, str]]:
        anybody.style, anybody.style_string = style, {}
        anybody.usebold, anybody.useunderline, anybody.useitalic = bold, underline, italic
        set_up(anybody)
        return dict(anybody.style_string)

    def styles(self: Any) -> None:
        self.style_string = dict(known(self.style, self.usebold, self.useunderline, self.useitalic))

    Terminal256Formatter._setup_styles = styles
