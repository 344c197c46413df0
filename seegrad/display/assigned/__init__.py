"""What an assignment shows of itself: its graph to answer on, and that a check has passed."""

from __future__ import annotations

from seegrad.display.assigned.asked import pick
from seegrad.display.assigned.passed import say_passed

__all__ = ["pick", "say_passed"]
