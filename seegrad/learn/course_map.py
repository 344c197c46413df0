"""The course as a small map: its chapters, what leads to what, and how far the learner has come in each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

from seegrad.learn.progress import Chapter, Progress, Tried, chapter_here, read_progress
from seegrad.picture.still import image_uri
from seegrad.picture.svg.elements import clean, el, text
from seegrad.words.beliefs import BELIEVED, MISCONCEPTIONS
from seegrad.words.languages import _, counted, marked, speaking
from seegrad.words.widths import columns, padded, wrapped


@dataclass(frozen=True, slots=True)
class Stop:
    """One chapter on the map: name and title, column and row (a card is two high), what it asks, what it builds on."""

    name: str
    title: str
    column: int
    row: float
    predictions: int
    """How many a learner makes in the chapter."""
    exercises: int
    """How many of its assignment have a check; one that is answered in words is read by a person."""
    after: tuple[str, ...] = ()

    @property
    def number(self) -> str:
        """`05` of `05_data_versus_detach`."""
        return self.name[:2]


COURSE = (
    Stop("00_start_here", marked("Start here"), 0, 0, 3, 0),
    Stop("01_computational_graphs", marked("Computational graphs"), 0, 2, 20, 6, ("00",)),
    Stop("02_leaf_tensors", marked("Leaf tensors"), 1, 0, 7, 6, ("01",)),
    Stop("03_retain_grad_and_hooks", marked("retain_grad and hooks"), 2, 0, 5, 6, ("02",)),
    Stop("04_inplace_and_version", marked("In-place operations and _version"), 1, 2, 21, 6, ("01",)),
    Stop("05_data_versus_detach", marked(".data versus .detach()"), 2, 2, 10, 5, ("04",)),
    Stop("06_embedding_clone", marked("Embeddings and clone()"), 3, 2, 13, 5, ("05",)),
    Stop("07_dynamic_graphs", marked("Dynamic graphs"), 3, 0, 22, 6, ("03",)),
    Stop("08_clinic", marked("The clinic"), 4, 0, 11, 6, ("06", "07")),
    Stop("09_own_engine", marked("An engine of your own"), 4, 2, 5, 6, ("06", "07")),
    Stop("10_a_model_that_trains", marked("A model that trains"), 4, 4, 4, 5, ("08", "09")),
)

# Five cards stand in what a window of 1,280 px leaves of a cell in JupyterLab, its sidebar open: 870 px.
CARD_WIDTH_PX, CARD_HEIGHT_PX, GAP_PX, ROW_PX, MARGIN_PX = 146, 112, 24, 70, 14
TITLE_COLUMNS, TITLE_LINES = 16, 3
CHIP_PX = 58

# The page behind the picture is the reader's, light or dark, and an image can't ask which. So nothing is painted behind
# the cards, each card is its own ground for white letters, and what touches the page is told from #fff and from #111.
STYLE = """
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#fff}
.no{font-size:15px;font-weight:700}.ti{font-weight:700}.do{font-size:11px}
.bx{fill:#5f6b7a;stroke:#858f9e;stroke-width:1.25}.new .bx{stroke-dasharray:4 3}
.begun .bx{fill:#2f63c4;stroke:#2f63c4}.right .bx{fill:#0a7452;stroke:#0a7452}.wrong .bx{fill:#9a4a0a;stroke:#c06a1c}
.here .bx{stroke:#d17d0a;stroke-width:3}.e{fill:none;stroke:#858f9e;stroke-width:1.6}
.chip rect{fill:#5f6b7a}.chip text{font-size:11px}.hd rect{fill:#3d4754}
.met rect{fill:#a8500a}.met text{font-weight:700}
""".replace("\n", "")


class CourseMap:
    """The map with one learner's progress: a picture with a list of the same for a reader who can't see it."""

    def __init__(
        self, progress: Progress, here: str = "", lang: str = "en", links: Mapping[str, str] | None = None
    ) -> None:
        self.progress, self.here, self.lang = progress, here, lang
        self.links = {stop.name: f"{stop.name}.ipynb" for stop in COURSE} if links is None else links

    def svg(self) -> str:
        """The picture: a card for each chapter, and the misconceptions below."""
        with speaking(self.lang):
            across, rows = 1 + max(stop.column for stop in COURSE), max(stop.row for stop in COURSE)
            width = 2 * MARGIN_PX + across * (CARD_WIDTH_PX + GAP_PX) - GAP_PX
            met = self.progress.misconceptions
            height = 2 * MARGIN_PX + rows * ROW_PX + CARD_HEIGHT_PX + (46 if met else 0)
            return el(
                "svg",
                el("title", clean(_("Map of the course"))),
                f"<style>{STYLE}</style>",
                *(_way(stop) for stop in COURSE),
                *(self._card(stop) for stop in COURSE),
                *(self._met(height - MARGIN_PX - 20) if met else ()),
                xmlns="http://www.w3.org/2000/svg",
                viewBox=f"0 0 {width} {height}",
                width=width,
                height=height,
                role="img",
            )

    def text(self) -> str:
        """One line a chapter."""
        with speaking(self.lang):
            titles = [_(stop.title) for stop in COURSE]
            room = max(map(columns, titles)) + 2
            told = zip(COURSE, titles, strict=True)
            lines = [f"{stop.number}  {padded(title, room)}{self._said(stop)}".rstrip() for stop, title in told]
            lines += self._notes()
            met = ", ".join(f"{number} ×{count}" for number, count in sorted(self.progress.misconceptions.items()))
            return "\n".join([*lines, _("Misconceptions met: {numbers}").format(numbers=met)] if met else lines)

    def html(self) -> str:
        """The picture as an image, which every notebook shows, and the chapters as a list of links."""
        with speaking(self.lang):
            alt = _("Map of the course. The list below says the same.")
            image = f'<img alt="{escape(alt)}" style="{FITS}" src="{escape(image_uri(self.svg()), quote=True)}">'
            window = f'<div style="overflow-x:auto" tabindex="0" role="region" aria-label="{escape(alt)}">{image}</div>'
            chapters = f'<ol start="0">{"".join(map(self._entry, COURSE))}</ol>'
            notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
            return f"<div>{window}{chapters}{notes}{self._beliefs()}</div>"

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def _entry(self, stop: Stop) -> str:
        title = escape(_(stop.title))
        link = self.links.get(stop.name)
        named = f'<a href="{escape(link, quote=True)}">{title}</a>' if link else title
        here = _("you are here") if stop.name == self.here else ""
        done = _("; ").join(filter(None, (self._said(stop) or _(NOT_STARTED), here)))
        said = _("{name}: {done}").format(name=named, done=done) if done else named
        return f"<li>{said}</li>"

    def _beliefs(self) -> str:
        """What was met, most often first: what was believed, and what sets it right."""
        met = sorted(self.progress.misconceptions.items(), key=lambda each: (-each[1], each[0]))
        head = escape(_("Misconceptions met:"))
        told = "".join(f"<li>{_belief(number, count)}</li>" for number, count in met)
        return f"<p>{head}</p><ul>{told}</ul>" if told else ""

    def _chapter(self, stop: Stop) -> Chapter:
        return self.progress.chapters.get(stop.name, Chapter())

    def _said(self, stop: Stop) -> str:
        """A chapter's state, and how much of it is right; "" where nothing was done."""
        done = self._chapter(stop)
        state = _state(stop, done)
        return "" if state == "new" else _("; ").join((_(STATES[state][1]), *_told(stop, done)))

    def _notes(self) -> list[str]:
        """What the list's counts of exercises mean, where some were done."""
        done = [each for stop in COURSE for each in self._chapter(stop).exercises.values()]
        return [*([_(ANSWERED)] if any(map(_answered, done)) else []), *([_(IN_WORDS)] if done else [])]

    def _card(self, stop: Stop) -> str:
        done = self._chapter(stop)
        state = _state(stop, done)
        x, y = _place(stop)
        lines = wrapped(_(stop.title), TITLE_COLUMNS)[:TITLE_LINES]
        return el(
            "g",
            el("rect", class_="bx", width=CARD_WIDTH_PX, height=CARD_HEIGHT_PX, rx=7),
            text(f"{stop.number} {STATES[state][0]}".strip(), 12, 20, "no"),
            text(_("you are here"), CARD_WIDTH_PX - 9, 19, "do", anchor="end") if stop.name == self.here else "",
            *(text(line, 12, 37 + 14 * k, "ti") for k, line in enumerate(lines)),
            *(text(line, 12, 89 + 14 * k, "do") for k, line in enumerate(_counts(stop, done))),
            class_=f"{state} here" if stop.name == self.here else state,
            transform=f"translate({x} {y})",
        )

    def _met(self, y: float) -> list[str]:
        """A chip for each misconception, filled and counted where it was met."""
        head = _("Misconceptions met:")
        room = columns(head) * 6.4 + 16
        left = MARGIN_PX + room + 6
        named = (el("rect", width=room, height=20, rx=4), text(head, 8, 14, ""))
        chips = [el("g", *named, class_="chip hd", transform=f"translate({MARGIN_PX} {y:.1f})")]
        for k, number in enumerate(MISCONCEPTIONS):
            count = self.progress.misconceptions.get(number, 0)
            said = f"{number} ×{count}" if count else number
            box = el("rect", width=CHIP_PX - 6, height=20, rx=4)
            label = text(said, (CHIP_PX - 6) / 2, 14, "", anchor="middle")
            where = f"translate({left + k * CHIP_PX:.1f} {y:.1f})"
            chips.append(el("g", box, label, class_="chip met" if count else "chip", transform=where))
        return chips


def course_map(lang: str | None = None) -> CourseMap:
    """The map of the course with your progress so far; the last expression of a cell shows it.

    `lang` is `en` or `zh_CN`; without it SEEGRAD_LANG or the notebook's folder says.

    >>> print(course_map("en").text().splitlines()[2])
    02  Leaf tensors
    """
    with speaking(lang) as spoken:
        return CourseMap(read_progress(), chapter_here(), spoken, _links(spoken))


def _links(lang: str) -> dict[str, str]:
    """From the folder that the notebook is in to each chapter: they lie here, or this is an assignment's own folder."""
    folders = ("", f"../../../notebooks/{lang}/")
    there = (folder for folder in folders if Path(f"{folder}{COURSE[0].name}.ipynb").is_file())
    folder = next(there, "")
    return {stop.name: f"{folder}{stop.name}.ipynb" for stop in COURSE}


def _belief(number: str, count: int) -> str:
    believed, truth = (_as_html(_(table.get(number, ""))) for table in (BELIEVED, MISCONCEPTIONS))
    said = _("{number} ×{count}: {believed} In truth: {truth}")
    return said.format(number=number, count=count, believed=f"<em>{believed}</em>", truth=truth)


def _as_html(said: str) -> str:
    """A sentence with `code` in it."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(said))


FITS = "max-width:max(100%,720px);height:auto"
"""As wide as the cell, never so small that it can't be read: then it scrolls."""

NOT_STARTED = marked("not started")
State = Literal["new", "begun", "right", "wrong"]
STATES: dict[State, tuple[str, str]] = {
    "new": ("", NOT_STARTED),
    "begun": ("…", marked("in work")),
    "right": ("✓", marked("done")),
    "wrong": ("✗", marked("something was wrong the last time")),
}
"""Each state's sign and its words: never told by colour alone."""


ANSWERED = marked(
    "Answered: the check has seen only that the answer may be one. Whether it is right is found out when it is graded."
)
IN_WORDS = marked("An exercise that is answered in words has no check: a person reads it, and it isn't counted here.")


def _state(stop: Stop, done: Chapter) -> State:
    """Right is a chapter of which all is right, as far as can be told here: one exercise of six is work begun."""
    tried = [*done.predictions.values(), *done.exercises.values()]
    if not all(each.right for each in tried):
        return "wrong"
    if all(right >= count for right, count in _rights(stop, done)):
        return "right"
    return "begun" if tried else "new"


def _rights(stop: Stop, done: Chapter) -> Iterator[tuple[int, int]]:
    """Of the predictions, then of the exercises: how many are right, and how many there are.

    A cell that its reader has changed asks a question of its own: there may be more of them than in the chapter.
    """
    for tried, count in ((done.predictions, stop.predictions), (done.exercises, stop.exercises)):
        yield sum(each.right for each in tried.values()), max(count, len(tried))


def _counts(stop: Stop, done: Chapter) -> tuple[str, ...]:
    """The same as `_told`, short enough for a card; none of a chapter that isn't begun."""
    said = (_("predictions: {right}/{count}"), _("exercises: {right}/{count}"))
    return tuple(
        each.format(right=right, count=count)
        for each, (right, count) in zip(said, _rights(stop, done), strict=True)
        if done.predictions or done.exercises
    )


def _answered(exercise: Tried) -> bool:
    """Has its check found nothing wrong, and looked at no more than the form of the answer?"""
    return exercise.right and bool(exercise.form)


def _told(stop: Stop, done: Chapter) -> Iterator[str]:
    """How many predictions are right; how many exercises have passed, and of how many nobody knows yet."""
    (right, asked), (sound, checks) = _rights(stop, done)
    answered = sum(map(_answered, done.exercises.values()))
    passed = sound - answered
    predicted = counted("{right} of {count} prediction right", "{right} of {count} predictions right", asked)
    checked = counted("{passed} of {count} exercise passed", "{passed} of {count} exercises passed", checks)
    yield predicted.format(right=right, count=asked)
    yield checked.format(passed=passed, count=checks)
    if answered:
        yield _("{count} answered").format(count=answered)


def _place(stop: Stop) -> tuple[float, float]:
    return MARGIN_PX + stop.column * (CARD_WIDTH_PX + GAP_PX), MARGIN_PX + stop.row * ROW_PX


def _way(stop: Stop) -> str:
    """The lines that lead to a chapter: from the left, from above, or past what stands above."""
    stops = {each.number: each for each in COURSE}
    return "".join(el("path", class_="e", d=_line(stops[number], stop)) for number in stop.after)


def _line(before: Stop, stop: Stop) -> str:
    (left, top), (x, y) = _place(before), _place(stop)
    if before.column == stop.column and stop.row - before.row == 2:
        return f"M{x + CARD_WIDTH_PX / 2} {top + CARD_HEIGHT_PX}V{y}"
    there, top, left = y + CARD_HEIGHT_PX / 2, top + CARD_HEIGHT_PX / 2, left + CARD_WIDTH_PX
    if before.column == stop.column:
        right = left + 1.2 * MARGIN_PX
        return f"M{left} {top}C{right} {top} {right} {there} {left} {there}"
    middle = (left + x) / 2
    return f"M{left} {top}C{middle} {top} {middle} {there} {x} {there}"
