r"""What a test cell says: `expect(asked, came)` compares, and fails in at most six plain lines.

Behaviour only: values, gradients, errors, versions. So the same cell runs in the learner's own kernel and in a
judge, where a student's function is a callable that lives in another process. No sentence stands in a test cell:
it names what it asked as code, a misconception by its number and a remark by its key; the words are here.

Fresh inputs come from torch's global generator, which a judge seeds.

>>> import torch
>>> def halve(x):
...     return x / 2
>>> x = torch.tensor([2.0, 4.0])
>>> expect("halve(x)", halve(x), x=x).close(x * 0.5)
>>> try:
...     expect("halve(x)", halve(x), x=x).close(x * 0.25, suggests="M06")
... except CheckFailed as failure:
...     print(failure)
Asked      halve(x) with x = [2, 4]
Came       [1, 2]  f32[2], leaf, version 0
Expected   [0.5, 1]  f32[2]
Note       Each number is 2 times what was expected.
Suggests   M06 No error doesn't mean that the gradient is right: torch checks versions, not values.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from seegrad.capture.probes.torch_private import version
from seegrad.telling import (
    COARSE,
    asked_line,
    case_code,
    difference,
    kind_text,
    moves,
    number_of,
    rounded,
    said_error,
    short,
    shown,
    tensor_text,
)
from seegrad.words.beliefs import Suggests, headed, misconceptions_among, numbers_of, suggestions
from seegrad.words.errors import SeegradError
from seegrad.words.languages import _, counted, marked
from seegrad.words.symptoms import AROUND, CUT, DTYPE, UNMOVED

MAX_LINES = 6
FINITE_STEP = 1e-6  # of a finite difference in float64
COARSE_STEP = 1e-2  # of one of a function that computes in float32
AGAIN = marked("The same call, made twice, gives different values.")
ERRORS: Mapping[str, tuple[str, str]] = {  # what torch's and Python's errors say: the symptom, and what it means
    "leaf Variable that requires grad": (
        "leaf_written",
        marked("A leaf that requires a gradient was written in place while gradients were recorded."),
    ),
    "modified by an inplace": ("overwritten", marked("A value that backward needs was overwritten.")),
    "graph a second time": (
        "freed",
        marked("A second backward went through saved tensors that the first had freed."),
    ),
    "can't retain_grad": ("unkept", marked("What requires no gradient can't keep one.")),
    "does not require grad": (
        "unrecorded",
        marked("Backward was called on something without a history: nothing had been recorded."),
    ),
    "not have been used in the graph": (
        "unused",
        marked("A gradient was asked for something that no path of the graph leads to."),
    ),
    "NoneType": (
        "empty",
        marked("Something was None where a tensor was needed, perhaps a `.grad` that nothing had filled."),
    ),
}
_MISSING = object()


class CheckFailed(SeegradError, AssertionError):  # an answer failed its check; the learner made no error
    """An answer isn't right. `lines` say why; `misconceptions` are the numbers that it suggests; `reproduce` is code.

    >>> CheckFailed(["Asked  f(x)"], ("M05",)).misconceptions
    ('M05',)
    """

    def __init__(self, lines: Iterable[str], misconceptions: Iterable[str] = (), reproduce: str = "") -> None:
        self.lines = tuple(lines)[:MAX_LINES]
        self.reproduce = reproduce
        self.misconceptions = misconceptions_among(misconceptions)
        super().__init__(self.lines, self.misconceptions)

    @property
    def message(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    def __str__(self) -> str:
        return self.message

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows instead of a traceback."""
        return list(self.lines)


