"""The exceptions of the grader, one tree.

::

    GraderError                  everything below; catch this one
    ├── CourseError              the course is broken: no such assignment, not generated, a bad test cell
    ├── SandboxError             this machine can't confine untrusted code as the configuration demands
    ├── WireError                a process sent something that isn't a frame of ours
    ├── StudentGone              the student's process died or was ended (carries the reason)
    └── GradebookError           the gradebook can't be read or written; nothing was recorded
"""

from __future__ import annotations


class GraderError(Exception):
    """Root of every exception that the grader raises.

    >>> issubclass(WireError, GraderError)
    True
    """


class CourseError(GraderError):
    """The course is broken, not a submission. Nothing was graded."""


class SandboxError(GraderError):
    """This machine can't confine untrusted code as the configuration demands."""


class WireError(GraderError):
    """A process sent something that isn't a frame of ours."""


class StudentGone(GraderError):
    """The student's process died or was ended."""


class GradebookError(GraderError):
    """The gradebook can't be read or written; nothing was recorded."""
