"""Live arguments of a call, made twice alike for answer and truth, or changed in one thing; what became of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from seegrad.capture.probes.torch_private import version
from seegrad.telling import (
    close,
    difference,
    equal,
    expected_text,
    grad_symptom,
    moves,
    rounded,
    said_error,
    same_grad,
    shown,
    size_of,
    tensor_text,
    version_text,
)
from seegrad.words.languages import _, closed
from seegrad.words.symptoms import ELSEWHERE, FORMS, HELD, LARGE, POSITIVE, SHAPED, SIGNED, ZEROED

OUTSTANDING = 20.0  # times what the other numbers of a gradient are


@dataclass(frozen=True, slots=True)
class Live:
    """How to make an argument that has to do with gradients; `leaf`, `between` and `scattered` make one of these."""

    values: torch.Tensor
    form: str
    grad: torch.Tensor | None = None


def leaf(values: torch.Tensor, grad: float | torch.Tensor | None = None) -> Live:
    """A leaf that requires a gradient; what stands in its `.grad` before the call is `grad`, a number or a tensor."""
    given = torch.full_like(values, grad) if isinstance(grad, float | int) else grad
    return Live(values, "leaf", given)


def between(values: torch.Tensor) -> Live:
    """A tensor in the middle of a graph, the result of an operation on a leaf."""
    return Live(values, "between")


def scattered(values: torch.Tensor) -> Live:
    """The same, a view on every second number of its memory: neither a leaf nor contiguous."""
    return Live(values, "scattered")


def weights(want: torch.Tensor) -> torch.Tensor:
    """The gradient that a result is handed: of either sign, and one number of it is large, lest a limit go unseen.

    >>> bool(weights(torch.zeros(5)).abs().max() >= 10)
    True
    """
    drawn = torch.rand(want.shape, dtype=want.dtype) * 5 + 0.5
    drawn = torch.where(torch.rand(want.shape) < 0.5, -drawn, drawn)
    if drawn.numel():
        drawn.view(-1)[torch.randint(drawn.numel(), ())] *= OUTSTANDING
    return drawn


def numbers(
    *shape: int, holds: Sequence[float] = (), low: float = -3.0, high: float = 3.0, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Random numbers; those that it `holds` stand among them, at places drawn at random.

    >>> drawn = numbers(2, 3, holds=(0.0, -1.5), dtype=torch.float64)
    >>> drawn.shape, bool((drawn == -1.5).sum() == 1), bool((drawn == 0).any())
    (torch.Size([2, 3]), True, True)
    """
    drawn = torch.rand(shape, dtype=dtype) * (high - low) + low
    places = torch.randperm(drawn.numel())[: len(holds)]
    drawn.view(-1)[places] = torch.tensor(holds[: drawn.numel()], dtype=dtype)
    return drawn


@dataclass(frozen=True, slots=True)
class Before:
    """What a tensor was before a call. `alias` is another name for its memory, which nobody passes on."""

    alias: torch.Tensor
    values: torch.Tensor
    requires_grad: bool
    is_leaf: bool
    grad: torch.Tensor | None
    pointer: int
    version: int | None


