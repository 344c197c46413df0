"""`ask_again`: two questions on earlier chapters at the start of a chapter, each with its program and its picture."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from html import escape
from typing import Any

from IPython.display import display

from seegrad.display.widget import Picture, answer_name
from seegrad.learn.again import Again, Dress, asked_again
from seegrad.learn.course_map import COURSE
from seegrad.learn.device import device
from seegrad.learn.progress import note_prediction, read_progress
from seegrad.model.recording import Recording
from seegrad.model.scene import Question
from seegrad.picture import draw
from seegrad.quiz import ask
from seegrad.recorder import record
from seegrad.words.errors import QuestionError
from seegrad.words.languages import _, speaking


class AskedAgain(Picture):
    """A question on an earlier chapter. An answer is kept where the prediction is that it asks for again."""

    def __init__(self, again: Again, lang: str | None = None, after: AskedAgain | None = None) -> None:
        """`after`: the question to be answered first, of which this picture, being another's, would hide nothing."""
        self._again = again
        dress = again.dress
        with speaking(lang) as spoken:
            recording = recorded(dress)
            called = f"{answer_name()}_{dress.chapter[:2]}_{dress.kind}"  # one cell asks several
            question = replace(ask(recording, dress.kind, name=called), id=again.question)
            super().__init__(draw(recording, question, spoken))
        if after is not None:
            self.layout.display = "none"
            after.observe(self._come, "answer")

    def _come(self, _change: Any) -> None:
        self.layout.display = ""

    def _keep(self, question: Question, answer: dict[str, Any]) -> None:
        note_prediction(question, answer, self._again.dress.chapter, self._again.dress.name)

    def text(self) -> str:
        """The question and its program, then the steps."""
        return f"{self._asked()}\n\n{self._again.dress.program}\n{super().text()}"

    def _html(self) -> str:
        """Where no player runs: the question, its program, the picture, and the answer in a fold."""
        question = self._scene.question
        program = f"<pre>{escape(self._again.dress.program)}</pre>"
        with speaking(self._scene.lang):
            said = _("Predicted? Then open the answer.")
        fold = f"<details><summary>{escape(said)}</summary>{escape(question.right)}</details>" if question else ""
        return f"<div><p>{escape(self._asked())}</p>{program}{super()._html()}{fold}</div>"

    def _asked(self) -> str:
        return self._scene.question.prompt if self._scene.question else ""


def recorded(dress: Dress) -> Recording:
    """What its program does, torch's error included: nothing about it is known before."""
    file = f"<{dress.name}>"
    rec = record(code=(file, 1, dress.program))
    names: dict[str, Any] = {"device": device()}
    exec("import torch", names)  # noqa: S102  # the program's own import, which is no part of it
    with suppress(RuntimeError), rec:  # torch's, and the picture's last step
        exec(compile(dress.program, file, "exec"), names)  # noqa: S102  # a program of ours, from our own file
    return rec.recording


def ask_again(chapter: str, lang: str | None = None) -> None:
    """Two questions on the chapters before this one, `"05"`: first on what you predicted wrongly there.

    Each is asked of another program than there, the second when the first is answered. `lang` is `en` or `zh_CN`;
    without it SEEGRAD_LANG or the notebook's folder says.

    Raises: QuestionError where the course has no such chapter.
    """
    here = next((stop.name for stop in COURSE if chapter in (stop.number, stop.name)), None)
    if here is None:
        said = _("The course has no chapter {chapter}. Its chapters are {numbers}.")
        numbers = _(", ").join(stop.number for stop in COURSE)
        raise QuestionError(said.format(chapter=repr(chapter), numbers=numbers))
    shown: AskedAgain | None = None
    for again in asked_again(read_progress(), here):
        shown = AskedAgain(again, lang, after=shown)
        display(shown)  # type: ignore[no-untyped-call]  # IPython's display has no types
