"""`nbjudge similar`: a class's submissions are read and made into tokens by a scribe; a page and a table of its pairs.

A hint for somebody who then reads both texts, never a grade: nothing here writes to the gradebook.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nbjudge.course import intake
from nbjudge.course.layout import MOST_LETTERS, Course
from nbjudge.errors import CourseError
from nbjudge.grading.batch import nobodys
from nbjudge.model import Assignment, Limits, Submission
from nbjudge.pages.feedback import tag_of
from nbjudge.pages.screen import columns
from nbjudge.pages.similar.fingerprints import Prints, Token, grams, prints
from nbjudge.pages.similar.pairs import Found, Pair, Passage, nearer, passages
from nbjudge.pages.similar.words import WORDS
from nbjudge.process.scribe import OVER, Scribe
from nbjudge.process.zygote import Zygote
from nbjudge.shown.text import one_line, printable

TEMPLATES = Path(__file__).parent / "templates" / "nbjudge"
TEXT_CHARS = 50_000  # of one submission's own text
TOKENS_S = 3.0  # of CPU time, for one submission
MOST_PAIRS = 50  # on the page; the table has them all
LIMITS = Limits(processes=8)
PRELOAD = ("pygments.lexers.python", "nbjudge.shown.tokens")
HINT = WORDS["en"]["hint"]
Text = tuple[str, str]  # its kind, "code" or "prose", and what was written


@dataclass(frozen=True, slots=True)
class Compared:
    """A class, compared: the pairs, each student's own texts, and who couldn't be looked at and why.

    `in_part`: of how many characters at the end a student's texts weren't looked at.
    """

    assignment: str
    found: Found
    texts: Mapping[str, tuple[Text, ...]]
    left_out: Mapping[str, str]
    in_part: Mapping[str, int] = field(default_factory=dict)


def compare(course: Course, assignment: Assignment, releases: Sequence[Path]) -> Compared:
    """Everybody's own text beside everybody else's. `releases`: folders with what students were given.

    Raises `CourseError` where nobody has handed in anything.
    """
    given = _given(course, assignment, releases)
    answers = {cell.grade_id for book in assignment.notebooks for cell in book.cells if cell.solution}
    texts, left_out, in_part, group = dict[str, tuple[Text, ...]](), dict[str, str](), dict[str, int](), list[Prints]()
    with Zygote(PRELOAD, limits=LIMITS, trust_students=True, roles=("scribe",)) as zygote:
        scribe = Scribe(zygote)
        known = _known(scribe, given)
        names, theirs = [book.name for book in assignment.notebooks], {text for _, text in given}
        for student, folder in course.submissions(assignment.name):
            if why := nobodys(student):
                left_out[ascii(student[:MOST_LETTERS])] = why
                continue
            try:
                submission = intake.read(folder, student, assignment.name, assignment.limits)
                own, more = _first(_own(submission, names, answers, theirs))
            except Exception as error:  # this one's trouble: the others are compared
                left_out[student] = f"it could not be read: {type(error).__name__}: {error}"
                continue
            tokens, trouble = _tokens(scribe, own)
            if why := submission.refusal or trouble:
                left_out[student] = why
            else:
                texts[student] = own
                group.append(prints(student, tokens))
                in_part |= {student: more} if more else {}
        scribe.close()
    if not texts and not left_out:
        raise CourseError(
            f"nobody has handed in {assignment.name}: {course.folder(course.submitted, '*', assignment.name)}"
        )
    return Compared(assignment.name, nearer(group, known), texts, left_out, in_part)


def _given(course: Course, assignment: Assignment, releases: Sequence[Path]) -> list[Text]:
    """All that the course itself has written: its source with the solution, its releases, the gradebook's cells."""
    folders = [course.folder(course.source, ".", assignment.name), *releases]
    found = [(_kind(cell.cell_type), cell.source) for book in assignment.notebooks for cell in book.cells]
    for path in (path for folder in folders for path in sorted(folder.glob("*.ipynb"))):
        try:
            cells = json.loads(intake.canonical(path.read_bytes(), path.name))["cells"]
        except (OSError, intake.Unreadable) as error:
            raise CourseError(f"{path} can't be read: {error}") from error
        found += [(_kind(cell["cell_type"]), cell["source"]) for cell in cells]
    return list(dict.fromkeys(found))


def _kind(cell_type: str) -> str:
    return "code" if cell_type == "code" else "prose"


def _own(submission: Submission, names: Sequence[str], answers: set[str], given: set[str]) -> Iterator[Text]:
    """What the student has written: code cells that the course hasn't, and answers in prose.

    First what stands in the assignment's notebooks, then in others: what isn't graded hides nothing.
    """
    for _, text in sorted(submission.notebooks.items(), key=lambda book: (book[0] not in names, book[0])):
        for cell in json.loads(text)["cells"]:
            prose = cell["cell_type"] == "markdown" and _grade_id(cell) in answers
            source = cell["source"].strip("\n")
            if source.strip() and cell["source"] not in given and (prose or cell["cell_type"] == "code"):
                yield _kind(cell["cell_type"]), source


