"""Everything that a graph may hold has a sign of its own in the picture, and a legend entry only where it occurs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import seegrad
from seegrad.model.recording import Hook, HookCall, Place, Recording
from seegrad.picture import draw, still
from seegrad.picture.sketch import Card, Pill, Sketch, sketch
from seegrad.picture.svg.sizes import NUMBER_PX
from seegrad.words.widths import columns

SVG = "{http://www.w3.org/2000/svg}"


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32, requires_grad=True)


def recorded(program: Callable[..., Any], *given: Any) -> Recording:
    with seegrad.record() as rec:
        program(*given)
    return rec.recording


def card(parts: Sketch, label: str) -> Card:
    return next(each for each in parts.cards if each.label == label)


def the_leaf(parts: Sketch) -> Card:
    return next(each for each in parts.cards if each.kind == "leaf")


def pill(parts: Sketch, symbol: str) -> Pill:
    return next(each for each in parts.pills if each.symbol == symbol)


def svg(recording: Recording, step: int = -1) -> ElementTree.Element:
    return ElementTree.fromstring(still(draw(recording), step, ""))  # noqa: S314  # our own picture


def having(root: ElementTree.Element, class_: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if class_ in each.get("class", "").split()]


def said(root: ElementTree.Element, class_: str) -> list[str]:
    return [text.text or "" for each in having(root, class_) for text in each.iter(f"{SVG}text")]


def three_uses() -> Recording:
    def program(a: torch.Tensor) -> None:
        x = a * 2
        y = x.exp() + x.sin() + x.cos()
        y.sum().backward()

    return recorded(program, leaf(1, 2))


def one_leaf_twice(*, keep: bool) -> Recording:
    def program(a: torch.Tensor) -> None:
        y = (a * a).sum()
        y.backward(retain_graph=keep)
        y.backward()

    return recorded(program, leaf(1, 2))


def captions_overlap(slot: ElementTree.Element) -> bool:
    """Do two captions on one line of a slot stand on each other? All are of the 11 px face."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for each in slot.iter(f"{SVG}text"):
        x, wide = float(each.get("x", 0)), columns(each.text or "") * NUMBER_PX
        left = {"end": x - wide, "middle": x - wide / 2}.get(each.get("text-anchor", ""), x)
        spans.setdefault(each.get("y", ""), []).append((left, left + wide))
    return any(before[1] > after[0] for row in spans.values() for before, after in pairwise(sorted(row)))


# gradients that add up


def test_a_gradient_tells_how_many_of_its_contributions_have_come() -> None:
    recording = three_uses()
    x = card(sketch(recording), "x")
    assert [share for _, share in x.shares] == [(1, 3), (2, 3), (3, 3)]
    running = [recording.frames[step].running for step, _ in x.shares]
    users = {node.id for node in recording.nodes if node.name in ("ExpBackward0", "SinBackward0", "CosBackward0")}
    assert set(running) == users, "each share comes from the Function that used x"
    second = x.shares[1][0]
    assert said(svg(recording, second), "cap").count("∂ 2/3 came") == 1
    assert all(not each.shares for each in sketch(recording).cards if each.label != "x"), "one use is no sum"


def test_both_slots_of_one_function_count() -> None:
    recording = one_leaf_twice(keep=True)
    a = the_leaf(sketch(recording))
    assert [share for _, share in a.shares] == [(2, 2), (2, 2)], "x * x sends two gradients in one step"


def test_accumulate_grad_sits_on_its_leaf() -> None:
    recording = three_uses()
    accumulators = [node.leaf for node in recording.nodes if node.name == "AccumulateGrad"]
    assert [each.tensor for each in sketch(recording).cards if each.accumulates is not None] == accumulators
    assert len(having(svg(recording), "acc")) == 2, "one on the leaf, one in the legend"


# laps


