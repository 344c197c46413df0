"""What was found, as a line that a compiler would print, and as JSON for editors, checks and agents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from seegrad.model.recording import Diagnosis, Place, Recording
from seegrad.words.languages import _, marked, speaking
from seegrad.words.phrases import told

SCHEMA = 1
"""Raised when a key of a finding changes its meaning or goes; a new key doesn't raise it."""

SEVERITY = {"error": marked("error"), "wrong": marked("WRONG GRADIENT"), "note": marked("note")}

CLAUSE = re.compile(r"(?:`[^`]*`|[^`:;.：；。]|[:;.](?=\S))+")
"""Up to the first stop that stands in no code and no number."""


def findings(recording: Recording, lang: str | None = None) -> list[dict[str, Any]]:
    """The Diagnoses as plain data, most important first.

    Each has `kind`, `severity` (`error`: torch raised; `wrong`: a gradient is wrong and torch said nothing; `note`),
    `title` and `message` in `lang`, `culprit` and `victim` (`file`, `line`, `code`, or None), `tensor` and `node` by
    their names, `version_saved` and `version_now`, `mend` (a line, and the `text` that mends it, or None), `instead`
    (other lines at which it can be mended, each with the `message` that says what a change there does).

    >>> from seegrad.model.recording import Diagnosis, Place
    >>> line = Place("train.py", 12, "out.zero_()")
    >>> found = Diagnosis("silent_corruption", "wrong", False, line, None, None, "out")
    >>> [(each["kind"], each["culprit"]["line"]) for each in findings(Recording(diagnoses=(found,)))]
    [('silent_corruption', 12)]
    """
    with speaking(lang):
        return [_finding(diagnosis) for diagnosis in recording.diagnoses]


def _finding(diagnosis: Diagnosis) -> dict[str, Any]:
    mend = diagnosis.mend
    return {
        "kind": diagnosis.kind,
        "severity": diagnosis.severity,
        "title": title(diagnosis),
        "message": diagnosis.message(),
        "culprit": _place(diagnosis.culprit),
        "victim": _place(diagnosis.victim),
        "tensor": diagnosis.tensor,
        "node": diagnosis.node,
        "version_saved": diagnosis.version_saved,
        "version_now": diagnosis.version_now,
        "mend": _place(mend.place, text=mend.line) if mend else None,
        "instead": [_place(place, message=told(said)) for place, said in diagnosis.instead],
    }


def _place(place: Place | None, **more: str) -> dict[str, Any] | None:
    return {"file": place.file, "line": place.line, "code": place.code, **more} if place else None


def as_json(recording: Recording) -> str:
    """The findings as one JSON document, with the versions of Python and torch."""
    document = {"schema": SCHEMA, "versions": dict(recording.versions), "findings": findings(recording)}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def title(diagnosis: Diagnosis) -> str:
    """What kind of mistake it is, in a few words."""
    return _(diagnosis.title) or diagnosis.kind.replace("_", " ")


def heading(diagnosis: Diagnosis, here: Path) -> str:
    """One line that names the culprit, as a compiler would; its file by its path from the folder `here`."""
    place = diagnosis.culprit or diagnosis.victim
    where = f"{near(place.file, here)}:{place.line}: " if place else ""
    severity, kind = _(SEVERITY[diagnosis.severity]), title(diagnosis)
    return f"{where}{severity}: {kind}"


def brief(diagnosis: Diagnosis, here: Path) -> str:
    """What is told of a finding beside other matters: its heading, and the first clause of what happened.

    >>> from seegrad.words.phrases import Phrase
    >>> line = Place("train.py", 3, "y = x[a:b].mean()")
    >>> said = Phrase("Line 3 (`y = x[a: b]`) scales by 0.5 twice: once is enough.")
    >>> print(brief(Diagnosis("twice", "note", False, line, None, None, None, said=said), Path()))
    train.py:3: note: twice
        Line 3 (`y = x[a: b]`) scales by 0.5 twice
    """
    clause = CLAUSE.match(diagnosis.message())
    return f"{heading(diagnosis, here)}\n    {clause[0] if clause else diagnosis.message()}"


def near(file: str, here: Path) -> str:
    """The path from here, where the file lies below.

    >>> near("/work/code/train.py", Path("/work")), near("/else/train.py", Path("/work")), near("In [1]", Path("/work"))
    ('code/train.py', '/else/train.py', 'In [1]')
    """
    path = Path(file)
    return str(path.relative_to(here)) if path.is_relative_to(here) else file
