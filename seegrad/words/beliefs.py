"""The twelve misconceptions about autograd, and which of them a failed check suggests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seegrad.words.languages import _, marked
from seegrad.words.widths import padded

MISCONCEPTIONS: Mapping[str, str] = {
    "M01": marked("requires_grad alone fills no .grad: a moved or scaled tensor isn't a leaf any more."),
    "M02": marked("retain_grad keeps the gradient of a non-leaf, and has to be called before backward."),
    "M03": marked("An in-place write raises only where the overwritten value was saved for backward."),
    "M04": marked("The traceback shows where backward stopped, not the line that did the damage."),
    "M05": marked(".data isn't .detach(), and neither copies: both share the bytes, only detach shares the version."),
    "M06": marked("No error doesn't mean that the gradient is right: torch checks versions, not values."),
    "M07": marked("no_grad doesn't make a write safe, and `w = …` under it makes a new tensor instead of updating w."),
    "M08": marked("eval() changes how layers behave; it doesn't turn gradients off."),
    "M09": marked(".grad adds up over backward calls until you set it to None or zero."),
    "M10": marked("backward frees saved tensors, not the graph; a cut graph isn't mended by retain_graph."),
    "M11": marked("`x += y` and `x[0] = y` write into the same tensor; `x = x + y` makes a new one."),
    "M12": marked("In-place writes hide: numpy, optimizer.step, BatchNorm, max_norm, inplace=True, views."),
}
"""The twelve misconceptions, each as the sentence that sets it right."""

MAX_SHOWN = 3
HEAD_COLUMNS = 11

Suggests = str | Sequence[str] | Mapping[Any, str | Sequence[str]] | None
"""Which misconception a failure suggests: one, several, or one for each symptom ("raised", "cut", "wrong", "shape")."""


def numbers_of(suggests: Suggests, symptom: str | int) -> tuple[str, ...]:
    """The misconceptions behind one symptom; `"*"` in a mapping stands for every other symptom.

    >>> numbers_of({"cut": "M10", "*": "M06"}, "wrong")
    ('M06',)
    """
    if isinstance(suggests, Mapping):
        key = symptom if symptom in suggests else "*"
        return numbers_of(suggests.get(key), symptom)
    return (suggests,) if isinstance(suggests, str) else tuple(suggests or ())


def suggestions(numbers: Sequence[str]) -> list[str]:
    """One line for each of the first misconceptions."""
    return [headed(_("Suggests"), " ".join((number, _(MISCONCEPTIONS[number])))) for number in numbers[:MAX_SHOWN]]


def headed(head: str, text: str) -> str:
    """A line of a failed check: what it tells, then the text, all texts in one column.

    >>> headed("Came", "None")
    'Came       None'
    """
    return padded(head, HEAD_COLUMNS) + text
