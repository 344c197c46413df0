"""Questions about tensors: their versions, which are leaves, which keep their gradient."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from seegrad.model.recording import Recording, TensorRef
from seegrad.model.scene import Question
from seegrad.quiz.subject import (
    QuestionKind,
    Wanted,
    aliases,
    choice,
    last_forward,
    listed,
    named,
    other_names,
    question,
)
from seegrad.words.errors import QuestionError
from seegrad.words.languages import _, counted, marked


def _versions(recording: Recording, wanted: Wanted) -> Question:
    """The version of each named tensor after the last forward line; the picture stops before the first write."""
    last = last_forward(recording)
    asked = named(recording, last, wanted.tensors)
    now: dict[int, int | None] = {}
    born: dict[int, int | None] = {}
    for frame in recording.frames[: last + 1]:
        now |= dict(frame.versions)
        born = dict(frame.versions) | born
    truth = {name: now[ref.id] for name, ref in asked.items() if now.get(ref.id) is not None}
    if not truth:
        raise QuestionError(
            _("No named tensor of this block has a version counter, so there is no version to ask for.")
        )
    aliased = aliases(recording)
    writes = [write.frame for write in recording.writes]
    until = max(0, min([last + 1, *writes]) - 1) if writes else last
    choices = tuple(
        choice(
            f"{name}={wrong}",
            "",
            "M05" if asked[name].storage in aliased else "M11" * (not born[asked[name].id]),
            _writes_to(recording, asked[name], last),
        )
        for name, version in truth.items()
        for wrong in range(4)
        if wrong != version
    )
    told = [_("`{name}` is at version {version}").format(name=name, version=version) for name, version in truth.items()]
    said = _("{clauses}.").format(clauses=_(", ").join(told))
    return question(
        recording,
        "versions",
        wanted.prompt or _after_what(recording),
        truth,
        until,
        choices=choices,
        targets=tuple((name, name) for name in truth),
        right=said,
        wrong=said,
        evidence=tuple(f"t{asked[name].id}" for name in truth),
        veil="counters",
    )


def _after_what(recording: Recording) -> str:
    """Where no backward ran, nothing says so early that a line raises: it is the last one that runs either way."""
    if any(frame.phase == "backward" for frame in recording.frames):
        return marked("Which version will each tensor have after the last line before backward?")
    return marked("Which version will each tensor have after the last line that runs?")


def _writes_to(recording: Recording, ref: TensorRef, last: int) -> str:
    """The lines that moved its version."""
    counters = {each.id: each.counter for each in recording.tensors}
    lines = [
        str(write.place.line)
        for write in recording.writes
        if write.frame <= last and counters[write.tensor] == ref.counter and write.version_before != write.version_after
    ]
    if not lines:
        return _("No write hits `{name}`.").format(name=ref.name)
    said = counted(
        "{count} write moves the version of `{name}`: on line {lines}.",
        "{count} writes move the version of `{name}`: on lines {lines}.",
        len(lines),
    )
    return said.format(count=len(lines), name=ref.name, lines=_(", ").join(lines))


def _origin(recording: Recording, name: str, ref: TensorRef) -> str:
    """Which Function made it, where one did; that the leaves have none is said of all of them at once."""
    if ref.is_leaf:
        return ""
    maker = next((node.name for node in reversed(recording.nodes) if ref.id in node.outputs), None)
    if maker is None:
        return _("No Function made `{name}`.").format(name=name)
    return _("`{node}` made `{name}`.").format(node=maker, name=name)


def _why_kept(name: str, ref: TensorRef, is_kept: bool, is_retained: bool) -> str:
    """Why this tensor keeps its gradient, or doesn't; what isn't one of the usual reasons is left to the others."""
    if is_kept:
        said = (
            _("`{name}` is a leaf that needs a gradient.") if ref.is_leaf else _("`{name}.retain_grad()` came in time.")
        )
    elif not ref.requires_grad:
        said = _("`{name}` asks for no gradient.")
    elif not ref.is_leaf and not is_retained:
        said = _("`{name}` isn't a leaf, and nobody called `{name}.retain_grad()`.")
    else:
        said = ""
    return said.format(name=name)


def _other_versions(question: Question, value: Any) -> list[str]:
    given = value if isinstance(value, Mapping) else {}
    truth = json.loads(question.truth)
    return [f"{name}={given.get(name)}" for name, version in truth.items() if given.get(name) != version]


def _leaves(recording: Recording, wanted: Wanted) -> Question:
    """The named tensors that no Function made."""
    last = last_forward(recording)
    asked = named(recording, last, ())
    truth = [name for name, ref in asked.items() if ref.is_leaf]
    choices = tuple(
        choice(f"{'-' if ref.is_leaf else '+'}{name}", "", "" if ref.is_leaf else "M01", _origin(recording, name, ref))
        for name, ref in asked.items()
    )
    told = _("The leaves are {names}: they have no grad_fn.").format(names=listed(truth))
    said = told if truth else _("There is no leaf.")
    return question(
        recording,
        "leaves",
        wanted.prompt or marked("Which tensors are leaves? Click them all."),
        truth,
        last,
        choices=choices,
        targets=tuple((f"t{ref.id}", name) for name, ref in asked.items()),
        right=said,
        wrong=said,
        evidence=tuple(f"t{asked[name].id}" for name in truth),
        veil="leaves",
    )


def _keeps(recording: Recording, wanted: Wanted) -> Question:
    """The named tensors whose `.grad` is filled when the block has ended."""
    if not any(frame.phase in ("backward", "error") for frame in recording.frames):
        raise QuestionError(_("No backward pass ran in this block, so there is no gradient to ask for."))
    last = last_forward(recording)
    asked = named(recording, last, ())
    kept = {g.tensor for frame in recording.frames for g in frame.gradients if g.kept}
    truth = [name for name, ref in asked.items() if ref.id in kept]
    retained = {hook.tensor for hook in recording.hooks if hook.kind == "retain"}
    raised = any(frame.phase == "error" for frame in recording.frames)
    told = _(
        "`.grad` is filled in {names}: in a leaf that needs a gradient, and where `retain_grad()` was called in time."
    )
    said = told.format(names=listed(truth)) if truth else _("No tensor here keeps a gradient in `.grad`.")
    return question(
        recording,
        "keeps",
        wanted.prompt or marked("Which tensors hold a gradient in `.grad` after backward? Click them all."),
        truth,
        last,
        choices=tuple(
            choice(
                f"{'-' if ref.id in kept else '+'}{name}",
                "",
                _belief(ref, kept, retained, raised),
                _why_kept(name, ref, ref.id in kept, ref.id in retained),
            )
            for name, ref in asked.items()
        ),
        targets=tuple((f"t{ref.id}", name) for name, ref in asked.items()),
        right=said,
        wrong=said,
        veil="keeps",
    )


def _belief(ref: TensorRef, kept: set[int], retained: set[int | None], raised: bool) -> str:
    """What it shows when just this tensor is taken for the other thing; a leaf that no gradient reached is cut off."""
    if ref.id in retained:
        return "M02"
    if ref.id in kept or (ref.requires_grad and not ref.is_leaf):
        return "M01"
    return "M10" if ref.requires_grad and not raised else ""


VERSIONS = QuestionKind("versions", _versions, _other_versions)
LEAVES = QuestionKind("leaves", _leaves, other_names)
KEEPS = QuestionKind("keeps", _keeps, other_names)
