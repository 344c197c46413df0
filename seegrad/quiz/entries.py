"""An exercise's answer, given on the graph entry by entry. What is right isn't known here: that is graded elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from seegrad.model.recording import Recording
from seegrad.model.scene import Choice, Question
from seegrad.quiz.outcome import NO_LINE, lines_of
from seegrad.quiz.subject import named, named_for
from seegrad.words.errors import QuestionError
from seegrad.words.languages import _, marked

KIND = "entries"
SEPARATOR = "\t"  # in a Choice's key: between an entry's name and its value as JSON
LINE = re.compile(r"line(?P<some>( \d+)*)(?P<none> or none)?")
"""What may be asked for instead of values: lines of the program, `"line"`, `"line 1 3 6"`, `"line or none"`."""

Value = str | int | bool
PROMPT = marked("Your answer, entry by entry: click in the picture or the code, or choose here.")


def entries(
    recording: Recording, answer: str, asked: Mapping[str, str | Iterable[Value]], *, part: bool = False
) -> Question:
    """A Question whose answer is a dict called `answer`: for each entry its values, or what LINE says.

    `part`: the dict has other entries too, which are asked for elsewhere.

    It holds no truth. Its picture hides which tensors are leaves, since most exercises turn on it.

    Raises: QuestionError where the program has no line, or an entry asks for something else.

    >>> from seegrad.model.recording import Recording
    >>> asked = entries(Recording(code=((1, "l = a * b"),)), "found", {"culprit": "line", "holds": range(2)})
    >>> [(choice.key, choice.label) for choice in asked.choices]
    [('culprit\\t1', 'line 1'), ('holds\\t0', '0'), ('holds\\t1', '1')]
    >>> asked.truth
    'null'
    """
    lines = tuple(number for number, text in recording.code if text.strip())
    if not lines:
        raise QuestionError(_("Nothing was recorded in this block, so there is nothing to ask about."))
    return Question(
        named_for(recording, KIND, answer),
        KIND,
        _(PROMPT),
        "null",
        max(0, len(recording.frames) - 1),
        choices=tuple(choice for name, values in asked.items() for choice in _choices(name, values, lines)),
        targets=tuple(_targets(recording, asked)),
        name=f"{answer} |" if part else answer,
        veil="leaves",
    )


def _choices(name: str, values: str | Iterable[Value], lines: tuple[int, ...]) -> Iterator[Choice]:
    """The values of one entry, each with what it is called beside the picture."""
    if isinstance(values, str):
        if (found := LINE.fullmatch(values)) is None:
            said = _("What may `{name}` be? Values, `line`, `line 1 3 6` or `line or none`, not `{came}`.")
            raise QuestionError(said.format(name=name, came=values))
        some = tuple(map(int, found["some"].split())) or lines
        for number in (NO_LINE, *some) if found["none"] else some:
            yield Choice(f"{name}{SEPARATOR}{number}", _line(number))
        return
    for value in values:
        yield Choice(f"{name}{SEPARATOR}{json.dumps(value, ensure_ascii=False)}", str(value))


def _line(number: int) -> str:
    return _("line {line}").format(line=number) if number != NO_LINE else _("no line")


def _targets(recording: Recording, asked: Mapping[str, str | Iterable[Value]]) -> Iterator[tuple[str, str]]:
    """What may be clicked: tensors that an entry or a value is called after, lines and the pills that they made."""
    values = [str(value) for each in asked.values() if not isinstance(each, str) for value in each]
    for name, ref in named(recording, len(recording.frames), ()).items():
        if name in asked or name in values:
            yield f"t{ref.id}", name
    if any(isinstance(each, str) for each in asked.values()):
        for part, number in lines_of(recording, recording.code):
            yield part, _line(number)
