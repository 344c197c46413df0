"""One hidden check for every function that an exercise asks for: what it does, beside what it should have done.

The same arguments are made twice. The answer gets one set, the *truth*, a function of the author's, the other; then
all that a caller can see is compared: what was returned, each argument, the gradients of a backward afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch

from seegrad.arguments import (
    Arguments,
    Values,
    between,
    decided,
    in_another_order,
    leaf,
    numbers,
    plain,
    scattered,
    share_memory,
    weights,
    with_numbers,
    wrong_arguments,
)
from seegrad.check import MAX_LINES, CheckFailed, failure, meaning, put_back, surroundings
from seegrad.telling import (
    close,
    difference,
    expected_kind,
    expected_text,
    gained,
    is_number,
    kind_of_result,
    kind_text,
    parts,
    rounded,
    said_error,
    same_grad,
    shown,
    tensor_text,
    unless_zero,
)
from seegrad.words import symptoms
from seegrad.words.beliefs import Suggests, numbers_of
from seegrad.words.languages import _

__all__ = ["between", "leaf", "numbers", "promised", "scattered"]


def promised(
    asked: str,
    function: Callable[..., Any],
    truth: Callable[..., Any],
    *cases: Mapping[str, Any],
    notices: Collection[str] = (),
    empties: Collection[str] = (),
    suggests: Mapping[str, Suggests] | None = None,
    beliefs: Mapping[str, Callable[..., Any]] | None = None,
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
        beliefs: what `truth` would be for somebody who is mistaken, by misconception or remark (`"cut 2"` is one more
            for `"cut"`). An answer that does just this, in all that is compared, is told it, and nothing else.

    Each case is called alone, twice with the same arguments, with these holding other numbers, and before the backward
    of the case behind it; one call serves for several of these, and where that fails each is asked by itself. Through
    what a call returns go two backwards, the second of which may raise, not be wrong.

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
    suggested = {**symptoms.SUGGESTS, **(suggests or {})}
    mistaken, names = beliefs or {}, (frozenset(notices), frozenset(empties))
    promise = _Promise(asked, function, truth, *names, suggested, mistaken, cases=cases)
    for case in cases:
        promise.drawn.append(torch.get_rng_state())
        promise.ask(case)
        promise.held.append(case)
        promise.renew(case)
    promise.end()


@dataclass(frozen=True, slots=True)
class _Promise:
    asked: str
    function: Callable[..., Any]
    truth: Callable[..., Any]
    notices: frozenset[str]
    empties: frozenset[str]
    suggests: Mapping[str, Suggests]
    beliefs: Mapping[str, Callable[..., Any]]
    held: list[Mapping[str, Any]] = field(default_factory=list)
    """The cases that were right, in their order."""
    drawn: list[torch.Tensor] = field(default_factory=list)
    """The state of torch's generator before the first call of each case: it draws with what backward begins."""
    left: list[_Seen] = field(default_factory=list)
    """A call of the case before, which is looked at again, and whose backward comes, after calls of another one."""
    cases: Sequence[Mapping[str, Any]] = ()
    asks_why: bool = True

    def ask(self, case: Mapping[str, Any]) -> None:
        """A case alone, and twice with the same arguments; the second call's backward comes after the next case."""
        first = _Seen(self, case, Arguments(case), Arguments(case))
        first.call()
        first.look()
        if spoils := first.theirs.written() and bool(first.beside):  # what this backward needs, a second call may write
            first.go_back(twice=True)
            first = _Seen(self, case, Arguments(case), Arguments(case))
            first.call()
        with self._or_alone(first):
            last = first.again()
            last.call()
            for one in (last, first):  # what is wrong afterwards is told of the last call
                one.look()
            first.go_back(twice=not spoils)
        self.settle()
        self.left.append(last)

    def settle(self) -> None:
        """What is left of the case before, now that others have been called."""
        for one in self.left:
            one.note = symptoms.OTHER
            one.look()
            with self._or_alone(one):
                one.go_back()
        self.left.clear()

    def end(self) -> None:
        """The first case once more, behind the last one."""
        one = _Seen(self, self.cases[0], Arguments(self.cases[0]), Arguments(self.cases[0]), symptoms.OTHER)
        one.call()
        one.look()
        self.settle()
        one.go_back()

    @contextlib.contextmanager
    def _or_alone(self, one: _Seen) -> Iterator[None]:
        """What fails among other calls, and would have by itself, is told of the case by itself."""
        try:
            yield
        except CheckFailed as failed:
            with self._as_drawn(one.case):
                try:
                    seen = self._called(one.case, one.calls)
                except CheckFailed:  # it was right before: something is kept
                    raise failed from None
                for each in seen:
                    each.go_back(twice=one.calls == 1)
            raise

    @contextlib.contextmanager
    def _as_drawn(self, case: Mapping[str, Any]) -> Iterator[None]:
        """Of one of the cases all that is drawn at random is what was drawn the first time."""
        with torch.random.fork_rng(devices=[]):
            for state in (state for state, one in zip(self.drawn, self.cases, strict=False) if one is case):
                torch.set_rng_state(state)
            yield

    def holds_alone(self, case: Mapping[str, Any], calls: int = 1) -> bool:
        """One call with fresh arguments, or several, asked after a failure: is it right, this time?"""
        try:
            with self._as_drawn(case):
                replace(self, asks_why=False).hold(case, calls)
        except CheckFailed:
            return False
        return True

    def would_hold(self, case: Mapping[str, Any]) -> bool | None:
        """Is a case right that nobody promised? None where the author's own function can't say it."""
        try:
            return self.holds_alone(case)
        except Exception as error:  # the truth's: what was made of two cases needn't make sense
            said_error(error)
            return None

    def believed(self, case: Mapping[str, Any], calls: int) -> str:
        """The belief that predicts all that this answer does with fresh arguments; nothing where none does."""
        sides = ((name, replace(self, truth=truth)) for name, truth in self.beliefs.items())
        return next((name for name, side in sides if side.holds_alone(case, calls=calls)), "").partition(" ")[0]

    def hold(self, case: Mapping[str, Any], calls: int = 1) -> None:
        """So many calls with the same arguments, then what can be seen, then a backward through each."""
        for one in self._called(case, calls):
            one.go_back(twice=calls == 1)

    def _called(self, case: Mapping[str, Any], calls: int) -> list[_Seen]:
        mine, theirs, note = Arguments(case), Arguments(case), symptoms.AGAIN if calls > 1 else ""
        seen = [_Seen(self, case, mine, theirs, note, calls, behind) for behind in reversed(range(calls))]
        for one in seen:
            one.call()
        for one in reversed(seen):  # what is wrong afterwards is told of the last call
            one.look()
        return seen

    def renew(self, case: Mapping[str, Any]) -> None:
        """A call with a case's own tensors, after one in which they held their numbers in another order."""
        turned = {name: with_numbers(value, in_another_order) for name, value in case.items()}
        mine, theirs = Arguments(turned), Arguments(turned)
        if any(tensor.requires_grad for tensor in mine.tensors.values()):
            return  # a graph goes through it, perhaps in the answer's process too: nothing is written there
        first, one = _Seen(self, turned, mine, theirs), _Seen(self, case, mine, theirs, symptoms.RENEWED)
        first.call()
        mine.renew(case)
        theirs.renew(case)
        one.call()
        one.look()
        first.note = symptoms.REWRITTEN
        first.read()
        one.go_back()