def _first(texts: Iterable[Text]) -> tuple[tuple[Text, ...], int]:
    """The first TEXT_CHARS characters of them all, and how many there are after these.

    >>> _first([("code", "x" * 49_999), ("code", "yz")])[1]
    1
    """
    left, more, found = TEXT_CHARS, 0, list[Text]()
    for kind, text in texts:
        if left:
            found.append((kind, text[:left]))
        more += max(0, len(text) - left)
        left = max(0, left - len(text))
    return tuple(found), more


def _grade_id(cell: Mapping[str, Any]) -> str:
    return str(cell["metadata"].get("nbgrader", {}).get("grade_id"))


def _known(scribe: Scribe, given: Sequence[Text]) -> set[int]:
    """Every run of tokens that the course has written, not only those that winnowing keeps."""
    found = set[int]()
    for text in given:
        tokens, trouble = _tokens(scribe, [text])
        if trouble:
            raise CourseError(f"a cell of the course's own can't be read: {trouble}. It begins: {text[1][:60]!r}")
        found.update(mark for each in tokens for mark in grams([word for word, _, _ in each]))
    return found


def _tokens(scribe: Scribe, texts: Sequence[Text]) -> tuple[list[list[Token]], str | None]:
    """The tokens of each text, or why there are none."""
    body = json.dumps(texts).encode()
    packet, _ = scribe.ask({"op": "tokens", "cpu_ms": round(1000 * TOKENS_S)}, body, 1.2 * TOKENS_S)
    if packet is None:
        return [], OVER.format(seconds=TOKENS_S)
    if (problem := packet.header.get("problem")) is not None:
        return [], str(problem)
    return json.loads(packet.body), None


# --- what an instructor reads ----------------------------------------------------------------------------------------


def table(compared: Compared) -> list[str]:
    """The pairs as lines for a terminal, then what the numbers mean."""
    rows = [("first", "second", "nearness", "tokens in common")]
    rows += [_row(pair) for pair in compared.found.pairs]
    lines = columns(rows) if compared.found.pairs else ["No pair is nearer than the class is."]
    return [*lines, "", said(compared), *_not_compared(compared), HINT]


def _row(pair: Pair) -> tuple[str, str, str, str]:
    return printable(pair.first.owner), printable(pair.second.owner), f"{pair.nearness:.2f}", str(pair.tokens)


def said(compared: Compared, language: str = "en") -> str:
    """What was compared, and what a pair needs to be told."""
    found, say, count = compared.found, WORDS[language], len(compared.texts)
    if found.usual is None:
        return say["said_of_few"].format(count=count, bound=f"{found.bound:.2f}")
    return say["said"].format(count=count, usual=f"{found.usual:.2f}", bound=f"{found.bound:.2f}")


def _not_compared(compared: Compared, language: str = "en") -> Iterator[str]:
    """Who isn't compared, or not as a whole: a line each."""
    say = WORDS[language]
    for student, why in compared.left_out.items():
        yield one_line(say["left_out"].format(who=student, why=why))
    for student, more in compared.in_part.items():
        yield one_line(say["in_part"].format(who=student, most=TEXT_CHARS, more=more))


def page(compared: Compared, language: str = "en") -> str:
    """The pairs as one HTML document, both texts side by side."""
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    pairs = compared.found.pairs
    return environment.get_template("similar.html.j2").render(
        lang=tag_of(language),
        say=WORDS[language],
        assignment=compared.assignment,
        said=said(compared, language),
        pairs=[_shown(pair, compared.texts) for pair in pairs[:MOST_PAIRS]],
        more=max(0, len(pairs) - MOST_PAIRS),
        not_compared=list(_not_compared(compared, language)),
    )


def _shown(pair: Pair, texts: Mapping[str, Sequence[Text]]) -> dict[str, Any]:
    both = passages(pair)
    linked = {one.number for one in both[0]} & {one.number for one in both[1]}
    sides = [
        {"who": printable(one.owner), **_side(texts[one.owner], marked, linked)}
        for one, marked in zip((pair.first, pair.second), both, strict=True)
    ]
    return {"nearness": f"{pair.nearness:.2f}", "tokens": pair.tokens, "sides": sides}


def _side(texts: Sequence[Text], marked: Sequence[Passage], linked: set[int]) -> dict[str, Any]:
    """Its texts with something in common, in parts that are marked and parts that aren't; how many others there are."""
    pieces = {piece: list(ones) for piece, ones in groupby(marked, key=lambda one: one.piece)}
    seen = set[int]()
    shown = [list(_parts(texts[piece][1], ones, linked, seen)) for piece, ones in pieces.items()]
    return {"texts": shown, "others": len(texts) - len(shown)}


def _parts(text: str, marked: Iterable[Passage], linked: set[int], seen: set[int]) -> Iterator[dict[str, Any]]:
    """The text in order; a marked part has a number where the other text has it too, `first` where it is new."""
    at = 0
    for one in marked:
        yield {"text": printable(text[at : one.start]), "marked": False}
        number = one.number if one.number in linked else 0
        yield {
            "text": printable(text[one.start : one.end]),
            "marked": True,
            "number": number,
            "first": number not in seen,
        }
        seen.add(number)
        at = one.end
    yield {"text": printable(text[at:]), "marked": False}
