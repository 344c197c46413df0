"""Questions asked on the graph: `ask` makes one from a Recording, `judge` looks at an answer. Answers are JSON.

An answer is `{kind: value}`: `{"outcome": "silent"}`, `{"versions": {"out": 1}}`, `{"leaves": ["a"]}`,
`{"keeps": ["a"]}`, `{"saves": {"MulBackward0": ["a", "b"]}}`, `{"order": ["SumBackward0", "MulBackward0"]}`,
`{"next": "MulBackward0"}`, `{"gradient": "[1, 2]"}`, `{"culprit": 3}`.

A mistake is a short key (`silent`, `out=0`, `+b`, `-a`, `+MulBackward0 b`, `A<B`, `5`); a Choice with
that key says which misconception it shows. The player judges by the same keys, so a saved page needs no Python.
"""

from __future__ import annotations

from dataclasses import replace

from seegrad.model.recording import Recording
from seegrad.model.scene import Question
from seegrad.quiz.judge import KINDS, Feedback, judge, mistakes
from seegrad.quiz.outcome import outcome_of
from seegrad.quiz.steps import ahead
from seegrad.quiz.subject import Wanted
from seegrad.words.errors import QuestionError
from seegrad.words.languages import _

__all__ = ["KINDS", "Feedback", "Question", "ahead", "ask", "judge", "mistakes", "outcome_of"]


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
    return replace(KINDS[kind].ask(recording, Wanted(prompt, tensors, nodes)), name=name)
