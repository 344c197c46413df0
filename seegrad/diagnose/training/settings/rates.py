"""Rates that aren't what they were set to, and optimisers that a line makes anew for each step."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.copies import DROPPED
from seegrad.diagnose.training.schedules import RUN_OUT
from seegrad.diagnose.training.steps import leaves_of, names
from seegrad.model.recording import STEP, Clue, Diagnosis, GradientUse, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

SAID = {
    "unheard": marked(
        "{Culprit} sets the optimiser's attribute `{attribute}`, which torch never reads: the step on {victim} goes by "
        "the rates in its `param_groups`, and those are what they were."
    ),
    "squared": marked(
        "{Culprit} makes a schedule that multiplies the first rate, `{first}`, by what its function gives, and that "
        "gives a rate again: the step on {victim} goes by `{rate}`."
    ),
    "nothing": marked("{Culprit} leaves the rate at 0: none of the first {steps} steps on {victim} changed anything."),
}
ADVICE = {
    "unheard": marked(
        "If the rate is to be another from here on, set it in each group: "
        "`for group in optimizer.param_groups: group['lr'] = …`."
    ),
    "squared": marked(
        "If the function's result is meant as the rate itself, have it give a factor: without the first rate."
    ),
    "nothing": marked(
        "If they are to learn from the first step on, let the rate begin above 0: a warm-up that counts in whole "
        "numbers (`//`), or once an epoch, stays at 0 for long."
    ),
}
KINDS = {"unheard": DROPPED, "squared": RUN_OUT, "nothing": RUN_OUT}

AGAIN = DiagnosisKind("optimiser_made_again", "note", marked("an optimiser for each step"))
MADE_FOR_EACH = marked(
    "{Culprit} makes a new `{optimiser}` for each step on {victim}, of the same Parameters: what the one before has "
    "gathered of their gradients, averages and counts, is gone, so each step is a first one."
)
MAKE_ONE = marked("If it is to go by more than the newest gradients, make one optimiser before the loop, and keep it.")


@finder(order=34)
def find_rates(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that sets a rate to what it isn't meant to be."""
    for each in recording.clues_of("rate"):
        how = each.fact("how")
        finding = _at_step(recording, each, KINDS[how])
        words: dict[str, Word] = {"attribute" if key == "name" else key: word for key, word in each.facts}
        yield finding.told(SAID[how], ADVICE[how], words)


STANDING = {
    "schedule": marked(
        "{Culprit} makes a new `{schedule}` again and again, each of which begins its count at 0: the first {steps} "
        "steps on {victim} all went by the rate `{rate}`."
    ),
    "name": marked(
        "{Culprit} gives `{name}` another number, which no optimiser reads: the step on {victim} goes by the rate in "
        "its `param_groups`, and that is `{rate}` still."
    ),
    "group": marked(
        "{Culprit} gives {leaves} a rate of 0, while others that the step on {victim} goes by have one: gradients are "
        "computed for them, and the first {steps} steps changed nothing of them."
    ),
}
MOVE = {
    "schedule": marked(
        "If the rate is to change over the whole training, make one schedule before the loop, and keep it."
    ),
    "name": ADVICE["unheard"],
    "group": marked(
        "If they are to learn, give their group a rate above 0, which whole numbers (`//`) round away; if they aren't, "
        "`requires_grad_(False)` says so."
    ),
}
STANDS = {
    "schedule": DiagnosisKind(AGAIN.name, "note", marked("a schedule made again and again")),
    "name": DROPPED,
    "group": RUN_OUT,
}


@finder(order=34)
def find_standing(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that was to move a rate, or to give a group one."""
    for each in recording.clues_of("standing"):
        how = each.fact("how")
        facts: dict[str, Word] = {"how": how, **dict(each.facts), "leaves": names(recording, each.tensors)}
        yield _at_step(recording, each, STANDS[how]).told(STANDING[how], MOVE[how], facts)


@finder(order=34)
def find_made_again(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line; none where what it trains is set back in between: a task's own copy, a trial."""
    for each in recording.clues_of("made again"):
        storages, since = {recording.tensors[leaf].storage for leaf in each.tensors}, int(each.fact("since"))
        written = (write for write in recording.writes if write.storage in storages and write.frame > since)
        if all(recording.frames[write.frame].op == STEP for write in written):
            finding = _at_step(recording, each, AGAIN)
            facts: dict[str, Word] = {"optimiser": each.fact("kind"), "leaves": names(recording, each.tensors)}
            yield finding.told(MADE_FOR_EACH, MAKE_ONE, facts)


def _at_step(recording: Recording, clue: Clue, kind: DiagnosisKind) -> Finding:
    step = next((use for use in recording.uses if _is_by(use, clue)), None)
    return Finding(
        recording=recording,
        kind=kind,
        frame=clue.frame,
        culprit=clue.place,
        victim=step.place if step is not None else None,
        tensor=clue.tensors[0],
    )


def _is_by(use: GradientUse, clue: Clue) -> bool:
    return use.kind == "stepped" and not leaves_of(use).isdisjoint(clue.tensors)
