"""One hidden check for every function that an exercise asks for: what it does, beside what it should have done.

The same arguments are made twice. The answer gets one set, the *truth*, a function of the author's, the other; then
all that a caller can see is compared: what was returned, each argument, the gradients of a backward afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from seegrad.arguments import Arguments, Before, between, leaf, numbers, plain, scattered
from seegrad.capture.probes.torch_private import version
from seegrad.check import DTYPE, failure, meaning, said_error, shown, tensor_text
from seegrad.words.beliefs import Suggests, numbers_of
from seegrad.words.languages import _, marked

__all__ = ["between", "leaf", "numbers", "promised", "scattered"]
TOLERANCE: Mapping[torch.dtype, float] = {torch.float64: 1e-9}  # of the largest number; 1e-4 for all other dtypes
SUGGESTS: Mapping[str, str] = {  # what the symptom alone tells; all else is the author's to say
    **dict.fromkeys(("leaf", "unfilled"), "M01"),
    **dict.fromkeys(("added", "left"), "M09"),
    **dict.fromkeys(("kept", "leaf_written"), "M11"),
    **{"unkept": "M02", "overwritten": "M03", "unnoticed": "M05", "gradient": "M06", "freed": "M10"},
}
NOTES: Mapping[str, str] = {
    "returned": marked("The prompt promises that nothing is returned."),
    "kind": marked("What was returned is of another kind."),
    "none": marked("There is None where a tensor was asked for."),
    "shape": marked("The shape is another one."),
    "dtype": DTYPE,
    "wrong": marked("The values are wrong."),
    "shared": marked("It lies in the memory of `{name}`: a write to one is a write to both."),
    "cut": marked("It has no history: `no_grad`, `.detach()`, `.data`, numpy or plain numbers have cut the graph."),
    "history": marked("It has a history, and should be numbers alone."),
    "result_leaf": marked("It should be a leaf, and is the result of an operation."),
    "asks": marked("It should require a gradient, and doesn't."),
    "kept": marked("`{name}` should keep its values, and was written."),
    "touched": marked("`{name}` has its old values again, but was written: its version moved."),
    "unmoved": marked("`{name}` has its old values: nothing was written into it."),
    "written": marked("`{name}` was written, with wrong values."),
    "storage": marked("`{name}` was given other memory: who held it before sees nothing of the write."),
    "unnoticed": marked("`{name}` was written, and its version didn't move: torch can't notice it."),
    "leaf": marked("The call changed whether `{name}` is a leaf."),
    "requires_grad": marked("The call changed whether `{name}` requires a gradient."),
    "grad": marked("`{name}.grad` should stay what it was."),
    "added": marked("The new gradient was added to what stood in `{name}.grad` before."),
    "left": marked("`{name}.grad` should be empty afterwards, None or zero."),
    "unfilled": marked("Nothing was written into `{name}.grad`."),
    "filled": marked("`{name}.grad` was filled, with wrong values."),
    "changed": marked("`{name}` should hold what it held."),
    "lost": marked("No gradient reached `{name}`: the graph was cut on the way."),
    "leaked": marked("A gradient reached `{name}`, and none should."),
    "gradient": marked("The values are right; the gradient of `{name}` isn't."),
}
"""Each symptom in words. `suggests` of `promised` is looked up by these keys, by `raised` and by `backward`."""
AGAIN = marked("The first call was right. This is the second one, with the same arguments.")
OTHER = marked("Each call alone is right. Here a second one, with other arguments, came before the backward.")


def promised(
    asked: str,
    function: Callable[..., Any],
    truth: Callable[..., Any],
    *cases: Mapping[str, Any],
    notices: Collection[str] = (),
    empties: Collection[str] = (),
    suggests: Mapping[str, Suggests] | None = None,
) -> None:
    """A student's `function` does what `truth` does, as far as any caller can see; raises CheckFailed where it doesn't.

    Args:
        asked: the call as code, `"blend_(w, target, t)"`.
        function: the answer.
        truth: does the same, on arguments of its own. What it does to an argument is what is promised: it writes it
            in place (same memory, same leaf, other version) or leaves it alone, fills its `.grad` or leaves that
            alone. What it returns is what is expected: None; a float (any number will do); a tensor that requires no
            gradient (numbers without a history), one that does (with the right gradient), or such a leaf; a tuple,
            list or dict of these. Only where truth's result lies in an argument's memory may the answer's.
        cases: arguments by name, in the order of the call; a tensor is passed as plain data, `leaf(…)`, `between(…)`
            and `scattered(…)` make the other kinds. Let them differ in size, dtype, sign and scale.
        notices: arguments whose write has to move the version.
        empties: arguments whose `.grad` may be None or zero afterwards.
        suggests: misconceptions by symptom, as in `NOTES`, alone or with a name: `{"cut": "M07", "kept x": "M05"}`.

    Each case is called once, twice with the same arguments, and before the backward of the case behind it.

    >>> from seegrad.check import CheckFailed
    >>> def halve(x):
    ...     return x / 2
    >>> promised("halve(x)", halve, lambda x: x * 0.5, {"x": leaf(numbers(3))}, {"x": numbers(2, 2)})
    >>> def cut(x):
    ...     return x.detach() / 2
    >>> try:
    ...     promised("cut(x)", cut, lambda x: x * 0.5, {"x": leaf(torch.tensor([2.0, 4.0]))}, suggests={"cut": "M05"})
    ... except CheckFailed as failed:
    ...     print(failed)
    Asked      cut(x) with x = [2, 4]
    Came       [1, 2]  f32[2], leaf, version 0
    Expected   [1, 2]  f32[2], requires_grad
    Note       It has no history: `no_grad`, `.detach()`, `.data`, numpy or plain numbers have cut the graph.
    Suggests   M05 .data isn't .detach(), and neither copies: both share the bytes, only detach shares the version.
    """
    promise = _Promise(asked, function, truth, frozenset(notices), frozenset(empties), {**SUGGESTS, **(suggests or {})})
    for case in cases:
        promise.hold([case])
        promise.hold([case], calls=2, note=AGAIN)
    for case, behind in zip(cases, (*cases[1:], cases[0]), strict=True):
        promise.hold([case, behind], note=OTHER)


@dataclass(frozen=True, slots=True)
class _Promise:
    asked: str
    function: Callable[..., Any]
    truth: Callable[..., Any]
    notices: frozenset[str]
    empties: frozenset[str]
    suggests: Mapping[str, Suggests]

    def hold(self, cases: Sequence[Mapping[str, Any]], calls: int = 1, note: str = "") -> None:
        """All calls of these cases, then what can be seen, then a backward through each."""
        rounds = [case for case in cases for _call in range(calls)]
        sides = [(Arguments(case), Arguments(case)) for case in cases]
        sides = [pair for pair in sides for _call in range(calls)]
        seen = [
            _Seen(self, case, mine, theirs, note if len(rounds) > 1 else "")
            for case, (mine, theirs) in zip(rounds, sides, strict=True)
        ]
        for one in seen:
            one.call()
        for one in seen:
            one.look()
        for one in seen:
            one.go_back()


@dataclass(slots=True)
class _Seen:
    """One call, beside the truth's."""

    promise: _Promise
    case: Mapping[str, Any]
    mine: Arguments
    theirs: Arguments
    note: str
    came: dict[str, Any] = field(default_factory=dict)
    want: dict[str, Any] = field(default_factory=dict)

    def call(self) -> None:
        """Both functions; what the answer returns has to be of the truth's kind."""
        truly = self.promise.truth(*self.theirs.passed.values())
        try:
            value = self.promise.function(*self.mine.passed.values())
        except NotImplementedError:
            self._fail("unanswered", _("nothing: not answered yet"), _("a value"))
        except Exception as error:  # the student's: whatever it is, it is the answer that came
            self._raised("raised", said_error(error), _("a value") if truly is not None else "None")
        if truly is None and value is not None:
            self._fail("returned", shown(value), "None")
        self.want = _parts(self.promise.asked, truly)
        if _kind(value) != _kind(truly) or _parts(self.promise.asked, value).keys() != self.want.keys():
            self._fail("kind", shown(value), _expected(truly))
        self.came = _parts(self.promise.asked, value)

    def look(self) -> None:
        """Each argument, then each thing that was returned."""
        if (name := self.mine.changed()) is not None:
            self._fail("changed", shown(self.mine.passed[name]), shown(self.theirs.passed[name]), name)
        for path, tensor in self.mine.tensors.items():
            self._look_at_argument(path, tensor, self.mine.before[path], self.theirs.tensors[path])
        for asked, want in self.want.items():
            self._look_at_result(asked, self.came[asked], want)

    def go_back(self) -> None:
        """Backward through what was returned, then through each argument: where do gradients arrive?"""
        for asked, want in self.want.items():
            if isinstance(want, torch.Tensor) and want.requires_grad:
                self._back(f"({asked} * c)", self.came[asked], want)
        for path, tensor in self.mine.tensors.items():
            if self.theirs.tensors[path].requires_grad:
                self._back(f"{self.promise.asked}; ({path} * c)", tensor, self.theirs.tensors[path])

    # ------------------------------------------------------------------ arguments

    def _look_at_argument(self, path: str, tensor: torch.Tensor, before: Before, truly: torch.Tensor) -> None:
        asked = f"{self.promise.asked}; {path}"
        if self.theirs.before[path].version == version(truly):
            if not torch.equal(before.alias, before.values) or not _equal(tensor, before.values):
                self._fail("kept", shown(tensor), tensor_text(before.values), path, asked)
            if version(before.alias) != before.version:
                self._fail("touched", shown(tensor), _version(before.version), path, asked)
        else:
            self._look_at_write(asked, path, tensor, before, truly)
        if tensor.data_ptr() != before.pointer:
            self._fail("storage", shown(tensor), tensor_text(truly), path, asked)
        for name, now, was in (
            ("leaf", tensor.is_leaf, truly.is_leaf),
            ("requires_grad", tensor.requires_grad, truly.requires_grad),
        ):
            if now != was:
                self._fail(name, str(now), str(was), path, f"{asked}.{'is_leaf' if name == 'leaf' else name}")
        if tensor.is_leaf:
            self._look_at_grad(path, tensor, before, truly)

    def _look_at_write(self, asked: str, path: str, tensor: torch.Tensor, before: Before, truly: torch.Tensor) -> None:
        if tensor.data_ptr() != before.pointer:
            self._fail("storage", shown(before.alias), tensor_text(truly), path, f"alias = {path}.detach(); {asked}")
        if not _close(tensor, truly):
            unmoved = _equal(tensor, before.values)
            self._fail("unmoved" if unmoved else "written", shown(tensor), tensor_text(truly), path, asked)
        if path in self.promise.notices and version(before.alias) == before.version:
            self._fail("unnoticed", _version(version(tensor)), _version(version(truly)), path, f"{asked}._version")

    def _look_at_grad(self, path: str, tensor: torch.Tensor, before: Before, truly: torch.Tensor) -> None:
        came, want, asked = tensor.grad, truly.grad, f"{self.promise.asked}; {path}.grad"
        if path in self.promise.empties and want is None and came is not None and not came.count_nonzero():
            return
        if _same_grad(came, want):
            return
        symptom = "filled"
        if path in self.promise.empties:
            symptom = "left"
        elif _same_grad(before.grad, want):
            symptom = "grad"
        elif came is None or _same_grad(came, before.grad):
            symptom = "unfilled"
        elif _added(came, want, before.grad):
            symptom = "added"
        self._fail(symptom, shown(came), _expected(want), path, asked)

    # ------------------------------------------------------------------ results

    def _look_at_result(self, asked: str, came: Any, want: Any) -> None:
        if not isinstance(want, torch.Tensor):
            self._look_at_number(asked, came, want)
            return
        value = torch.as_tensor(came, dtype=want.dtype) if _is_number(came) and not want.requires_grad else came
        if not isinstance(value, torch.Tensor):
            self._fail("none" if value is None else "kind", shown(came), _expected(want), asked=asked)
        for symptom, wrong in (
            ("shape", value.shape != want.shape),
            ("dtype", value.dtype != want.dtype),
            ("wrong", value.shape == want.shape and not _close(value, want)),
            ("cut", want.requires_grad and not want.is_leaf and not value.requires_grad),
            ("asks", want.requires_grad and not value.requires_grad),
            ("result_leaf", want.requires_grad and want.is_leaf and not value.is_leaf),
            ("history", not want.requires_grad and value.requires_grad),
        ):
            if wrong:
                self._fail(symptom, shown(came), _expected(want), asked=asked)
        if want.is_leaf and want.requires_grad and value.grad is not None and value.grad.count_nonzero():
            self._fail("left", shown(value.grad), "None", asked, f"{asked}.grad")
        self._look_at_memory(asked, value, want)

    def _look_at_number(self, asked: str, came: Any, want: Any) -> None:
        number = isinstance(came, torch.Tensor) and came.numel() == 1
        if isinstance(want, float) and (number or _is_number(came)):
            if not _close(torch.as_tensor(came).reshape(()), torch.tensor(want)):
                self._fail("wrong", shown(came), shown(want), asked=asked)
        elif type(came) is not type(want) or came != want:
            self._fail("wrong" if type(came) is type(want) else "kind", shown(came), shown(want), asked=asked)

    def _look_at_memory(self, asked: str, came: torch.Tensor, want: torch.Tensor) -> None:
        others = {
            **self.mine.tensors,
            **{name: one for name, one in self.came.items() if isinstance(one, torch.Tensor)},
        }
        truly = {**self.theirs.tensors, **{name: one for name, one in self.want.items() if name in others}}
        for name, other in others.items():
            if name != asked and _shared(came, other) and not (name in truly and _shared(want, truly[name])):
                self._fail("shared", shown(came), _expected(want), name, asked)

    # ------------------------------------------------------------------ backward

    def _back(self, start: str, came: torch.Tensor, want: torch.Tensor) -> None:
        weight = torch.rand(want.shape, dtype=want.dtype) * 5 + 0.5
        weight = torch.where(torch.rand(want.shape) < 0.5, -weight, weight)
        asked = f"{start}.sum().backward()"
        if not self._truly_back((want * weight).sum()):
            return
        try:
            torch.autograd.backward((came * weight).sum())
        except Exception as error:  # the student's graph: whatever it is, it is the answer that came
            self._raised("backward", said_error(error), _("a gradient"), asked)
        ends = {**self.theirs.roots, **({start: want} if want.is_leaf else {})}
        for name, truly in ends.items():
            here = self.mine.roots.get(name, came)
            if _same_grad(here.grad, truly.grad):
                continue
            lost, leaked = here.grad is None, truly.grad is None
            symptom = "lost" if lost else "leaked" if leaked else "gradient"
            by = name if name in self.mine.roots else self.promise.asked
            self._fail(symptom, shown(here.grad), _expected(truly.grad), by, f"{asked}; {by}.grad")

    def _truly_back(self, total: torch.Tensor) -> bool:
        """Backward through the truth. False where a write that is promised has overwritten what it needs."""
        before = [(root, None if root.grad is None else root.grad.clone()) for root in self.theirs.roots.values()]
        try:
            torch.autograd.backward(total)
        except RuntimeError as error:
            if meaning(str(error))[0] != "overwritten":
                raise
            for root, grad in before:  # what had arrived before it raised
                root.grad = grad
            return False
        return True

    # ------------------------------------------------------------------ saying it

    def _raised(self, when: str, said: str, expected: str, asked: str = "") -> NoReturn:
        symptom, notes = meaning(said)
        self._fail(symptom or when, said, expected, asked=asked, notes=notes)

    def _fail(
        self, symptom: str, came: str, expected: str, name: str = "", asked: str = "", notes: Sequence[str] = ()
    ) -> NoReturn:
        suggests = self.promise.suggests
        numbers = numbers_of(suggests.get(f"{symptom} {name}", suggests.get(symptom)), symptom)
        notes = [_(NOTES[symptom]).format(name=name)] if symptom in NOTES else notes
        given = plain(self.case)
        raise failure(
            asked or self.promise.asked,
            came,
            expected,
            given,
            numbers,
            [*notes, *([_(self.note)] if self.note else [])],
            list(self.mine.roots.values()),
        ) from None


