"""The twelve misconceptions about autograd, remarks on other mistakes, and what of them a failed check tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seegrad.words.languages import _, marked
from seegrad.words.widths import padded

MISCONCEPTIONS: Mapping[str, str] = {
    "M01": marked(
        "requires_grad alone fills no .grad: the result of an operation, even a converting `.to()`, isn't a leaf."
    ),
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

BELIEVED: Mapping[str, str] = {
    "M01": marked("What requires a gradient gets a .grad."),
    "M02": marked("Each tensor keeps its gradient, or can still be asked for it after backward."),
    "M03": marked("Any in-place write to a tensor of the graph raises."),
    "M04": marked("The line in the traceback is the one that did the damage."),
    "M05": marked(".data is .detach(), and both copy."),
    "M06": marked("Where torch raises nothing, the gradient is right."),
    "M07": marked("Under no_grad any write is safe, and `w = …` updates w."),
    "M08": marked("eval() turns gradients off."),
    "M09": marked(".grad holds the gradient of the last backward call alone."),
    "M10": marked("backward deletes the graph, and retain_graph mends a graph that is cut."),
    "M11": marked("`x += y` is short for `x = x + y`."),
    "M12": marked("Only methods whose name ends in an underscore write in place."),
}
"""The same as they are held: nobody is shown one without what sets it right."""

REMARKS: Mapping[str, str] = {
    "other": marked("This line plays the other part: the victim saves the value, the culprit writes over it."),
    "writes_none": marked("This line writes into no tensor that was there before: it makes a new one, or only looks."),
    "saves_none": marked("The value in question was saved by another Function; many Functions save nothing."),
    "shares": marked("A second name for the same bytes destroys nothing; a write does."),
    "before": marked("A write before the value is saved harms nobody."),
    "clone": marked("clone copies: its bytes and its version are its own."),
    "counts": marked("Each write to the bytes counts one, through whatever name; `t[0] += 1` writes twice."),
    "filled": marked("A new table has been written already: its random numbers were filled in, in place."),
    "each_lookup": marked("max_norm writes at each lookup, not where it is set."),
    "when": marked("A write itself raises only at a leaf that requires a gradient, in grad mode; else backward does."),
    "leaf_write": marked("In grad mode a leaf that requires a gradient can't be written, by whatever name."),
    "watched": marked("Backward compares the version of each saved tensor: a write that moves it is noticed."),
    "who_saves": marked("exp, sigmoid and tanh save their result, sin its input, a product the factors it needs."),
    "serves": marked("A product saves each factor for the gradient of the other one."),
    "stopped": marked("Backward stops at the error: a leaf that it hadn't reached gets nothing."),
    "cut": marked("Under no_grad, and behind .data or .detach(), nothing is recorded: no gradient passes."),
    "reached": marked("One path from the loss is enough for a gradient to arrive."),
    "unasked": marked("What requires no gradient gets none: its .grad stays None."),
    "zero": marked("None isn't 0: a 0 is a gradient that arrived, None says that none did."),
    "leaf": marked("A leaf: no recorded operation made it. Under no_grad, and of plain data, none is recorded."),
    "history": marked("A write in place is an operation too: it can give a tensor a history."),
    "same": marked("A call that has nothing to change returns the tensor itself."),
    "optimiser": marked("An optimiser moves the tensor that it was given, whatever the name means later."),
    "thrown_away": marked("The gradient was thrown away after backward had filled it and before it was used."),
    "inputs": marked("backward(inputs=…) fills the .grad of what it is given, and only that."),
    "unkept": marked("What requires no gradient can't keep one: retain_grad raises."),
    "answers": marked("What a hook returns replaces the gradient; a write to its argument reaches other tensors' too."),
    "unreturned": marked("A new tensor that a hook makes and doesn't return is lost."),
    "hook_first": marked("retain_grad keeps what the hooks have made of the gradient."),
    "hook_share": marked("A hook gets the gradient of each backward alone, not what has added up in .grad."),
    "old_value": marked("A hook hangs on the value at that moment; retain_grad follows the tensor through a write."),
    "retained": marked("retain_graph=True keeps the saved tensors for another backward."),
    "two_graphs": marked("Each forward makes a graph of its own."),
    "item": marked("item() gives a plain number: no graph hangs on it."),
    "within": marked("Two places add up: one within a call, where paths meet, and one from call to call."),
    "passes_on": marked("What a value still holds from the first call flows on once more in the second."),
    "record": marked("A graph is a record: what was computed before the loop isn't computed again in it."),
    "no_slope": marked(
        "The slope came in as numbers: create_graph=True gives it a history, .detach() and .item() take it."
    ),
    "shortened": marked("The shortening isn't in the graph: max_norm, no_grad and .detach() leave no Node of it."),
    "clamp_values": marked("clamp limits values: its own gradient is 1 inside the limits and 0 outside."),
    "statistics": marked("The first line needs the running statistics from before the second one writes them."),
    "chain": marked("A rule gets the gradient of its result, and has to multiply its derivative by it."),
    "attribute": marked("Only what save_for_backward got is checked; at an attribute of ctx nobody looks."),
    "left_out": marked("A line that is needed is missing: read what has to hold afterwards once more."),
    "carried": marked("Two rounds are joined where one computes with a tensor that the round before has made."),
    "turn": marked("A value's turn comes when all its gradients have arrived: the youngest goes first."),
    "too_early": marked("What is pushed before all has come is pushed again, each time with all that it holds."),
    "seed": marked("Backward begins with the gradient that the loss itself is given."),
    "flat": marked("round has the derivative 0, and so passes nothing on: this takes a rule of your own."),
    "fills": marked("A backward within the function has filled .grad already; the caller's own one adds to it."),
    "asks_alone": marked("backward() fills the .grad of every leaf; torch.autograd.grad fills none."),
    "rebound": marked(
        "A `w` made anew under no_grad or from .data asks for no gradient: the next backward finds no history."
    ),
    "unequal": marked("A mean of means isn't the mean of all, where the parts differ in size."),
    "bytes": marked("detach, .data and views share the bytes: what is to be written freely is cloned first."),
    "own_gradient": marked("Each tensor has a gradient of its own: on its way on it is multiplied by each slope."),
    "too_late": marked("retain_grad may be called at any time; a gradient that has passed already isn't kept."),
    "leaf_retains": marked("On a leaf retain_grad does nothing, and raises nothing: a leaf keeps its gradient anyway."),
    "looks": marked("A hook that returns None only looks: the gradient goes on as it was."),
    "no_node": marked("This line makes no Node: where nothing is computed, or nothing is recorded, nothing is saved."),
    "reads": marked("Backward only reads what had been saved: the damage was done before."),
    "no_norm": marked("Without max_norm a lookup writes nothing."),
    "sum_slope": marked("A sum hands its gradient on as it is, with the slope 1, and saves nothing."),
    "factors": marked("A product saves its factors: the first backward frees them, a second one can't run."),
    "square_slope": marked("The slope of a · a is 2a, and two backward calls add up."),
    "shorter": marked("A backward runs from its own start: a second one that starts earlier passes fewer Nodes."),
    "entered": marked("Backward enters a graph at its newest Node: what was made last comes first."),
    "joined": marked("A sum of losses that are tensors has a history: the graph of each round hangs on it."),
    "assigned": marked("Where a value is assigned, only what came last is left: what came by other paths is lost."),
    "leaves_alone": marked("From call to call only leaves add up: what lies in between begins at 0 again."),
    "inner": marked("The slope of f(w · x) for x has the factor w: the chain rule goes on inside."),
    "zero_slope": marked("Where a tensor counts with the factor 0, a gradient arrives each time, and is 0."),
    "new_name": marked(
        "`w = …` makes a new tensor, under no_grad too: only a write in place changes the caller's `w`."
    ),
    "twice": marked("A line that stands there twice runs twice."),
    "unwatched": marked(
        "A fused step, .data, numpy and BatchNorm write without moving the version: torch sees nothing."
    ),
}
"""What a wrong answer may be told where none of the misconceptions is behind it; a test cell names it by its key."""

MAX_SHOWN = 3
HEAD_COLUMNS = 11

Suggests = str | Sequence[str] | Mapping[Any, str | Sequence[str]] | None
"""What a failure suggests, misconceptions or remarks: one, several, or one for each symptom ("raised", "cut", …)."""


def numbers_of(suggests: Suggests, symptom: str | int) -> tuple[str, ...]:
    """The misconceptions behind one symptom; `"*"` in a mapping stands for every other symptom.

    >>> numbers_of({"cut": "M10", "*": "M06"}, "wrong")
    ('M06',)
    """
    if isinstance(suggests, Mapping):
        key = symptom if symptom in suggests else "*"
        return numbers_of(suggests.get(key), symptom)
    return (suggests,) if isinstance(suggests, str) else tuple(suggests or ())


def misconceptions_among(numbers: Iterable[str]) -> tuple[str, ...]:
    """What is counted: a remark is no misconception.

    >>> misconceptions_among(["shares", "M05"])
    ('M05',)
    """
    return tuple(number for number in numbers if number not in REMARKS)


def suggestions(numbers: Sequence[str]) -> list[str]:
    """One line for each of the first misconceptions, and for remarks where lines are left."""
    return [_told(number) for number in sorted(numbers, key=lambda number: number in REMARKS)[:MAX_SHOWN]]


def _told(number: str) -> str:
    if number in REMARKS:
        return headed(_("Note"), _(REMARKS[number]))
    return headed(_("Suggests"), " ".join((number, _(MISCONCEPTIONS[number]))))


def headed(head: str, text: str) -> str:
    """A line of a failed check: what it tells, then the text, all texts in one column.

    >>> headed("Came", "None")
    'Came       None'
    """
    return padded(head, HEAD_COLUMNS) + text
