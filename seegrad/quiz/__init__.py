"""Questions asked on the graph: `ask` makes one from a Recording, `judge` looks at an answer. Answers are JSON.

An answer is `{kind: value}`: `{"outcome": "silent"}`, `{"versions": {"out": 1}}`, `{"leaves": ["a"]}`,
`{"keeps": ["a"]}`, `{"saves": {"MulBackward0": ["a", "b"]}}`, `{"order": ["SumBackward0", "MulBackward0"]}`,
`{"culprit": 3}`. A mistake is a short key (`silent`, `out=0`, `+b`, `-a`, `+MulBackward0 b`, `A<B`, `5`); a Choice with
that key says which misconception it shows. The player judges by the same keys, so a saved page needs no Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from seegrad.errors import QuestionError
from seegrad.model.recording import Recording
from seegrad.model.scene import Question
from seegrad.quiz.functions import FORWARD, YOUNGEST
from seegrad.quiz.outcome import outcome_of
from seegrad.quiz.questions import KINDS, Wanted
from seegrad.words.languages import _, together

__all__ = ["KINDS", "Question", "Verdict", "ask", "judge", "outcome_of"]

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer was worth: right or not, a sentence, and the misconceptions behind its mistakes."""

    right: bool
    message: str
    misconception: str = ""


def ask(
    recording: Recording,
    kind: str,
    prompt: str = "",
    tensors: tuple[str, ...] = (),
    name: str = "q1",
    nodes: tuple[str, ...] = (),
) -> Question:
    """A question of one `kind` about this Recording.

    `tensors` limits a `versions` question to these names, `nodes` a `saves` question to these Functions
    (`MulBackward0`; the second of its name is `MulBackward0#2`). `name` is the variable in the line of Python that
    shows the answer.

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
    return replace(KINDS[kind](recording, Wanted(prompt, tensors, nodes)), name=name)


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
    told = [known[key] for key in found if key in known]
    beliefs = [choice.misconception for choice in told if choice.misconception]
    said = dict.fromkeys(choice.message for choice in told)
    return Verdict(False, together(question.wrong, *said), beliefs[0] if beliefs else "")


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
    if question.kind in ("leaves", "keeps"):
        return _differences(_names(value), truth)
    if question.kind == "saves":
        given = {str(node): _names(kept) for node, kept in value.items()} if isinstance(value, Mapping) else {}
        asked = dict.fromkeys([*truth, *given])
        return [key for node in asked for key in _differences(given.get(node, []), truth.get(node, []), f"{node} ")]
    if question.kind == "order":
        return _disorder(question, _names(value), truth)
    accepted = truth if isinstance(truth, list) else [truth]
    return [] if value in accepted else [str(value)]


def _names(value: Any) -> list[str]:
    """The names in a value; empty where it is no list of any."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, list | tuple | set) else []


def _differences(given: list[str], truth: list[str], subject: str = "") -> list[str]:
    """What is too much, then what is missing."""
    extra = sorted(set(given) - set(truth))
    return [*(f"+{subject}{name}" for name in extra), *(f"-{subject}{name}" for name in truth if name not in given)]


def _disorder(question: Question, given: list[str], truth: list[str]) -> list[str]:
    """What is wrong with an order: its members, all of it, one pair, or the choice among those that were ready."""
    if given == truth or set(given) != set(truth):
        return _differences(given, truth)
    pairs = [choice.key for choice in question.choices if "<" in choice.key]
    early = [key for key in pairs if given.index(key.split("<")[0]) < given.index(key.split("<")[1])]
    return [FORWARD] if early and early == pairs else early[:1] or [YOUNGEST]
