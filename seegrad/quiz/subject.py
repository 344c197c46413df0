"""What every kind of question is made of: what defines a kind, what a question is about, what is wrong in an answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from seegrad.model.recording import Recording, TensorRef
from seegrad.model.scene import Choice, Question
from seegrad.words.beliefs import MISCONCEPTIONS
from seegrad.words.errors import QuestionError
from seegrad.words.languages import _


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the asker wants the question: another prompt, only some tensors, only some Nodes, at one Frame, with help."""

    prompt: str = ""
    tensors: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    frame: int | None = None
    helped: bool = False


def accepted(question: Question, value: Any) -> list[str]:
    """Nothing where an answer is the truth, or one of several; else the answer itself.

    >>> accepted(Question("q", "culprit", "?", "3", 0), 5)
    ['5']
    """
    truth = json.loads(question.truth)
    return [] if value in (truth if isinstance(truth, list) else [truth]) else [str(value)]


@dataclass(frozen=True, slots=True)
class QuestionKind:
    """All that makes one kind of question. What the picture hides meanwhile is the `veil` of the Question it asks."""

    name: str
    ask: Callable[[Recording, Wanted], Question]
    """Raises: QuestionError where the Recording has nothing to ask about."""
    mistakes: Callable[[Question, Any], list[str]] = accepted
    """The keys of what is wrong in an answer, in a fixed order: those that have a Choice are told why."""


def question(recording: Recording, kind: str, prompt: str, truth: Any, until_step: int, **more: Any) -> Question:
    """A Question whose id names the question and the code it is about, not the run and not the language."""
    return Question(named_for(recording, kind, prompt), kind, _(prompt), json.dumps(truth), until_step, **more)


def named_for(recording: Recording, kind: str, *about: str) -> str:
    """The id of a question: its kind, and a number for what it is about."""
    subject = "\n".join((kind, *about, *(text.strip() for _, text in recording.code)))
    return f"{kind}-{hashlib.sha1(subject.encode(), usedforsecurity=False).hexdigest()[:8]}"


def choice(key: str, label: str, belief: str, about: str = "") -> Choice:
    """A Choice that shows a misconception, or none; `about` says what is true of just what was picked."""
    return Choice(key, label, belief, _(MISCONCEPTIONS.get(belief, "")), about)


def last_forward(recording: Recording) -> int:
    """The last step before backward, or before torch raised."""
    ends = [k for k, frame in enumerate(recording.frames) if frame.phase in ("backward", "error")]
    return max(0, ends[0] - 1) if ends else len(recording.frames) - 1


def named(recording: Recording, last: int, only: tuple[str, ...]) -> dict[str, TensorRef]:
    """The named tensors up to a step; a name used twice means its newest tensor.

    After `weight = embedding.weight` both names are right, and the Recording has the first: `embedding.weight`.
    """
    found = {ref.name: ref for ref in recording.tensors if ref.name and ref.frame <= last}
    meant = {name: [name] if name in found else [each for each in found if each.endswith(f".{name}")] for name in only}
    missing = [name for name, names in meant.items() if len(names) != 1]
    if missing:
        said = _("This block has no tensor named {names}.")
        raise QuestionError(said.format(names=_(", ").join(sorted(missing))))
    wanted = {name for (name,) in meant.values()}
    return {name: ref for name, ref in found.items() if not only or name in wanted}


def aliases(recording: Recording) -> set[int]:
    """The storages that a `.data` or `.detach()` reaches."""
    return {ref.storage for ref in recording.tensors if ref.route in ("data", "detach")}


def names_in(value: Any) -> list[str]:
    """The names in a value; empty where it is no list of any."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list | tuple | set) else []


def differences(given: Sequence[str], truth: Sequence[str], subject: str = "") -> list[str]:
    """What is too much, then what is missing.

    >>> differences(["b", "c"], ["a", "b"])
    ['+c', '-a']
    """
    extra = sorted(set(given) - set(truth))
    return [*(f"+{subject}{name}" for name in extra), *(f"-{subject}{name}" for name in truth if name not in given)]


def other_names(question: Question, value: Any) -> list[str]:
    """What is wrong in an answer that is a list of names, in any order."""
    return differences(names_in(value), json.loads(question.truth))


def listed(names: Iterable[str]) -> str:
    """Names as code, with commas between them.

    >>> listed(["a", "b"])
    '`a`, `b`'
    """
    return _(", ").join(f"`{name}`" for name in names)
