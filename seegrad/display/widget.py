"""`show`: the interactive picture in JupyterLab, a still picture where there is no kernel, a table in a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, cast

import anywidget
import traitlets
from IPython.display import display
from ipywidgets import HTML, HBox, Layout

from seegrad.capture.mode import RAISE_OWN_ERRORS
from seegrad.diagnose.difference import GOES_ON, ONLY_HERE, compare
from seegrad.diagnose.history.same_steps import same_step
from seegrad.display.page import STATIC, asset, pair_page, with_code
from seegrad.display.rerun import Rerun, of_notebook, outcome
from seegrad.learn.progress import note_prediction
from seegrad.model.recording import Diagnosis, Recording
from seegrad.model.scene import Question, Scene
from seegrad.picture import draw, still, table
from seegrad.picture.still import headline, image_uri
from seegrad.quiz import KINDS
from seegrad.quiz import ask as ask_about
from seegrad.words.errors import PictureError, QuestionError, RecordingError
from seegrad.words.languages import _, marked, speaking

SCENE = "application/vnd.seegrad.scene+json"
WITH_SCENES = "SEEGRAD_SCENES"
"""Where this variable is set the output holds the Scene too: for who makes pages that play it without a kernel."""

SIDES = (marked("as it is"), marked("with the fix"))
"""Two runs that one line parts."""


class HasRecording(Protocol):
    """What `record()` yields: it holds a Recording."""

    @property
    def recording(self) -> Recording:
        """Everything seen so far."""


class Picture(anywidget.AnyWidget):
    """The player of one Scene. `answer` is a learner's answer to the Scene's question, `{}` while it is open.

    `level` is the box that is open, None until one is opened.
    """

    _esm = STATIC / "widget.js"
    _css = STATIC / "widget.css"
    scene = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)
    lang = traitlets.Unicode("en").tag(sync=True)
    level = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    can_try = traitlets.Bool(False).tag(sync=True)
    trial = traitlets.Dict().tag(sync=True)

    def __init__(self, scene: Scene, step: int = -1, recording: Recording | None = None, **more: Any) -> None:
        last = len(scene.frames) - 1
        first = min(max(step + len(scene.frames) if step < -1 else scene.first_look() if step < 0 else step, 0), last)
        question = scene.question
        super().__init__(
            scene=scene.to_data(), step=min(first, question.until_step) if question else first, lang=scene.lang, **more
        )
        self._scene, self._recorded = scene, recording
        self.can_try = any(self._rerun(mended) for mended in self._mended(None))
        self.observe(self._answered, "answer")
        self.observe(self._asked_to_try, "trial")

    def _answered(self, change: Any) -> None:
        question = self._scene.question
        if question is not None and change["new"]:
            with contextlib.suppress(QuestionError):  # not an answer to this question: nothing to keep
                self._keep(question, dict(change["new"]))

    def _keep(self, question: Question, answer: dict[str, Any]) -> None:
        """Keep an answer with the learner's progress. Raises: QuestionError when it isn't one to this question."""
        note_prediction(question, answer)

    def _mended(self, step: int | None) -> Iterator[Diagnosis]:
        """What one line mends, first what shows at this step."""
        found = self._recorded.diagnoses if self._recorded else ()
        newest = sorted(found, key=lambda each: (each.frame != step, -(each.frame or 0)))
        return (each for each in newest if each.mend and (step is None or (each.frame or 0) <= step))

    def _rerun(self, mended: Diagnosis) -> Rerun | None:
        """How the notebook is run again with the line that mends it; None where it can't be."""
        shell = running_shell()
        if shell is None or self._recorded is None or mended.mend is None:
            return None
        return of_notebook(self._recorded, mended.mend, shell.history_manager.input_hist_raw, shell.starting_dir)

    def _asked_to_try(self, change: Any) -> None:
        if change["new"].get("state") != "asked":
            return
        reruns = ((mended, self._rerun(mended)) for mended in self._mended(int(change["new"].get("step", 0))))
        mended, rerun = next(((each, found) for each, found in reruns if found), (None, None))
        if mended is not None and rerun is not None:
            self.trial = {"state": "running"}
            threading.Thread(target=self._try, args=(mended, rerun), daemon=True).start()  # the kernel stays free

    def _try(self, mended: Diagnosis, rerun: Rerun) -> None:
        """Run it again, and show both pictures."""
        with speaking(self._scene.lang):
            try:
                self.trial = {"state": "done", **tried(cast(Recording, self._recorded), mended, rerun.run())}
            except RecordingError as error:
                self.trial = {"state": "failed", "said": str(error)}

    @property
    def _open(self) -> bool:
        """Is there a question that waits for its answer?"""
        return self._scene.question is not None and not self.answer

    @property
    def _shown(self) -> int:
        """The last step that may be seen without the kernel: an open question hides what follows it."""
        question = self._scene.question
        return question.until_step if question is not None and self._open else len(self._scene.frames) - 1

    def svg(self, step: int | None = None) -> str:
        """One step as a stand-alone SVG; the last one that may be seen unless `step` is given."""
        chosen = self._shown if step is None else step
        return still(self._scene, chosen, asset("svg.css"), heat=asset("heat.css"), open_question=self._open)

    def text(self) -> str:
        """The steps as a plain text table."""
        return table(self._scene, self._shown)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        scene = {SCENE: self._scene.to_data(packed=True)} if os.environ.get(WITH_SCENES) else {}
        return {**data, **scene, "text/html": self._html(), "text/plain": self.text()}, metadata

    def _html(self) -> str:
        """An image, since JupyterLab strips inline SVG from a notebook that it doesn't trust."""
        frame = self._scene.frames[self._shown]
        total = None if self._open else len(self._scene.frames)
        with speaking(self._scene.lang):
            said = _("{headline}: {title}. {text}").format(
                headline=headline(self._shown, total), title=frame.title, text=frame.text
            )
        said, uri = escape(said, quote=True), escape(image_uri(self.svg()), quote=True)
        return f'<img alt="{said}" style="max-width:100%;height:auto" src="{uri}">'


