"""Questions on the next step of backward, before it opens: which Function runs, which gradient comes.

With help a question offers its candidates; without it the learner finds the Function in the picture, and of the numbers
that the Recording holds more are offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from seegrad.model.recording import Frame, Gradient, Recording, TensorRef
from seegrad.model.scene import Choice, Question
from seegrad.picture.steps import numbers
from seegrad.quiz.functions import SAVES, pills_of, unneeded, waits_of
from seegrad.quiz.subject import QuestionKind, Wanted, last_forward, named_for, question
from seegrad.words.errors import QuestionError
from seegrad.words.languages import _, marked

CANDIDATES, OFFERED = 2, 4
CHOOSE = marked("Which Function does backward run next?")
CLICK = marked("Which Function does backward run next? Click it.")


@dataclass(frozen=True, slots=True)
class Running:
    """One Function of the first backward call, and the Frame in which it runs."""

    frame: int
    name: str
    pill: str


def running(recording: Recording) -> list[Running]:
    """The Functions in the order in which the first backward call runs them."""
    names = {pill: name for name, pill in pills_of(recording, last_forward(recording), ()).items()}
    first = dict[str, int]()
    for frame in _backward(recording):
        if f"f{frame.running}" in names:
            first.setdefault(f"f{frame.running}", frame.index)
    return [Running(frame, names[pill], pill) for pill, frame in first.items()]


def _waits(recording: Recording) -> list[tuple[str, str]]:
    """Each Function with the next of those that have to run before it."""
    pills = pills_of(recording, last_forward(recording), ())
    return list(waits_of(recording, {pill: name for name, pill in pills.items()}))


def _backward(recording: Recording) -> list[Frame]:
    """The Frames of the first backward call."""
    calls = [frame.backward for frame in recording.frames if frame.backward is not None]
    return [frame for frame in recording.frames if calls and frame.backward == calls[0]]


def _next(recording: Recording, wanted: Wanted) -> Question:
    """Which Function runs in a Frame; without one, in the first where there is a choice."""
    order = running(recording)
    pills = {pill: name for name, pill in pills_of(recording, last_forward(recording), ()).items()}
    waits = _waits(recording)
    now = _place(order, waits, wanted.frame)
    ran, left = [each.name for each in order[:now]], [each.name for each in order[now:]]
    if len(left) < 2:
        raise QuestionError(_("One Function alone is left to run, so there is nothing to choose from."))
    offered = left[: CANDIDATES + 1] if wanted.helped else list(pills.values())
    called = _called(recording, pills)
    why = _whys(recording, pills, ran, waits)
    said = _("Next runs `{name}`.").format(name=called[left[0]])
    asked = question(
        recording,
        "next",
        wanted.prompt or (CHOOSE if wanted.helped else CLICK),
        left[0],
        order[now].frame - 1,
        choices=tuple(Choice(name, called[name], "", why[name]) for name in pills.values() if name in offered),
        targets=() if wanted.helped else tuple(pills.items()),
        right=said,
        wrong=said,
        evidence=(order[now].pill,),
        numbers=True,
    )
    return replace(asked, id=named_for(recording, "next", str(now)))


def _called(recording: Recording, pills: Mapping[str, str]) -> dict[str, str]:
    """What a Function is called where it can't be pointed at: with the tensor that it made."""
    made = {ref.id: ref.name for ref in recording.tensors if ref.name}
    nodes = {f"f{node.id}": node for node in recording.nodes}
    results = {pill: next((made[k] for k in nodes[pill].outputs if k in made), "") for pill in pills}
    return {name: f"{nodes[pill].name} → {results[pill]}" if results[pill] else name for pill, name in pills.items()}


def _place(order: list[Running], waits: list[tuple[str, str]], frame: int | None) -> int:
    """The number of the Function that is asked for. Raises: QuestionError where there is none."""
    if not order:
        raise QuestionError(_("No backward pass ran in this block, so there is no step to ask about."))
    if frame is not None:
        return [each.frame for each in order].index(frame)
    return next(iter(_decided(order, waits)), 0)


def _decided(order: list[Running], waits: list[tuple[str, str]]) -> list[int]:
    """The numbers of the Functions beside which another was ready: those whose gradients have all come."""
    names = [each.name for each in order]
    early = [{early for early, late in waits if late in names[k:]} for k in range(len(names))]
    return [k for k in range(len(names)) if len(set(names[k:]) - early[k]) > 1]


def _whys(
    recording: Recording, pills: Mapping[str, str], ran: list[str], waits: list[tuple[str, str]]
) -> dict[str, str]:
    """For each Function why it doesn't run next; that of the one that does is never read."""
    called = _called(recording, pills)
    comes = {f"f{frame.running}" for frame in _backward(recording)}
    nodes = {f"f{node.id}": node for node in recording.nodes}
    wait = _("`{early}` has to wait for `{late}`, which sends it its gradient.")
    told = {}
    for pill, name in pills.items():
        late = [called[late] for early, late in waits if early == name and late not in ran]
        if name in ran:
            told[name] = _("`{name}` has run already.").format(name=called[name])
        elif pill not in comes:
            told[name] = unneeded(recording, nodes[pill], called[name]).message
        elif late:
            told[name] = wait.format(early=called[name], late=late[0])
        else:
            told[name] = _("Of those that are ready torch runs the newest.")
    return told


