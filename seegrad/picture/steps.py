"""What the learner reads, step by step: the Scene's frames, and what the inspector says about each card and pill.

A frame has its line of code, a sentence, torch's own words, and the Diagnosis.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from seegrad.model.recording import (
    Frame,
    Gradient,
    Hook,
    HookCall,
    Mend,
    Node,
    Place,
    Preview,
    Recording,
    Severity,
    TensorRef,
)
from seegrad.model.scene import Fix, Item, NumberSheet, Row, SceneFrame
from seegrad.picture.narrate import Narrator, title
from seegrad.picture.sketch import Bundle, Card, Pill, Sketch, is_finite
from seegrad.picture.svg.sizes import bundle_text, shape_text
from seegrad.picture.svg.strips import summary_text
from seegrad.words.languages import _, counted, marked, together

MOST_TOLD = 1500
ENDS = 60
RANK: dict[Severity, int] = {"error": 0, "wrong": 1, "note": 2, "differs": 3}
DIFFERENCE = marked("Difference: {said}")
"""Beside what happened at a step: it was not found, so it is none of the findings that the player counts."""
HOOKS = {
    "tensor": marked("hook on the gradient"),
    "accumulated": marked("hook after .grad is written"),
    "retain": "retain_grad()",
    "node": marked("hook after it runs"),
    "node_pre": marked("hook before it runs"),
}


def scene_frames(recording: Recording, parts: Sketch, lang: str, veil: str = "") -> tuple[SceneFrame, ...]:
    """One SceneFrame a Frame; an empty Recording has one, so that there is always something to say."""
    frames = recording.frames or (Frame(0, "start", None, ""),)
    narrator = Narrator(recording, veil=veil)
    line_of = {number: k for k, (number, _) in enumerate(recording.code)}
    told: list[SceneFrame] = []
    before = -1
    for step in _kept(recording, len(frames)) if not parts.cards else range(len(frames)):
        if step > before + 1:
            told.append(SceneFrame("forward", "…", _left_out(step - before - 1)))
        on = parts.on[step] if step < len(parts.on) else ()
        told.append(_scene_frame(recording, frames[step], narrator, line_of, on, lang))
        before = step
    return tuple(told)


def with_verdict(recording: Recording, frames: tuple[SceneFrame, ...]) -> tuple[SceneFrame, ...]:
    """The last frame of a run with a backward and without any finding says that all went well."""
    kept = {g.tensor: g for frame in recording.frames for g in frame.gradients if g.kept}
    leaves = [ref for ref in recording.tensors if ref.is_leaf and ref.id in kept]
    if any(each.severity != "differs" for each in recording.diagnoses) or recording.error or not leaves:
        return frames
    broken = [ref.name or "" for ref in leaves if not is_finite(kept[ref.id].preview, kept[ref.id].summary)]
    if broken:
        said = _("The gradient of {names} isn't finite: it holds NaN or infinity.").format(names=_(", ").join(broken))
        return (*frames[:-1], replace(frames[-1], diagnosis=said, severity="note"))
    return (*frames[:-1], replace(frames[-1], diagnosis=_how_many(recording, leaves)))


def _how_many(recording: Recording, leaves: list[TensorRef]) -> str:
    """So many leaves got a gradient; of how many Parameters that were held when backward was called, if some didn't."""
    gone = {tensor for clue in recording.clues_of("gone") for tensor in clue.tensors}
    parameters = [ref for ref in recording.tensors if ref.parameter and ref.id not in gone]
    if all(ref.parameter for ref in leaves) and len(leaves) < len(parameters):
        said = _("{count} of {total} parameters got a gradient; no problem was found.")
        return said.format(count=len(leaves), total=len(parameters))
    said = counted(
        "{count} leaf got a gradient; no problem was found.",
        "{count} leaves got a gradient; no problem was found.",
        len(leaves),
    )
    return said.format(count=len(leaves))


def _left_out(count: int) -> str:
    return counted("{count} step is left out here.", "{count} steps are left out here.", count).format(count=count)


def _kept(recording: Recording, count: int) -> list[int]:
    """Every step; of a very long Recording its beginning, its end, and where a Diagnosis shows."""
    if count <= MOST_TOLD:
        return list(range(count))
    shown = {diagnosis.frame for diagnosis in recording.diagnoses[:ENDS]} - {None}
    return [step for step in range(count) if step < ENDS or step >= count - ENDS or step in shown]


