"""A frozen Parameter that is 0 everywhere, and something is multiplied by it: what it belongs to never has a say."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import ancestors, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.freezes import last_switches, steps
from seegrad.model.recording import Diagnosis, Frame, Recording, Switch
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ZEROS = frozenset({"zeros", "zeros_like", "new_zeros", "zero_", "zeros_"})
FACTORS = frozenset({"matmul", "mm", "bmm", "mul", "linear", "einsum", "conv1d", "conv2d", "embedding", "__matmul__"})

SILENCED = DiagnosisKind("frozen_at_zero", "note", marked("frozen at 0"))
NO_SAY = marked(
    "{Culprit} switched {label} off, which is 0 everywhere: what {victim} multiplies by it is 0, and stays so, since "
    "no step can change it."
)
LEAVE_ON = marked(
    "If it is meant to learn (an adapter that begins at 0), freeze first and add it afterwards, or pass over it where "
    "you freeze; then make the optimiser."
)


@finder(order=26)
def find_silenced(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that froze such Parameters, where other Parameters are stepped."""
    if recording.error is not None or not steps(recording):
        return
    told: set[Switch] = set()
    off = {leaf: each for leaf, each in last_switches(recording).items() if not each.on}
    last = _last_made(recording)
    for frame in recording.frames if off else ():
        leaf = next((each for each in _factors(recording, frame) if each in off), None)
        if leaf is None or off[leaf] in told or recording.tensors[leaf].requires_grad:
            continue
        made = last.get(recording.tensors[leaf].storage)
        if made is not None and made.op in ZEROS:
            told.add(off[leaf])
            finding = Finding(
                recording=recording,
                kind=SILENCED,
                frame=frame.index,
                culprit=off[leaf].place,
                victim=frame.place,
                tensor=leaf,
            )
            facts: dict[str, Word] = {"label": label(recording, leaf)}
            yield finding.told(NO_SAY, LEAVE_ON, facts)


def _last_made(recording: Recording) -> dict[int, Frame]:
    """Storage → the last Frame that made or wrote its bytes."""
    found: dict[int, Frame] = {}
    for frame in recording.frames:
        fresh = (each for each in frame.outputs if recording.tensors[each].frame == frame.index)
        whole = (each for each in fresh if recording.tensors[each].alias_of is None)
        found.update({recording.tensors[each].storage: frame for each in whole})
        found.update({recording.writes[each].storage: frame for each in frame.writes})
    return found


def _factors(recording: Recording, frame: Frame) -> list[int]:
    """The Parameters of two or more dimensions that something is multiplied by; a bias that is 0 does no harm."""
    if frame.op not in FACTORS or frame.phase != "forward":
        return []
    given = [ancestors(recording, tensor)[-1][0] for tensor in frame.inputs]
    return [each for each in given if recording.tensors[each].parameter and len(recording.tensors[each].shape) > 1]
