"""What became of the block: how backward ends, and which line did the damage."""

from __future__ import annotations

from seegrad.model.recording import Diagnosis, Recording
from seegrad.model.scene import Choice, Question
from seegrad.quiz.subject import QuestionKind, Wanted, aliases, choice, last_forward, listed, question
from seegrad.words.beliefs import REMARKS
from seegrad.words.errors import QuestionError
from seegrad.words.languages import _, marked, together

NO_LINE = 0  # the answer where nothing went wrong


def outcome_of(recording: Recording) -> str:
    """`raise`, `silent` (a wrong gradient without an error) or `fine`."""
    if recording.error is not None or any(d.raised for d in recording.diagnoses):
        return "raise"
    return "silent" if any(d.severity == "wrong" for d in recording.diagnoses) else "fine"


def _outcome(recording: Recording, wanted: Wanted) -> Question:
    """How the block ends: `raise`, `silent` or `fine`."""
    truth = outcome_of(recording)
    beliefs = _beliefs(recording)[truth]
    labels = {
        "raise": _("torch raises an error"),
        "silent": _("no error, but a gradient is wrong"),
        "fine": _("no error, and no gradient is wrong"),
    }
    why = _why_it_raises(recording) if truth == "raise" else ""
    choices = tuple(choice(key, label, beliefs.get(key, ""), why * (key != truth)) for key, label in labels.items())
    said = {
        "raise": _("Torch raises."),
        "silent": _("Torch says nothing, and the gradient is wrong."),
        "fine": together(_("Torch raises nothing, and no gradient is wrong."), _without_gradient(recording)),
    }[truth]
    return question(
        recording,
        "outcome",
        wanted.prompt or marked("What will happen in the backward pass?"),
        truth,
        last_forward(recording),
        choices=choices,
        right=said,
        wrong=said,
        evidence=_evidence(recording),
        veil="counters",
    )


def _beliefs(recording: Recording) -> dict[str, dict[str, str]]:
    """Truth → answer → the misconception of which just this answer is the symptom.

    That any write raises (M03), or that backward deletes the graph (M10), can only be heard from who said “raises”.
    """
    about_alias = "M05" if aliases(recording) & {write.storage for write in recording.writes} else ""
    about_graph = "M10" if _about_graph(recording) else ""
    too_strict = about_graph or ("M03" if recording.writes else "")
    return {
        "raise": {"silent": about_alias, "fine": about_alias},
        "silent": {"raise": about_alias or too_strict, "fine": "M06"},
        "fine": {"raise": too_strict},
    }


def _why_it_raises(recording: Recording) -> str:
    """What whoever expected no error hasn't thought of, where it is one of the two usual things."""
    kinds = [d.kind for d in recording.diagnoses if d.raised][:1]
    remark = {"saved_tensor_modified": "watched", "graph_freed": "retained"}.get(kinds[0] if kinds else "", "")
    return _(REMARKS[remark]) if remark else ""


def _without_gradient(recording: Recording) -> str:
    """That a leaf got none, where the graph is cut on its way; an overwritten history does bring one: 0."""
    notes = [d for d in recording.diagnoses if d.kind == "graph_cut" and d.severity == "note" and d.tensor]
    cut = [d.tensor or "" for d in notes if ("cause", "overwritten") not in d.arguments]
    return _("But none comes to {names}: the graph is cut.").format(names=listed(dict.fromkeys(cut))) if cut else ""


def _about_graph(recording: Recording) -> bool:
    """Whether the outcome turns on what backward frees, and not on a write."""
    calls = {frame.backward for frame in recording.frames if frame.backward is not None}
    freed = any(d.kind == "graph_freed" for d in recording.diagnoses)
    return freed or (len(calls) > 1 and not recording.writes)


