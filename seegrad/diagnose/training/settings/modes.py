"""Modes that don't do what they are set for: dropout in evaluation, statistics that move in what is frozen."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.freezes import IN_VAIN
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Diagnosis, Frame, Place, Recording, Switch
from seegrad.words.languages import marked

DROPS = DiagnosisKind("dropout_in_evaluation", "note", marked("dropout in evaluation"))
STILL = {
    "function": marked(
        "{Culprit} drops numbers at random although `{owner}` is in evaluation mode: a function of torch's knows "
        "nothing of modes, and drops unless it is told `training=False`."
    ),
    "attention": marked(
        "{Culprit} drops weights at random although `{owner}` is in evaluation mode: the function knows nothing of "
        "modes, and drops by its `dropout_p`."
    ),
    "made": marked(
        "{Culprit} drops numbers at random although `{owner}` is in evaluation mode: no module holds that layer of "
        "dropout, so `eval()` doesn't come to it, and a new one is in training mode."
    ),
}
TELL = {
    "function": marked(
        "If evaluation is to be without dropout, hand the mode on, `training=self.training`; if it is to draw (Monte "
        "Carlo dropout), say `training=True`."
    ),
    "attention": marked(
        "If evaluation is to be without dropout, hand the mode on: `dropout_p=share if self.training else 0.0`."
    ),
    "made": marked(
        "If evaluation is to be without dropout, make the layer in `__init__`, as an attribute of the module."
    ),
}


@finder(order=35)
def find_dropout_in_evaluation(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that drops in both modes."""
    for each in recording.clues_of("dropped"):
        finding = Finding(
            recording=recording,
            kind=DROPS,
            frame=each.frame,
            culprit=each.place,
            victim=each.place,
            tensor=next(iter(each.tensors), None),
        )
        how = each.fact("how")
        yield finding.told(STILL[how], TELL[how], {"how": how, "owner": each.fact("owner")})


# -- what is frozen is normalised by its batches still, and counts them

COUNTS = marked(
    "{Culprit} switches off the gradients of {leaves}, but their BatchNorm is in training mode: on {victim} it "
    "normalises by each batch, and moves its running mean and variance, which no gradient is needed for."
)
EVALUATE = marked(
    "If they are to stay as they were, put them into evaluation mode, too, and again after each `train()` of the whole "
    "model: `….eval()`."
)
SEVERAL = 2
"""So often it has to count, by steps apart."""


@finder(order=36)
def find_counting(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that has frozen such a module, and all that leads to it, for good."""
    counting: dict[int, list[Frame]] = {}
    for frame in recording.frames:
        leaf = _frozen(recording, frame)
        if leaf is not None:
            counting.setdefault(leaf, []).append(frame)
    lines: dict[Place, list[int]] = {}
    for leaf, frames in counting.items():
        switch = _switched_off(recording, leaf) if _laps(recording, frames) >= SEVERAL else None
        if switch is not None and switch.place is not None and switch.frame < frames[0].index:
            lines.setdefault(switch.place, []).append(leaf)
    for place, leaves in lines.items():
        shown = counting[leaves[0]][-1]
        finding = Finding(
            recording=recording,
            kind=IN_VAIN,
            frame=shown.index,
            culprit=place,
            victim=shown.place,
            tensor=leaves[0],
        )
        yield finding.told(COUNTS, EVALUATE, {"how": "statistics"}, leaves=names(recording, leaves))


def _frozen(recording: Recording, frame: Frame) -> int | None:
    """The weight of a BatchNorm that moves its statistics, with gradients on and nothing in its input that learns."""
    if frame.op != "batch_norm" or frame.nodes or not frame.grad_enabled or len(frame.inputs) < 4:
        return None
    leaf = recording.tensors[frame.inputs[3]]
    return leaf.id if leaf.parameter and not leaf.requires_grad and _is_counted(recording, frame) else None


def _is_counted(recording: Recording, frame: Frame) -> bool:
    """Has its module counted the batch right before, as one in training mode does?"""
    before = recording.frames[frame.index - 1]
    counts = before.op == "add_" and before.module == frame.module and before.inputs
    return bool(counts) and recording.tensors[before.inputs[0]].dtype == "int64"


def _laps(recording: Recording, frames: list[Frame]) -> int:
    steps = [use.frame for use in recording.uses if use.kind == "stepped"]
    return len({sum(step < frame.index for step in steps) for frame in frames}) if steps else 0


def _switched_off(recording: Recording, leaf: int) -> Switch | None:
    """The switch that froze it; None where it comes on again, or was never switched."""
    mine = [each for each in recording.switches if each.kind == "tensors" and leaf in each.tensors]
    return mine[-1] if mine and not any(each.on for each in mine) else None
