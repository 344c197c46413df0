"""What one submission may use, as nbgrader's configuration names it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from traitlets import Float, Integer
from traitlets.config import Configurable

from nbjudge.model import Limits

DEFAULT = Limits()


def _seconds(default: float, help: str) -> Any:
    return Float(default, min=0.1, help=help).tag(config=True)


def _whole(default: int, help: str) -> Any:
    return Integer(default, min=1, help=help).tag(config=True)


class Limited(Configurable):
    """The limits as traits, `max_` before each: `c.SandboxedAutograde.max_cell_s = 10` in nbgrader_config.py."""

    max_cell_s = _seconds(DEFAULT.cell_s, "Wall-clock seconds that one cell may take, a student's or a test.")
    max_notebook_s = _seconds(
        DEFAULT.notebook_s, "Wall-clock seconds that one notebook may take, all its cells together."
    )
    max_cpu_s = _whole(DEFAULT.cpu_s, "CPU seconds of one notebook's processes, all that it starts together.")
    max_memory_bytes = _whole(
        DEFAULT.memory_bytes,
        "Memory of one notebook's processes together, beyond what they share with the warm process. Each process alone "
        "is held to it at once; their sum is looked at four times a second.",
    )
    max_processes = _whole(DEFAULT.processes, "Processes and threads that one notebook may have at a time.")
    max_files = _whole(DEFAULT.files, "Files that one process of a notebook may have open.")
    max_file_bytes = _whole(DEFAULT.file_bytes, "Size of a file that a notebook may write.")
    max_output_bytes = _whole(DEFAULT.output_bytes, "Output of one cell that is kept; the rest is cut off as it comes.")
    max_notebook_bytes = _whole(DEFAULT.notebook_bytes, "Size of a notebook that may be handed in.")
    max_submission_bytes = _whole(DEFAULT.submission_bytes, "Size of all other files of a submission together.")

    def limits(self) -> Limits:
        """The same as plain data.

        >>> Limited(max_cell_s=5).limits().cell_s
        5.0
        """
        return Limits(**{field.name: getattr(self, f"max_{field.name}") for field in fields(Limits)})
