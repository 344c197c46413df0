"""From what a finder found to a Diagnosis: its facts in place, its sentences filled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from seegrad.model.recording import Diagnosis, Node, Place, Recording, Route, Severity, Write
from seegrad.words.languages import marked, speaking
from seegrad.words.phrases import Phrase, Word, phrase, say

MAX_CODE = 60
LAST = 100

PATH = re.compile(r"[^\W\d][\w.]*")
"""A variable or an attribute."""

NO_TWIN = {
    "zero_": "torch.zeros_like({name})",
    "fill_": "torch.full_like({name}, …)",
    "copy_": "….clone()",
    "normal_": "torch.randn_like({name})",
    "uniform_": "torch.rand_like({name})",
    "fill_diagonal_": "{name}.diagonal_scatter(…)",
    **dict.fromkeys(
        ("cauchy_", "exponential_", "geometric_", "log_normal_", "random_"), "torch.empty_like({name}).{op}(…)"
    ),
    **dict.fromkeys(("apply_", "map_", "map2_", "set_"), "torch.where(…)"),
    **dict.fromkeys(
        ("resize_as_sparse_", "share_memory_", "sparse_resize_", "sparse_resize_and_clear_"), "{name}.clone()"
    ),
}
"""Methods that write in place and have no method of that name without the underscore → what to write instead."""

BEFORE = marked("a line before the recording")
LINE = marked("line {line}")
LINE_OF = marked("line {line} of {file}")
WITH_CODE = marked("{line} (`{code}`)")

Finder = Callable[[Recording], Iterator[Diagnosis]]
ORDER: dict[Finder, int] = {}
"""All that `@finder` marks, filled while the files of this room are loaded."""


def finder(order: int = LAST) -> Callable[[Finder], Finder]:
    """Marks a function that finds Diagnoses; of those in one Frame, equally grave, a lower `order` is told first."""

    def register(find: Finder) -> Finder:
        ORDER[find] = order
        return find

    return register


@dataclass(frozen=True, slots=True)
class DiagnosisKind:
    """What the Diagnoses of one kind share: its name in code, how grave it is, its name in words.

    `tag` is what the picture pins to the victim, one or two short lines; without it, it says how grave it is.
    """

    name: str
    severity: Severity
    title: str
    tag: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Who did it, who was hit, and the Frame in which it shows. `name` is the tensor's own where it's left out.

    `instead`: other lines at which it can be mended, each with the template that says what a change there does, in
    which `{Place}` or `{place}` is that line.
    """

    recording: Recording
    kind: DiagnosisKind
    frame: int
    culprit: Place | None = None
    victim: Place | None = None
    node: Node | None = None
    tensor: int | None = None
    name: str | None = ""
    write: Write | None = None
    saved: int | None = None  # versions
    now: int | None = None
    route: Route = "self"
    instead: tuple[tuple[Place | None, str], ...] = ()

    def told(self, said: str, advice: str, facts: Mapping[str, Word], **words: Word) -> Diagnosis:
        """The Diagnosis: two templates, and what fills their gaps beside culprit, victim, node, name, saved and now.

        `facts` are kept as the Diagnosis's arguments, `words` are of no use but in the sentences.
        """
        known = {**self._words(), **facts, **words}
        with speaking("en"):
            arguments = [(key, word if isinstance(word, int) else say(word)) for key, word in facts.items()]
        return Diagnosis(
            kind=self.kind.name,
            severity=self.kind.severity,
            raised=self.kind.severity == "error",
            culprit=self.culprit,
            victim=self.victim,
            node=self.node.name if self.node else None,
            tensor=self.called,
            version_saved=self.saved,
            version_now=self.now,
            route=self.route,
            arguments=(*arguments, *([("elsewhere", 1)] if self._elsewhere() else [])),
            node_id=self.node.id if self.node else None,
            tensor_id=self.tensor,
            write_id=self.write.id if self.write else None,
            frame=self.frame,
            title=self.kind.title,
            said=phrase(said, **known),
            advice=phrase(advice, **known),
            tag=tuple(phrase(each, **known) for each in self.kind.tag),
            instead=tuple(
                (place, phrase(said, **{**known, **dict.fromkeys(("Place", "place"), self._other(place))}))
                for place, said in self.instead
                if place is not None and place != self.culprit
            ),
        )

    @property
    def called(self) -> str | None:
        """The tensor's variable."""
        own = self.recording.tensors[self.tensor].name if self.tensor is not None else None
        return own if self.name == "" else self.name

    @property
    def code(self) -> str:
        """The culprit's line; empty where it isn't known."""
        return self.culprit.code if self.culprit else ""

    def _words(self) -> dict[str, Word]:
        culprit = self.line(self.culprit, code=True)
        return {
            "Culprit": culprit,
            "culprit": culprit,
            "victim": self.line(self.victim),
            "node": self.node.name if self.node else "a Node",
            "name": self.called or "x",
            "saved": str(self.saved),
            "now": str(self.now),
        }

    def line(self, place: Place | None, *, code: bool = False) -> Word:
        """A line in words; its file too where culprit and victim are in two, the code of the culprit's."""
        if place is None:
            return Phrase(BEFORE)
        named = len(self._files()) > 1 or (code and self._elsewhere())
        line = phrase(LINE_OF if named else LINE, line=place.line, file=PurePath(place.file).name)
        return phrase(WITH_CODE, line=line, code=_short(place.code)) if code and place.code else line

    def _other(self, place: Place) -> Word:
        """A line beside the culprit and the victim; its file too where that is none of theirs."""
        return replace(self, victim=place).line(place, code=True)

    def _files(self) -> set[str]:
        return {place.file for place in (self.culprit, self.victim) if place is not None}

    def _elsewhere(self) -> bool:
        """Where all happened in another file than the block that was recorded, the words have to name it."""
        block, files = self.recording.code_file, self._files()
        return bool(block) and len(files) == 1 and block not in files


def _short(code: str) -> str:
    code = code.split("  #")[0].rstrip()
    return code if len(code) <= MAX_CODE else code[: MAX_CODE - 1] + "…"
