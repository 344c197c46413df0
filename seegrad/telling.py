"""How values are compared, and how a failed check tells them: on one line, in few numbers; or as code for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from seegrad.capture.probes.torch_private import version
from seegrad.words.beliefs import headed
from seegrad.words.languages import _, counted, marked

TOLERANCE: Mapping[torch.dtype, float] = {torch.float64: 1e-9}  # of the largest number; 1e-4 for all other dtypes
MAX_CHARACTERS = 120
MAX_ASKED = 240  # characters of the line that has the inputs: two lines of a page
MAX_NUMBERS = 8  # of a tensor
ARGUMENT = marked("These are the values of `{name}`.")
NAN = marked("NaN, not a number, came in {count} of {all} places, and none was expected.")
COARSE = marked("The values are rounded: somewhere they are computed in float32.")
FACTOR = marked("Each number is {factor} times what was expected.")
ROUNDED = marked("These are the expected numbers, rounded.")
UNSIGNED = marked("These are the expected numbers without their signs.")
OFFSET = marked("Each number differs from what was expected by the same {offset}.")
LIMITED = marked("These are the expected numbers cut off at {limit} and −{limit}.")
NOTHING = marked("0 came in {count} of {all} places where another number was expected.")
WHERE = marked("Wrong just where {which} is {most} or less; right where it is {least} or more.")
WHERE_NOT = marked("Wrong just where {which} is {least} or more; right where it is {most} or less.")
SOME = marked("Wrong numbers: {count} of {all}.")
MOVED = marked("`{name}` was moved by {came}; expected was {want}.")
MAX_WRITTEN = 200  # numbers of a tensor in a case that a learner may copy


class AsCode(str):
    """An input that is told as the code it was made by: `Value(2.0)`, where no number says it.

    >>> print(asked_line("double(a)", {"a": AsCode("Value(2.0)")}))
    Asked      double(a) with a = Value(2.0)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def asked_line(asked: str, given: Mapping[str, Any]) -> str:
    """What was asked, with every input by its name: where the line would be long, tensors lose numbers, never a name.

    >>> print(asked_line("f(x, lr)", {"x": torch.zeros(3), "lr": 0.5}))
    Asked      f(x, lr) with lr = 0.5, x = [0, 0, 0]
    """
    if not given:
        return short(headed(_("Asked"), asked))
    ordered = sorted(given.items(), key=lambda one: _is_long(one[1]))
    for most in (MAX_NUMBERS, 4, 2, 1, 0):
        told = ", ".join(f"{name} = {values_text(value, most)}" for name, value in ordered)
        line = " ".join(headed(_("Asked"), _("{asked} with {given}").format(asked=asked, given=told)).splitlines())
        if len(line) <= MAX_ASKED:
            return line
    return line[: MAX_ASKED - 1] + "…"


def _is_long(value: Any) -> bool:
    """Does it hold a tensor of more than one number? What doesn't is told first: rates, counts, shapes."""
    if isinstance(value, list | tuple):
        return any(map(_is_long, value))
    return isinstance(value, torch.Tensor) and value.dim() > 0


def difference(came: torch.Tensor, want: torch.Tensor, others: Mapping[str, Any]) -> str:
    """What wrong values of the right shape are: an input's, a multiple of the right ones, or wrong in places.

    >>> difference(torch.tensor([2.0, 4.0]), torch.tensor([1.0, 2.0]), {})
    'Each number is 2 times what was expected.'
    """
    double = want.dtype == torch.float64
    came, want = came.detach().to(torch.float64).flatten(), want.detach().to(torch.float64).flatten()
    tensors = {name: one.detach().to(torch.float64).flatten() for name, one in _of_numbers(others)}
    tensors = {name: one for name, one in tensors.items() if one.shape == came.shape}
    for name, other in tensors.items():
        if torch.allclose(came, other, rtol=1e-6, atol=0.0):
            return _(ARGUMENT).format(name=name)
    if (lost := came.isnan() & ~want.isnan()).any():
        return _(NAN).format(count=int(lost.sum()), all=lost.numel())
    if double and bool(((came - want).abs() <= 1e-5 * want.abs().max()).all()):
        return _(COARSE)
    return all_alike(came, want) or _places(came, want, tensors)