def test_a_second_backward_numbers_its_order_anew() -> None:
    parts = sketch(one_leaf_twice(keep=True))
    times = pill(parts, "×")
    assert [lap for _, lap in times.laps] == [1, 2]
    root = svg(one_leaf_twice(keep=True))
    assert set(said(root, "chk")) == {"2.1", "2.2", "1"}
    assert len(having(root, "lg-again")) == 1


def test_saved_tensors_are_there_until_a_call_frees_them() -> None:
    recording = one_leaf_twice(keep=True)
    times = pill(sketch(recording), "×")
    assert times.freed == times.runs[1][0] + 1, "the first call keeps them, the second frees them"
    assert set(said(svg(recording, times.runs[1][0]), "pins")) == {"v0"}
    after = svg(recording, times.freed)
    assert set(said(after, "free")) == set(said(after, "pins")) == {"v0"}, "struck out, as what was there"
    assert len(having(after, "lg-free")) == 1


def test_no_caption_of_a_narrow_card_that_is_wrong_stands_on_another() -> None:
    def program(points: torch.Tensor, scale: torch.Tensor) -> None:
        squares = (points * scale).pow(2).sum(1)
        torch.where(squares > 0, squares.sqrt(), torch.zeros_like(squares)).mean().backward()

    recording = recorded(program, torch.tensor([[1.0, 2.0], [0.0, 0.0]]), leaf(1, 1))
    assert "wrong" in said(svg(recording), "flow")
    for step in range(len(recording.frames)):
        assert not any(captions_overlap(slot) for slot in having(svg(recording, step), "slot"))


def test_what_was_freed_stays_freed_when_backward_fails() -> None:
    def program(a: torch.Tensor) -> None:
        y = (a * a).sum()
        y.backward()
        with pytest.raises(RuntimeError):
            y.backward()

    recording = recorded(program, leaf(1, 2))
    times = pill(sketch(recording), "×")
    assert times.freed == times.runs[0][0] + 1


def test_double_backward_draws_the_graph_of_the_gradient() -> None:
    def program(x: torch.Tensor) -> None:
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.sum().backward()

    recording = recorded(program, leaf(2))
    parts = sketch(recording)
    made = {each.id for each in parts.pills if each.of_gradient}
    assert len(made) == 3
    sources = {wire.target: wire.source for wire in parts.wires}
    assert sources[card(parts, "g").id] in made
    last = max(step for step, _, _ in parts.flows)
    (arrow,) = [target for step, source, target in parts.flows if (step, source) == (last, the_leaf(parts).id)]
    assert arrow in made  # the power itself ran in the first call alone
    assert {"∂ ×", "∂ xⁿ"} <= set(said(svg(recording), "fn"))
    assert len(having(svg(recording), "lg-second")) == 1
    assert not having(svg(three_uses()), "lg-second")


# Functions


class Double(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(_ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0] * 2


def test_a_custom_function_is_told_from_torch_s() -> None:
    recording = recorded(lambda a: Double.apply(a).sum().backward(), leaf(1, 2))
    parts = sketch(recording)
    assert [each.label for each in parts.pills if each.custom] == ["DoubleBackward"]
    assert len(having(svg(recording), "lg-custom")) == 1
    assert "DoubleBackward, custom Function" in [each.text for each in svg(recording).iter(f"{SVG}title")]


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return gradients[0] * y


def test_what_a_custom_forward_computed_is_no_second_tensor() -> None:
    recording = recorded(lambda a: Exponential.apply(a).sum().backward(), leaf(1, 2))
    parts = sketch(recording)
    assert [each.label for each in parts.pills] == ["ExponentialBackward", "SumBackward0"]
    assert not [each for each in parts.cards if each.stale is not None]


def test_outputs_are_numbered_and_one_without_a_gradient_hangs_loosely() -> None:
    def program(a: torch.Tensor) -> None:
        u, v = a.unbind(0)
        vals, idx = a.max(dim=1)
        (u * v).sum().backward()
        del vals, idx

    recording = recorded(program, torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True))
    parts = sketch(recording)
    label = {wire.target: wire.label for wire in parts.wires if wire.kind == "out"}
    assert (label[card(parts, "u").id], label[card(parts, "v").id]) == ("0", "1")
    (loose,) = [wire for wire in parts.wires if wire.loose]
    assert loose.target == card(parts, "idx").id
    assert pill(parts, "max").id == loose.source, "indices come from the same Function"
    assert not [each for each in parts.pills if each.kind == "op"]