def _parts(asked: str, value: Any) -> dict[str, Any]:
    """What was returned, one thing after the other, each by the code that asks for it."""
    if isinstance(value, dict):
        return {f"{asked}[{key!r}]": value[key] for key in sorted(value, key=repr)}
    if isinstance(value, list | tuple):
        return {f"{asked}[{number}]": item for number, item in enumerate(value)}
    return {} if value is None else {asked: value}


def _kind(value: Any) -> Any:
    return next((kind for kind in (dict, list | tuple, type(None)) if isinstance(value, kind)), None)


def _only_tensors(found: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def _expected(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return shown(value)
    return tensor_text(value) + (", requires_grad" if value.requires_grad else "")


def _version(number: int | None) -> str:
    return _("version {version}").format(version=number)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(came: torch.Tensor, want: torch.Tensor) -> bool:
    return came.shape == want.shape and came.dtype == want.dtype and torch.equal(came.detach(), want)


def _close(came: torch.Tensor, want: torch.Tensor) -> bool:
    """Within the tolerance of the type, measured by the largest number."""
    if came.shape != want.shape:
        return False
    if came.dtype == want.dtype and torch.equal(came.detach(), want.detach()):
        return True  # as most are, number for number
    here, there = came.detach().to(torch.float64), want.detach().to(torch.float64)
    bound = TOLERANCE.get(want.dtype, 1e-4) * max(1e-6, float(there.abs().max()) if there.numel() else 0.0)
    return bool(torch.allclose(here, there, rtol=0.0, atol=bound))


def _same_grad(came: torch.Tensor | None, want: torch.Tensor | None) -> bool:
    if came is None or want is None:
        return came is None and want is None
    return _close(came, want)


def _added(came: torch.Tensor, want: torch.Tensor | None, before: torch.Tensor | None) -> bool:
    """Is it the right gradient on top of an old one, once or, after a call before, twice?"""
    if want is None:
        return False
    old = torch.zeros_like(want) if before is None else before
    return _close(came, want + want + old) or (before is not None and _close(came, want + old))


def _shared(one: torch.Tensor, other: torch.Tensor) -> bool:
    pointer = one.untyped_storage().data_ptr()
    return pointer != 0 and pointer == other.untyped_storage().data_ptr()