def _of_numbers(others: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    return [(name, one) for name, one in others.items() if isinstance(one, torch.Tensor)]


def all_alike(came: torch.Tensor, want: torch.Tensor) -> str:
    """What has been done to all of the right numbers alike; nothing where no such thing explains what came.

    >>> all_alike(torch.tensor([3.0, -3.0, 1.0]), torch.tensor([5.0, -9.0, 1.0]))
    'These are the expected numbers cut off at 3 and −3.'
    """
    near = 1e-4 * float(want.abs().max()) if want.numel() else 0.0
    if came.numel() < 2 or came.isinf().any() or want.isinf().any() or not (came.count_nonzero() and near):
        return ""
    nonzero, limit = want.abs() > near, came.abs().max()
    factors = came[nonzero] / want[nonzero]
    if len(factors) > 1 and _near(factors / factors[0], torch.ones(()), 1e-4) and _near(came[~nonzero], came[:0], near):
        return _(FACTOR).format(factor=f"{factors[0].item():.4g}")
    if any(_near(came, want.round(decimals=places), near / 1e3) for places in range(3)):
        return _(ROUNDED)
    if _near(came, want.abs(), near):
        return _(UNSIGNED)
    if _near(came - want, (came - want)[0], near):
        return _(OFFSET).format(offset=f"{(came - want)[0].item():.4g}")
    if _near(came, want.clamp(-limit, limit), near) and int((want.abs() > limit + near).sum()) > 1:
        return _(LIMITED).format(limit=f"{limit.item():.4g}")
    return ""


def _near(one: torch.Tensor, other: torch.Tensor, within: float) -> bool:
    return bool(((one - other if other.numel() else one).abs() <= within).all())


def _places(came: torch.Tensor, want: torch.Tensor, others: Mapping[str, torch.Tensor]) -> str:
    """Where what came is wrong, where it isn't wrong everywhere: with 0 in its place, or by the numbers of an input."""
    near = 1e-4 * want.abs().max()
    wrong = (came - want).abs() > near
    count, every = int(wrong.sum()), wrong.numel()
    if not 0 < count < every:
        return ""
    if not came[wrong].any():
        behind = every > 2 and not wrong[: every - count].any()
        return _behind(every - count, every) if behind else _(NOTHING).format(count=count, all=every)
    found = [parted for name, other in others.items() if (parted := _parted(name, other, wrong))]
    return found[0][0] if len(found) == 1 else _(SOME).format(count=count, all=every)


def _behind(right: int, every: int) -> str:
    """Zeros from there on."""
    said = counted(
        "Of {all} numbers only the first is right; for the rest 0 came.",
        "Of {all} numbers only the first {count} are right; for the rest 0 came.",
        right,
    )
    return said.format(count=right, all=every)


def _parted(name: str, other: torch.Tensor, wrong: torch.Tensor) -> list[str]:
    """Does a limit on an input's numbers, or on their size, part the wrong places from the right ones?"""
    told = []
    sizes = [(f"|`{name}`|", other.abs())] if bool((other < 0).any()) else []
    for which, measure in ((f"`{name}`", other), *sizes):
        inside, outside = measure[wrong], measure[~wrong]
        for text, low, high in ((WHERE, inside, outside), (WHERE_NOT, outside, inside)):
            if low.max() < high.min():
                ends = {"most": f"{low.max().item():.4g}", "least": f"{high.min().item():.4g}"}
                told.append(_(text).format(which=which, **ends))
    return told


def moves(name: str, before: torch.Tensor, came: torch.Tensor, want: torch.Tensor) -> list[str]:
    """Of a tensor that should be written: what was added to it beside what should have been, and what that is.

    >>> moves("w", torch.zeros(2), torch.tensor([0.5, -0.5]), torch.tensor([2.0, -3.0]))[0]
    '`w` was moved by [0.5, -0.5]; expected was [2, -3].'
    """
    here, there = came.detach() - before, want.detach() - before
    if want.dtype == torch.float64 and there.count_nonzero() and torch.allclose(here, there, rtol=1e-5):
        return [_(COARSE)]
    alike = all_alike(here.to(torch.float64).flatten(), there.to(torch.float64).flatten())
    if not alike or not there.count_nonzero():
        return []
    return [_(MOVED).format(name=name, came=values_text(here, 3), want=values_text(there, 3)), alike]


def case_code(asked: str, given: Mapping[str, Any], arguments: Sequence[Any]) -> str:
    """The case with all of its numbers, to be run by the learner; empty where it can't be written."""
    leaves = [one for one in arguments if isinstance(one, torch.Tensor) and one.is_leaf]
    if not all(map(_is_data, given.values())):
        return ""
    return "\n".join([*(f"{name} = {_made(value, leaves)}" for name, value in given.items()), asked])


def _is_data(value: Any) -> bool:
    """Can it be written as code that makes it?"""
    if isinstance(value, torch.Tensor):
        return value.layout is torch.strided and value.numel() <= MAX_WRITTEN
    if isinstance(value, list | tuple):
        return all(map(_is_data, value))
    return isinstance(value, int | float | str | bool | dict | None)


def _made(value: Any, leaves: Sequence[torch.Tensor] = ()) -> str:
    """A value as code that makes it; a copy of a leaf that was passed requires a gradient, as that did."""
    if isinstance(value, list | tuple):
        return _bracketed(value, [_made(item, leaves) for item in value])
    if not isinstance(value, torch.Tensor):
        return repr(value)
    needed = value.requires_grad or any(leaf.requires_grad and leaf.shape == value.shape for leaf in leaves)
    grad = ", requires_grad=True" if needed and value.dtype.is_floating_point else ""
    return f"torch.tensor({value.detach().tolist()!r}, dtype={value.dtype}{grad})"


def shown(value: Any) -> str:
    """What came, on one line; of a tensor what there is to know."""
    if isinstance(value, Exception) and "performed" in vars(value):
        line, number = vars(value)["performed"]
        said = _("in round {round}, line {line} raised {error}") if number else _("line {line} raised {error}")
        return said.format(round=number, line=line, error=said_error(value))
    return tensor_text(value, facts=True) if isinstance(value, torch.Tensor) else repr(value)


def kind_text(value: Any) -> str:
    """A value that is of another kind than was asked for, after the name of its own.

    >>> kind_text([0.5])
    'a list: [0.5]'
    """
    if value is None:
        return "None"
    kind, text = type(value).__name__, tensor_text(value) if isinstance(value, torch.Tensor) else values_text(value)
    return _("a {kind}: {value}").format(kind=kind, value=text)


def expected_kind(value: Any) -> str:
    """The kind of what should have come, where no numbers can be told.

    >>> expected_kind(torch.zeros(2)), expected_kind({}), expected_kind(None)
    ('a tensor', 'a dict', 'None')
    """
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return _("a tensor")
    return _("a {kind}").format(kind=type(value).__name__)


def number_of(value: Any) -> float | None:
    """A number, or the only one of a tensor; None for all else."""
    if isinstance(value, torch.Tensor):
        return float(value.detach()) if value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def tensor_text(value: torch.Tensor, *, facts: bool = False) -> str:
    """A tensor's numbers, kind and shape; `facts`: whether it is a leaf, and its version too."""
    shape = kind_of(value)
    if not facts:
        return f"{values_text(value)}  {shape}"
    told = _("{tensor}, leaf, version {version}") if value.is_leaf else _("{tensor}, not a leaf, version {version}")
    return told.format(tensor=f"{values_text(value)}  {shape}", version=version(value))


def kind_of(value: torch.Tensor) -> str:
    """The dtype and the shape of a tensor: `f32[2, 3]`."""
    kind = str(value.dtype).removeprefix("torch.").replace("float", "f").replace("int", "i")
    return f"{kind}[{', '.join(map(str, value.shape))}]"


def values_text(value: Any, most: int = MAX_NUMBERS) -> str:
    """The first numbers of a tensor, or of what holds tensors, with four digits; of none its kind and shape."""
    if isinstance(value, list | tuple):
        return _bracketed(value, [values_text(item, most) for item in value])
    if not isinstance(value, torch.Tensor):
        return repr(value)
    if value.numel() <= max(most, 1):
        return rounded(value.detach().tolist())
    if not most:
        return kind_of(value)
    return f"{rounded(value.detach().flatten()[:most].tolist())[:-1]}, …]"


def _bracketed(value: list[Any] | tuple[Any, ...], parts: list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(parts)}]"
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def rounded(value: Any) -> str:
    """A number with four digits, or a list of such."""
    if isinstance(value, list):
        return "[" + ", ".join(rounded(item) for item in value) + "]"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def said_error(error: Exception) -> str:
    """A student's error as one line. An error of the grader's own isn't an answer: it goes on."""
    if type(error).__module__.partition(".")[0] == "nbjudge":
        raise error
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def short(line: str) -> str:
    """One line that isn't long."""
    line = " ".join(line.splitlines())
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1] + "…"