def _scene_frame(
    recording: Recording, frame: Frame, narrator: Narrator, line_of: dict[int, int], on: tuple[str, ...], lang: str
) -> SceneFrame:
    here = sorted((d for d in recording.diagnoses if d.frame == frame.index), key=lambda d: RANK[d.severity])
    error = recording.error if recording.error is not None and recording.error.frame == frame.index else None
    told_of = _line(recording, line_of, here[0].culprit) if here else None
    accuses = bool(here) and here[0].severity in ("error", "wrong")
    found = [each for each in here if each.severity != "differs"]
    differences = [_(DIFFERENCE).format(said=each.message(lang)) for each in here if each not in found]
    return SceneFrame(
        phase=frame.phase,
        title=title(frame),
        text=together(narrator.sentence(frame), *differences),
        line=_line(recording, line_of, frame.place),
        on=on,
        message=f"{error.kind}: {error.text}" if error else "",
        diagnosis=together(*dict.fromkeys(diagnosis.message(lang) for diagnosis in found)),
        severity=found[0].severity if found else None,
        culprit=told_of if accuses else None,
        noted=None if accuses else told_of,
        fix=next((_fix(recording, diagnosis.mend) for diagnosis in here if diagnosis.mend), None),
    )


def _fix(recording: Recording, mend: Mend) -> Fix:
    """A Mend in words; with its file, where another than the block's holds the line."""
    place = mend.place
    named = _("line {line}") if place.file == recording.code_file else _("line {line} of {file}")
    return Fix(named.format(line=place.line, file=PurePath(place.file).name), place.code, mend.line)


def _line(recording: Recording, line_of: dict[int, int], place: Place | None) -> int | None:
    """Where a Place stands in the code that is shown; None where it's another file."""
    if place is None or (recording.code_file and place.file != recording.code_file):
        return None
    return line_of.get(place.line)


def items_of(recording: Recording, parts: Sketch, level: str = "") -> tuple[Item, ...]:
    """One Item for each card, pill and box of one level, in the order of the picture."""
    tensors = {ref.id: ref for ref in recording.tensors}
    nodes = {node.id: node for node in recording.nodes}
    makers = {wire.target: wire.source for wire in parts.wires if wire.kind == "out"}
    labels = {pill.id: nodes[pill.node].name for pill in parts.pills if pill.node is not None}
    cards = [_card(card, tensors[card.tensor], labels.get(makers.get(card.id, ""))) for card in parts.cards]
    pills = [_pill(pill, nodes, tensors) for pill in parts.pills]
    boxes = [Item(b.id, "group", b.label, b.born, _box_rows(b)) for b in parts.bundles]
    return tuple(replace(item, level=level) for item in (*cards, *pills, *boxes))


def sheets_of(parts: Sketch) -> tuple[NumberSheet, ...]:
    """The numbers that were kept of tensors that don't fit on their cards, and of their gradients."""
    found = []
    for card in parts.cards:
        seen = [(_("value"), step, card.shape, summary) for step, summary in card.summaries]
        seen += [(_came_as(gradient), step, gradient.shape, gradient.summary) for step, gradient in card.gradients]
        for key, step, shape, summary in seen:
            if summary and summary.kept:
                bounds = [bound.removeprefix("-") for bound in (summary.low, summary.high)]
                most = max(filter(None, bounds), key=float, default="0")
                found.append(NumberSheet(card.id, key, step, shape, summary.kept, most, summary.numbers))
    return tuple(found)


def _came_as(gradient: Gradient) -> str:
    return ".grad" if gradient.kept else _("∂ flows")


def _box_rows(bundle: Bundle) -> tuple[Row, ...]:
    ran = tuple((step, _("{done} of {count}").format(done=done, count=bundle.due)) for step, done in bundle.ran)
    rows = Row(_("inside"), ((0, bundle_text(bundle)),)), Row(_("backward has run"), ran)
    return tuple(row for row in rows if row.values)


def numbers(preview: Preview | None, shape: tuple[int, ...]) -> str:
    """Numbers in one line, as Python prints lists.

    >>> numbers((("1", "2"), ("3", "4")), (2, 2))
    '[[1, 2], [3, 4]]'
    """
    if not preview:
        return _("shape {shape}").format(shape=shape_text(shape))
    if not shape:
        return preview[0][0]
    rows = ["[" + ", ".join(row) + "]" for row in preview]
    return "[" + ", ".join(rows) + "]" if len(shape) > 1 else rows[0]