def test_a_gradient_is_seen_when_it_comes_and_stays_after_a_write() -> None:
    def program(w: torch.Tensor) -> None:
        (w * w).sum().backward()
        with torch.no_grad():
            w -= 0.1

    recording = recorded(program, leaf(1, 2))
    old, new = (each for each in sketch(recording).cards if each.kind == "leaf")
    ((came, gradient),) = old.gradients
    assert came < new.born
    assert new.gradients == ((new.born, gradient),)
    assert gradient.preview == (("2", "4"),)


# what autograd doesn't see


def test_ops_under_no_grad_say_so() -> None:
    def program(w: torch.Tensor) -> None:
        (w * w).sum().backward()
        with torch.no_grad():
            w -= 0.1
            n = w.norm()
        del n

    recording = recorded(program, leaf(1, 2))
    assert {each.symbol for each in sketch(recording).pills if each.off} == {"−=", "norm"} or {
        each.symbol for each in sketch(recording).pills if each.off
    } == {"sub_", "norm"}
    root = svg(recording)
    assert said(root, "off").count("gradients off") == 2
    assert len(having(root, "lg-off")) == 1


@pytest.mark.parametrize(("how", "cut"), [("detach", True), ("data", True), ("view", False)])
def test_a_cut_is_drawn_where_no_gradient_comes_back(how: str, cut: bool) -> None:
    def program(a: torch.Tensor) -> None:
        h = a * 2
        d = h.detach() if how == "detach" else h.data if how == "data" else h.view(2)
        (h * 3).sum().backward()
        del d

    recording = recorded(program, leaf(1, 2))
    assert bool([wire for wire in sketch(recording).wires if wire.cut]) is cut
    assert bool(having(svg(recording), "lg-cut")) is cut


def test_views_stand_in_the_frame_of_their_storage_with_one_counter() -> None:
    def program(a: torch.Tensor) -> None:
        x = a * 2
        v = x.view(2, 2)
        r = v[0]
        (x.sum() + v.sum() + r.sum()).backward()

    recording = recorded(program, leaf(1, 2, 3, 4))
    parts = sketch(recording)
    (group,) = parts.storages
    assert [each.label for each in parts.cards if each.id in group.cards] == ["x", "v", "r"]
    assert group.counters == 1
    (stack,) = parts.clusters
    assert {card(parts, name).id for name in ("x", "v", "r")} <= set(stack.members)
    assert said(svg(recording), "storages") == ["one storage", "one version counter"]


# hooks


def hooked() -> Recording:
    recording = three_uses()
    a = the_leaf(sketch(recording)).tensor
    x = next(ref.id for ref in recording.tensors if ref.name == "x")
    exp = next(node.id for node in recording.nodes if node.name == "ExpBackward0")
    ran = next(frame.index for frame in recording.frames if frame.running == exp)
    place = Place("a.py", 7, "x.register_hook(clip)")
    hooks = (
        Hook(0, "tensor", 1, place, x, None, "clip", (HookCall(ran, (("2", "3"),), (("1", "1"),)),)),
        Hook(1, "retain", 1, place, x),
        Hook(2, "accumulated", 0, place, a, None, "log"),
        Hook(3, "node_pre", 2, place, None, exp, "look", (HookCall(ran, (("2", "3"),)),)),
    )
    return replace(recording, hooks=hooks)