class Comparison(HBox):  # type: ignore[misc]  # ipywidgets ships no types
    """The pictures of two Recordings side by side below what differs; in a terminal that alone."""

    def __init__(self, pictures: tuple[Picture | Sentence, ...], text: str) -> None:
        self._shown, self._text = pictures, text
        drawn = [each for each in pictures if isinstance(each, Picture)]
        for each in drawn:
            each.layout = Layout(flex="1 1 400px", min_width="0")
        above = HTML(self._said(), layout=Layout(flex="1 0 100%"))
        super().__init__([above, *drawn], layout=Layout(flex_flow="row wrap"))

    def text(self) -> str:
        """The notes, one a line."""
        return self._text

    def page(self, path: str | Path, title: str | None = None) -> Path:
        """Write both pictures and the notes to an HTML file. Raises: OSError when it can't be."""
        target = Path(path)
        scenes = [each._scene for each in self._shown if isinstance(each, Picture)]
        target.write_text(pair_page(scenes, self._text, title), encoding="utf-8")
        return target

    def _said(self) -> str:
        return f'<p style="white-space:pre-wrap">{with_code(self._text)}</p>'

    def __str__(self) -> str:
        return self._text

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        data = super()._repr_mimebundle_(**kwargs) or {}
        images = "".join(each._html() for each in self._shown if isinstance(each, Picture))
        return {**data, "text/html": self._said() + images, "text/plain": self._text}


def asks(shown: object) -> bool:
    """Is this a picture with a question that waits for its answer?"""
    return isinstance(shown, Picture) and shown._open


