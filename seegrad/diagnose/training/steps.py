"""A training loop that misses its gradients: cleared too early or never, clipped too late, held by no optimiser."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seegrad.diagnose.evidence import label, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Frame, GradientUse, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word, joined

MOST_NAMED = 3
UNNAMED = marked("Parameters without a name of their own")


@dataclass(frozen=True, slots=True)
class Round:
    """An optimiser's step, with all that was done since its step before.

    `came`: leaf → the Frames in which a gradient was added to its `.grad`; `between`: the other uses of gradients.
    """

    step: GradientUse
    came: dict[int, list[Frame]]
    between: Sequence[GradientUse]
    adds_to: GradientUse | None  # the step before

    @property
    def leaves(self) -> set[int]:
        """What the optimiser holds."""
        return leaves_of(self.step)

    @property
    def cleared(self) -> list[GradientUse]:
        """Where leaves of its own were cleared."""
        return [use for use in self.between if use.kind == "cleared" and self.leaves & leaves_of(use)]

    @property
    def fresh(self) -> list[int]:
        """The leaves with a gradient that wasn't cleared since it came last."""
        cleared = {leaf: use.frame for use in self.cleared for leaf, _ in use.tensors}
        last = {leaf: frames[-1].index for leaf, frames in self.came.items()}
        return [
            leaf for leaf, now in self.step.tensors if now is not None and cleared.get(leaf, -1) < last.get(leaf, 0)
        ]


def rounds(recording: Recording) -> Iterator[Round]:
    """One for each step, in order. The step before is the last one that held any of these leaves."""
    arrivals = [(frame, leaf) for frame in recording.frames if (leaf := leaf_of(recording, frame)) is not None]
    indices = [frame.index for frame, _ in arrivals]
    steps: list[tuple[int, GradientUse]] = []
    for at, step in enumerate(recording.uses):
        if step.kind == "stepped":
            leaves = leaves_of(step)
            before = ((place, use) for place, use in reversed(steps) if leaves & leaves_of(use))
            since, previous = next(before, (-1, None))
            begin = bisect_right(indices, previous.frame) if previous else 0
            came: dict[int, list[Frame]] = {}
            for frame, leaf in arrivals[begin : bisect_right(indices, step.frame)]:
                if leaf in leaves:
                    came.setdefault(leaf, []).append(frame)
            yield Round(step, came, recording.uses[since + 1 : at], previous)
            steps.append((at, step))


def leaves_of(use: GradientUse) -> set[int]:
    """Whose gradients they are."""
    return {leaf for leaf, _ in use.tensors}


def leaf_of(recording: Recording, frame: Frame) -> int | None:
    """The leaf to whose `.grad` the Frame adds."""
    return None if frame.running is None else recording.nodes[frame.running].leaf


def computes_itself(recording: Recording, step: GradientUse) -> bool:
    """Does a step come to its gradients by a closure: between its beginning and its first write to a leaf?"""
    leaves = leaves_of(step)
    storages = {recording.tensors[leaf].storage for leaf in leaves}
    for frame in recording.frames[step.frame + 1 :]:
        if leaf_of(recording, frame) in leaves:
            return True
        if any(recording.writes[write].storage in storages for write in frame.writes):
            return False
    return False


def names(recording: Recording, leaves: Sequence[int]) -> Word:
    """The first few of them; those without a name as one."""
    named = list(dict.fromkeys(label(recording, leaf) for leaf in leaves if recording.tensors[leaf].name))
    words = named if all(recording.tensors[leaf].name for leaf in leaves) else [*named, Phrase(UNNAMED)]
    return joined([*words[:MOST_NAMED], *([f"+{len(words) - MOST_NAMED}"] if len(words) > MOST_NAMED else [])])


def made_by(recording: Recording, leaf: int) -> Place | None:
    """The line that initialised it, or that made its numbers; None where the first thing seen of it is its use."""
    first = next((frame for frame in recording.frames if leaf in frame.inputs), None)
    written = {recording.writes[write].tensor for write in first.writes} if first is not None else ()
    if first is not None and leaf in written:
        return first.place
    storage = recording.tensors[leaf].storage
    fresh = (frame for frame in recording.frames if any(_is_made(recording, frame, each) for each in frame.outputs))
    made = next((f for f in fresh if any(recording.tensors[each].storage == storage for each in f.outputs)), None)
    return made.place if made is not None and recording.tensors[leaf].parameter else None


