"""The line to put in place of another, where one line mends what a Diagnosis says: its advice, written out.

Where the advice is to move a line, to add one, or to think, there's none.
"""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import ancestors, is_unread_after, made_at
from seegrad.diagnose.finding import NO_TWIN
from seegrad.diagnose.mend.lines import (
    Rewrite,
    built_out_of_place,
    computed_first,
    copied,
    copy_shown,
    instead,
    numbers_alone,
    out_of_place,
    renamed,
    taken,
    undone,
    with_keyword,
    without_call,
    without_gradients,
    without_keyword,
)
from seegrad.model.recording import Diagnosis, Mend, Place, Recording, Route

__all__ = ["alias_line", "built_out_of_place", "copy_shown", "instead", "mend_of", "taken"]


def mend_of(recording: Recording, diagnosis: Diagnosis) -> Mend | None:
    """The line that mends it; None where none does alone."""
    for place, rewrite in _ways(recording, diagnosis):
        line = rewrite(place.code) if place is not None else None
        if place is not None and line is not None and line != place.code:
            return Mend(place, line)
    return None


def _ways(recording: Recording, diagnosis: Diagnosis) -> Iterator[tuple[Place | None, Rewrite]]:
    """The lines that may be replaced, and how; the best first."""
    facts, culprit = dict(diagnosis.arguments), diagnosis.culprit
    match diagnosis.kind, str(facts.get("how") or facts.get("cause") or ""):
        case "read_after_write", _:
            yield culprit, built_out_of_place(f"{facts['op']}(inplace=True)")
        case "saved_tensor_modified", "":
            yield from _of_write(recording, diagnosis)
        case "silent_corruption", _ if facts.get("kept") == "version" and not facts.get("trained"):
            yield from _of_write(recording, diagnosis)
        case ("view_modified", "several" | "function") | ("memory_overlaps", "within"):
            yield culprit, out_of_place
        case "memory_overlaps", "between":
            yield culprit, computed_first
        case "leaf_modified", _ if not facts.get("marked"):
            yield culprit, without_gradients
        case "graph_freed", "again":
            yield culprit, with_keyword("backward", "retain_graph")
        case "recomputed_otherwise", _ if facts.get("unkept"):
            yield culprit, without_keyword("preserve_rng_state")
        case "graph_kept", _:
            yield culprit, numbers_alone
        case (("graph_cut" | "constant_term"), "grad"):
            yield culprit, with_keyword("grad", "create_graph")
        case "constant_term", "number":
            yield culprit, without_call("item")
        case "constant_term", "drawn":
            yield culprit, renamed("sample", "rsample")
        case "loss_of_probabilities", how if facts.get("alone"):
            yield culprit, undone(str(facts["op"]), "log_softmax" if how == "logarithm" else "")
            built = str(facts["op"]).capitalize()  # `nn.Softmax(dim=1)`, where a container ends with it
            yield culprit, renamed(built, "LogSoftmax" if how == "logarithm" else "Identity")
        case "flag_of_integers", _ if facts["op"] in ("randint", "randperm"):
            yield culprit, without_keyword("requires_grad")
        case "result_dropped", "gradient" if culprit is not None and "torch." not in culprit.code:
            yield culprit, renamed(str(facts["op"]), f"{facts['op']}_")
        case "graph_cut", "detach" if diagnosis.severity == "error":
            yield culprit, without_call("detach")


def _of_write(recording: Recording, diagnosis: Diagnosis) -> Iterator[tuple[Place | None, Rewrite]]:
    """Of a write to what was saved: the alias gets memory of its own, or the new value a tensor of its own."""
    facts = dict(diagnosis.arguments)
    written = recording.writes[diagnosis.write_id].tensor if diagnosis.write_id is not None else None
    is_view = written is not None and recording.tensors[written].route == "view"
    if facts.get("built"):
        yield diagnosis.culprit, built_out_of_place(str(facts["op"]))
        return
    if facts.get("trained") or facts.get("part") or facts.get("again_round") or is_view:
        return
    new = out_of_place if not is_unread_after(recording, diagnosis.culprit) else lambda _code: None
    if str(facts.get("op")).endswith("(inplace=True)"):
        yield diagnosis.culprit, without_keyword("inplace")
    elif diagnosis.route in ("data", "detach"):
        yield alias_line(recording, written, diagnosis.route), copied
        if diagnosis.route == "data" and facts.get("op") not in NO_TWIN:  # what holds constants only has no history
            yield diagnosis.culprit, new
    elif diagnosis.route == "self" and diagnosis.raised:
        yield diagnosis.culprit, new


def alias_line(recording: Recording, written: int | None, route: Route) -> Place | None:
    """The line that made the alias by which a write went this way."""
    alias = (each for each, way in ancestors(recording, written or 0) if way == route)
    return made_at(recording, next(alias, written))
