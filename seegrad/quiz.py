"""Questions asked on the graph: `ask` makes one from a Recording, `judge` looks at an answer. Answers are JSON.

An answer is `{kind: value}`: `{"outcome": "silent"}`, `{"versions": {"out": 1}}`, `{"leaves": ["a"]}`,
`{"culprit": 3}`. A mistake is a short key (`silent`, `out=0`, `+b`, `-a`, `5`); a Choice with that key says which
misconception it shows. The player judges by the same keys, so a saved page needs no Python.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .beliefs import MISCONCEPTIONS
from .errors import QuestionError
from .languages import _, marked, together
from .model import Recording, TensorRef
from .scene import Choice, Question

__all__ = ["KINDS", "Question", "Verdict", "ask", "judge"]

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the asker wants the question: another prompt, only some tensors."""

    prompt: str = ""
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer was worth: right or not, a sentence, and the misconceptions behind its mistakes."""

    right: bool
    message: str
    misconception: str = ""


def ask(recording: Recording, kind: str, prompt: str = "", tensors: tuple[str, ...] = (), name: str = "q1") -> Question:
    """A question of one `kind` about this Recording. `tensors` limits a `versions` question to these names.

    `name` is the variable in the line of Python that shows the answer.

    Raises: QuestionError when the kind is unknown, or the Recording has nothing to ask about.

    >>> import seegrad, torch
    >>> a = torch.ones(2, requires_grad=True)
    >>> with seegrad.record() as rec:
    ...     b = a * 2
    >>> ask(rec.recording, "leaves").truth
    '["a"]'
    """
    if kind not in KINDS:
        said = _("There is no question of kind {kind}. Choose one of {kinds}.")
        raise QuestionError(said.format(kind=repr(kind), kinds=", ".join(sorted(KINDS))))
    if not recording.frames:
        raise QuestionError(_("Nothing was recorded in this block, so there is nothing to ask about."))
    return replace(KINDS[kind](recording, Wanted(prompt, tensors)), name=name)


def judge(question: Question, answer: Answer) -> Verdict:
    """Is the answer right, and if not, what does the mistake show?

    Raises: QuestionError when the answer isn't one to this question.

    >>> question = Question("q", "outcome", "What will happen?", '"fine"', 0, right="All is well.")
    >>> judge(question, {"outcome": "fine"})
    Verdict(right=True, message='All is well.', misconception='')
    """
    if question.kind not in answer:
        wanted = f'{{"{question.kind}": …}}'
        raise QuestionError(_("Expected an answer like {wanted}, not {came}.").format(wanted=wanted, came=dict(answer)))
    found = mistakes(question, answer[question.kind])
    if not found:
        return Verdict(True, question.right)
    known = {choice.key: choice for choice in question.choices}
    told = [known[key] for key in found if key in known and known[key].misconception]
    said = list(dict.fromkeys(choice.message for choice in told)) or [question.wrong]
    return Verdict(False, together(*([question.wrong, *said] if told else said)), told[0].misconception if told else "")


def mistakes(question: Question, value: Any) -> list[str]:
    """The keys of what is wrong in an answer, in a fixed order.

    >>> question = Question("q", "leaves", "?", '["a", "b"]', 0)
    >>> mistakes(question, ["b", "c"])
    ['+c', '-a']
    """
    truth = json.loads(question.truth)
    if question.kind == "versions":
        given = value if isinstance(value, Mapping) else {}
        return [f"{name}={given.get(name)}" for name, version in truth.items() if given.get(name) != version]
    if question.kind == "leaves":
        picked = set(value) if isinstance(value, list | tuple | set) else set()
        return [
            *(f"+{name}" for name in sorted(picked - set(truth))),
            *(f"-{name}" for name in truth if name not in picked),
        ]
    accepted = truth if isinstance(truth, list) else [truth]
    return [] if value in accepted else [str(value)]


def outcome_of(recording: Recording) -> str:
    """`raise`, `silent` (a wrong gradient without an error) or `fine`."""
    if recording.error is not None or any(d.raised for d in recording.diagnoses):
        return "raise"
    return "silent" if any(d.severity == "wrong" for d in recording.diagnoses) else "fine"


def _outcome(recording: Recording, wanted: Wanted) -> Question:
    truth = outcome_of(recording)
    about_alias = "M05" if _aliases(recording) else "M03"
    beliefs = {
        "raise": {"silent": about_alias, "fine": about_alias},
        "silent": {"raise": about_alias, "fine": "M06"},
        "fine": {"raise": "M03", "silent": "M03"},
    }[truth]
    labels = {
        "raise": _("torch raises an error"),
        "silent": _("no error, but a gradient is wrong"),
        "fine": _("no error, and every gradient is right"),
    }
    choices = tuple(_choice(key, label, beliefs.get(key, "")) for key, label in labels.items())
    said = {
        "raise": _("Torch raises."),
        "silent": _("Torch says nothing, and the gradient is wrong."),
        "fine": _("Torch raises nothing, and the gradients are right."),
    }[truth]
    return _question(
        recording,
        "outcome",
        wanted.prompt or marked("What will happen in the backward pass?"),
        truth,
        _last_forward(recording),
        choices=choices,
        right=said,
        wrong=said,
        evidence=_evidence(recording),
    )


def _versions(recording: Recording, wanted: Wanted) -> Question:
    """The version of each named tensor after the last forward line; the picture stops before the first write."""
    last = _last_forward(recording)
    asked = _named(recording, last, wanted.tensors)
    now: dict[int, int | None] = {}
    for frame in recording.frames[: last + 1]:
        now |= dict(frame.versions)
    truth = {name: now[ref.id] for name, ref in asked.items() if now.get(ref.id) is not None}
    if not truth:
        raise QuestionError(
            _("No named tensor of this block has a version counter, so there is no version to ask for.")
        )
    aliased = _aliases(recording)
    writes = [write.frame for write in recording.writes]
    until = max(0, min([last + 1, *writes]) - 1) if writes else last
    choices = tuple(
        _choice(f"{name}={wrong}", "", "M05" if asked[name].storage in aliased else "M11")
        for name, version in truth.items()
        for wrong in range(4)
        if wrong != version
    )
    told = [_("`{name}` is at version {version}").format(name=name, version=version) for name, version in truth.items()]
    said = _("{clauses}.").format(clauses=_(", ").join(told))
    return _question(
        recording,
        "versions",
        wanted.prompt or marked("Which version will each tensor have after the last line before backward?"),
        truth,
        until,
        choices=choices,
        targets=tuple((name, name) for name in truth),
        right=said,
        wrong=said,
        evidence=tuple(f"t{asked[name].id}" for name in truth),
        veil="counters",
    )


def _aliases(recording: Recording) -> set[int]:
    """The storages that a `.data` or `.detach()` reaches."""
    return {ref.storage for ref in recording.tensors if ref.route in ("data", "detach")}


def _leaves(recording: Recording, wanted: Wanted) -> Question:
    last = _last_forward(recording)
    asked = _named(recording, last, ())
    truth = [name for name, ref in asked.items() if ref.is_leaf]
    choices = tuple(_choice(f"{'-' if ref.is_leaf else '+'}{name}", "", "M01") for name, ref in asked.items())
    listed = _(", ").join(f"`{name}`" for name in truth)
    said = _("The leaves are {names}: they have no grad_fn.").format(names=listed) if truth else _("There is no leaf.")
    return _question(
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


def _culprit(recording: Recording, wanted: Wanted) -> Question:
    guilty = [d for d in recording.diagnoses if d.culprit is not None and d.severity != "note"]
    if not guilty or guilty[0].culprit is None:
        raise QuestionError(_("Nothing went wrong in this block, so there is no culprit to find."))
    line = guilty[0].culprit.line
    victim = guilty[0].victim
    code = recording.code or ((line, guilty[0].culprit.code),)
    stopped = recording.error.place.line if recording.error is not None and recording.error.place is not None else None
    told = {stopped, victim.line if victim else None}
    wrong = [(number, text) for number, text in code if number != line and text.strip()]
    choices = tuple(_choice(str(number), text, "M04" if number in told else "") for number, text in wrong)
    return _question(
        recording,
        "culprit",
        wanted.prompt or marked("Which line did the damage? Click it, or its pill."),
        line,
        _last_forward(recording),
        choices=choices,
        targets=_lines(recording, code),
        right=_("Line {line} overwrote what backward needs.").format(line=line),
        wrong=_("Line {line} did it: `{code}`.").format(line=line, code=guilty[0].culprit.code.strip()),
        evidence=(f"line:{line}", *([f"w{guilty[0].write_id}"] if guilty[0].write_id is not None else [])),
    )


def _lines(recording: Recording, code: tuple[tuple[int, str], ...]) -> tuple[tuple[str, str], ...]:
    """Every line that can be clicked, and the pills that it made."""
    targets = [(f"line:{number}", str(number)) for number, text in code if text.strip()]
    for frame in recording.frames:
        if frame.place is not None and frame.phase in ("forward", "inplace"):
            pills = [*(f"f{k}" for k in frame.nodes), *(f"w{k}" for k in frame.writes)]
            targets += [(pill, str(frame.place.line)) for pill in pills]
    return tuple(targets)


KINDS: dict[str, Callable[[Recording, Wanted], Question]] = {
    "outcome": _outcome,
    "versions": _versions,
    "leaves": _leaves,
    "culprit": _culprit,
}


def _choice(key: str, label: str, belief: str) -> Choice:
    return Choice(key, label, belief, _(MISCONCEPTIONS.get(belief, "")))


def _question(recording: Recording, kind: str, prompt: str, truth: Any, until_step: int, **more: Any) -> Question:
    """The id names the question and the code it is about, not the run and not the language."""
    subject = "\n".join(text.strip() for _, text in recording.code)
    number = hashlib.sha1(f"{kind}\n{prompt}\n{subject}".encode(), usedforsecurity=False).hexdigest()[:8]
    return Question(f"{kind}-{number}", kind, _(prompt), json.dumps(truth), until_step, **more)


def _last_forward(recording: Recording) -> int:
    """The last step before backward, or before torch raised."""
    ends = [k for k, frame in enumerate(recording.frames) if frame.phase in ("backward", "error")]
    return max(0, ends[0] - 1) if ends else len(recording.frames) - 1


def _named(recording: Recording, last: int, only: tuple[str, ...]) -> dict[str, TensorRef]:
    """The named tensors up to a step; a name used twice means its newest tensor."""
    found = {ref.name: ref for ref in recording.tensors if ref.name and ref.frame <= last}
    missing = set(only) - found.keys()
    if missing:
        said = _("This block has no tensor named {names}.")
        raise QuestionError(said.format(names=_(", ").join(sorted(missing))))
    return {name: ref for name, ref in found.items() if not only or name in only}


def _evidence(recording: Recording) -> tuple[str, ...]:
    """What to point at: the pill that was hit, and the write."""
    ids = []
    for diagnosis in recording.diagnoses[:1]:
        ids += [f"f{diagnosis.node_id}"] if diagnosis.node_id is not None else []
        ids += [f"w{diagnosis.write_id}"] if diagnosis.write_id is not None else []
    return tuple(ids)