class score(float):  # noqa: N801  # reads as a verb at the end of a test cell, and is one number
    """Partial credit, 0 to 1, as the last expression of a test cell; `of` are the cell's points.

    A judge multiplies the number by the cell's points; stock nbgrader reads the printed form, which is in points.

    >>> score(0.5, of=20)
    10.0
    >>> float(score(0.5, of=20))
    0.5
    """

    lines: tuple[str, ...]
    misconceptions: tuple[str, ...]
    of: float

    def __new__(
        cls, fraction: float, of: float = 1, lines: Iterable[str] = (), misconceptions: Iterable[str] = ()
    ) -> score:
        """Raises ValueError outside 0 … 1."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"a score lies between 0 and 1, not at {fraction}")
        made = super().__new__(cls, fraction)
        made.of, made.lines = of, tuple(lines)[:MAX_LINES]
        made.misconceptions = misconceptions_among(misconceptions)
        return made

    @property
    def message(self) -> str:
        """Why it isn't everything, as one text."""
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return repr(float(self) * self.of)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(chr(10).join([f'{self!r} / {self.of:g}', *self.lines]))}</pre>"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What was asked, what came, on which inputs. Each method returns when it holds and raises CheckFailed when not."""

    asked: str
    came: Any
    given: Mapping[str, Any]
    arguments: tuple[Any, ...] = ()  # of the call that was made

    def equals(self, want: Any, suggests: Suggests = None) -> None:
        """Same type and value; a mapping in `suggests` is looked up by what came. No error is expected as None."""
        if type(self.came) is type(want) and self.came == want:
            return
        symptom = self.came if isinstance(self.came, str | int) else "wrong"
        if isinstance(self.came, Exception) and want is None:
            self._fail(_("no error"), symptom, suggests)
        if type(self.came) is not type(want) and isinstance(self.came, list | tuple | dict):
            raise self._failure(kind_text(self.came), kind_text(want), symptom, suggests)
        self._fail(repr(want), symptom, suggests)

    def one_of(self, choices: Sequence[Any], suggests: Suggests = None) -> None:
        """One of the allowed answers, of the same type. Where nothing came, it isn't answered yet: no misconception."""
        self._answered(_(" or ").join(map(repr, choices)))
        if not any(type(self.came) is type(choice) and self.came == choice for choice in choices):
            self._fail(_(" or ").join(map(repr, choices)), "wrong", suggests)

    def of_type(self, kind: type, suggests: Suggests = None) -> None:
        """A value of this type, no truth value for an int. Where nothing came, it isn't answered yet: no misconception.

        >>> import numpy
        >>> expect("loss", numpy.float64(0.5)).of_type(float)
        """
        self._answered(kind.__name__)
        if not isinstance(self.came, kind) or (isinstance(self.came, bool) and kind is not bool):
            self._fail(kind.__name__, "wrong", suggests)

    def letters(self, allowed: str) -> None:
        """Some of these letters in an order, as one text without anything between. Nothing at all isn't answered yet.

        >>> expect("steps", "BA").letters("ABC")
        """
        wanted = _('capital letters from {first} to {last} with nothing between, such as "{last}{first}"')
        wanted = wanted.format(first=allowed[0], last=allowed[-1])
        replace(self, came=None if self.came == "" else self.came)._answered(wanted)
        if type(self.came) is not str or not set(self.came) <= set(allowed):
            self._fail(wanted, "wrong", None)

    def tensors(self, count: int) -> list[torch.Tensor]:
        """The tensors of a tuple or a list, which has to hold so many and nothing else.

        >>> expect("(a, b)", (torch.zeros(2), torch.ones(2))).tensors(2)[1]
        tensor([1., 1.])
        """
        if not isinstance(self.came, list | tuple) or len(self.came) != count:
            wanted = counted("a tuple of {count} tensor", "a tuple of {count} tensors", count).format(count=count)
            self._fail(wanted, "shape", None)
        for place, one in enumerate(self.came):
            if not isinstance(one, torch.Tensor):
                asked = f"{self.asked}[{place}]"
                raise failure(asked, kind_text(one), _("a tensor"), self.given, arguments=self.arguments)
        return list(self.came)

    def close(
        self, want: torch.Tensor | float, suggests: Suggests = None, *, rtol: float = 1e-4, atol: float = 1e-6
    ) -> None:
        """A tensor of `want`'s shape whose values are `want`'s, within `rtol` and `atol`. Symptoms: shape, wrong.

        Where `want` is a plain number, what came may be one, or a tensor that holds one.
        """
        if not isinstance(want, torch.Tensor):
            self._close_number(want, suggests, rtol, atol)
            return
        if not isinstance(self.came, torch.Tensor) or self.came.shape != want.shape:
            self._fail(tensor_text(want), "shape", suggests)
        came, wanted = self.came.detach().to(torch.float64), want.detach().to(torch.float64)
        if not torch.allclose(came, wanted, rtol=rtol, atol=atol):
            self._fail(tensor_text(want), "wrong", suggests, *self._wrong(want))

    def _wrong(self, want: torch.Tensor) -> list[str]:
        """What there is to know of wrong values beside the values."""
        name = self.asked.rpartition("; ")[2]
        before = self.given.get(name)
        if isinstance(before, torch.Tensor) and before.shape == want.shape:
            before = before.detach()
            if torch.equal(self.came.detach(), before):
                return [_(UNMOVED).format(name=name)]
            if moved := moves(name, before, self.came, want):
                return moved
        told = difference(self.came, want, self.given)
        return [told] if told else []

    def _close_number(self, want: float, suggests: Suggests, rtol: float, atol: float) -> None:
        number = number_of(self.came)
        if number is None:
            self._fail(_("a number: {value}").format(value=rounded(want)), "shape", suggests)
        elif not abs(number - want) <= atol + rtol * abs(want):  # a NaN isn't close
            self._fail(rounded(want), "wrong", suggests)

    def version(self, want: int, suggests: Suggests = None) -> None:
        """A tensor whose version counter stands at `want`."""
        if version(self.came) != want:
            self._fail(_("version {version}").format(version=want), "wrong", suggests)

    def raises(self, kind: type[BaseException], suggests: Suggests = None) -> None:
        """Calling what came, with the given inputs, raises `kind`."""
        try:
            value = self.came(*self.given.values())
        except kind:
            return
        except Exception as error:
            raise self._failure(said_error(error), kind.__name__, "wrong", suggests) from None
        raise self._failure(shown(value), kind.__name__, "fine", suggests)

    def differentiable(self, suggests: Suggests = None) -> None:
        """The gradient of the function that came agrees with a finite difference, for every given input.

        Of several results each is weighed, by numbers that a failure tells: `(f(x) * c).sum()`.

        Symptoms: raised, cut (no gradient where there should be one), wrong. Inputs: float64 tensors, few numbers.
        """
        inputs = [tensor.detach().clone().requires_grad_() for tensor in self.given.values()]
        try:
            out = self.came(*inputs)
            weight = _weights(out.detach())
            found = _gradients(out, inputs, weight)
            again = self.came(*inputs)
        except Exception as error:  # the student's: whatever it is, it is the answer that came
            raise self._failure(said_error(error), _("a gradient"), "raised", suggests) from None
        if not torch.allclose(again.detach(), out.detach(), equal_nan=True):  # a difference of two calls says nothing
            raise failure(self.asked, tensor_text(again), tensor_text(out), self.given, notes=[_(AGAIN)])
        if out.dtype != inputs[0].dtype:
            raise failure(self.asked, tensor_text(out), str(inputs[0].dtype), self.given, notes=[_(DTYPE)])
        weighed = self._weighed(weight)
        for name, gradient, tensor in zip(self.given, found, inputs, strict=True):
            want = _difference(self.came, inputs, tensor, weight)
            if gradient is None and bool(want.abs().max() > 1e-6):
                raise weighed._failure(
                    _("no gradient: the graph is cut"), tensor_text(want), "cut", suggests, name, [_(CUT)]
                )
            if gradient is not None and not torch.allclose(gradient, want, rtol=1e-3, atol=1e-5):
                coarse = _difference(self.came, inputs, tensor, weight, COARSE_STEP)
                if torch.allclose(gradient, coarse, rtol=0.1, atol=0.02):
                    raise failure(self.asked, tensor_text(out), str(out.dtype), self.given, notes=[_(COARSE)])
                told = difference(gradient, want, self.given)
                raise weighed._failure(
                    tensor_text(gradient), tensor_text(want), "wrong", suggests, name, [told] if told else []
                )

    def _weighed(self, weight: torch.Tensor) -> Expectation:
        """The same of a sum that anybody can compute anew, where several results were weighed."""
        if weight.numel() == 1:
            return self
        name = next(name for name in ("c", "k", "weights") if name not in self.given)
        return replace(self, asked=f"({self.asked} * {name}).sum()", given={**self.given, name: weight})

    def _answered(self, expected: str) -> None:
        if self.came is None:
            raise self._failure(_("nothing: not answered yet"), expected, "raised", None)

    def _fail(self, expected: str, symptom: str | int, suggests: Suggests, *notes: str) -> None:
        raise self._failure(shown(self.came), expected, symptom, suggests, notes=notes)

    def _failure(
        self,
        came: str,
        expected: str,
        symptom: str | int,
        suggests: Suggests,
        by: str = "",
        notes: Sequence[str] = (),
    ) -> CheckFailed:
        asked = _("∂/∂{name} of {asked}").format(name=by, asked=self.asked) if by else self.asked
        passed = (*self.arguments, self.came)
        return failure(asked, came, expected, self.given, numbers_of(suggests, symptom), notes, passed)


