"""What a question is about: which step it stops at, which tensors it names, and what it is called."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from seegrad.errors import QuestionError
from seegrad.model.recording import Recording, TensorRef
from seegrad.model.scene import Choice, Question
from seegrad.words.beliefs import MISCONCEPTIONS
from seegrad.words.languages import _


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the asker wants the question: another prompt, only some tensors, only some Nodes."""

    prompt: str = ""
    tensors: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


def question(recording: Recording, kind: str, prompt: str, truth: Any, until_step: int, **more: Any) -> Question:
    """A Question whose id names the question and the code it is about, not the run and not the language."""
    subject = "\n".join(text.strip() for _, text in recording.code)
    number = hashlib.sha1(f"{kind}\n{prompt}\n{subject}".encode(), usedforsecurity=False).hexdigest()[:8]
    return Question(f"{kind}-{number}", kind, _(prompt), json.dumps(truth), until_step, **more)


def choice(key: str, label: str, belief: str) -> Choice:
    """A Choice that shows a misconception, or none."""
    return Choice(key, label, belief, _(MISCONCEPTIONS.get(belief, "")))


def last_forward(recording: Recording) -> int:
    """The last step before backward, or before torch raised."""
    ends = [k for k, frame in enumerate(recording.frames) if frame.phase in ("backward", "error")]
    return max(0, ends[0] - 1) if ends else len(recording.frames) - 1


def named(recording: Recording, last: int, only: tuple[str, ...]) -> dict[str, TensorRef]:
    """The named tensors up to a step; a name used twice means its newest tensor."""
    found = {ref.name: ref for ref in recording.tensors if ref.name and ref.frame <= last}
    missing = set(only) - found.keys()
    if missing:
        said = _("This block has no tensor named {names}.")
        raise QuestionError(said.format(names=_(", ").join(sorted(missing))))
    return {name: ref for name, ref in found.items() if not only or name in only}


def aliases(recording: Recording) -> set[int]:
    """The storages that a `.data` or `.detach()` reaches."""
    return {ref.storage for ref in recording.tensors if ref.route in ("data", "detach")}


def numbered(names: Iterable[str]) -> list[str]:
    """Names that differ: the second of a name is its `#2`.

    >>> numbered(["MulBackward0", "AddBackward0", "MulBackward0"])
    ['MulBackward0', 'AddBackward0', 'MulBackward0#2']
    """
    seen: Counter[str] = Counter()
    told = []
    for name in names:
        seen[name] += 1
        told.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return told


def listed(names: Iterable[str]) -> str:
    """Names as code, with commas between them.

    >>> listed(["a", "b"])
    '`a`, `b`'
    """
    return _(", ").join(f"`{name}`" for name in names)