def _is_made(recording: Recording, frame: Frame, tensor: int) -> bool:
    return recording.tensors[tensor].frame == frame.index and recording.tensors[tensor].alias_of is None


# -- cleared between backward and step: the step finds nothing

THROWN_AWAY = DiagnosisKind(
    "cleared_before_step", "wrong", marked("gradients cleared before the step"), (marked("cleared before the step"),)
)
NOTHING_LEFT = marked(
    "{Culprit} cleared the gradients that the backward call on {backward} had computed, before the step on {victim} "
    "could use them: that step had nothing to go by."
)
CLEAR_ELSEWHERE = marked("Clear the gradients before the backward call, or after the step.")


@finder(order=20)
def find_thrown_away(recording: Recording) -> Iterator[Diagnosis]:
    """One for each line that cleared, at the first step that found nothing.

    Where another step has used gradients of these leaves, a batch was thrown away on purpose.
    """
    told: set[Place | None] = set()
    used = {leaf for round_ in rounds(recording) for leaf in round_.fresh}
    for round_ in rounds(recording):
        if not round_.came or not used.isdisjoint(round_.came):
            continue
        guilty, last = round_.cleared[-1:], max(frames[-1].index for frames in round_.came.values())
        if guilty and guilty[0].place not in told:
            told.add(guilty[0].place)
            backward = recording.frames[last].place
            finding = Finding(
                recording=recording,
                kind=THROWN_AWAY,
                frame=round_.step.frame,
                culprit=guilty[0].place,
                victim=round_.step.place,
                tensor=next(iter(round_.came)),
            )
            yield finding.told(NOTHING_LEFT, CLEAR_ELSEWHERE, {}, backward=finding.line(backward))


# -- never cleared: each step uses the sum of all gradients so far

SUMMED = DiagnosisKind("gradients_never_cleared", "note", marked("gradients never cleared"))
ADDED_UP = marked(
    "The step on {victim} uses more than the newest gradients: nothing has cleared those of the step before, so "
    "{culprit} has added to them."
)
CLEAR = marked("If each step is to use its own gradients, call `optimizer.zero_grad()` before the backward call.")


