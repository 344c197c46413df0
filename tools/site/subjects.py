"""What a program of the gallery is about, and where that leads: known from where its finding is told.

A kind of Diagnosis is told in one file of `seegrad/diagnose/`, whose room is its subject.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import seegrad.diagnose
from seegrad.words.languages import marked
from tools.course.masters import BookError
from tools.site.programs import FlippedProgram
from tools.site.recorded import plays

FLIPS = Path("docs", "site", "chapters.toml")
TOLD = re.compile(r'DiagnosisKind\(\s*"(\w+)"')
NAMED = re.compile(r"# \*(.+)\*")


@dataclass(frozen=True, slots=True)
class Subject:
    """A group of the gallery: rooms and files of the diagnoses, the chapter that teaches it, where one does."""

    name: str
    title: str
    rooms: tuple[str, ...]
    chapter: str = ""


SUBJECTS = (
    Subject("in-place", marked("Writes in place"), ("saved", "writes", "silent", "detached"), "04_inplace_and_version"),
    Subject("graph", marked("Graphs that are cut or freed"), ("cut", "freed"), "01_computational_graphs"),
    Subject("leaves", marked("Leaves and their gradients"), ("gradients",), "02_leaf_tensors"),
    Subject("refused", marked("What else torch refuses"), ("refused",)),
    Subject("training", marked("Training loops"), ("training",), "10_a_model_that_trains"),
    Subject("lost", marked("What has no effect"), ("lost",), "10_a_model_that_trains"),
    Subject("losses", marked("Losses and targets"), ("losses",), "10_a_model_that_trains"),
    Subject("numbers", marked("NaN, shapes and slopes"), ("numbers",)),
    Subject("weights", marked("Weights"), ("weights",), "10_a_model_that_trains"),
)


def subject_of(program: FlippedProgram) -> Subject:
    """The subject of its mistake. Raises: BookError where no room of the diagnoses tells its kind."""
    room = _rooms().get(program.kind)
    for subject in SUBJECTS:
        if room in subject.rooms:
            return subject
    raise BookError(f"{program.name}: {program.kind!r} belongs to no subject.")


@cache
def _rooms() -> dict[str, str]:
    """Kind → the room, or the file beside the rooms, that tells it."""
    folder = Path(seegrad.diagnose.__file__).parent
    told: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        room = Path(path.relative_to(folder).parts[0]).stem
        told |= dict.fromkeys(TOLD.findall(path.read_text(encoding="utf-8")), room)
    return told


def chapters_of(root: Path) -> dict[str, list[str]]:
    """Chapter → the programs at its end."""
    known: dict[str, list[str]] = tomllib.loads((root / FLIPS).read_text(encoding="utf-8"))
    return known


def chapter_of(program: FlippedProgram, programs: dict[str, FlippedProgram], root: Path) -> str:
    """The chapter that ends with it, or with one of its kind; else that of its subject, or "" where none teaches it."""
    chapters = chapters_of(root)
    for chapter, names in chapters.items():
        if program.name in names:
            return chapter
    for chapter, names in chapters.items():
        if program.kind in {programs[name].kind for name in names if name in programs}:
            return chapter
    return subject_of(program).chapter


def error_of(program: FlippedProgram, pages: Iterable[Path]) -> Path | None:
    """The page on an error that is about what torch says of the mistake: it is called by the error's own words."""
    says = plays(program)[program.choices[0]].says
    return next((page for page in pages if (core := core_of(page)) and core in says), None)


def core_of(page: Path) -> str:
    """The words of an error that a page is called by; "" where it isn't about one."""
    found = NAMED.match(page.read_text(encoding="utf-8"))
    return found[1] if found else ""