def test_hooks_sit_where_they_were_registered_and_light_up_when_they_run() -> None:
    recording = hooked()
    parts = sketch(recording)
    assert [hook.name for hook in card(parts, "x").hooks] == ["clip"]
    assert [hook.name for hook in the_leaf(parts).hooks] == ["log"]
    assert [hook.name for hook in pill(parts, "exp").hooks] == ["look"]
    ran = recording.hooks[0].calls[0].frame
    assert len([each for each in having(svg(recording, ran), "hook") if "on" in each.get("class", "")]) == 2
    assert len(having(svg(recording, 0), "lg-hook")) == 0 or recording.hooks[2].frame == 0
    assert not having(svg(three_uses()), "lg-hook")


def test_the_inspector_tells_what_a_hook_saw_and_gave_back() -> None:
    scene = draw(hooked())
    x = next(item for item in scene.items if item.label == "x")
    (row,) = [row for row in x.rows if row.key == "hook on the gradient"]
    assert row.values[-1][1] == "clip of line 7 saw [2, 3], gave [1, 1]"
    exp = next(item for item in scene.items if item.label == "ExpBackward0")
    (row,) = [row for row in exp.rows if row.key == "hook before it runs"]
    assert row.values[-1][1] == "look of line 7 saw [2, 3] and changed nothing"


def retained() -> Recording:
    def program(a: torch.Tensor) -> None:
        x = a * 2
        x.retain_grad()
        x.exp().sum().backward()

    return recorded(program, leaf(1, 2))


def test_retain_grad_gives_a_tensor_a_slot_of_its_own_from_then_on() -> None:
    x = card(sketch(retained()), "x")
    assert (x.retained, x.is_retained, x.keeps_from) == (1, True, 1)
    assert len(having(svg(retained()), "lg-retain")) == 1
    assert not having(svg(three_uses()), "lg-retain")


def rebound_after_retain_grad() -> Recording:
    def program(x: torch.Tensor) -> None:
        h = x * 3
        h.retain_grad()
        h = h.relu()
        h.sum().backward()

    return recorded(program, leaf(1, 2))


def test_a_tensor_that_is_gone_when_its_gradient_comes_keeps_nothing_although_it_was_asked_to() -> None:
    first, second = (each for each in sketch(rebound_after_retain_grad()).cards if each.label == "h")
    assert (first.retained, first.is_lost, first.keeps) == (1, True, False)
    assert (second.is_lost, second.keeps) == (False, False)
    item = next(item for item in draw(rebound_after_retain_grad()).items if item.label == "h")
    (row,) = [row for row in item.rows if row.key == ".grad"]
    assert "no variable holds this tensor any more" in row.values[-1][1]


def written_between_hooks() -> Recording:
    def program(x: torch.Tensor) -> None:
        h = x * 2
        h.retain_grad()
        h.register_hook(abs)
        h.mul_(10)
        h.register_hook(abs)
        (h * 3).sum().backward()

    return recorded(program, leaf(1, 2))


def test_after_a_write_the_first_hook_stays_with_the_old_value_and_retain_grad_goes_along() -> None:
    old, new = (each for each in sketch(written_between_hooks()).cards if each.label == "h")
    assert [hook.place.line - old.hooks[0].place.line for hook in (*old.hooks, *new.hooks) if hook.place] == [0, 2]
    assert (old.is_retained, new.is_retained) == (False, True)
    assert [gradient.preview for _, gradient in (*old.gradients, *new.gradients)] == [(("30", "30"),), (("3", "3"),)]


def test_the_caption_of_a_kept_gradient_leaves_room_for_how_much_has_come() -> None:
    def program(a: torch.Tensor) -> None:
        x = a * 2
        (x * x).sum().backward(inputs=[x])

    recording = recorded(program, leaf(1, 2))
    root = svg(recording)
    (share,) = [each for each in root.iter(f"{SVG}text") if each.text == "2/2 came"]
    assert share.get("text-anchor") == "end"