def expect(asked: str, came: Any, **given: Any) -> Expectation:
    """`asked` is the code that was asked, `came` its value or a function, `given` the fresh inputs by name.

    >>> expect("1 + 1", 2).equals(2)
    """
    return Expectation(asked, came, given)


def call(asked: str, function: Callable[..., Any], *arguments: Any, suggests: Suggests = None, **given: Any) -> Any:
    """The value of a student's function; what it raises becomes CheckFailed, with what it suggests.

    >>> call("f(2)", lambda x: x * 2, 2)
    4
    """
    around = surroundings()
    try:
        value = function(*arguments)
    except NotImplementedError:
        raise Expectation(asked, None, given)._failure(
            _("nothing: not answered yet"), _("an answer"), "raised", None
        ) from None
    except Exception as error:  # the student's: whatever it is, it is the answer that came
        said = said_error(error)
        symptom, notes = meaning(said)
        numbers = numbers_of(suggests, symptom or "raised") or numbers_of(suggests, "raised")
        raise failure(asked, said, _("no error"), given, numbers, notes, arguments) from None
    for code, (was, now) in put_back(around).items():
        raise failure(f"{asked}; {code}", str(now), str(was), given, notes=[_(AROUND)])
    return value


def surroundings() -> dict[str, Any]:
    """What of torch itself every later line meets, each thing by the code that asks for it."""
    return {"torch.is_grad_enabled()": torch.is_grad_enabled(), "torch.get_default_dtype()": torch.get_default_dtype()}


