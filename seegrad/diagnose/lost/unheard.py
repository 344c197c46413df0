"""What autograd never hears of: a module's method called `backward`, what a custom Function wasn't given."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.cut import rewarded
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.freezes import UNUSED, idle_steps
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import STEP, Clue, Diagnosis, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, joined

UNHEARD = DiagnosisKind("backward_never_called", "note", marked("a backward that is never called"))
OF_A_MODULE = marked(
    "{Culprit} is a method of `{owner}`, an `nn.Module`: autograd never calls it. It differentiates what `forward` "
    "computes, op by op, and the step on {victim} goes by that."
)
MAKE_A_FUNCTION = marked(
    "If the gradient is to be another than `forward`'s own, write a `torch.autograd.Function` with `forward` and "
    "`backward` as static methods, and call its `apply` in the module's `forward`; if not, take the method away."
)


@finder(order=25)
def find_unheard_backwards(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such class."""
    for each in recording.clues_of("backward"):
        steps = (use for use in recording.uses if use.kind == "stepped" and use.frame >= each.frame)
        step = next(steps, None)
        finding = Finding(
            recording=recording,
            kind=UNHEARD,
            frame=each.frame,
            culprit=each.place,
            victim=step.place if step is not None else None,
            tensor=each.tensors[0],
        )
        facts: dict[str, Word] = {"owner": each.fact("owner")}
        yield finding.told(OF_A_MODULE, MAKE_A_FUNCTION, facts)


# -- a custom Function's forward computes with what `apply` wasn't given

NOT_GIVEN = marked(
    "{Culprit} calls the custom Function `{op}`, whose forward computes with {given}, but nothing that `apply` is "
    "given leads to {leaves}: no backward call has a way there, and the step on {victim} finds no gradient in them."
)
GIVE_IT = marked(
    "If they are to learn, hand {given} on to `apply`, each as an argument, and have `backward` return a gradient "
    "for it. A module's `parameters()` doesn't name a tensor that was computed, or that a plain attribute holds."
)


@finder(order=27)
def find_unpassed(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line, once two steps have found no gradient in what those lead to."""
    lines: dict[Place, list[Clue]] = {}
    for each in recording.clues_of("unpassed") if recording.error not in recording.errors else ():
        lines.setdefault(each.place, []).append(each)
    if not lines:
        return
    idle, got = idle_steps(recording), rewarded(recording) | _kept_up(recording, lines)
    ran = {recording.nodes[frame.running].name for frame in recording.frames if frame.running is not None}
    for place, clues in lines.items():
        mine = [each for each in clues if got.isdisjoint(each.tensors) and each.fact("node") in ran]
        leaves = sorted({leaf for each in mine for leaf in each.tensors if len(idle.get(leaf, ())) > 1})
        if leaves:
            step = idle[leaves[0]][1]
            finding = Finding(
                recording=recording,
                kind=UNUSED,
                frame=step.frame,
                culprit=place,
                victim=step.place,
                tensor=leaves[0],
            )
            own = list(dict.fromkeys(f"`{name}`" for each in mine if (name := each.fact("name"))))
            facts: dict[str, Word] = {
                "leaves": names(recording, leaves),
                "op": mine[0].fact("node").removesuffix("Backward"),
                "how": "unpassed",
            }
            yield finding.told(NOT_GIVEN, GIVE_IT, facts, given=joined(own) if own else facts["leaves"])


def _kept_up(recording: Recording, lines: dict[Place, list[Clue]]) -> set[int]:
    """The leaves of these that somebody writes to by hand once they have been computed with."""
    frames, storages = recording.frames, [(write.frame, write.storage) for write in recording.writes]
    written = {storage: frame for frame, storage in storages if frames[frame].op != STEP}  # the last
    each = ((clue.frame, leaf) for clues in lines.values() for clue in clues for leaf in clue.tensors)
    return {leaf for since, leaf in each if written.get(recording.tensors[leaf].storage, -1) > since}