# the legend


def test_the_legend_holds_only_what_is_in_the_picture() -> None:
    plain = recorded(lambda a: (a * a).sum().backward(), leaf(1, 2))
    signs = {each.get("class", "").removeprefix("lg-") for each in having(svg(plain), "legend")[0]}
    before = {each.get("class", "").removeprefix("lg-") for each in having(svg(plain, 1), "legend")[0]}
    assert before == {"leaf", "tensor", "node", "pin", "accumulate"}
    assert signs == before | {"root", "order", "flow", "kept", "share", "free", "done"}


def test_a_gradient_that_is_handed_back_is_not_called_grad() -> None:
    """`autograd.grad` stores nothing: the leaf's slot says so in that step, and `.grad` in the ones before."""
    with seegrad.record() as rec:
        x = torch.tensor([2.0], requires_grad=True)
        torch.autograd.grad(x**3, x)
    assert "∂, returned" in "".join(svg(rec.recording).itertext())
    with seegrad.record() as rec:
        (x**3).backward()
    assert "∂, returned" not in "".join(svg(rec.recording).itertext())


def test_a_linear_s_weight_is_pinned_on_the_line_of_its_transpose() -> None:
    linear = torch.nn.Linear(2, 1, bias=False)
    with seegrad.record() as rec:
        out = linear(torch.ones(1, 2, requires_grad=True))
    made: Any = out.grad_fn
    assert made._saved_mat2.data_ptr() == linear.weight.data_ptr(), "torch saved the weight's own bytes"
    parts = sketch(rec.recording)
    labels = {pill.id: pill.label for pill in parts.pills}
    (line,) = [w for w in parts.wires if (labels.get(w.source), labels.get(w.target)) == ("TBackward0", "MmBackward0")]
    assert [pin.version for pin in line.pins] == [linear.weight._version]


@pytest.mark.parametrize("plumbing", ["clipped", "zeroed"])
def test_a_gradient_that_a_step_went_by_is_named_after_its_parameter(plumbing: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    optimiser = torch.optim.Adam(model.parameters())
    with seegrad.record() as rec:
        for _ in range(2):
            optimiser.zero_grad(set_to_none=plumbing == "clipped")
            model(torch.ones(2, 3)).sum().backward()
            if plumbing == "clipped":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
    parts = sketch(rec.recording)
    names = {card.full_name for card in parts.cards}
    assert {f"model.{name}.grad" for name, _ in model.named_parameters()} <= names
    assert "(unnamed)" not in names


def test_the_number_of_a_turn_stands_beside_the_sign_and_a_version_inside_its_badge() -> None:
    """Of a later backward call the number is longer, and after ten writes a version is."""

    def program(a: torch.Tensor) -> None:
        parts = (a * torch.ones(20)).unsafe_split(10)
        (parts[0].relu() + parts[1].relu()).sum().backward(retain_graph=True)
        (torch.cat([torch.log_softmax(part, 0) for part in parts]) ** 2).sum().backward()
        with torch.no_grad():
            for _ in range(12):
                a -= 0.1

    root = svg(recorded(program, leaf(*[1.0] * 20)))
    turns = 0
    for part in having(root, "fn"):
        width = float(next(iter(having(part, "bx"))).get("width", 0))
        for disc in having(part, "chk"):
            shape = disc.find(f"{SVG}rect")
            half = 8.0 if shape is None else float(shape.get("width", 0)) / 2
            ends = (width + columns("".join(having(part, "sym")[0].itertext())) * 9.1) / 2
            assert ends <= width - 9 - half, "".join(part.itertext())
            turns += 1
    assert turns > 10
    for badge in having(root, "ver"):
        room = float(badge[0].get("width", 0))
        assert columns("".join(badge.itertext())) * NUMBER_PX + 4 <= room
    assert "✎v12" in said(root, "ver")