def expected_text(value: Any) -> str:
    """What should have come, on one line; of a tensor whether it requires a gradient."""
    if not isinstance(value, torch.Tensor):
        return shown(value)
    return tensor_text(value) + (", requires_grad" if value.requires_grad else "")


def version_text(number: int | None) -> str:
    """A version, in words."""
    return _("version {version}").format(version=number)


def equal(came: torch.Tensor, want: torch.Tensor) -> bool:
    """The same dtype, shape and numbers."""
    return came.shape == want.shape and came.dtype == want.dtype and torch.equal(came.detach(), want)


def close(came: torch.Tensor, want: torch.Tensor, size: float = 0.0) -> bool:
    """Within the tolerance of the type, measured by the largest number, or by a size that is larger still."""
    if came.shape != want.shape:
        return False
    if came.dtype == want.dtype and torch.equal(came.detach(), want.detach()):
        return True  # as most are, number for number
    here, there = came.detach().to(torch.float64), want.detach().to(torch.float64)
    bound = TOLERANCE.get(want.dtype, 1e-4) * max(1e-6, size, size_of(there))
    return bool(torch.allclose(here, there, rtol=0.0, atol=bound))


def size_of(values: torch.Tensor | None) -> float:
    """The largest finite number's size; 0 where there is none."""
    finite = torch.empty(0) if values is None else values.detach()[values.detach().isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def gained(before: torch.Tensor | None, grad: torch.Tensor | None) -> torch.Tensor | None:
    """What a backward added to the gradients of the others before it."""
    if before is None or grad is None or before.shape != grad.shape:
        return grad
    return grad - before


def same_grad(came: torch.Tensor | None, want: torch.Tensor | None, size: float = 0.0) -> bool:
    """Both None, or close to each other and both with a history, or both without."""
    if came is None or want is None:
        return came is None and want is None
    return came.requires_grad == want.requires_grad and close(came, want, size)


def unless_zero(grad: torch.Tensor | None) -> torch.Tensor | None:
    """A gradient that is zero counts as none."""
    return None if grad is None or not grad.count_nonzero() else grad


def added(came: torch.Tensor, want: torch.Tensor | None, before: torch.Tensor | None) -> bool:
    """Is it the right gradient on top of an old one, once or, after a call before, twice?"""
    if want is None:
        return False
    old = torch.zeros_like(want) if before is None else before
    return close(came, want + want + old) or (before is not None and close(came, want + old))


def replaced(came: torch.Tensor, want: torch.Tensor | None, before: torch.Tensor | None) -> bool:
    """Is it the new gradient alone where it should have been added to an old one, or to that of a call before?"""
    if want is None:
        return False
    return (
        close(came + came, want) if before is None else close(came + before, want) or close(came + came + before, want)
    )


def grad_symptom(came: torch.Tensor | None, want: torch.Tensor | None, before: torch.Tensor | None) -> str:
    """What is wrong with a `.grad` that isn't what it should be, by its key in `NOTES`.

    >>> one = torch.ones(2)
    >>> grad_symptom(None, one, None), grad_symptom(one, None, None), grad_symptom(one, 3 * one, 2 * one)
    ('unfilled', 'backed', 'replaced')
    """
    if came is not None and want is not None and close(came, want):
        return "with_history"  # or the other way round
    if same_grad(before, want):
        return "backed" if want is None else "grad"
    if came is None or same_grad(came, before):
        return "unfilled"
    if added(came, want, before):
        return "added"
    return "replaced" if replaced(came, want, before) else "filled"


def parts(asked: str, value: Any) -> dict[str, Any]:
    """What was returned, one thing after the other, each by the code that asks for it.

    >>> parts("f(x)", (1.0, 2.0)), parts("f(x)", None)
    ({'f(x)[0]': 1.0, 'f(x)[1]': 2.0}, {})
    """
    if isinstance(value, dict):
        return {f"{asked}[{key!r}]": value[key] for key in sorted(value, key=repr)}
    if isinstance(value, list | tuple):
        return {f"{asked}[{number}]": item for number, item in enumerate(value)}
    return {} if value is None else {asked: value}


def kind_of_result(value: Any) -> Any:
    """What a returned value is made of: a dict, a list or tuple, None, or (None too) one thing."""
    return next((kind for kind in (dict, list | tuple, type(None)) if isinstance(value, kind)), None)


def is_number(value: Any) -> bool:
    """Python's own, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
