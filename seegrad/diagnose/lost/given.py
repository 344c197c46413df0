"""An optimiser that was given only what doesn't require grad, and that nobody has ever switched off.

And a line that goes by gradients of which some are None, or that reads one before there is any: Python's own error ends
the program there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from seegrad.diagnose.cut import rewarded
from seegrad.diagnose.evidence import is_trained, made_at
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.freezes import UNUSED, idle_steps
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Diagnosis, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

NEVER_ON = marked(
    "{Culprit} made {leaves} without `requires_grad`, and the optimiser that steps on {victim} holds nothing else: no "
    "gradient comes to it, so that step changes nothing."
)
SWITCH_ON = marked(
    "If it is to be trained, let it require grad, `.requires_grad_()`, before anything is computed with it; what is "
    "computed from it later (`.clone()`) gets a gradient for itself alone."
)


@finder(order=26)
def find_given(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of a step that has twice found nothing so, while backward calls came to others."""
    idle, told = idle_steps(recording), set[Place | None]()
    switched = {leaf for each in recording.switches if each.kind == "tensors" for leaf in each.tensors}
    for step in (use for use in recording.uses if use.kind == "stepped" and use.tensors):
        leaves = [leaf for leaf, now in step.tensors if now is None and not recording.tensors[leaf].requires_grad]
        never = len(leaves) == len(step.tensors) and switched.isdisjoint(leaves)
        if never and step.place not in told and all(len(idle.get(leaf, ())) > 1 for leaf in leaves):
            told.add(step.place)
            finding = Finding(
                recording=recording,
                kind=UNUSED,
                frame=step.frame,
                culprit=made_at(recording, leaves[0]),
                victim=step.place,
                tensor=leaves[0],
            )
            facts: dict[str, Word] = {"leaves": names(recording, leaves)}
            yield finding.told(NEVER_ON, SWITCH_ON, facts)


NONE = replace(UNUSED, severity="error")
IS_NONE = marked(
    "{Culprit} goes by the `.grad` of each Parameter, and that of {leaves} is None: no backward call has come to them, "
    "since no loss that was gone back from was computed with them."
)
PASS_OVER = marked(
    "Pass over what has none, `if p.grad is not None:`, as optimisers do; if they are to learn, let a loss be computed "
    "with them."
)


@finder(order=12)
def find_none(recording: Recording) -> Iterator[Diagnosis]:
    """The line that read gradients when Python was given a None there, where others of the Parameters have got one."""
    error = recording.error
    if error is None or error.kind not in ("TypeError", "AttributeError") or "NoneType" not in error.text:
        return
    read = any(use.kind == "read" and use.place == error.place for use in recording.uses)
    got, tensors = rewarded(recording) if read else set[int](), recording.tensors
    without = [ref.id for ref in tensors if ref.parameter and is_trained(recording, ref.id) and ref.id not in got]
    if got and without:
        finding = Finding(
            recording=recording,
            kind=NONE,
            frame=error.frame,
            culprit=error.place,
            victim=error.place,
            tensor=without[0],
        )
        facts: dict[str, Word] = {"leaves": names(recording, without)}
        yield finding.told(IS_NONE, PASS_OVER, facts)


TOO_EARLY = marked(
    "{Culprit} reads `{name}.grad`, which is `None`: no backward call has been recorded before it. Until one has run "
    "there is no gradient, not even a tensor of zeros for backward to add to: it makes one."
)
READ_LATER = marked(
    "Empty the gradients after `backward()` and the step, or at the start of each round where there are any: "
    "`if {name}.grad is not None:` before it."
)
ASKED = re.compile(r"'NoneType' object has no attribute '(\w+)'")


@finder(order=12)
def find_too_early(recording: Recording) -> Iterator[Diagnosis]:
    """The line that asked something of a gradient when nobody had gone back yet."""
    error = recording.error
    asked = ASKED.search(error.text) if error is not None and error.kind == "AttributeError" else None
    if error is None or error.place is None or asked is None:
        return
    read = re.search(rf"([\w.\[\]]+)\.grad\.(?:data\.)?{asked[1]}\b", error.place.code)
    if read is None or any(frame.phase == "backward" for frame in recording.frames):
        return
    named = [ref.id for ref in recording.tensors if ref.name == read[1] and is_trained(recording, ref.id)]
    tensor = named[-1] if named else None
    finding = Finding(
        recording=recording, kind=NONE, frame=error.frame, culprit=error.place, victim=error.place, tensor=tensor
    )
    yield finding.told(TOO_EARLY, READ_LATER, {"name": read[1]})
