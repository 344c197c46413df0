"""The exceptions of the grader, one tree.

::

    GraderError                  everything below; catch this one
    ├── CourseError              the course is broken: no such assignment, not generated, a bad test cell
    │   └── ReferenceFailed      its own answers can't be read, or don't pass: who grades may do so all the same
    ├── SandboxError             this machine can't confine untrusted code as the configuration demands
    ├── ZygoteGone               a warm process of ours died; another one may live
    ├── WireError                a process sent something that isn't a frame of ours
    ├── StudentGone              the student's process died or was ended (carries the reason)
    ├── StorageError             a file of the course can't be written; what was recorded is safe
    │   └── DiskFull             nothing at all can be written any more
    ├── ClusterError             no Dask scheduler, or no worker there that may grade
    ├── BusyError                another grader is at work on this course
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


class ReferenceFailed(CourseError):
    """The course's own answers can't be read, or don't pass."""


class SandboxError(GraderError):
    """This machine can't confine untrusted code as the configuration demands."""


class ZygoteGone(GraderError):
    """A warm process of ours died or doesn't answer; another one may live."""


class WireError(GraderError):
    """A process sent something that isn't a frame of ours."""


class StudentGone(GraderError):
    """The student's process died or was ended."""


class GradebookError(GraderError):
    """The gradebook can't be read or written; nothing was recorded."""


class StorageError(GraderError):
    """A file of the course can't be written. What was recorded is safe."""


class DiskFull(StorageError):
    """Nothing at all can be written any more. What was recorded is safe."""


class ClusterError(GraderError):
    """There is no Dask scheduler, or no worker there that may grade."""


class BusyError(GraderError):
    """Another grader is at work on this course. Nothing was done."""