def put_back(before: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Torch itself, as it was before a call; of what the call had changed, what it was and what the call made it.

    >>> found = surroundings()
    >>> _grad = torch.set_grad_enabled(False)
    >>> put_back(found), torch.is_grad_enabled()
    ({'torch.is_grad_enabled()': (True, False)}, True)
    """
    changed = {code: (before[code], now) for code, now in surroundings().items() if now != before[code]}
    if changed:
        torch.set_grad_enabled(before["torch.is_grad_enabled()"])
        torch.set_default_dtype(before["torch.get_default_dtype()"])
    return changed


def meaning(said: str) -> tuple[str, list[str]]:
    """The symptom that an error is, and what it means in words; nothing where it isn't one of the usual ones.

    >>> meaning("RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn")[0]
    'unrecorded'
    """
    return next(((symptom, [_(note)]) for part, (symptom, note) in ERRORS.items() if part in said), ("", []))


def perform(code: str, names: dict[str, Any], line: str, number: int | None = None) -> None:
    """Run one line of an order that a learner chose; what it raises says which line it was, in which round.

    >>> names = {"a": 1}
    >>> perform("a += 1", names, "A"), names["a"]
    (None, 2)
    """
    try:
        exec(code, names)  # noqa: S102 -- a line of the exercise's own; the learner chose the order
    except Exception as error:
        error.__dict__["performed"] = (line, number)
        raise


def answers(
    asked: str, came: Any, want: Mapping[Any, Any], suggests: Mapping[Any, Mapping[Any, str]], of: float
) -> score:
    """Score a dict of answers item by item: the fraction that is right, with a line for each of the first wrong ones.

    `suggests[key][answer]` is the misconception behind a wrong answer, or a remark; `"*"` stands for every other
    answer. Raises CheckFailed where nothing is right.

    >>> answers("p", {"A": 1, "B": 3}, {"A": 1, "B": 2}, {"B": {3: "M05"}}, of=10)
    5.0
    """
    given = came if isinstance(came, dict) else {}
    wrong = [key for key in want if not _same(given.get(key, _MISSING), want[key])]
    numbers = tuple(dict.fromkeys(number for key in wrong for number in _of_answer(suggests.get(key, {}), given, key)))
    lines = [short(_wrong_item(f"{asked}[{key!r}]", _answer(given, key), repr(want[key]))) for key in wrong]
    lines = [*lines[: MAX_LINES - min(len(numbers), 3)], *suggestions(numbers)]
    if len(wrong) == len(want):
        raise CheckFailed(lines, numbers)
    return score(1 - len(wrong) / len(want), of, lines, numbers)


def _gradients(
    out: torch.Tensor, inputs: Sequence[torch.Tensor], weight: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    """What autograd says of `(out * weight).sum()`: None for an input that no graph leads to."""
    total = (out * weight).sum()
    return torch.autograd.grad(total, inputs, allow_unused=True) if total.requires_grad else (None,) * len(inputs)


def _weights(out: torch.Tensor) -> torch.Tensor:
    """Another one for each of several results, which no answer foresees; eighths, which are short to write."""
    drawn = torch.randint_like(out, 4, 13) / 8
    return drawn if out.numel() > 1 else torch.ones_like(out)


def _difference(
    function: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    at: torch.Tensor,
    weight: torch.Tensor,
    step: float = FINITE_STEP,
) -> torch.Tensor:
    """Central difference of `(function(*inputs) * weight).sum()` in each number of `at`."""
    slope = torch.zeros_like(at.detach()).flatten()
    for index in range(at.numel()):
        ends = []
        for sign in (1, -1):
            moved = at.detach().clone()
            moved.view(-1)[index] += sign * step
            out = function(*(moved.requires_grad_() if tensor is at else tensor for tensor in inputs))
            ends.append(float((out.detach() * weight).sum()))
        slope[index] = (ends[0] - ends[1]) / (2 * step)
    return slope.reshape(at.shape)


def _wrong_item(asked: str, came: str, want: str) -> str:
    return _("{asked}  came {came}, expected {want}").format(asked=asked, came=came, want=want)


def _same(came: Any, want: Any) -> bool:
    return type(came) is type(want) and bool(came == want)


def _of_answer(table: Mapping[Any, str], given: Mapping[Any, Any], key: Any) -> tuple[str, ...]:
    answer = given.get(key)
    found = table.get(answer, table.get("*")) if isinstance(answer, str | int | bool) else None
    return (found,) if found else ()


def _answer(given: Mapping[Any, Any], key: Any) -> str:
    return repr(given[key]) if key in given else _("nothing")


def failure(
    asked: str,
    came: str,
    expected: str,
    given: Mapping[str, Any],
    numbers: Sequence[str] = (),
    notes: Iterable[str] = (),
    arguments: Sequence[Any] = (),
) -> CheckFailed:
    """What is raised where an answer isn't right; `numbers` are misconceptions, `notes` sentences before them.

    >>> print(failure("f(x)", "2", "3", {"x": 1}, notes=["The values are wrong."]))
    Asked      f(x) with x = 1
    Came       2
    Expected   3
    Note       The values are wrong.
    """
    lines = [
        headed(_("Came"), came),
        headed(_("Expected"), expected),
        *(headed(_("Note"), note) for note in notes),
        *suggestions(numbers),
    ]
    said = [asked_line(asked, given), *map(short, lines)]
    return CheckFailed(said, numbers, case_code(asked, given, arguments))