def _gradient(recording: Recording, wanted: Wanted) -> Question:
    """Which gradient comes to a tensor in a Frame; without one, in the last that brings one to a tensor with a name."""
    tensors = {ref.id: ref for ref in recording.tensors}
    come = [
        (frame, each)
        for frame in _backward(recording)
        for each in frame.gradients
        if each.preview and tensors[each.tensor].name and wanted.frame in (None, frame.index)
    ]
    if not come:
        raise QuestionError(_("No gradient with numbers comes to a named tensor there, so there is none to ask for."))
    frame, gradient = come[-1]
    tensor, truth = tensors[gradient.tensor], numbers(gradient.preview, gradient.shape)
    others = {choice.key: choice for choice in _others(recording, frame, gradient, tensor) if choice.key != truth}
    if not others:
        raise QuestionError(_("Every number in this block is that gradient, so there is nothing to choose from."))
    offered = [Choice(truth, truth, "", ""), *list(others.values())[: CANDIDATES if wanted.helped else OFFERED]]
    said = _("To `{name}` comes {numbers}.").format(name=tensor.name, numbers=truth)
    prompt = wanted.prompt or marked("The next step brings `{name}` a gradient. Which?")
    asked = question(
        recording,
        "gradient",
        prompt,
        truth,
        frame.index - 1,
        choices=tuple(sorted(offered, key=lambda choice: choice.key)),
        right=said,
        wrong=said,
        numbers=True,
    )
    number = named_for(recording, "gradient", str(tensor.name), str(frame.index))
    return replace(asked, prompt=asked.prompt.replace("{name}", str(tensor.name)), id=number)


def _others(recording: Recording, frame: Frame, gradient: Gradient, tensor: TensorRef) -> Iterator[Choice]:
    """Numbers of the same shape: the tensor's own, what came to others before, what others hold."""
    shapes = {ref.id: ref.shape for ref in recording.tensors}
    names = {ref.id: ref.name or _("(unnamed)") for ref in recording.tensors}
    for earlier in reversed(recording.frames[: frame.index]):
        for each in earlier.gradients:
            if each.shape == gradient.shape and each.preview and each.tensor != tensor.id:
                said = _("Yours came to `{name}`: on its way each Function multiplies it by its own derivative.")
                text = numbers(each.preview, each.shape)
                yield Choice(text, text, "", said.format(name=names[each.tensor]))
    for earlier in reversed(recording.frames[: frame.index]):
        for number, preview in earlier.values:
            if shapes.get(number) == gradient.shape and preview:
                said = _("Yours is the value of `{name}`, and no gradient.").format(name=names[number])
                text = numbers(preview, gradient.shape)
                yield Choice(text, text, "", said)


def _kept(recording: Recording, wanted: Wanted) -> Question:
    """What the one Function of `wanted.nodes` saved, asked before it runs."""
    prompt = marked("What has `{node}` saved? Tick it, or click it in the picture.")
    asked = SAVES.ask(recording, replace(wanted, prompt=prompt))
    pills = {pill: name for name, pill in pills_of(recording, last_forward(recording), ()).items()}
    said = asked.prompt.replace("{node}", _called(recording, pills)[wanted.nodes[0]])
    return replace(
        asked, prompt=said, until_step=(wanted.frame or 1) - 1, id=named_for(recording, "saves", *wanted.nodes)
    )


NEXT = QuestionKind("next", _next)
GRADIENT = QuestionKind("gradient", _gradient)
KEPT = QuestionKind("saves", _kept, SAVES.mistakes)


def ahead(recording: Recording, *, helped: bool) -> tuple[Question, ...]:
    """One question for each Function of backward, before its step: which it is, where another is ready too.

    Elsewhere in turn which it is, what it saved, what came. The last is on the gradient that the last leaf gets. What
    can't be asked of a Function is left to the next kind.

    Raises: QuestionError where no backward pass ran.
    """
    order = running(recording)
    if not order:
        raise QuestionError(_("No backward pass ran in this block, so there is no step to ask about."))
    decided = _decided(order, _waits(recording))
    turns = [0 if k in decided else k - sum(each < k for each in decided) for k in range(len(order))]
    asked = [_first(recording, each, turn, helped=helped) for each, turn in zip(order, turns, strict=True)]
    with suppress(QuestionError):
        asked.append(GRADIENT.ask(recording, Wanted(helped=helped)))
    found = {each.id: each for each in asked if each is not None}
    return tuple(sorted(found.values(), key=lambda each: each.until_step))


def _first(recording: Recording, now: Running, turn: int, *, helped: bool) -> Question | None:
    """The first question that can be asked about a Function, beginning with another kind each turn."""
    wanted = Wanted(nodes=(now.name,), frame=now.frame, helped=helped)
    kinds = (NEXT, KEPT, GRADIENT)
    for kind in (*kinds[turn % 3 :], *kinds[: turn % 3]):
        with suppress(QuestionError):
            return kind.ask(recording, wanted)
    return None
