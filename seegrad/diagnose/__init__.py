"""Recording → Diagnoses; pure. A kind of Diagnosis is told in one file: its finder, its sentences, its tag.

Each file of this room and of those in it is loaded, and whatever it marks with `@finder` is asked: a new file needs no
line elsewhere.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

from seegrad.diagnose.finding import ORDER
from seegrad.diagnose.mend import mend_of
from seegrad.model.recording import Diagnosis, Recording

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

FINDERS = tuple(sorted(ORDER, key=lambda find: (ORDER[find], find.__module__)))
SEVERITIES = ("error", "wrong", "note")


def diagnose(recording: Recording) -> tuple[Diagnosis, ...]:
    """What went wrong in a Recording, most important first: torch's errors, wrong gradients, notes; then by time.

    A note that knows no line to change comes after those that do.

    >>> diagnose(Recording())
    ()
    """
    found = (replace(each, mend=mend_of(recording, each)) for find in FINDERS for each in find(recording))
    return tuple(sorted(found, key=_importance))


def _importance(found: Diagnosis) -> tuple[int, bool, int]:
    return SEVERITIES.index(found.severity), found.severity == "note" and found.culprit is None, found.frame or 0
