"""DistributedDataParallel waits for gradients: what is said where its message names no Parameters."""

from __future__ import annotations

from seegrad.diagnose import diagnose
from seegrad.model.recording import Frame, Place, RaisedError, Recording


def test_without_the_numbers_of_its_message_the_forward_is_named_and_what_helps() -> None:
    place = Place("train.py", 7, "out = model(x)")
    error = RaisedError("RuntimeError", "Expected to have finished reduction in the prior iteration", place, 0)
    (found,) = diagnose(Recording(frames=(Frame(0, "error", place, "RuntimeError"),), error=error))
    assert (found.kind, found.culprit, found.victim) == ("waited_for", None, place)
    assert "before the forward on line 7" in found.message("en")
    assert "find_unused_parameters=True" in found.message("en")
