"""`import seegrad.auto`: from this line on the program is watched; what spoils a gradient is told with its line.

Where nothing is found nothing is said. An error that torch raises in a backward carries the finding in its notes,
whoever catches it; a gradient that is wrong without an error is told on stderr, at the latest when the program ends.
The picture of it is written beside, `train.seegrad.html` for a program that says `import seegrad.auto` in `train.py`.

With `SEEGRAD=0` in the environment the import does nothing. `python -m seegrad --auto train.py` watches a program that
doesn't say this line.
"""

from __future__ import annotations

import os
import sys
from types import FrameType

SWITCH = "SEEGRAD"


def _importer(frame: FrameType | None) -> str:
    """The file that imports this one: the machinery of imports stands between."""
    while frame is not None and (frame.f_code.co_filename == __file__ or "importlib" in frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""


if os.environ.get(SWITCH) != "0":
    from seegrad.display.watch import watch_this

    watch_this(_importer(sys._getframe()))
