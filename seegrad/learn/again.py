"""Asked again: which two predictions of earlier chapters a learner makes before a new one.

First those that went wrong, then those that were asked longest ago, or never: of these the latest chapter's, so that
who answers none isn't asked the same again. Each comes in another *dress*: another program (`dresses.toml`) of which
the same kind of question is asked. An answer to it is one more answer to the prediction that went wrong, so what is
right in its other dress is learnt.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib import resources

from seegrad.learn.course_map import COURSE
from seegrad.learn.progress import Progress, Tried

SOME = 2


@dataclass(frozen=True, slots=True)
class Dress:
    """One program that stands for the questions of a kind in a chapter."""

    chapter: str
    kind: str
    program: str

    @property
    def name(self) -> str:
        """Stays the same as long as the program does."""
        return f"{self.kind}-{_seed(self.chapter, self.program):08x}"


@dataclass(frozen=True, slots=True)
class Again:
    """A dress, and the question that an answer to it answers: one that went wrong, else the dress's own."""

    dress: Dress
    question: str


@cache
def dresses() -> tuple[Dress, ...]:
    """All that there are, in the order of the course."""
    told = tomllib.loads(resources.files("seegrad").joinpath("learn", "dresses.toml").read_text(encoding="utf-8"))
    return tuple(
        Dress(chapter, kind, program)
        for chapter, kinds in told.items()
        for kind, programs in kinds.items()
        for program in programs
    )


def asked_again(
    progress: Progress, chapter: str, wardrobe: Iterable[Dress] | None = None, some: int = SOME
) -> tuple[Again, ...]:
    """Questions for the start of a chapter, the same ones until one of them is answered.

    >>> wrong = Progress().predicted("02_leaf_tensors", "keeps-1", Tried(False))
    >>> [(again.dress.chapter, again.question) for again in asked_again(wrong, "03_retain_grad_and_hooks")][0]
    ('02_leaf_tensors', 'keeps-1')
    """
    before = earlier(progress, chapter)
    points: dict[tuple[str, str], list[Dress]] = {}
    for dress in dresses() if wardrobe is None else wardrobe:
        if dress.chapter in before:
            points.setdefault((dress.chapter, dress.kind), []).append(dress)
    ranked = sorted(points, key=lambda point: _rank(_answers(progress, *point), chapter, *point))
    return tuple(_dressed(_answers(progress, *point), points[point], chapter) for point in ranked[:some])


def earlier(progress: Progress, chapter: str) -> set[str]:
    """The chapters that this one builds on, and those that the learner has been in."""
    builds_on = {stop.name: stop.after for stop in COURSE}
    names = {stop.number: stop.name for stop in COURSE}
    found, waiting = set(progress.chapters), [names[number] for number in builds_on.get(chapter, ())]
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting += [names[number] for number in builds_on[name]]
    return found - {chapter}


def _answers(progress: Progress, chapter: str, kind: str) -> Mapping[str, Tried]:
    """What was answered in a chapter to questions of a kind: their ids begin with it."""
    done = progress.chapters[chapter].predictions if chapter in progress.chapters else {}
    return {question: tried for question, tried in done.items() if question.split("-")[0] == kind}


def _rank(answers: Mapping[str, Tried], chapter: str, about: str, kind: str) -> tuple[bool, int, int, int]:
    """Wrong before right, long ago before lately, late chapters before early; else by chance, always the same."""
    turns = [tried.turn or 0 for tried in answers.values()]
    wrong = [turn for turn, tried in zip(turns, answers.values(), strict=True) if not tried.right]
    place = [stop.name for stop in COURSE].index(about)
    return not wrong, min(wrong) if wrong else max(turns, default=0), -place, _seed(chapter, about, kind)


def _dressed(answers: Mapping[str, Tried], choice: list[Dress], chapter: str) -> Again:
    """The wrong answer of longest ago, if any. Dresses are worn in turn: the next one after that of the last answer."""
    wrong = [(tried.turn or 0, question) for question, tried in answers.items() if not tried.right]
    about = min(wrong)[1] if wrong else ""
    worn = max(((tried.turn or 0, tried.dress) for tried in answers.values() if tried.dress), default=(0, ""))[1]
    names = [dress.name for dress in choice]
    dress = choice[(names.index(worn) + 1 if worn in names else _seed(chapter, *names)) % len(choice)]
    return Again(dress, about or dress.name)


def _seed(*words: str) -> int:
    return int(sha1("\n".join(words).encode(), usedforsecurity=False).hexdigest()[:8], 16)
