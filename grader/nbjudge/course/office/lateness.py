"""What nbgrader's late plugin takes off of a notebook, as the course configures it.

It depends on points that a person may give at any time, so it is asked again whenever totals are read: what the
gradebook holds is only what was due when something was last recorded.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from types import SimpleNamespace

from nbgrader.preprocessors import AssignLatePenalties
from traitlets.config import Config

LOG = logging.getLogger(__name__)  # not the application's, which would tell of each question that the plugin is asked


class Lateness:
    """The plugin, and how nbgrader bounds what it says."""

    def __init__(self, config: Config) -> None:
        self._penalties = AssignLatePenalties(config=config, log=LOG)
        self._penalties.init_plugin()

    def taken_off(self, student: str, points: float, seconds_late: float) -> float | None:
        """Of so many points of one notebook; None where the plugin names no penalty, or nobody is late.

        >>> zero = Config({"LateSubmissionPlugin": {"penalty_method": "zero"}})
        >>> Lateness(zero).taken_off("ada", 3.0, 60), Lateness(zero).taken_off("ada", 3.0, 0)
        (3.0, None)
        """
        if seconds_late <= 0:
            return None
        penalty = self._penalties.plugin_inst.late_submission_penalty(student, points, seconds_late)
        notebook = SimpleNamespace(score=points)
        return None if penalty is None else float(self._penalties._check_late_penalty(notebook, penalty))


def seconds_late(
    handed_in: datetime | None, due: datetime | None, extension: timedelta | None, until: datetime | None
) -> float:
    """How late it came, as nbgrader reckons; `until` is a student's own date, which counts before nbgrader's field.

    >>> seconds_late(datetime(2026, 2, 2), datetime(2026, 2, 1), None, datetime(2026, 2, 1, 23))
    3600.0
    """
    if handed_in is None or due is None:
        return 0.0
    ends = due + (extension or timedelta(0)) if until is None else max(due, until)
    return max(0.0, (handed_in - ends).total_seconds())