@finder(order=21)
def find_never_cleared(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of a step whose gradients moved by its own backward calls alone since the step before."""
    told: set[Place | None] = set()
    for round_ in rounds(recording):
        if round_.adds_to is None or round_.cleared or round_.step.place in told:
            continue
        if any(computes_itself(recording, step) for step in (round_.adds_to, round_.step)):
            continue  # what its closure clears and adds comes after the versions that are known
        then = dict(round_.adds_to.tensors)
        clips = Counter(leaf for use in round_.between if use.kind == "clipped" for leaf, _ in use.tensors)
        grown = [
            leaf
            for leaf, now in round_.step.tensors
            if _only_added(then.get(leaf), now, len(round_.came.get(leaf, ())), clips[leaf])
        ]
        if grown and all(leaf in grown for leaf in round_.came):
            told.add(round_.step.place)
            finding = Finding(
                recording=recording,
                kind=SUMMED,
                frame=round_.step.frame,
                culprit=round_.came[grown[0]][-1].place,
                victim=round_.step.place,
                tensor=grown[0],
            )
            yield finding.told(ADDED_UP, CLEAR, {})


def _only_added(then: int | None, now: int | None, came: int, clips: int) -> bool:
    """Has the gradient been written just as often as one came or it was clipped: by nobody who cleared it?"""
    return then is not None and now is not None and came > 0 and now - then == came + clips


# -- what another loss has left is used too

FOREIGN = DiagnosisKind("foreign_gradients", "note", marked("gradients of another loss"))
LEFT_THERE = marked(
    "The step on {victim} also uses what {culprit} has left in the gradient of {label}: that backward call was for the "
    "step on {other}."
)
KEEP_APART = marked(
    "If that isn't meant, clear these gradients right before the backward call of their own loss, or keep the other "
    "loss from reaching them."
)


@finder(order=22)
def find_foreign(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of a step whose gradients a backward for another optimiser's step has added to."""
    told: set[Place | None] = set()
    for round_ in rounds(recording):
        found = next(_left_by_others(recording, round_), None)
        if found is not None and round_.step.place not in told:
            told.add(round_.step.place)
            leaf, frame, other = found
            finding = Finding(
                recording=recording,
                kind=FOREIGN,
                frame=round_.step.frame,
                culprit=frame.place,
                victim=round_.step.place,
                tensor=leaf,
            )
            facts: dict[str, Word] = {"label": label(recording, leaf)}
            yield finding.told(LEFT_THERE, KEEP_APART, facts, other=finding.line(other.place))


def _left_by_others(recording: Recording, round_: Round) -> Iterator[tuple[int, Frame, GradientUse]]:
    """Leaf, arrival and step: the call that the arrival is of reached that other optimiser, which then stepped.

    After it another gradient came to the leaf, and nobody had cleared the first.
    """
    cleared = {leaf: use.frame for use in round_.cleared for leaf, _ in use.tensors}
    others = [use for use in round_.between if use.kind == "stepped" and not leaves_of(use) & round_.leaves]
    for other in others:
        for leaf, frames in round_.came.items():
            since = [frame for frame in frames if frame.index > cleared.get(leaf, -1)]
            for frame in since[:-1]:
                between = frame.index <= other.frame < since[-1].index
                if between and leaves_of(other) & reached(recording, frame.backward):
                    yield leaf, frame, other


def reached(recording: Recording, backward: int | None) -> set[int | None]:
    """The leaves that a backward call has given a gradient."""
    return {leaf_of(recording, frame) for frame in recording.frames if frame.backward == backward}


# -- clipped after the step that was to use them

CLIPPED_LATE = DiagnosisKind("clipped_after_step", "note", marked("clipped after the step"))
STEP_WAS_BEFORE = marked(
    "{Culprit} clips gradients that the step on {victim} has used already: it changes nothing about that step."
)
CLIP_BETWEEN = marked("Clip after the backward call and before the step.")


@finder(order=23)
def find_clipped_late(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clips where no gradient came since a step."""
    told: set[Place | None] = set()
    for at, clip in enumerate(recording.uses):
        if clip.kind != "clipped" or clip.place in told:
            continue
        leaves = leaves_of(clip)
        before = (use for use in reversed(recording.uses[:at]) if use.kind == "stepped" and leaves & leaves_of(use))
        step = next(before, None)
        if step is None:
            continue
        came = (leaf_of(recording, frame) for frame in recording.frames[step.frame + 1 : clip.frame + 1])
        if leaves.isdisjoint(came):
            told.add(clip.place)
            finding = Finding(
                recording=recording,
                kind=CLIPPED_LATE,
                frame=clip.frame,
                culprit=clip.place,
                victim=step.place,
                tensor=clip.tensors[0][0],
            )
            yield finding.told(STEP_WAS_BEFORE, CLIP_BETWEEN, {})


# -- trained, but held by no optimiser that steps

HELD_BY_NOBODY = DiagnosisKind("no_optimiser_holds_it", "note", marked("no optimiser holds it"))
NOT_STEPPED = {
    "before": marked(
        "The backward call on {culprit} computes a gradient for {leaves}, but no optimiser that steps holds them: the "
        "step on {victim} leaves them as they are."
    ),
    "thawed": marked(
        "{Culprit} switched {leaves} on, and no optimiser that steps holds them: the backward call on {backward} "
        "computes a gradient for them, the step on {victim} leaves them as they are."
    ),
    "wrapped": marked(
        "{Culprit} goes on from a Parameter to a result of it, by `{op}`: what is kept is no Parameter, so no module "
        "and no optimiser knows of it, and the step on {victim} leaves it as it is."
    ),
    "hidden": marked(
        "{Culprit} keeps modules in `{owner}`, a plain list or dict, which doesn't register them: the backward call on "
        "{backward} computes gradients for their Parameters, the optimiser wasn't given them, and the step on {victim} "
        "leaves them as they are."
    ),
    "replaced": marked(
        "{Culprit} made {leaves}, but the optimiser still holds what was in their place before: the backward call on "
        "{backward} computes a gradient for them, the step on {victim} leaves them as they are."
    ),
    "copied": marked(
        "{Culprit} makes a copy, and the backward call on {backward} computes gradients for the copy, {leaves}: the "
        "optimiser holds what was copied, and the step on {victim} finds no gradient there."
    ),
    "left_out": marked(
        "{Culprit} makes the optimiser without {leaves}: the backward call on {backward} computes a gradient for them, "
        "the step on {victim} leaves them as they are."
    ),
    "made": marked(
        "{Culprit} made {leaves}, and no optimiser that steps holds them: the backward call on {backward} computes a "
        "gradient for them, the step on {victim} leaves them as they are."
    ),
}
ADD_IT = marked(
    "If they are meant to learn, give them to the optimiser when you switch them on: `optimizer.add_param_group(…)`, "
    "or make it of all parameters from the start."
)
REGISTER = marked(
    "If they are meant to learn, register them: `nn.ModuleList([…])` or `nn.ModuleDict({{…}})` around it, before the "
    "optimiser is made; a list outside of a module, give to the optimiser yourself."
)
MAKE_IT_AFTER = marked(
    "If they are meant to learn, make the optimiser after that line, or put the new numbers into the old Parameter: "
    "`with torch.no_grad(): parameter.copy_(…)`."
)
GIVE_THEM = marked(
    "If they are meant to learn, give them to it, `[*model.parameters(), *{owner}.parameters()]`, and make it after "
    "all modules are in place. If not, switch their `requires_grad` off."
)
MAKE_IT_LAST = marked(
    "If it is meant to learn, make the Parameter of the finished numbers: `nn.Parameter(…)` around the whole."
)
HOLD_IT = marked(
    "If they are meant to learn, give them to the optimiser: modules in a plain list aren't registered (use "
    "`nn.ModuleList`), and an optimiser knows only what `parameters()` held when it was made. If not, switch their "
    "`requires_grad` off."
)
KEEP_THE_WAY = marked(
    "If what was copied is to learn by it (MAML), keep the way back: compute `p - rate * gradient` as new tensors, "
    "without `.data`, and call the model with them by `torch.func.functional_call`; if the copy is to learn, give its "
    "parameters to the optimiser."
)
HOLD = {
    "copied": KEEP_THE_WAY,
    "wrapped": MAKE_IT_LAST,
    "thawed": ADD_IT,
    "hidden": REGISTER,
    "left_out": GIVE_THEM,
    "replaced": MAKE_IT_AFTER,
}


@finder(order=24)
def find_held_by_nobody(recording: Recording) -> Iterator[Diagnosis]:
    """One note for all Parameters with a gradient that neither an optimiser nor a line of the block's updates.

    A block that an error has ended might have come to their step.
    """
    if recording.error is not None:
        return
    steps = [use for use in recording.uses if use.kind == "stepped" and any(now is not None for _, now in use.tensors)]
    idle = [use for use in recording.uses if use.kind == "idle"]  # which is told of by itself
    held = {leaf for use in (*steps, *idle) for leaf in leaves_of(use)}
    written = {recording.tensors[write.tensor].storage: write.frame for write in recording.writes}
    waiting: dict[int, Frame] = {}
    replaced = replacing(recording)
    if replaced:  # what stood there before has no gradient to step with any more
        steps = [use for use in recording.uses if use.kind == "stepped"]
    last = max((use.frame for use in steps), default=-1)
    stepped = {leaf for use in recording.uses if use.kind == "stepped" for leaf in leaves_of(use)}
    if not any(recording.tensors[leaf].parameter for leaf in held | stepped):  # what is trained is an input
        held |= {ref.id for ref in recording.tensors if ref.parameter}
    for frame in recording.frames[: last + 1]:
        leaf = leaf_of(recording, frame)
        if leaf is not None and leaf not in held and (recording.tensors[leaf].parameter or leaf in replaced):
            waiting.setdefault(leaf, frame)
    leaves = [leaf for leaf, came in waiting.items() if written.get(recording.tensors[leaf].storage, 0) < came.index]
    if leaves:
        yield _nobody(recording, leaves, waiting[leaves[0]], steps)


def _nobody(recording: Recording, leaves: list[int], came: Frame, steps: list[GradientUse]) -> Diagnosis:
    """The Diagnosis of these; by how they came to be."""
    how, culprit, op, owner = _how(recording, leaves[0])
    victim = next(use for use in steps if use.frame >= came.index)
    finding = Finding(
        recording=recording,
        kind=HELD_BY_NOBODY,
        frame=victim.frame,
        culprit=culprit or came.place,
        victim=victim.place,
        tensor=leaves[0],
    )
    facts: dict[str, Word] = {"leaves": names(recording, leaves), "how": how, "op": op}
    return finding.told(NOT_STEPPED[how], HOLD.get(how, HOLD_IT), facts, backward=finding.line(came.place), owner=owner)


def _how(recording: Recording, leaf: int) -> tuple[str, Place | None, str, str]:
    """How a leaf came to be held by nobody, the line, the op that it was given to, the module that it's of."""
    wrapped, thawed, made = wrapped_by(recording, leaf), switched_on(recording, leaf), made_by(recording, leaf)
    shared = {each.kind: each for each in reversed(recording.shared) if leaf in each.tensors}
    if wrapped is not None:
        return "wrapped", wrapped.place, wrapped.op, ""
    stands_in = leaf in replacing(recording)
    if thawed is not None and (recording.tensors[leaf].parameter or not stands_in):
        return "thawed", thawed, "", ""
    if "hidden" in shared:
        return "hidden", shared["hidden"].place, "", shared["hidden"].name
    if stands_in:
        stands = made or made_at(recording, leaf)
        return ("copied" if stands and "copy(" in stands.code else "replaced"), stands, "", ""
    if "left_out" in shared:
        return "left_out", shared["left_out"].place, "", shared["left_out"].other
    return ("made" if made else "before"), made, "", ""


def replacing(recording: Recording) -> dict[int, int]:
    """Leaf that learns and that no step holds → one that it stands in for, to which no gradient comes any more.

    A Parameter for one of the same shape, but for its length; another tensor for one of its own name.
    """
    first, last = dict[int, int](), dict[int, int]()
    for frame in recording.frames:
        leaf = leaf_of(recording, frame)
        if leaf is not None:
            first.setdefault(leaf, frame.index)
            last[leaf] = frame.index
    held = {leaf for use in recording.uses if use.kind == "stepped" for leaf in leaves_of(use)}
    olds: dict[object, list[int]] = {}
    for leaf in held:
        olds.setdefault(_stands_for(recording, leaf), []).append(leaf)
    found: dict[int, int] = {}
    for leaf in first.keys() - held:
        alike = olds.get(_stands_for(recording, leaf), ())
        old = next((each for each in alike if last.get(each, -1) < first[leaf]), None)
        if old is not None:
            found[leaf] = old
    return found


def _stands_for(recording: Recording, leaf: int) -> object:
    ref = recording.tensors[leaf]
    return ("Parameter", ref.shape[1:], len(ref.shape)) if ref.parameter else (ref.name, ref.shape)


def wrapped_by(recording: Recording, leaf: int) -> Frame | None:
    """The op whose result is kept in place of the Parameter, which nobody holds: it ran once, for several laps."""
    uses = [frame for frame in recording.frames if leaf in frame.inputs and frame.phase == "forward"]
    calls = {frame.backward for frame in recording.frames if leaf_of(recording, frame) == leaf}
    alone = recording.tensors[leaf].name is None and len(uses) == 1 and len(calls) > 1
    return uses[0] if alone and uses[0].grad_enabled else None


def switched_on(recording: Recording, leaf: int) -> Place | None:
    """The line that switched the gradient of a leaf on again."""
    switches = [each for each in recording.switches if each.kind == "tensors" and leaf in each.tensors]
    return switches[-1].place if switches and switches[-1].on else None