class Arguments:
    """The arguments of one world: `passed` by name, every tensor in them by its `path`, the leaves behind them."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.roots: dict[str, torch.Tensor] = {}
        self.passed = {name: self._made(name, value) for name, value in case.items()}
        self.tensors = dict(_tensors(self.passed))
        self.before = {path: _before(tensor) for path, tensor in self.tensors.items()}
        self.added_up = {path: size_of(root.grad) for path, root in self.roots.items()}

    def renew(self, case: Mapping[str, Any]) -> None:
        """The same tensors, which hold a case's numbers from now on."""
        fresh = Arguments(case)
        with torch.no_grad():
            for path, tensor in self.tensors.items():
                tensor.copy_(fresh.tensors[path])
        for path, root in self.roots.items():
            root.grad = fresh.roots[path].grad
        self.added_up = fresh.added_up
        self.before = {path: _before(tensor) for path, tensor in self.tensors.items()}

    def changed(self) -> str | None:
        """The name of an argument that isn't a tensor, or holds other things than it did; None where all are there."""
        now = dict(_tensors(self.passed))
        for path in {**self.tensors, **now}:
            if path not in now or path not in self.tensors or now[path] is not self.tensors[path]:
                return path.partition("[")[0]
        return None

    def written(self) -> bool:
        """Has a version moved since?"""
        return any(version(tensor) != self.before[path].version for path, tensor in self.tensors.items())

    def go_back(self, total: torch.Tensor, spoiled: Callable[[str], bool], *, more: bool) -> bool:
        """Backward, perhaps with more to come. False where a write that is promised has spoiled what it needs."""
        before = [(root, None if root.grad is None else root.grad.clone()) for root in self.roots.values()]
        try:
            torch.autograd.backward(total, retain_graph=more)
        except RuntimeError as error:
            if not spoiled(str(error)):
                raise
            for root, grad in before:  # what had arrived before it raised
                root.grad = grad
            return False
        self.added_up = {path: max(size, size_of(self.roots[path].grad)) for path, size in self.added_up.items()}
        return True

    def added_up_in(self, leaf: torch.Tensor) -> float:
        """The largest number that a leaf's gradient has been, if it is one of the roots.

        What two backwards add may cancel, and what is left is as exact as the larger of them.
        """
        return max((size for path, size in self.added_up.items() if self.roots[path] is leaf), default=0.0)

    def take_grads(self, other: Arguments) -> None:
        """The leaves' gradients become those of the other world."""
        for path, root in self.roots.items():
            grad = other.roots[path].grad
            root.grad = None if grad is None else grad.clone()

    def _made(self, path: str, value: Any) -> Any:
        if isinstance(value, Live):
            return self._live(path, value)
        if isinstance(value, torch.Tensor):
            return value.detach().clone()
        if isinstance(value, list | tuple):
            return type(value)(self._made(f"{path}[{number}]", item) for number, item in enumerate(value))
        if isinstance(value, dict):
            return {key: self._made(f"{path}[{key!r}]", item) for key, item in value.items()}
        return copy.deepcopy(value)

    def _live(self, path: str, live: Live) -> torch.Tensor:
        root = live.values.detach().clone().requires_grad_()
        root.grad = None if live.grad is None else live.grad.clone()
        self.roots[path] = root
        if live.form == "between":
            return root + 0  # saves nothing: any number of backwards may pass
        return torch.stack([root, -root], -1)[..., 0] if live.form == "scattered" else root


def plain(case: Mapping[str, Any]) -> dict[str, Any]:
    """The same arguments as values alone, to be shown; of live ones what they hold now."""
    return {name: _plain(value) for name, value in case.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Live):
        return value.values.detach().clone().requires_grad_()
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return type(value)(map(_plain, value)) if isinstance(value, list | tuple) else value


ASPECTS: tuple[str, ...] = ("shape", "dtype", "number", "form", "grad")
"""What two cases of one promise may differ in beside their tensors' numbers."""


def told(value: Any, aspect: str) -> str:
    """One aspect of an argument, as a sentence says it; of what has none nothing.

    >>> told(leaf(torch.zeros(2, 3)), "shape"), told(0.5, "number"), told([torch.zeros(1), torch.zeros(2)], "shape")
    ('[2, 3]', '0.5', '[[1], [2]]')
    """
    if isinstance(value, list | tuple):
        parts = [told(item, aspect) for item in value]
        tensors = aspect == "number" or any(isinstance(item, torch.Tensor | Live | list | tuple) for item in value)
        return f"[{', '.join(parts)}]" if tensors and any(parts) else str(value) if aspect == "shape" else ""
    if not isinstance(value, torch.Tensor | Live):
        return repr(value) if aspect == "number" and isinstance(value, int | float) else ""
    held = value.values if isinstance(value, Live) else value
    if aspect == "shape":
        return str(list(held.shape))
    if aspect == "dtype":
        return str(held.dtype).removeprefix("torch.")
    if aspect == "form":
        return value.form if isinstance(value, Live) else "plain"
    if aspect == "grad" and isinstance(value, Live):
        return "None" if value.grad is None else rounded(value.grad.flatten()[0].item())
    return ""


