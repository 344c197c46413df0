"""A check that has passed says so, and why: what it compared, or that an answer which was chosen has the right form.

A learner's own check knows no more than what stands in its cell. So no word here is about what is graded later: of an
answer that was chosen it says that it may be one, never that it's the right one.
"""

from __future__ import annotations

from html import escape
from typing import Any

from IPython.display import display

from seegrad.display.page import with_code
from seegrad.learn.checks import expectations, form_alone
from seegrad.learn.progress import check_passed, notebook
from seegrad.quiz.subject import listed
from seegrad.words.languages import _, speaking

CHECKS = "_test"  # how the ids of an assignment's checks end; a chapter that uses `expect` grades nothing
COMPARES = {"close", "differentiable", "equals", "raises", "version"}
MOST_NAMED = 2
GREEN = "color-mix(in srgb,var(--jp-success-color1,#2e7d32) 65%,var(--jp-ui-font-color0,var(--vscode-foreground,#000)))"
GREY = "var(--jp-ui-font-color1,var(--vscode-foreground,#000))"  # what is right isn't known yet: no green


def say_passed(result: Any) -> None:
    """IPython ran a cell: if it's an exercise's check and passed, say so below. Registered by `%load_ext seegrad`."""
    if notebook() is None or not str(result.info.cell_id).endswith(CHECKS) or not check_passed(result):
        return
    with speaking(None):
        source = result.info.raw_cell or ""
        said, judged = why(source), not form_alone(source)
        head = _("✓ Passed:") if judged else _("• Answered:")
    if said:
        data = {"text/plain": f"{head} {said}".replace("`", ""), "text/html": _line(head, said, green=judged)}
        display(data, raw=True)  # type: ignore[no-untyped-call]  # IPython's display has no types


def why(source: str) -> str:
    """Why a check passes, of its own source; "" where it compares nothing.

    >>> why('expect("f(x)", f(x), x=x).close(x * 2)')
    '`f(x)` came out as expected. Grading asks more than this cell, with other numbers too.'
    >>> why('expect("found", found).one_of([1, 2])')
    'each part of your answer is one that may be chosen. Whether it is right is found out when it is graded.'
    """
    if form_alone(source):
        return _(
            "each part of your answer is one that may be chosen. Whether it is right is found out when it is graded."
        )
    asked = list(dict.fromkeys(asked for asked, method in expectations(source) if asked and method in COMPARES))
    compared = [each for each in asked if not each.startswith(("type(", "sorted("))][-MOST_NAMED:]
    if not compared:
        return ""
    return _("{names} came out as expected. Grading asks more than this cell, with other numbers too.").format(
        names=listed(compared)
    )


def _line(head: str, said: str, *, green: bool) -> str:
    """A line of HTML, readable on light and dark."""
    words = with_code(said)
    colour = GREEN if green else GREY
    style = f"border-left:4px solid {colour};padding:2px 10px;margin:4px 0"
    return f'<p style="{style}"><b style="color:{colour}">{escape(head)}</b> {words}</p>'