def _card(card: Card, ref: TensorRef, maker: str | None) -> Item:
    values = tuple((step, numbers(preview, card.shape)) for step, preview in card.values if preview)
    values += tuple((step, summary_text(summary)) for step, summary in card.summaries if summary)
    versions = tuple((step, _("none: an inference tensor") if v is None else str(v)) for step, v in card.versions)
    rows = [
        Row(_("value"), values),  # a shape isn't one
        Row(_("shape, dtype"), ((0, f"{ref.shape}  {ref.dtype}"),)),
        Row("requires_grad", ((0, {"leaf": _("True  leaf"), "plain": "False"}.get(card.kind, "True")),)),
        Row("grad_fn", ((0, maker if maker and card.kind == "tensor" else "None"),)),
        Row("_version", versions),
        Row(".grad", _gradients(card)),
        Row(_("∂ flows"), tuple((step, _came(g)) for step, g in card.gradients if g.summary and not g.kept)),
    ]
    if card.accumulates is not None:
        rows.append(Row("AccumulateGrad", ((card.accumulates, _("adds what comes to .grad")),)))
    if card.shares:
        told = tuple((step, f"{share[0]}/{share[1]}") for step, share in card.shares)
        rows.append(Row(_("gradients that have come"), told))
    rows += [_hook(hook, card.born) for hook in card.hooks]
    if card.full_name != card.label:
        rows.insert(0, Row(_("name"), ((0, card.full_name),)))
    return Item(card.id, card.kind, card.label, card.born, tuple(row for row in rows if row.values))


def _gradients(card: Card) -> tuple[tuple[int, str], ...]:
    if card.kind == "plain":
        return ()
    kept = tuple((step, _came(g)) for step, g in card.gradients if g.kept)
    wrong = tuple(
        (s, _("{value}  (wrong)").format(value=said) if card.wrong_from is not None and s >= card.wrong_from else said)
        for s, said in kept
    )
    before = "None" if card.kind == "leaf" or kept else _("None  (not a leaf; call retain_grad() to keep it)")
    called = _("None  (retain_grad() was called)")
    lost = _("None  (retain_grad() was called, but no variable holds this tensor any more)")
    asked = ((card.retained, lost if card.is_lost else called),) if card.retained is not None else ()
    return ((0, before), *asked, *wrong)


def _came(gradient: Gradient) -> str:
    if gradient.summary:
        return summary_text(gradient.summary)
    return numbers(gradient.preview, gradient.shape)


def _hook(hook: Hook, born: int) -> Row:
    """A hook: where it was registered, and in each call what it saw and what it gave back."""
    where = _(" of line {line}").format(line=hook.place.line) if hook.place is not None else ""
    said = [(max(hook.frame, born), hook.name + where)]
    said += [
        (call.frame, _call(call).format(name=hook.name + where, saw=_grid(call.saw), gave=_grid(call.returned)))
        for call in hook.calls
    ]
    return Row(_(HOOKS[hook.kind]), tuple(said))


def _call(call: HookCall) -> str:
    """What is known of one call, with gaps for the hook and the gradients."""
    if call.alone:
        changed = call.returned is not None
        return _("{name} saw {saw}, gave {gave}") if changed else _("{name} saw {saw} and changed nothing")
    if call.saw is not None:
        return _("{name} saw {saw}, the first of several hooks")
    return _("{name} ran") if call.returned is None else _("{name} gave {gave}, the last of several hooks")


def _grid(preview: Preview | None) -> str:
    return numbers(preview, (len(preview), 0) if preview and len(preview) > 1 else (1,)) if preview else _("a gradient")


def _pill(pill: Pill, nodes: dict[int, Node], tensors: dict[int, TensorRef]) -> Item:
    node = nodes.get(pill.node) if pill.node is not None else None
    if node is None:
        said = (
            _("an in-place write; autograd has no Function for it")
            if pill.kind == "write"
            else _("autograd recorded nothing")
        )
        written = (Row(_("writes to"), ((0, pill.writes_to),)),) if pill.writes_to else ()
        return Item(pill.id, pill.kind, pill.symbol, pill.born, (*written, Row(_("what"), ((0, said),))))
    next_names = [nodes[e.target].name if e.target in nodes else "None" for e in node.edges]
    rows = [Row(_("made by"), ((0, _("{op}  (in place)").format(op=node.op) if node.inplace else node.op),))]
    rows.append(Row("next_functions", ((0, ", ".join(next_names) or _("none")),)))
    for saved in node.saved:
        name = (tensors[saved.tensor].name if saved.tensor in tensors else None) or _("a tensor")
        told = _("saved at version {version}") if saved.checked else _("saved without a version")
        version = "" if saved.version is None else told.format(version=saved.version)
        own = saved.attr.startswith("ctx.")
        kept = _("saved as {attr}").format(attr=saved.attr) if own else f"_saved_{saved.attr}"
        rows.append(Row(kept, ((0, f"{name}  {version}".strip()),)))
    if pill.freed is not None and node.saved:
        rows.append(Row(_("saved tensors"), ((0, _("held for backward")), (pill.freed, _("freed")))))
    if pill.module:
        rows.insert(1, Row(_("module"), ((0, pill.module),)))
    rows += [_hook(hook, pill.born) for hook in pill.hooks]
    if not node.saved:
        rows.append(Row(_("saves"), ((0, _("nothing")),)))
    return Item(pill.id, "node", node.name + pill.number, pill.born, tuple(rows))