def _culprit(recording: Recording, wanted: Wanted) -> Question:
    """The line that did the damage; where none did, that is the answer, so that the question itself says nothing."""
    guilty = next((d for d in recording.diagnoses if d.culprit is not None and d.severity != "note"), None)
    if guilty is None and recording.error is not None:
        raise QuestionError(_("What was raised here isn't the work of one line, so there is no culprit to find."))
    place = guilty.culprit if guilty is not None else None
    line = place.line if place is not None else NO_LINE
    code = recording.code or (((line, place.code),) if place is not None else ())
    victims = [recording.error.place if recording.error is not None else None, guilty.victim if guilty else None]
    told = {victim.line for victim in victims if victim is not None}
    called = _called_on(recording, guilty)
    wrong = [(number, text) for number, text in code if number not in (line, called) and text.strip()]
    elsewhere = called is None and _is_elsewhere(recording, guilty)
    right, did_it = _verdicts(guilty, called, elsewhere=elsewhere)
    return question(
        recording,
        "culprit",
        wanted.prompt or marked("Which line did the damage, if any did? Click it, or its pill."),
        line if called is None else [line, called],
        last_forward(recording),
        choices=(
            *(choice(str(number), text, "M04" if number in told else "") for number, text in wrong),
            Choice(str(NO_LINE), _("no line did any damage")),
        ),
        targets=tuple((part, str(number)) for part, number in lines_of(recording, code)),
        right=right,
        wrong=did_it,
        evidence=_guilt(guilty, elsewhere=elsewhere),
        veil="damage",
    )


def _called_on(recording: Recording, guilty: Diagnosis | None) -> int | None:
    """Of a module that was built to write in place: the line that called it, which is as guilty."""
    if guilty is None or guilty.write_id is None:
        return None
    write = recording.writes[guilty.write_id]
    built = recording.frames[write.frame].built
    return write.place.line if built is not None and built == guilty.culprit else None


def _is_elsewhere(recording: Recording, guilty: Diagnosis | None) -> bool:
    """Does the guilty line hand on what another line wrote?"""
    if guilty is None or guilty.culprit is None or guilty.write_id is None:
        return False
    return recording.writes[guilty.write_id].place.line != guilty.culprit.line


def _verdicts(guilty: Diagnosis | None, called: int | None, *, elsewhere: bool) -> tuple[str, str]:
    """What is said of the right answer, and of a wrong one."""
    if guilty is None or guilty.culprit is None:
        return (_("No line did any damage."),) * 2
    if called is not None:
        said = _("Line {called} overwrote what backward needs, by what line {line} built to write in place.")
        return (said.format(called=called, line=guilty.culprit.line),) * 2
    did_it = _("Line {line} did it: `{code}`.").format(line=guilty.culprit.line, code=guilty.culprit.code.strip())
    overwrote = _("Line {line} overwrote what backward needs.").format(line=guilty.culprit.line)
    wrote = guilty.kind in ("saved_tensor_modified", "silent_corruption") and not elsewhere
    return overwrote if wrote else did_it, did_it


def _guilt(guilty: Diagnosis | None, *, elsewhere: bool) -> tuple[str, ...]:
    """The line, and its write."""
    if guilty is None or guilty.culprit is None:
        return ()
    wrote = guilty.write_id is not None and not elsewhere
    return (f"line:{guilty.culprit.line}", *([f"w{guilty.write_id}"] if wrote else []))


def lines_of(recording: Recording, code: tuple[tuple[int, str], ...]) -> tuple[tuple[str, int], ...]:
    """Every line that can be clicked, and the pills that it made, each with the line's number."""
    targets = [(f"line:{number}", number) for number, text in code if text.strip()]
    for frame in recording.frames:
        if frame.place is not None and frame.phase in ("forward", "inplace"):
            writes = [k for k in frame.writes if recording.writes[k].frame == frame.index]
            pills = [*(f"f{k}" for k in frame.nodes), *(f"w{k}" for k in writes)]
            targets += [(pill, frame.place.line) for pill in pills]
    return tuple(targets)


def _evidence(recording: Recording) -> tuple[str, ...]:
    """What to point at: the pill that was hit, and the write."""
    ids = []
    for diagnosis in recording.diagnoses[:1]:
        ids += [f"f{diagnosis.node_id}"] if diagnosis.node_id is not None else []
        ids += [f"w{diagnosis.write_id}"] if diagnosis.write_id is not None else []
    return tuple(ids)


OUTCOME = QuestionKind("outcome", _outcome)
CULPRIT = QuestionKind("culprit", _culprit)