def with_aspect(value: Any, other: Any, aspect: str) -> Any:
    """An argument with one aspect of another one: its numbers, repeated, in the other's shape, or its dtype, or form.

    >>> with_aspect(torch.tensor([1.0, 2.0]), torch.zeros(3), "shape")
    tensor([1., 2., 1.])
    """
    if isinstance(other, list | tuple) and isinstance(value, list | tuple) and value:
        if not any(isinstance(item, torch.Tensor | Live | list | tuple) for item in value):
            return other if aspect == "shape" else value  # sizes and dimensions
        count = len(other) if aspect == "shape" else len(value)
        pairs = [(value[place % len(value)], other[min(place, len(other) - 1)]) for place in range(count)]
        return type(value)(with_aspect(one, two, aspect) for one, two in pairs)
    if not (isinstance(value, torch.Tensor | Live) and isinstance(other, torch.Tensor | Live)):
        return other if aspect == "number" and isinstance(value, int | float) else value
    held, given = (one.values if isinstance(one, Live) else one for one in (value, other))
    if not held.is_floating_point():
        return other if aspect == "shape" else value  # indices fit the shapes
    values = _repeated(held, given.shape) if aspect == "shape" else held
    values = values.to(given.dtype) if aspect == "dtype" else values
    shaped = other if aspect == "form" else value
    if not isinstance(shaped, Live):
        return values
    grad = (other if aspect == "grad" else value).grad if isinstance(other, Live) and isinstance(value, Live) else None
    if grad is not None:
        grad = _repeated(grad, values.shape).to(values.dtype)
    return Live(values, shaped.form, grad)


