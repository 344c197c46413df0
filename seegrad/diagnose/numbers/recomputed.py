"""A checkpoint that computes something else the second time: its gradients are those of another forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from seegrad.diagnose.evidence import errors_with
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Frame, RaisedError, Recomputed, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

DIFFERS = DiagnosisKind("recomputed_otherwise", "wrong", marked("recomputed otherwise"))
RAISED = replace(DIFFERS, severity="error")
RANDOM = frozenset({
    "alpha_dropout", "bernoulli", "bernoulli_", "dropout", "feature_dropout", "gumbel_softmax", "multinomial", "normal",
    "normal_", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "uniform_",
})  # fmt: skip
"""Ops that draw."""

NUMBERS = marked(
    "{Culprit} gives other numbers when the checkpoint runs it again for the backward call on {victim}: the gradients "
    "are those of a forward that the loss hasn't seen."
)
OTHER_OP = marked(
    "The checkpoint calls `{op}` on {culprit} in the forward, and `{again}` in its place when it runs again for the "
    "backward call on {victim}."
)
OTHER_SHAPE = marked(
    "{Culprit} gives a result of another shape or dtype when the checkpoint runs it again for the backward call on "
    "{victim}."
)
LEFT_BEHIND = marked(
    "{Culprit} reads what the first run of the checkpoint has left behind, when that runs again for the backward call "
    "on {victim}: it calls `{again}`, where the forward has called `{op}` on {first}."
)
OTHER_WAY = {
    "op": marked(
        "{Culprit} decides otherwise when the checkpoint runs again for the backward call on {victim}: where the "
        "forward calls `{op}` on {first}, that run calls `{again}`."
    ),
    "fewer": marked(
        "{Culprit} decides otherwise when the checkpoint runs again for the backward call on {victim}: the forward "
        "alone calls `{op}` on {first}."
    ),
}
UNKEPT = marked(
    "{Culprit} has the checkpoint leave torch's random generator as it is: what is drawn in it is drawn anew when it "
    "runs again for the backward call on {victim}, and {first} doesn't compute what it has computed in the forward."
)
FEWER = marked(
    "{Culprit} calls `{op}` in the forward, and not when the checkpoint runs again for the backward call on {victim}."
)
DRAW_BY_TORCH = marked(
    "A checkpoint puts back the state of torch's own generators alone, not that of Python's `random`, nor numpy's: "
    "draw by torch, as `torch.rand(()).item()` does, or draw before the checkpoint and hand it in."
)
SAME_DRAW = marked(
    "Leave `preserve_rng_state=True` and draw by torch's own generator, or draw before the checkpoint and hand it in."
)
KEEP_IT = marked(
    "Let it put the generator back (`preserve_rng_state=True`, which is what it does unless it is told otherwise), or "
    "draw before the checkpoint and hand it in."
)
SAME_STATE = marked(
    "What the line reads has changed between the two runs: hand it to the checkpointed function as an argument, and "
    "let that function change nothing outside of it (a counter, a switch, a cache)."
)
LEAVE_NOTHING = marked(
    "Let the checkpointed function leave nothing outside of itself: hand it no cache while it is checkpointed, "
    "`use_cache=False`, or what was in it before, to be read alone."
)
CORES = ("torch.utils.checkpoint",)


@finder(order=5)
def find_recomputed(recording: Recording) -> Iterator[Diagnosis]:
    """One for each checkpointed line; an error where torch has raised because of it."""
    told = set[tuple[int, str]]()
    error = next(errors_with(recording, *CORES), None)
    for each in recording.recomputed:
        if each.how == "fewer" and error is None:
            continue  # what saves nothing may be missing
        frame = recording.frames[each.frame]
        place = each.unkept or frame.place
        key = (place.line if place is not None else 0, "" if each.unkept else each.op)
        if key not in told:
            told.add(key)
            yield _describe(recording, each, frame, error)


def _describe(recording: Recording, each: Recomputed, frame: Frame, error: RaisedError | None) -> Diagnosis:
    later = (f for f in recording.frames[frame.index :] if f.phase in ("backward", "error") and f.backward is not None)
    shown = recording.frames[error.frame] if error is not None else next(later, frame)
    branch = each.drawn or (each.left if each.how == "fewer" else None)
    branch = branch if each.how in OTHER_WAY and branch != frame.place else None
    finding = Finding(
        recording=recording,
        kind=DIFFERS if error is None else RAISED,
        frame=shown.index,
        culprit=each.unkept or branch or (each.left if each.how == "op" else None) or frame.place,
        victim=shown.place,
        tensor=frame.outputs[0] if frame.outputs else None,
    )
    facts: dict[str, Word] = {"op": each.op, "again": each.again, "how": each.how}
    if each.unkept is not None:
        return finding.told(UNKEPT, KEEP_IT, {**facts, "unkept": 1}, first=finding.line(frame.place))
    if branch is not None:
        advice = DRAW_BY_TORCH if each.drawn else SAME_STATE
        return finding.told(OTHER_WAY[each.how], advice, facts, first=finding.line(frame.place))
    if each.left is not None and each.how == "op":
        return finding.told(LEFT_BEHIND, LEAVE_NOTHING, facts, first=finding.line(frame.place))
    said = {"numbers": NUMBERS, "op": OTHER_OP, "shape": OTHER_SHAPE, "fewer": FEWER}[each.how]
    advice = DRAW_BY_TORCH if each.drawn else SAME_DRAW if each.op in RANDOM else SAME_STATE
    return finding.told(said, advice, facts)
