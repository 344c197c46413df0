"""A term of a loss that is constant for what it should train, although other terms train that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from seegrad.diagnose.cut import because, cause, line_to_change, rewarded, roots_of
from seegrad.diagnose.evidence import ENTERING, ancestors, called, called_on, is_trained, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.history.flow import WRITTEN, Cut, Flow
from seegrad.diagnose.numbers.draws import Draw, draws
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word, phrase, plural

CONSTANT = DiagnosisKind("constant_term", "note", marked("constant term"), (marked("constant from here on"),))

TERM = marked(
    "A term of the loss on {victim} is constant, so {label}{leaves} learns nothing from it: on {culprit}, {why}."
)
WAY = marked(
    "On one of its ways to the loss on {victim}, {label}{leaves} is a constant, though it learns by another: on "
    "{culprit}, {why}."
)
OTHERS = marked(
    "A term of the loss on {victim} reaches nothing that the step on {step} trains: on {culprit}, {why}, so "
    "{label}{leaves} learns nothing from it."
)
ENTERS = marked(
    "{Culprit} takes into the loss on {victim} what was computed of a detached {given}, by which another loss trains "
    "something else: it reaches nothing that the step on {step} trains, and {label}{leaves} learns nothing from it."
)
NUMBER = marked("a number is taken out of {given}, and numbers have no history")
REBUILT = marked("`{op}` copies the numbers of {given} without their history")
DRAWN = marked("`.sample()` draws numbers, which have no history")
DRAWS_ZERO = marked("`{op}` draws numbers, and hands nothing back to what it draws from")

MEND = {
    "watched": marked(
        "If {label} is meant to learn from it, use the result itself there, with gradients on; if it is only to be "
        "watched, leave it out of the sum."
    ),
    "grad": marked("If {label} is meant to learn from it, pass `create_graph=True` to that call."),
    "soft": marked(
        "If {label} is meant to learn from it, compute it of the numbers before they are compared or rounded."
    ),
    "number": marked(
        "If {label} is meant to learn from it, keep the tensor: add it up without `.item()`, `float()` or numpy."
    ),
    "rebuilt": marked("If {label} is meant to learn from it, join the tensors themselves: `torch.stack([…])`."),
    "left": marked("If {label} is meant to learn from it, stay in torch there: use its function of the same name."),
    "drawn": marked("If {label} is meant to learn from it, draw with `.rsample()`, which keeps the history."),
    "normal": marked(
        "If {label} is meant to learn from it, draw apart from it: `mean + std * torch.randn_like(mean)` has a "
        "gradient for both."
    ),
    "chance": marked(
        "If {label} is meant to learn from it, pass the gradient straight through, `drawn + p - p.detach()`, or weigh "
        "the `log_prob` of what was drawn by what it led to."
    ),
}
MEND["undetached"] = marked(
    "If {label} is meant to learn from it, give that line what comes of {given} itself, computed once more without the "
    "`.detach()`; the detached one stays where it is, for the other loss."
)
MENDS = dict.fromkeys(("detach", "data", "no_grad", "inside", "function", "set_data"), "watched")
MENDS |= {"op": "soft", "integer": "soft", "left": "left", "grad": "grad", "leaf": "rebuilt", "made": "rebuilt"}

SUMS = frozenset({"add", "add_", "__iadd__", "sub", "sub_", "__isub__", "rsub", "radd", "stack", "cat"})
SCALES = frozenset(
    {"mul", "mul_", "__imul__", "rmul", "div", "div_", "__itruediv__", "true_divide", "neg", "to", "float"}
)
PARTS = frozenset({"__getitem__", "select", "reshape", "view", "squeeze", "unsqueeze"})
TOTALS = frozenset({"sum", "mean"})

TAKEN = re.compile(r"\.item\(\)|\bfloat\(|\.tolist\(\)|\.numpy\(\)")
"""Code that takes numbers out of a tensor."""

TAKEN_OUT_OF = (
    r"(?<![\w.]){name}(?:\.detach\(\))?(?:\.cpu\(\))?(?:\.item\(\)|\.tolist\(\)|\.numpy\(\))"
    r"|\bfloat\({name}\)"
)
"""Code that takes them out of a variable."""

ADDS_A_CALL = re.compile(r"[-+]=?\s*[\w.*/\s]*\b[A-Za-z_]\w*\(")
"""`… + 0.1 * size(model)`."""

MOST_OF_A_LINE = 4
"""Terms of one line that are looked at."""

GIVES_TO = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:[-+*/]?=(?!=)|\.(?:append|extend)\()")
"""`penalty = …`, `penalties.append(…)`."""

NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*[-+*/]?=(?!=)")
"""`penalty = …`, `penalty += …`."""

SAMPLED = re.compile(r"\.sample\(")
KEEPING = frozenset(
    {
        "_sample_dirichlet",
        "_standard_gamma",
        "cauchy_",
        "exponential_",
        "normal",
        "normal_",
        "rand",
        "randn",
        "uniform_",
    }
)
CHOOSING = frozenset({"bernoulli", "binomial", "floor", "multinomial", "poisson", "remainder"})
"""Ops of distributions that could keep the history of what they draw, and of those that couldn't."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a sum; the last Frame that may have written it."""

    tensor: int
    until: int


