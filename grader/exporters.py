"""The old name of `nbjudge.course.exporters`, for configurations that were written before nbjudge had its name."""

import warnings

from nbjudge.course.exporters import CanvasCsv, GradesCsv, MoodleCsv

__all__ = ["CanvasCsv", "GradesCsv", "MoodleCsv"]

warnings.warn("grader.exporters is now nbjudge.course.exporters", DeprecationWarning, stacklevel=2)