def with_numbers(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """An argument whose tensors hold other numbers; indices stay."""
    if isinstance(value, list | tuple):
        return type(value)(with_numbers(item, change) for item in value)
    if isinstance(value, Live):
        return Live(change(value.values), value.form, value.grad)
    return change(value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def in_another_order(held: torch.Tensor) -> torch.Tensor:
    """The same numbers, the last one first: where a function takes the ones, it takes the others.

    >>> in_another_order(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[4.0, 3.0], [2.0, 1.0]]
    """
    return held.flatten().flip(0).view_as(held)


TOLD: Mapping[str, str] = {"shape": SHAPED, "grad": HELD}  # where one aspect decides; else ELSEWHERE
CHANGES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    LARGE: lambda values: values / 10,
    SIGNED: torch.abs,
    ZEROED: lambda values: torch.where(values == 0, torch.ones_like(values), values),
    POSITIVE: lambda values: torch.where(values == 0, torch.ones_like(values), values.abs()),
}
"""What may make a call right: its numbers changed in one way, and the sentence that says so."""


def decided(
    case: Mapping[str, Any], right: Sequence[Mapping[str, Any]], would_hold: Callable[[Mapping[str, Any]], bool | None]
) -> str:
    """What alone decides that this case is wrong: one aspect, in which a right case differs, or one change of numbers.

    Nothing is said that wasn't tried: the right case with that aspect is wrong, or this case, changed, is right.
    """
    for aspect, other in ((aspect, other) for aspect in ASPECTS for other in right):
        names = [name for name in other if told(other[name], aspect) != told(case[name], aspect)]
        if names and would_hold({name: with_aspect(other[name], case[name], aspect) for name in other}) is False:
            kinds = {key: told(one[names[0]], aspect) for key, one in (("kind", other), ("now", case))}
            kinds = {key: _(FORMS[kind]) if kind in FORMS else kind for key, kind in kinds.items()}
            return closed(_(TOLD.get(aspect, ELSEWHERE)).format(name=names[0], **kinds))
    for text, change in CHANGES.items():
        changed = {name: with_numbers(value, change) for name, value in case.items()}
        same = all(
            torch.equal(one, other)
            for one, other in zip(Arguments(case).tensors.values(), Arguments(changed).tensors.values(), strict=True)
        )
        if not same and would_hold(changed):
            return _(text)
    return ""


def _repeated(values: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    count = torch.Size(shape).numel()
    flat = values.detach().flatten() if values.numel() else torch.ones(1, dtype=values.dtype)
    return flat.repeat(-(-count // len(flat)) or 1)[:count].reshape(shape).clone()


def _tensors(passed: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor by its path, as code says it: `parts[0][1]`."""
    left = list(passed.items())
    while left:
        path, value = left.pop(0)
        if isinstance(value, torch.Tensor):
            yield path, value
        elif isinstance(value, list | tuple):
            left += [(f"{path}[{number}]", item) for number, item in enumerate(value)]
        elif isinstance(value, dict):
            left += [(f"{path}[{key!r}]", item) for key, item in value.items()]


def _before(tensor: torch.Tensor) -> Before:
    grad = None if not tensor.is_leaf or tensor.grad is None else tensor.grad.clone()
    alias = tensor.detach()
    return Before(alias, alias.clone(), tensor.requires_grad, tensor.is_leaf, grad, tensor.data_ptr(), version(tensor))


@dataclass(frozen=True, slots=True)
class Values:
    """Values that came and are wrong, those that should have come, and how the truth's are read."""

    came: torch.Tensor
    want: torch.Tensor
    read: Callable[[Arguments, Any], Any] = lambda _arguments, _returned: None

    def tells(self) -> bool:
        """Are they numbers that no two calls have by chance?"""
        return self.came.is_floating_point() and bool(self.came.detach().count_nonzero())

    def are_for_an_earlier(
        self, truth: Callable[..., Any], case: Mapping[str, Any], held: Sequence[Mapping[str, Any]]
    ) -> str:
        """The name of the tensor which, taken from an earlier case, makes these values the right ones; or nothing."""
        pairs = ((earlier, name) for earlier in held for name in case if self.tells())
        return next((name for earlier, name in pairs if self._right_with(truth, case, name, earlier.get(name))), "")

    def come_again(self, function: Callable[..., Any], truth: Callable[..., Any], case: Mapping[str, Any]) -> bool:
        """Does this case give the same values, where it should give others?"""
        mine, theirs = Arguments(case), Arguments(case)
        try:
            want = self.read(theirs, truth(*theirs.passed.values()))
            came = self.read(mine, function(*mine.passed.values()))
        except Exception as error:  # the student's, or the truth's: it says nothing of the values
            said_error(error)
            return False
        if not isinstance(came, torch.Tensor) or not isinstance(want, torch.Tensor):
            return False
        return self.tells() and close(came, self.came) and not (want.shape == came.shape and close(came, want))

    def unchanged_by(
        self, function: Callable[..., Any], truth: Callable[..., Any], case: Mapping[str, Any]
    ) -> list[str]:
        """The arguments of which this case may have other numbers and gives the same values, where it shouldn't."""
        names = [name for name, value in case.items() if told(value, "dtype").startswith("float")]
        return [
            name
            for name in names
            if self.come_again(function, truth, {**case, name: with_numbers(case[name], _otherwise)})
            and self._matters(truth, case, name)
        ]

    def _matters(self, truth: Callable[..., Any], case: Mapping[str, Any], name: str) -> bool:
        theirs = Arguments({**case, name: with_numbers(case[name], _otherwise)})
        want = self.read(theirs, truth(*theirs.passed.values()))
        return isinstance(want, torch.Tensor) and not close(want, self.want)

    def are_with_another(self, truth: Callable[..., Any], case: Mapping[str, Any]) -> tuple[str, str]:
        """A tensor and the other one, before or after the call, with which in its place these values are right."""
        names = [name for name, value in case.items() if isinstance(value, torch.Tensor | Live) and self.tells()]
        theirs = Arguments(case)
        truth(*theirs.passed.values())
        for name, other in ((one, two) for one in names for two in names if one != two):
            for values in (case[other], theirs.passed[other].detach()):
                held = values.values if isinstance(values, Live) else values
                if told(held, "shape") != told(case[name], "shape"):
                    continue
                swapped = replace(case[name], values=held) if isinstance(case[name], Live) else held
                if self._right_with(truth, case, name, swapped):
                    return name, other
        return "", ""

    def _right_with(self, truth: Callable[..., Any], case: Mapping[str, Any], name: str, value: Any) -> bool:
        if not isinstance(value, torch.Tensor | Live):
            return False
        theirs = Arguments({**case, name: value})
        try:
            want = self.read(theirs, truth(*theirs.passed.values()))
        except Exception:  # the author's own function: the shapes of two cases needn't go together
            return False
        return isinstance(want, torch.Tensor) and close(self.came, want)


def _otherwise(held: torch.Tensor) -> torch.Tensor:
    return held * 0.7 + 0.2


def share_memory(one: Any, other: Any) -> bool:
    """Do two tensors lie in the same bytes? What is none lies in nobody's."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    pointer = one.untyped_storage().data_ptr()
    return pointer != 0 and pointer == other.untyped_storage().data_ptr()


class Wrong(NamedTuple):
    """One thing that isn't as it should be: its key in `NOTES`, what came, what was expected, of which argument."""

    symptom: str
    came: str
    expected: str
    name: str
    asked: str
    values: Values | None = None
    notes: Sequence[str] = ()


def wrong_arguments(
    call: str, mine: Arguments, theirs: Arguments, notices: Collection[str], empties: Collection[str], *, after: bool
) -> Iterator[Wrong]:
    """What a call has done to its arguments and shouldn't have, or hasn't; `after`: other backwards came before."""
    for path, tensor in mine.tensors.items():
        truly, before = theirs.tensors[path], mine.before[path]
        if theirs.before[path].version == version(truly):
            yield from _wrongly_written(call, path, tensor, before)
        else:
            yield from _written_otherwise(call, path, mine, truly)
            if path in notices and version(before.alias) == before.version:
                came, want = version_text(version(tensor)), version_text(version(truly))
                yield Wrong("unnoticed", came, want, path, f"{call}; {path}._version")
        if tensor.data_ptr() != before.pointer:
            where = f"{path}.data_ptr()"
            yield Wrong("storage", "False", "True", path, f"before = {where}; {call}; {where} == before")
        for symptom, name in (("leaf", "is_leaf"), ("requires_grad", "requires_grad")):
            if getattr(tensor, name) != getattr(truly, name):
                came, want = str(getattr(tensor, name)), str(getattr(truly, name))
                yield Wrong(symptom, came, want, path, f"{call}; {path}.{name}")
        if tensor.is_leaf:
            size = theirs.added_up_in(truly) if after else 0.0
            yield from _wrong_grad(call, path, tensor, before, truly, empty=path in empties, size=size)


def _wrongly_written(call: str, path: str, tensor: torch.Tensor, before: Before) -> Iterator[Wrong]:
    """Of an argument that is to keep its numbers."""
    moved = not equal(tensor, before.values)
    if moved or not torch.equal(before.alias, before.values):
        asked = f"{call}; {path}" if moved else f"alias = {path}.detach(); {call}; alias"
        yield Wrong("kept", shown(tensor if moved else before.alias), tensor_text(before.values), path, asked)
    if version(before.alias) != before.version:
        came, want = version_text(version(before.alias)), version_text(before.version)
        yield Wrong("touched", came, want, path, f"{call}; {path}._version")


def _written_otherwise(call: str, path: str, mine: Arguments, truly: torch.Tensor) -> Iterator[Wrong]:
    """Of an argument that is to be written in place."""
    tensor, before = mine.tensors[path], mine.before[path]
    if tensor.data_ptr() != before.pointer:
        held = f"alias = {path}.detach(); {call}; alias"
        yield Wrong("storage", shown(before.alias), tensor_text(truly), path, held)
    if close(tensor, truly):
        return
    came, want, asked = shown(tensor), tensor_text(truly), f"{call}; {path}"
    if equal(tensor, before.values):
        yield Wrong("unmoved", came, want, path, asked)
    others = {name: one.values for name, one in mine.before.items() if name != path}
    said = moves(path, before.values, tensor, truly) or [difference(tensor, truly, others)]
    values = Values(tensor, truly, lambda theirs, _truly: theirs.tensors.get(path))
    yield Wrong("written", came, want, path, asked, values, [one for one in said if one])


def _wrong_grad(
    call: str, path: str, tensor: torch.Tensor, before: Before, truly: torch.Tensor, *, empty: bool, size: float
) -> Iterator[Wrong]:
    """Of a leaf's `.grad`, which may be `empty`: None or zero."""
    came, want = tensor.grad, truly.grad
    if (empty and want is None and came is not None and not came.count_nonzero()) or same_grad(came, want, size):
        return
    symptom, values = "left" if empty else grad_symptom(came, want, before.grad), None
    if symptom == "filled" and came is not None and want is not None:
        values = Values(came, want, lambda theirs, _truly: theirs.tensors[path].grad)
    yield Wrong(symptom, shown(came), expected_text(want), path, f"{call}; {path}.grad", values)