@dataclass(frozen=True, slots=True)
class Missed:
    """Where a history ends, why, for which leaves; `said` is the sentence."""

    place: Place | None
    frame: Frame
    why: Word
    mend: str
    leaves: tuple[int, ...]
    said: str
    given: int | None = None
    step: Place | None = None


@finder(order=13)
def find_constant_terms(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that makes a term of a loss constant: of leaves that other terms and the next step train."""
    calls, told = backward_only(recording), set[tuple[Place | None, str]]()
    ran = [recording.nodes[f.running].leaf for frames in calls for f in frames if f.running is not None]
    trained = {leaf for leaf in ran if leaf is not None}
    flow, makers, frames, since = Flow(recording), Makers(recording), iter(recording.frames), 0
    for frames_of in calls:
        first = frames_of[0]
        for frame in frames:
            flow.remember(frame)
            if frame.index >= first.index:
                break
        held, step = _stepped(recording, frames_of)
        wanted = trained & held if held else trained
        lap = _Lap(recording, flow, makers, wanted, since, first)
        drawn = (_drawn(recording, each) for each in draws(recording, frames_of, wanted))
        for found in (*lap.constants(), *lap.numbers(), *lap.ways(), *drawn, *lap.for_others(held, step)):
            if (found.place, found.said) not in told:
                told.add((found.place, found.said))
                yield _describe(recording, found, frames_of[-1])
        since = frames_of[-1].index


def backward_only(recording: Recording) -> list[list[Frame]]:
    """The Frames of each call of backward; not of `autograd.grad`, which hands back what it was asked for."""
    calls: dict[int, list[Frame]] = {}
    for frame in recording.frames:
        if frame.backward is not None and frame.phase == "backward":
            calls.setdefault(frame.backward, []).append(frame)
    return [frames for frames in calls.values() if not any(frame.op == "grad" for frame in frames)]


def _stepped(recording: Recording, frames: list[Frame]) -> tuple[set[int], Place | None]:
    """What the steps train that come after a backward call, or after several in a row; the line of the first.

    None where another call comes before the first one, which uses no gradient of this call's: the step of this call is
    forgotten, or there is none.
    """
    after = [use for use in recording.uses if use.kind == "stepped" and use.frame >= frames[-1].index]
    came = {recording.nodes[frame.running].leaf for frame in frames if frame.running is not None}
    following = (f.index for f in recording.frames[frames[-1].index + 1 :] if f.phase == "backward")
    own = bool(after) and after[0].frame < next(following, len(recording.frames))
    if not after or (not own and came.isdisjoint(leaf for leaf, _ in after[0].tensors)):
        return set(), None
    until = next(
        (f.index for f in recording.frames[after[0].frame + 1 :] if f.phase == "backward"), len(recording.frames)
    )
    steps = [use for use in after if use.frame < until]
    return {leaf for use in steps for leaf, _ in use.tensors}, after[0].place


class _Lap:
    """One backward call, and what was computed for it since the one before."""

    def __init__(
        self, recording: Recording, flow: Flow, makers: Makers, trained: set[int], since: int, first: Frame
    ) -> None:
        self._recording, self._flow, self._makers = recording, flow, makers
        self._trained, self._since, self._first = trained, since, first
        self._roots = roots_of(recording, first)
        self._added: list[Frame] = []  # those that added a plain number
        self._terms = list(self._split())
        self._each_line = list(self._few_of_a_line())

    def _few_of_a_line(self) -> Iterator[Term]:
        """Of the terms that one line makes in a loop, a few stand for all."""
        made = Counter[Place | None]()
        for term in self._terms:
            frame = self._makers.maker(term.tensor, term.until)
            place = None if frame is None else frame.place
            made[place] += 1
            if made[place] <= MOST_OF_A_LINE:
                yield term

    def _split(self) -> Iterator[Term]:
        """The loss as a sum, as far as sums and factors can be followed."""
        waiting = [Term(root, self._first.index) for root in self._roots]
        seen = set(waiting)
        while waiting:
            term = waiting.pop()
            parts = list(self._parts(term))
            if not parts:
                yield term
            waiting += [part for part in parts if part not in seen]
            seen.update(parts)

    def _parts(self, term: Term) -> Iterator[Term]:
        frame = self._makers.maker(term.tensor, term.until)
        if frame is None or frame.phase == "backward" or frame.index <= self._since:
            return
        before = frame.index - 1
        if frame.op in SUMS:
            if len(frame.inputs) == 1:
                self._added.append(frame)
            yield from (Term(tensor, before) for tensor in frame.inputs)
        elif frame.op in SCALES:
            graph = [tensor for tensor in frame.inputs if self._has_graph(tensor)]
            if len(graph) == 1 or len(frame.inputs) == 1:
                yield Term((graph or list(frame.inputs))[0], before)
        elif frame.op in TOTALS and frame.inputs:
            inner = self._makers.maker(frame.inputs[0], before)
            if inner is not None and inner.op in ("stack", "cat"):
                yield Term(frame.inputs[0], before)

    def _has_graph(self, tensor: int) -> bool:
        ref = self._recording.tensors[tensor]
        return ref.requires_grad and not is_trained(self._recording, tensor)

    def _leaves(self, tensors: tuple[int, ...]) -> tuple[int, ...]:
        behind = self._flow.behind(tensors, set())
        return tuple(sorted({each for each in behind if is_trained(self._recording, each)} & self._trained))

    def _cuts(self, tensors: tuple[int, ...]) -> Iterator[tuple[Cut, tuple[int, ...]]]:
        """Those made in this lap, with the leaves that others train."""
        for cut in self._flow.cuts(tensors, set()):
            if cut.frame.index > self._since and cut.why not in (WRITTEN, "set_data"):
                leaves = self._leaves(cut.given)
                if leaves:
                    yield cut, leaves

    def constants(self) -> Iterator[Missed]:
        """Terms without a history that were computed of leaves."""
        for term in self._each_line:
            ref = self._recording.tensors[term.tensor]
            if len(self._terms) > 1 and not ref.requires_grad and not self._is_rebuilt(term):
                found = sorted(self._cuts((term.tensor,)), key=lambda each: not _is_copied(each[0]))
                for cut, leaves in found[:1]:  # a `.detach()` beside copied numbers was somebody's decision
                    if cut.why != "left" or _goes_on(cut.frame.place):
                        yield self._found(cut, leaves, TERM)

    def _is_rebuilt(self, term: Term) -> bool:
        """Is it made of numbers of what nothing trains, copied or held? That cut is told, not what weighs the term."""
        cuts = [each for each in self._flow.cuts((term.tensor,), set()) if each.frame.index > self._since]
        uses = (use for use in self._recording.uses if use.kind == "stepped")
        rewards = rewarded(self._recording)
        idle = {leaf for use in uses for leaf, _ in use.tensors} - rewards
        for each in cuts:
            found = {leaf for leaf in self._flow.behind(each.given, set()) if is_trained(self._recording, leaf)}
            untold = self._trained.isdisjoint(found) and (each.frame.op in ENTERING or found <= idle)
            if found and (untold or (_is_copied(each) and not idle.isdisjoint(found))):
                return True
        return False

    def _found(self, cut: Cut, leaves: tuple[int, ...], said: str, step: Place | None = None) -> Missed:
        why, given, op = cause(self._recording, cut), label(self._recording, cut.given[0]), cut.frame.op
        reason, mend = because(why, given, op), MENDS.get(why, "watched")
        if op in ENTERING:
            reason, mend = phrase(REBUILT, given=given, op=op), "rebuilt"
        place = line_to_change(self._recording, cut, why)
        return Missed(place, cut.frame, reason, mend, leaves, said, cut.given[0], step)

    def numbers(self) -> Iterator[Missed]:
        """Plain numbers that were added, and results that numbers were taken out of and nothing else was done with."""
        for added in self._added:
            code = added.place.code if added.place is not None else ""
            for frame, tensor in self._dead_ends(added):
                text = frame.place.code if frame.place is not None else ""
                returned = text.lstrip().startswith("return") and ADDS_A_CALL.search(code) is not None
                place = frame.place if TAKEN.search(text) and (returned or _speaks_of(code, text)) else None
                place = place or self._taken_later(frame.place, called(self._recording, tensor), code)
                leaves = self._leaves((tensor,)) if place is not None else ()
                if leaves:
                    why = phrase(NUMBER, given=label(self._recording, tensor))
                    yield Missed(place, frame, why, "number", leaves, TERM, tensor)
                    break

    def _taken_later(self, made: Place | None, name: str | None, code: str) -> Place | None:
        """The line below that takes the number out of that variable, for what is added under its name or a new one."""
        if name is None or made is None or made.file != self._recording.code_file:
            return None
        taken = re.compile(TAKEN_OUT_OF.format(name=re.escape(name)))
        below = (each for each in self._recording.code if each[0] > made.line and taken.search(each[1]))
        line, text = next(below, (0, ""))
        fits = line and (re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", code) or self._leads_to(line, code))
        return Place(made.file, line, text.strip()) if fits else None

    def _leads_to(self, line: int, code: str) -> bool:
        """Does what a line sets, or appends to, come by lines that take it up into that code?"""
        told = set[str]()
        for at, text in self._recording.code:
            target = GIVES_TO.match(text) if at >= line else None
            if target is not None and (at == line or any(re.search(rf"\b{each}\b", text) for each in told)):
                told.add(target[1])
            if text.strip() == code.strip() and at > line:
                break
        return any(re.search(rf"\b{each}\b", code) for each in told)

    def _dead_ends(self, added: Frame) -> Iterator[tuple[Frame, int]]:
        """Single numbers with a history that no later call was given."""
        recording = self._recording
        between, lap = recording.frames[self._since : added.index], recording.frames[self._since : self._first.index]
        given = {tensor for frame in lap for tensor in frame.inputs}
        cut = (frame for frame in lap if frame.op == "detach" and given.isdisjoint(frame.outputs))
        watched = {tensor for frame in cut for tensor in frame.inputs[:1]}  # of what is old, none is known any more
        taken = {tensor for frame in lap for tensor in frame.inputs if frame.op != "detach" or tensor not in watched}
        for frame in between:
            for tensor in frame.outputs:
                single = not recording.tensors[tensor].shape and self._has_graph(tensor)
                if single and tensor not in taken and tensor not in self._roots:
                    yield frame, tensor

    def ways(self) -> Iterator[Missed]:
        """Cuts on one way of several that nobody makes on purpose: copied numbers, a sample without its density."""
        constant = {term.tensor for term in self._terms if not self._recording.tensors[term.tensor].requires_grad}
        roots = tuple(term.tensor for term in self._terms if term.tensor not in constant)
        for cut, leaves in self._cuts(roots):
            if _is_copied(cut):
                yield self._found(cut, leaves, WAY)
            elif self._is_drawn(cut) and not self._is_scored(cut):
                why = Phrase(DRAWN)
                yield Missed(cut.frame.place, cut.frame, why, "drawn", leaves, WAY, cut.given[0])
            elif cut.frame.op == "grad" and self._is_inner_step(cut.frame):
                yield self._found(cut, leaves, WAY)

    def _is_inner_step(self, frame: Frame) -> bool:
        """Is it, by a share, added to what it was asked for, or to another result (a residual), and nobody chose so?"""
        shares, recording = set(frame.outputs), self._recording
        for each in recording.frames[frame.index + 1 : self._first.index]:
            others = [tensor for tensor in each.inputs if tensor not in shares]
            if shares.isdisjoint(each.inputs):
                continue
            if each.op in ("sub", "add") and any(recording.tensors[tensor].requires_grad for tensor in others):
                return any(map(self._has_graph, each.outputs)) and "create_graph" not in self._call_at(frame.place)
            if each.op in SCALES | PARTS and not any(map(self._has_graph, others)):
                shares.update(each.outputs)
        return False

    def _call_at(self, place: Place | None) -> str:
        """The text of the call that begins on a line, as far as its brackets go."""
        if place is None or place.file != self._recording.code_file:
            return "" if place is None else place.code
        text = ""
        for line, code in self._recording.code:
            text += code if line >= place.line else ""
            if text and text.count("(") <= text.count(")"):
                break
        return text

    def _is_drawn(self, cut: Cut) -> bool:
        """Is it `.sample()` of a distribution that could keep the history? A choice among several couldn't."""
        place = cut.frame.place
        if place is None or not SAMPLED.search(place.code):
            return False
        ops = {frame.op for frame in self._sampling(cut)}
        return not ops.isdisjoint(KEEPING) and ops.isdisjoint(CHOOSING)

    def _sampling(self, cut: Cut) -> list[Frame]:
        """The Frames of the call that drew: around the cut, on its line, without gradients."""
        frames, place, here = self._recording.frames, cut.frame.place, cut.frame.index
        begin = next((at for at in range(here, 0, -1) if not _is_within(frames[at - 1], place)), 0)
        end = next((at for at in range(here, len(frames)) if not _is_within(frames[at], place)), len(frames))
        return list(frames[begin:end])

    def _is_scored(self, cut: Cut) -> bool:
        """Does something meet both what was drawn and what it was drawn by: its density, as in a policy gradient?"""
        sampling = self._sampling(cut)
        frames = self._recording.frames[sampling[-1].index + 1 : self._first.index]
        given = {number for tensor in cut.given for number, _ in ancestors(self._recording, tensor)}
        drawn = {tensor for frame in sampling for tensor in frame.outputs}
        for frame in frames:
            if not drawn.isdisjoint(frame.inputs):
                if not given.isdisjoint(frame.inputs):
                    return True
                drawn.update(frame.outputs)
        return False

    def for_others(self, held: set[int], step: Place | None) -> Iterator[Missed]:
        """Terms that reach nothing of what is then stepped, cut off from it by a `.detach()` or the like.

        Where no term does, the step holds other leaves than the loss is for: no cut is to blame.
        """
        if not held or len(self._terms) < 2 or held.isdisjoint(reach(self._recording, self._roots)):
            return
        for term in self._each_line:
            reached = reach(self._recording, (term.tensor,)) if self._has_graph(term.tensor) else set()
            if reached and held.isdisjoint(reached):
                for cut, leaves in list(self._cuts((term.tensor,)))[:1]:
                    mine = tuple(leaf for leaf in leaves if leaf in held)
                    entered = self._entered(term, cut) if mine else None
                    if entered is not None:
                        place = called_on(self._recording, entered.place, cut.frame.place, self._first.place)
                        yield Missed(place, cut.frame, "", "undetached", mine, ENTERS, cut.given[0], step)
                    elif mine:
                        yield self._found(cut, mine, OTHERS, step)

    def _entered(self, term: Term, cut: Cut) -> Frame | None:
        """The Frame that takes into this term what another call of backward trains by: there the cut is right."""
        flow, made = Flow(self._recording), set(cut.frame.outputs)
        for frame in self._recording.frames:
            flow.remember(frame)
        others = [each[0] for each in backward_only(self._recording) if each[-1].index > cut.frame.index]
        for other in [each for each in others if each is not self._first][:MOST_OF_A_LINE]:
            behind = set(flow.behind(roots_of(self._recording, other), set()))
            if made & behind:
                return self._into(term, behind, made, flow)
        return None

    def _into(self, term: Term, others: set[int], made: set[int], flow: Flow) -> Frame | None:
        """The first on the way back that is no other loss's and takes something that is, and comes of what was made."""
        for tensor in flow.behind((term.tensor,), set()):
            frame = self._makers.maker(tensor, term.until) if tensor not in others else None
            shared = [each for each in frame.inputs if each in others] if frame is not None else []
            if any(made & set(flow.behind((each,), set())) for each in shared):
                return frame
        return None


def _drawn(recording: Recording, draw: Draw) -> Missed:
    frame = recording.frames[draw.node.frame]
    mend = "normal" if frame.op == "normal" else "chance"
    return Missed(frame.place, frame, phrase(DRAWS_ZERO, op=frame.op), mend, draw.leaves, WAY)


def _is_copied(cut: Cut) -> bool:
    """Were tensors given to what makes a new one of numbers, as `torch.tensor([…])` does?"""
    return cut.frame.op in ENTERING and bool(cut.frame.inputs)


def _is_within(frame: Frame, place: Place | None) -> bool:
    return frame.place == place and not frame.grad_enabled


def _goes_on(place: Place | None) -> bool:
    """Does a line give what it takes out of torch to a variable, or return it, instead of noting it down?"""
    code = place.code.lstrip() if place is not None else ""
    return code.startswith("return") or NAMED.match(code) is not None


def _speaks_of(code: str, text: str) -> bool:
    """Does a line speak of the variable that another line sets?"""
    name = NAMED.match(text)
    return name is not None and re.search(rf"\b{name[1]}\b", code) is not None


def _describe(recording: Recording, found: Missed, shown: Frame) -> Diagnosis:
    finding = Finding(
        recording=recording,
        kind=CONSTANT,
        frame=shown.index,
        culprit=found.place,
        victim=shown.place,
        tensor=found.leaves[0],
    )
    count = len(found.leaves) - 1
    more = plural(" (and {count} more leaf)", " (and {count} more leaves)", count) if count else ""
    facts: dict[str, Word] = {"label": label(recording, found.leaves[0]), "cause": found.mend, "op": found.frame.op}
    step = finding.line(found.step) if found.step is not None else ""
    given = label(recording, found.given) if found.given is not None else ""
    return finding.told(found.said, MEND[found.mend], facts, leaves=more, why=found.why, step=step, given=given)