@dataclass(slots=True)
class _Seen:
    """One call, beside the truth's."""

    promise: _Promise
    case: Mapping[str, Any]
    mine: Arguments
    theirs: Arguments
    note: str = ""
    calls: int = 1  # with the same arguments, up to this one
    behind: int = 0  # of these, after this one
    value: Any = None  # what was returned: a caller's list may change with the next call
    came: dict[str, Any] = field(default_factory=dict)
    want: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)  # as it was before this call
    now: list[str] = field(default_factory=list)  # what is told of the second backward
    had: dict[str, torch.Tensor | None] = field(default_factory=dict)  # the leaves' gradients before it
    beside: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)  # each result's neighbour

    def call(self) -> None:
        """Both functions; what the answer returns has to be of the truth's kind."""
        self.given = plain(self.mine.passed)
        truly = self.promise.truth(*self.theirs.passed.values())
        self.want = parts(self.promise.asked, truly)
        made = {asked: want for asked, want in self.want.items() if isinstance(want, torch.Tensor)}
        roots = {asked: torch.zeros_like(want).requires_grad_() for asked, want in made.items() if want.requires_grad}
        self.beside = {asked: (root, root * 1) for asked, root in roots.items()}  # older than the answer's Nodes
        around = surroundings()
        try:
            self.value = self.promise.function(*self.mine.passed.values())
        except NotImplementedError:
            self._fail("unanswered", _("nothing: not answered yet"), expected_kind(truly))
        except Exception as error:  # the student's: whatever it is, it is the answer that came
            self._raised("raised", said_error(error), _("no error") if truly is None else expected_text(truly))
        for code, (was, now) in put_back(around).items():
            self._fail("around", str(now), str(was), asked=f"{self.promise.asked}; {code}")
        if truly is None and self.value is not None:
            self._fail("returned", shown(self.value), "None")
        self.came = parts(self.promise.asked, self.value)
        if kind_of_result(self.value) != kind_of_result(truly) or self.came.keys() != self.want.keys():
            self._fail("kind", shown(self.value), expected_text(truly))

    def again(self) -> _Seen:
        """One more, with the same arguments."""
        self.note, self.behind = symptoms.AGAIN, 1
        return replace(self, calls=2, behind=0)

    def look(self) -> None:
        """Each argument, then each thing that was returned."""
        if (name := self.mine.changed()) is not None:
            self._fail("changed", shown(self.mine.passed[name]), shown(self.theirs.passed[name]), name)
        promise, after = self.promise, self.note == symptoms.OTHER  # where others have gone back before
        for wrong in wrong_arguments(
            promise.asked, self.mine, self.theirs, promise.notices, promise.empties, after=after
        ):
            self._fail(*wrong)
        self.read()

    def read(self) -> None:
        """Each thing that was returned, as it is by now."""
        self.came = parts(self.promise.asked, self.value)
        for asked, want in self.want.items():
            self._look_at_result(asked, self.came.get(asked), want)

    def go_back(self, *, twice: bool = False) -> None:
        """Backward through what was returned, each argument, perhaps what was returned again: which gradients come?"""
        results = [(asked, one) for asked, one in self.want.items() if isinstance(one, torch.Tensor)]
        for more in (True, False) if twice else (False,):
            self.now = [_(symptoms.TWICE)] if twice and not more else []
            for asked, want in results:
                if want.requires_grad:
                    self._back(f"({asked} * c)", self.came[asked], want, asked, more=more)
            for path, tensor in self.mine.tensors.items():
                if self.theirs.tensors[path].requires_grad and not self.now:
                    self._back(f"{self.promise.asked}; ({path} * c)", tensor, self.theirs.tensors[path])
        self.now = []

    # ------------------------------------------------------------------ results

    def _look_at_result(self, asked: str, came: Any, want: Any) -> None:
        if not isinstance(want, torch.Tensor):
            self._look_at_number(asked, came, want)
            return
        value = torch.as_tensor(came, dtype=want.dtype) if is_number(came) and not want.requires_grad else came
        if not isinstance(value, torch.Tensor):
            self._fail("none" if value is None else "kind", kind_text(came), expected_text(want), asked=asked)
        for symptom, wrong in (
            ("shape", value.shape != want.shape),
            ("dtype", value.dtype != want.dtype),
            ("wrong", value.shape == want.shape and not close(value, want)),
            ("cut", want.requires_grad and not want.is_leaf and not value.requires_grad),
            ("asks", want.requires_grad and not value.requires_grad),
            ("result_leaf", want.requires_grad and want.is_leaf and not value.is_leaf),
            ("history", not want.requires_grad and value.requires_grad),
        ):
            if wrong:
                values = Values(value, want, self._part(asked)) if symptom in ("shape", "wrong") else None
                self._fail(symptom, shown(came), expected_text(want), asked=asked, values=values)
        if want.is_leaf and want.requires_grad and not same_grad(unless_zero(value.grad), unless_zero(want.grad)):
            self._fail("left", shown(value.grad), expected_text(want.grad), asked, f"{asked}.grad")
        self._look_at_memory(asked, value, want)

    def _look_at_number(self, asked: str, came: Any, want: Any) -> None:
        number = isinstance(came, torch.Tensor) and came.numel() == 1
        if isinstance(want, float) and (number or is_number(came)):
            if not close(torch.as_tensor(came).reshape(()), torch.tensor(want)):
                values = Values(torch.as_tensor(came).reshape(()), torch.tensor(want), self._part(asked))
                self._fail("wrong", shown(came), rounded(want), asked=asked, values=values)
        elif type(came) is not type(want) or came != want:
            self._fail("wrong" if type(came) is type(want) else "kind", shown(came), shown(want), asked=asked)

    def _part(self, asked: str) -> Callable[[Arguments, Any], Any]:
        return lambda _theirs, truly: parts(self.promise.asked, truly).get(asked)

    def _look_at_memory(self, asked: str, came: torch.Tensor, want: torch.Tensor) -> None:
        others = {**self.mine.tensors, **self.came}
        truly = {**self.theirs.tensors, **self.want}
        for name, other in others.items():
            if name != asked and share_memory(came, other) and not share_memory(want, truly.get(name)):
                expected = _("{tensor}, in memory of its own").format(tensor=expected_text(want))
                self._fail("shared", shown(came), expected, name, asked)

    # ------------------------------------------------------------------ backward

    def _back(
        self, start: str, came: torch.Tensor, want: torch.Tensor, result: str = "", *, more: bool = False
    ) -> None:
        """One backward; through a result in a sum, beside a neighbour that is handed the same gradient."""
        weight = weights(want)
        root, neighbour = self.beside.get(result, (None, None))
        total = came if neighbour is None else came + neighbour
        asked = f"{start}.sum().backward()"
        if not self.theirs.go_back((want * weight).sum(), lambda said: meaning(said)[0] == "overwritten", more=more):
            return
        self.given["c"] = weight
        self.had = {name: None if one.grad is None else one.grad.clone() for name, one in self.mine.roots.items()}
        try:
            torch.autograd.backward((total * weight).sum(), retain_graph=more)
        except Exception as error:  # the student's graph: whatever it is, it is the answer that came
            if self.now:  # once is enough, as long as nothing is silently wrong
                self.mine.take_grads(self.theirs)
                return
            self._raised("backward", said_error(error), _("no error"), asked)
        self._look_at_gradients(start, asked, came, want)
        if root is not None and root.grad is not None and not close(root.grad, weight) and not self.now:
            said = f"leaf = torch.zeros_like(c).requires_grad_(); other = leaf * 1; (({result} + other) * c).sum()"
            self._fail("neighbour", shown(root.grad), tensor_text(weight), asked=f"{said}.backward(); leaf.grad")

    def _look_at_gradients(self, start: str, asked: str, came: torch.Tensor, want: torch.Tensor) -> None:
        """What the leaves have after a backward."""
        ends = {**self.theirs.roots, **({start: want} if want.is_leaf else {})}
        for name, truly in ends.items():
            here = self.mine.roots.get(name, came)
            if same_grad(here.grad, truly.grad, self.theirs.added_up_in(truly)):
                continue
            reached = "hooked" if here is came else "gradient"  # a leaf's own gradient is what is handed to it
            symptom = "lost" if here.grad is None else "leaked" if truly.grad is None else reached
            by = name if name in self.mine.roots else self.promise.asked
            now, then = (gained(self.had.get(name), one) for one in (here.grad, truly.grad))
            own = f"out = {by}; (out * c).sum().backward(); out.grad"
            twice = f"loss = {start}.sum(); loss.backward(retain_graph=True); {by}.grad = None; loss.backward()"
            said = f"{twice if self.now else asked}; {by}.grad" if name in self.mine.roots else own
            values = None
            if symptom in ("gradient", "hooked") and now is not None and then is not None:
                values = Values(now, then)
            self._fail(symptom, shown(now), expected_text(then), by, said, values)

    # ------------------------------------------------------------------ saying it

    def _raised(self, when: str, said: str, expected: str, asked: str = "") -> NoReturn:
        symptom, notes = meaning(said)
        self._fail(symptom or when, said, expected, asked=asked, notes=notes)

    def _fail(
        self,
        symptom: str,
        came: str,
        expected: str,
        name: str = "",
        asked: str = "",
        values: Values | None = None,
        notes: Sequence[str] = (),
    ) -> NoReturn:
        suggests = self.promise.suggests
        numbers = numbers_of(suggests.get(f"{symptom} {name}", suggests.get(symptom)), symptom)
        head = [_(symptoms.NOTES[symptom]).format(name=name)] if symptom in symptoms.NOTES else []
        asked, given, notes = asked or self.promise.asked, dict(self.given), [*self.now, *notes]
        if self.promise.asks_why and symptom != "unanswered":
            if kept := "" if self.note == symptoms.REWRITTEN else self._kept(values):
                numbers, notes = (), [kept]
            elif self.note not in symptoms.OF_TWO and (
                belief := self.promise.believed(self.case, 2 if self.note else 1)
            ):
                numbers, notes = (belief,), [*head, *notes, *self._taken(values)]
            elif symptom == "kept" and self._returned_memory_of(name):
                numbers, notes = (), [*head, _(symptoms.ALIASED).format(name=name)]
            else:
                notes = [*head, *([_(self.note)] if self.note else []), *notes, *self._more(symptom, values)]
                asked, given = self._from_the_start(asked)
        raise failure(asked, came, expected, given, numbers, notes[: MAX_LINES - 3 - bool(numbers)]) from None

    def _from_the_start(self, asked: str) -> tuple[str, dict[str, Any]]:
        """Code and inputs; where one call with these arguments was right, the code makes both."""
        call = self.promise.asked
        if self.note != symptoms.AGAIN:
            return asked, self.given
        given = {**self.given, **plain(self.case)}
        if not self.behind or f"{call}; " in asked:
            return f"{call}; {asked}", given
        return f"first = {call}; {call}; {asked.replace(call, 'first')}", given

    def _kept(self, values: Values | None) -> str:
        """What shows that something is kept between calls; empty where nothing does."""
        promise, held = self.promise, self.promise.held
        if values is not None and (name := values.are_for_an_earlier(promise.truth, self.case, held)):
            return _(symptoms.EARLIER).format(name=name)
        if self.note:
            return _(symptoms.ALONE) if not promise.holds_alone(self.case) else ""
        if held and not promise.holds_alone(held[0]):
            return _(symptoms.LATER)
        others = [case for case in promise.cases if case is not self.case]
        again = (values.come_again(promise.function, promise.truth, case) for case in others if values is not None)
        return _(symptoms.SAME) if any(again) else ""

    def _more(self, symptom: str, values: Values | None) -> list[str]:
        """What there is to know beside the symptom: of the values themselves, and of the same call, changed."""
        alike = values is not None and values.came.shape == values.want.shape
        told = self._taken(values)
        if not told and not self.note:
            told = list(filter(None, [decided(self.case, self.promise.held[-1:], self.promise.would_hold)]))
        if not told and values is not None and alike:
            told = self._fixed(values)
        if alike and values is not None and symptom != "written":  # of a write its moves are told
            inputs = {path: before.values for path, before in self.mine.before.items()}
            inputs |= {name: value for name, value in self.given.items() if name not in self.case}
            told = [*told, difference(values.came, values.want, inputs if values.tells() else {})]
        return [one for one in told if one]

    def _returned_memory_of(self, name: str) -> bool:
        """Does the answer return a tensor in this argument's memory, where the truth doesn't?"""
        tensor, truly = self.mine.tensors[name], self.theirs.tensors[name]
        pairs = [(came, self.want[asked]) for asked, came in self.came.items() if came is not tensor]
        return any(share_memory(came, tensor) and not share_memory(want, truly) for came, want in pairs)

    def _taken(self, values: Values | None) -> list[str]:
        """Are they the numbers with one argument in another one's place?"""
        if values is None:
            return []
        name, other = values.are_with_another(self.promise.truth, self.case)
        return [_(symptoms.TAKEN).format(name=name, other=other)] if name else []

    def _fixed(self, values: Values) -> list[str]:
        """Arguments that make no difference to the values, where they should."""
        names = values.unchanged_by(self.promise.function, self.promise.truth, self.case)
        return [_(symptoms.FIXED).format(name="`, `".join(names))] if names else []
