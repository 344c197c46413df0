"""A module's method called `backward`, which autograd never calls."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

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