class Sentence:
    """What is shown where no picture can be drawn: why, in words."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def show(
    rec: Recording | HasRecording,
    step: int = -1,
    ask: str | Question | None = None,
    *,
    tensors: Iterable[str] = (),
    nodes: Iterable[str] = (),
    name: str = "",
    lang: str | None = None,
) -> Picture | Sentence:
    """The picture of a Recording, at one of its steps, perhaps with a question to answer first.

    A question that can't be asked of this Recording is a sentence above the picture.

    `ask` is a kind (KINDS) or a Question of your own;
    `tensors` are the names that a `versions` question asks for, `nodes` the Functions of a `saves` or `order`
    question, `name` is the variable in the line of Python under the answer, `q7` in cell 7 unless it is given. `lang`
    is `en` or `zh_CN`; without it SEEGRAD_LANG or the notebook's folder says.

    A picture that can't be drawn is replaced by a sentence: a display never breaks a cell.

    >>> print(show(Recording()).text())
     1  start     before the first line
                  Nothing has run yet, and no tensor is known.
    """
    with speaking(lang) as spoken:
        recording = rec if isinstance(rec, Recording) else getattr(rec, "recording", None)
        if not isinstance(recording, Recording):
            said = _("show() draws what `with seegrad.record() as rec:` has recorded; this is of type {kind}.")
            return Sentence(said.format(kind=type(rec).__name__))
        question = ask if isinstance(ask, Question) else None
        if ask is not None and question is None:
            try:
                question = ask_about(
                    recording, str(ask), tensors=tuple(tensors), nodes=tuple(nodes), name=name or answer_name()
                )
            except QuestionError as error:
                display(Sentence(str(error)))  # type: ignore[no-untyped-call]  # IPython's display has no types
        try:
            return Picture(draw(recording, question, spoken), step, recording)
        except FileNotFoundError:  # seegrad itself isn't whole
            raise
        except Exception as error:  # a display error must never break the cell
            if os.environ.get(RAISE_OWN_ERRORS):
                raise
            said = _("seegrad couldn't draw this graph ({kind}: {text}). The recording is intact.")
            return Sentence(said.format(kind=type(error).__name__, text=error))


def diff(first: Recording | HasRecording, second: Recording | HasRecording, lang: str | None = None) -> Comparison:
    """Where two Recordings differ: steps that one alone has, numbers, gradients, the versions that were saved.

    Both pictures stand side by side with a note at each difference; `print` of it gives the notes as text, its `page`
    writes them to a file. Numbers are compared where they are known: those of tensors up to 4×4, of larger ones where
    both were recorded with `values=True`.

    Raises: RecordingError for what isn't a Recording, nor holds one.

    >>> print(diff(Recording(), Recording()))
    Nothing differs, as far as it is known: steps, numbers, saved versions, gradients.
    """
    with speaking(lang):
        found = compare(recording_of(first), recording_of(second))
        pictures = tuple(show(each, lang=lang) for each in found)
        return Comparison(pictures, _told(found))


def fix_page(before: Recording, mended: Diagnosis, after: Recording, path: Path, title: str) -> None:
    """Write both pictures, the line that parts them and what it has changed to an HTML file. Raises: OSError."""
    found = compare(before, after)
    scenes = [draw(each) for each in found]
    notes = f"{outcome(before, mended, after)}\n\n{_told(found, SIDES)}"
    steps = _opened(before, mended, after, scenes)
    text = pair_page(scenes, notes, title, names=SIDES, changed=mended.mend, steps=steps)
    path.write_text(text, encoding="utf-8")


def tried(before: Recording, mended: Diagnosis, after: Recording) -> dict[str, Any]:
    """What a line has changed, for the player: a sentence, the notes, both pictures."""
    found = compare(before, after)
    scenes = [draw(each) for each in found]
    return {
        "said": outcome(before, mended, after),
        "told": _told(found, SIDES),
        "scenes": [each.to_data() for each in scenes],
        "steps": _opened(before, mended, after, scenes),
    }


def _opened(before: Recording, mended: Diagnosis, after: Recording, scenes: Sequence[Scene]) -> list[int]:
    """The step that each picture opens at: where the finding shows, and in the other where it would."""
    found = mended.frame or 0
    wanted = found, same_step(before, after, found)
    return [
        step if step is not None and step < len(scene.frames) == len(recording.frames) else scene.first_look()
        for step, scene, recording in zip(wanted, scenes, (before, after), strict=True)
    ]


def running_shell() -> Any:
    """IPython's shell, if it runs cells for a kernel; None in a terminal or a script."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


def answer_name() -> str:
    """What an answer is called: after the cell that runs, so that it replaces no other's; `q1` without a kernel."""
    shell = running_shell()
    return f"q{running_number(shell)}" if shell is not None else "q1"


def running_number(shell: Any) -> int:
    """The number of the cell that is running. IPython counts on before it runs a cell, so the counter is one ahead."""
    numbers = shell.compile._filename_map
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename not in numbers:
        frame = frame.f_back
    return int(numbers[frame.f_code.co_filename] if frame is not None else shell.execution_count)


def recording_of(rec: Recording | HasRecording) -> Recording:
    """What was recorded. Raises: RecordingError where nothing was."""
    recording = rec if isinstance(rec, Recording) else getattr(rec, "recording", None)
    if isinstance(recording, Recording):
        return recording
    said = _("This needs what `with seegrad.record() as rec:` has recorded, and is of type {kind}.")
    raise RecordingError(said.format(kind=type(rec).__name__))


def _told(found: tuple[Recording, Recording], names: tuple[str, str] = (marked("first"), marked("second"))) -> str:
    """What the first has alone or differently, then what only the second has."""
    here, there = _(names[0]), _(names[1])
    first, second = ([note for note in each.diagnoses if note.severity == "differs"] for each in found)
    alone = [each for each in second if each.kind in (ONLY_HERE.name, GOES_ON.name)]
    told = [(here, each) for each in first] + [(there, each) for each in alone]
    told.sort(key=lambda line: line[1].kind != GOES_ON.name)  # the rest is about what both have, up to there
    return "\n".join(dict.fromkeys(f"{which}: {each.message()}" for which, each in told)) or _(
        "Nothing differs, as far as it is known: steps, numbers, saved versions, gradients."
    )


show.__doc__ = str(show.__doc__).replace("KINDS", ", ".join(f"`{kind}`" for kind in KINDS))

__all__ = ["Comparison", "Picture", "PictureError", "Sentence", "diff", "show"]
