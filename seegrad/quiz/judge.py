"""The kinds of questions that there are, and the judge of an answer to any of them.

A kind is whole in one file: what it asks and hides, the truth, its sentences, what may be wrong in an answer. A new one
is such a file and its name in KINDS here. Where it is answered in a way of its own it has an entry in the player's
`state/kinds.ts`, and perhaps one in `ui/ask.ts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seegrad.model.scene import Question
from seegrad.quiz.functions import ORDER, SAVES
from seegrad.quiz.outcome import CULPRIT, OUTCOME
from seegrad.quiz.steps import GRADIENT, NEXT
from seegrad.quiz.subject import accepted
from seegrad.quiz.tensors import KEEPS, LEAVES, VERSIONS
from seegrad.words.errors import QuestionError
from seegrad.words.languages import _, together

KINDS = {kind.name: kind for kind in (OUTCOME, VERSIONS, LEAVES, KEEPS, SAVES, ORDER, NEXT, GRADIENT, CULPRIT)}


@dataclass(frozen=True, slots=True)
class Feedback:
    """What an answer was worth: right or not, a sentence, and the misconceptions behind its mistakes."""

    right: bool
    message: str
    misconception: str = ""


def judge(question: Question, answer: Mapping[str, Any]) -> Feedback:
    """Is the answer right, and if not, what does the mistake show?

    Raises: QuestionError when the answer isn't one to this question.

    >>> question = Question("q", "outcome", "What will happen?", '"fine"', 0, right="All is well.")
    >>> judge(question, {"outcome": "fine"})
    Feedback(right=True, message='All is well.', misconception='')
    """
    if question.kind not in answer:
        wanted = f'{{"{question.kind}": …}}'
        raise QuestionError(_("Expected an answer like {wanted}, not {came}.").format(wanted=wanted, came=dict(answer)))
    found = mistakes(question, answer[question.kind])
    if not found:
        return Feedback(True, question.right)
    known = {choice.key: choice for choice in question.choices}
    told = [known[key] for key in found if key in known]
    beliefs = [choice.misconception for choice in told if choice.misconception]
    said = dict.fromkeys([*(choice.about for choice in told), *(choice.message for choice in told)])
    return Feedback(False, together(question.wrong, *said), beliefs[0] if beliefs else "")


def mistakes(question: Question, value: Any) -> list[str]:
    """The keys of what is wrong in an answer, in a fixed order. A question of no known kind accepts its truth.

    >>> question = Question("q", "leaves", "?", '["a", "b"]', 0)
    >>> mistakes(question, ["b", "c"])
    ['+c', '-a']
    """
    kind = KINDS.get(question.kind)
    return (kind.mistakes if kind else accepted)(question, value)
