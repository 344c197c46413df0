"""Step by step with a question before each: the picture opens one step of backward for each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seegrad.display.widget import Picture, Sentence, answer_name, show
from seegrad.learn.progress import note_prediction
from seegrad.model.recording import Recording
from seegrad.model.scene import Question, Scene
from seegrad.picture import draw
from seegrad.quiz import ahead
from seegrad.words.errors import QuestionError
from seegrad.words.languages import speaking, together

HELP = ("help", "alone")


class StepAhead(Picture):
    """A picture whose answers each open what comes until the next question.

    Without a kernel it asks the first question only, and then opens as a whole.
    """

    def __init__(self, recording: Recording, questions: Sequence[Question], lang: str) -> None:
        self._recording, self._questions, self._now = recording, tuple(questions), 0
        super().__init__(draw(recording, questions[0], lang))
        self.scene = self._until_the_next().to_data()

    def _until_the_next(self) -> Scene:
        """The Scene up to where the next question is asked: an answer opens no more than that."""
        after = self._questions[self._now + 1 : self._now + 2]
        return replace(self._scene, frames=self._scene.frames[: after[0].until_step + 1]) if after else self._scene

    def _keep(self, question: Question, answer: dict[str, Any]) -> None:
        del question  # the one in the picture begins with what was said of the last answer
        asked = self._questions[self._now]
        said = note_prediction(asked, answer)
        if self._now + 1 < len(self._questions):
            self._now += 1
            self._ask(self._questions[self._now], f"{'✓' if said.right else '✗'} {said.message}")

    def _ask(self, question: Question, before: str) -> None:
        """Show the next question; what was said of the last answer stands before it."""
        with speaking(self._scene.lang) as spoken:
            shown = replace(question, prompt=together(before, question.prompt))
            self._scene = draw(self._recording, shown, spoken)
        with self.hold_sync():
            self.answer = {}
            self.step = question.until_step
            self.scene = self._until_the_next().to_data()


def step_ahead(recording: Recording, *, helped: bool, lang: str | None = None) -> Picture | Sentence:
    """The picture that asks before each step of backward; where nothing can be asked, why, and the picture as ever."""
    with speaking(lang) as spoken:
        try:
            asked = (replace(each, name=answer_name()) for each in ahead(recording, helped=helped))
            return StepAhead(recording, tuple(asked), spoken)
        except QuestionError as error:
            return Sentence(str(error)) if not recording.frames else show(recording, lang=spoken)
