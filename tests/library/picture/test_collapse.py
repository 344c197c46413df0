"""Large graphs: boxes for modules, ops and passes of a loop; every Function is drawn once, and no line is lost."""

from __future__ import annotations

import contextlib
import graphlib
import os
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import seegrad
from seegrad.model.recording import Edge, Frame, Node, Place, Recording, TensorRef
from seegrad.model.scene import Scene
from seegrad.picture import ROOMS, draw, still
from seegrad.picture.sketch import Level, Sketch, collapse, sketch
from seegrad.picture.sketch.tree import LEVEL, STRETCH, Room
from seegrad.words.phrases import phrase
from tests.library.recorded import seen


def story(modules: list[str], *, lines: list[int] | None = None, shared: bool = False) -> Recording:
    """A chain of Functions, one a Frame; Frame k ran in `modules[k]`. `shared`: each also uses one weight."""
    count = len(modules)
    numbers = lines or [3] * count
    tensors = [
        TensorRef(k, f"y{k}" if k else "x", (), "float32", "cpu", k == 0, True, k, k, (0, 4), k)
        for k in range(count + 1)
    ]
    tensors.append(TensorRef(count + 1, "w", (), "float32", "cpu", True, True, count + 1, count + 1, (0, 4), 0))
    frames, nodes = [Frame(0, "start", None, "start")], []
    for k, module in enumerate(modules):
        inputs = (k, count + 1) if shared else (k,)
        edges = (Edge(0, k - 1 if k else None, 0), Edge(1, None, 0))[: len(inputs)]
        nodes.append(Node(k, "MulBackward0", "mul", k + 1, edges, (), inputs, (k + 1,)))
        place = Place("a.py", numbers[k], "y = y * w")
        frames.append(Frame(k + 1, "forward", place, "mul", inputs=inputs, outputs=(k + 1,), nodes=(k,), module=module))
    for k in reversed(range(count)):
        step = len(frames)
        frames.append(Frame(step, "backward", Place("a.py", 9, "loss.backward()"), "Mul", running=k, backward=0))
    return Recording(frames=tuple(frames), tensors=tuple(tensors), nodes=tuple(nodes), root=count)


def network(layers: int = 12) -> list[str]:
    """Which module each op of a small transformer ran in."""
    inner = ["attn.q", "attn.k", "attn.k", "attn", "attn", "mlp", "mlp"]
    return [f"model.h.{k}.{name}" for k in range(layers) for name in inner] + [""]


def levels(recording: Recording) -> dict[str, Level]:
    return {level.id: level for level in collapse(recording, sketch(recording))}


def by_label(recording: Recording) -> dict[str, Level]:
    return {level.label: level for level in levels(recording).values()}


def test_a_small_graph_is_seen_at_once() -> None:
    recording = story([""] * LEVEL)
    (level,) = collapse(recording, sketch(recording))
    assert (level.id, level.sketch) == ("", sketch(recording))
    assert draw(recording).levels == ()


def test_the_passes_of_a_training_loop_are_a_box_each() -> None:
    x, w = torch.ones(20), torch.zeros(1, requires_grad=True)
    with seegrad.record() as rec:
        for _ in range(7):
            loss = ((x * w - 1) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                w.grad.zero_()
    (outer, *_passes) = collapse(rec.recording, sketch(rec.recording))
    assert [bundle.label.split(" through ")[0] for bundle in outer.sketch.bundles] == [f"pass {k}" for k in range(1, 8)]


def test_each_module_is_a_box_and_what_holds_most_of_it_is_opened() -> None:
    found = by_label(story(network()))
    assert [bundle.label for bundle in found[""].sketch.bundles] == [f"h.{k}" for k in range(12)]
    assert [bundle.label for bundle in found["h.3"].sketch.bundles] == ["attn", "mlp"]
    assert sum(bundle.count for bundle in found[""].sketch.bundles) == 12 * 7


def test_a_module_of_one_function_is_that_function() -> None:
    found = by_label(story(network()))
    attention = next(level for level in levels(story(network())).values() if level.label == "attn")
    assert len(attention.sketch.pills) == 3, "attn.q and the two of attn itself"
    assert [bundle.label for bundle in attention.sketch.bundles] == ["k"]
    assert "q" not in found


@pytest.mark.parametrize(
    "recording",
    [
        story(network()),
        story([""] * 500),
        story(["net.cell"] * 300, shared=True),
        story([f"d.{k % 3}" for k in range(90)]),
        story([""] * 200, lines=[4 + k % 5 for k in range(200)]),
    ],
    ids=["modules", "plain chain", "shared cell", "modules in turn", "a loop"],
)
def test_every_part_is_drawn_once_and_no_level_is_crowded(recording: Recording) -> None:
    whole = sketch(recording)
    found = collapse(recording, whole)
    for kind in ("cards", "pills"):
        drawn = [part.id for level in found for part in getattr(level.sketch, kind)]
        assert sorted(drawn) == sorted(part.id for part in getattr(whole, kind))
    for level in found:
        assert len(level.sketch.pills) + len(level.sketch.bundles) <= LEVEL
        ends = {end for wire in level.sketch.wires for end in (wire.source, wire.target)}
        parts = level.sketch
        ids = {part.id for part in (*parts.cards, *parts.pills, *parts.bundles, *parts.chips)}
        assert ends <= ids
        assert all(chip.id in ends for chip in parts.chips), "a chip hangs on a line"
    assert {level.parent for level in found} - {None} <= {level.id for level in found}


def reached(parts: Sketch) -> set[tuple[str, str]]:
    return {(wire.source, wire.target) for wire in parts.wires}


def test_a_line_into_a_box_goes_on_inside_it() -> None:
    found = by_label(story(network()))
    inside = found["h.3"].sketch
    (come,) = [chip for chip in inside.chips if chip.kind == "in"]
    (gone,) = [chip for chip in inside.chips if chip.kind == "out"]
    assert (come.labels, gone.labels) == (("y21",), ("h.4",))
    boxes = {bundle.label: bundle.id for bundle in inside.bundles}
    assert {(come.id, boxes["attn"]), (boxes["attn"], boxes["mlp"]), (boxes["mlp"], gone.id)} <= reached(inside)


def test_a_shared_weight_has_one_card_and_chips() -> None:
    recording = story(network(), shared=True)
    found = levels(recording)
    weight = next(card for card in sketch(recording).cards if card.label == "w")
    assert [level.id for level in found.values() if weight in level.sketch.cards] == [""]
    outer = found[""].sketch
    assert len([wire for wire in outer.wires if wire.source == weight.id]) == 1, "one line to its first user"
    chips = [chip for chip in outer.chips if chip.kind == "leaf"]
    assert {chip.labels for chip in chips} == {("w",)}
    assert {chip.goes_to for chip in chips} == {weight.id}


def test_a_loop_is_grouped_by_its_passes() -> None:
    recording = story([""] * 200, lines=[4 + k % 20 for k in range(200)])
    boxes = [bundle.label for bundle in levels(recording)[""].sketch.bundles]
    assert boxes == [f"pass {k} through lines 4–23" for k in range(1, 11)]


def test_a_box_tells_how_much_of_it_has_run() -> None:
    recording = story(network())
    first = levels(recording)[""].sketch.bundles[-1]
    assert [done for _, done in first.ran] == list(range(1, 8))
    assert first.ran[0][0] > len(recording.frames) // 2


def test_a_failing_function_is_in_sight_and_its_boxes_say_so() -> None:
    recording = story(network())
    node = recording.nodes[40]
    last = recording.frames[-1]
    failing = replace(last, running=node.id)
    damage = seegrad.Diagnosis(
        "saved_tensor_modified", "error", True, None, None, node.name, "y", 0, 1, node_id=node.id, frame=last.index,
        tag=(phrase("v{saved} saved ≠ v{now} now", saved=0, now=1),),
    )  # fmt: skip
    broken = replace(recording, frames=(*recording.frames[:-1], failing), diagnoses=(damage,))
    scene = draw(broken)
    level = scene.level_of(len(scene.frames) - 1)
    assert level != ""
    assert f"-f{node.id}" in scene.level(level).body
    outer = levels(broken)[""].sketch
    (mark,) = outer.marks
    assert mark.target in {bundle.id for bundle in outer.bundles}
    assert "v0 saved ≠ v1 now" in still(scene, -1, "")
    assert scene.level_of(3) == ""


def test_a_scene_with_levels_survives_json_and_is_the_same_every_time() -> None:
    recording = story(network())
    scene = draw(recording)
    assert Scene.from_json(scene.to_json()) == scene == draw(recording)
    assert len(dict(scene.parts)) == len(scene.parts), "every part is kept once"


def drawn(scene: Scene, name: str) -> list[str]:
    """The ids of what one drawing shows."""
    return re.findall(rf'id="{scene.uid}-([^"]+)"', scene.level(name).body)


def test_an_open_box_stands_among_its_neighbours_and_theirs() -> None:
    scene = draw(story(network()))
    layer = next(level for level in scene.levels if level.label == "h.3")
    inner = next(level for level in scene.levels if level.parent == layer.id)
    around = set(drawn(scene, "")), set(drawn(scene, layer.id)), set(drawn(scene, inner.id))
    assert around[0] < around[1] < around[2], "an open box keeps its own id: it is its head now"
    assert {item.id for item in scene.items if item.level == inner.id} <= around[2]
    for level in (scene.level(""), *scene.levels):
        shown = drawn(scene, level.id)
        assert len(shown) == len(set(shown))


def corners(scene: Scene, name: str) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of everything that can be selected in a drawing."""
    found: dict[str, tuple[float, float, float, float]] = {}
    waiting = [(ElementTree.fromstring(f"<svg>{scene.level(name).body}</svg>"), 0.0, 0.0)]  # noqa: S314  # our own picture
    while waiting:
        element, left, top = waiting.pop()
        if moved := re.match(r"translate\((\S+) (\S+)\)", element.get("transform", "")):
            left, top = left + float(moved[1]), top + float(moved[2])
        box = next((kid for kid in element if kid.get("class") == "bx"), None)
        if element.get("data-st") and box is not None:
            x, y = left + float(box.get("x", 0)), top + float(box.get("y", 0))
            found[element.get("id", "")] = (x, y, x + float(box.get("width", 0)), y + float(box.get("height", 0)))
        waiting.extend((kid, left, top) for kid in element)
    return found


def test_nothing_overlaps_wherever_a_box_is_open() -> None:
    scene = draw(story(network(), shared=True))
    for level in scene.levels:
        boxes = list(corners(scene, level.id).values())
        assert len(boxes) > 14
        for k, (left, top, right, bottom) in enumerate(boxes):
            assert 0 <= left < right <= level.width_px
            assert 0 <= top < bottom <= level.height_px
            for other in boxes[k + 1 :]:
                assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_a_real_network_is_opened_at_its_layers() -> None:
    torch.manual_seed(0)
    blocks = [torch.nn.Linear(3, 3) for _ in range(30)]

    def run(x: torch.Tensor) -> Any:
        for block in blocks:
            x = torch.tanh(block(x))
        return x.sum()

    with seegrad.record() as rec:
        run(torch.ones(2, 3)).backward()
    scene = draw(rec.recording)
    assert scene.levels
    assert max(level.width_px for level in (scene.level(""), *scene.levels)) <= 1210


class Scaled(torch.nn.Module):
    """A module with a module in it: a box in a box."""

    def __init__(self, deep: bool = True) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.inner = Scaled(deep=False) if deep else None

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        if self.inner is None:
            return given * self.scale
        return (self.inner(given) + self.inner(given.sin()) * self.scale.detach()).cos()


STEPS = ("module", "inner", "mul", "view", "detach", "data", "write", "plain", "backward", "update", "each", "at_once")


def ran(program: list[tuple[str, int, int]]) -> Recording:
    """What these steps recorded: each takes two of the tensors so far."""
    model = Scaled()
    with seegrad.record() as rec:
        known = [torch.ones(2), torch.ones(2, requires_grad=True), model.scale]
        for step, one, other in program:
            with contextlib.suppress(RuntimeError):  # a write to a leaf; a backward that a write forbids
                known.append(after(step, model, known[one % len(known)], known[other % len(known)]))
    return rec.recording


def after(step: str, model: Scaled, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    if step == "module":
        return model(first)
    if step == "inner" and model.inner is not None:
        return model.inner(first)
    if step == "mul":
        return first * second + first
    if step == "view":
        return first.view(2)
    if step == "detach":
        return first.detach()
    if step == "data":
        return first.data
    if step == "plain":
        return second.detach() * first.detach()
    if step == "write":
        return first.mul_(2)
    if step == "backward":
        first.sum().backward(retain_graph=True)
    elif step in ("each", "at_once"):
        (first * model.scale).sum().backward(retain_graph=True)
        torch.optim.Adam(model.parameters(), foreach=step == "at_once").step()
    else:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)
    return first


@settings(deadline=None, max_examples=200 if os.environ.get("SEEGRAD_TEST_ALL") else 40)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 40), st.integers(0, 40)), min_size=12, max_size=40),
    st.sampled_from([None, *ROOMS, Room(STRETCH, homes=True, deep=True)]),
)
def test_no_box_makes_the_lines_run_in_a_circle(program: list[tuple[str, int, int]], room: Room | None) -> None:
    recording = ran(program)
    for level in collapse(recording, sketch(recording), room):
        before: dict[str, set[str]] = {}
        for wire in level.sketch.wires:
            before.setdefault(wire.target, set()).add(wire.source)
        graphlib.TopologicalSorter(before).prepare()  # raises where there is a circle


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_a_group_without_room_is_grouped_until_pairs_are_left(count: int) -> None:
    recording = story(["model.a"] * count + [""] * LEVEL, shared=True)
    room = Room(homes=True, deep=True)
    for _round in range(5):
        found = collapse(recording, sketch(recording), room)
        inner = {frozenset(pill.id for pill in level.sketch.pills) for level in found[1:]}
        room = replace(room, crowded=room.crowded | inner)
    assert max(map(len, inner)) <= 2


def test_what_stands_between_the_writes_of_an_update_leads_to_them_and_from_them() -> None:
    """Stood all writes together, they would lead to the rest and it to them: no order of columns has both."""
    recording = seen("q_normalised_gradient_of_zero").recording
    assert draw(recording).frames


def test_a_box_has_one_name_in_all_languages() -> None:
    torch.manual_seed(0)
    with seegrad.record() as rec:
        D = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))  # noqa: N806  # as it is called
        x = torch.randn(3, 2)
        for _ in range(6):
            x = x + D(x) * D(x + 1)
        x.sum().backward()
    labels = [[level.label for level in draw(rec.recording, lang=lang).levels] for lang in ("en", "zh_CN")]
    names = [[re.split("[,，]", label)[0] for label in each if re.search("[,，]", label)] for each in labels]
    assert names[0] == names[1]
    assert {name.split(".")[0] for name in names[0]} == {"D"}


def boxes(scene: Scene) -> dict[str, dict[str, str]]:
    """Label → what the inspector last says of a box."""
    groups = [item for item in scene.items if item.kind == "group"]
    return {item.label: {row.key: row.values[-1][1] for row in item.rows} for item in groups}


@pytest.mark.parametrize("raises", [False, True])
def test_a_box_counts_its_functions_and_its_bar_is_full_when_all_that_backward_reaches_have_run(raises: bool) -> None:
    block = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)) for _ in range(14)]
    )
    with seegrad.record() as rec:
        x = torch.randn(4, 3)
        hidden = block[:7](x)
        kept = hidden.sigmoid()
        out = block[7:](kept).sum()
        if raises:
            kept.detach().zero_()
        with contextlib.suppress(RuntimeError):
            out.backward()
    told = boxes(draw(rec.recording))
    for label, rows in told.items():
        reached = rows.get("backward has run", "")
        if reached:
            done, due = map(int, reached.split(" of "))
            assert due == int(rows["inside"].split(" ")[0]), label
            assert raises or done == due
    assert any("backward has run" in rows for rows in told.values())
    if raises:
        parts = sketch(rec.recording)
        assert all(pill.due for pill in parts.pills if pill.kind == "node")
        assert not all(pill.runs for pill in parts.pills if pill.kind == "node")


@pytest.mark.parametrize("passes", [False, True], ids=["first", "behind what is trained"])
def test_what_is_frozen_is_called_so_and_grey_and_dashed_where_nothing_was_recorded(passes: bool) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(20)])
            self.head = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(20)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.stem(x))

    net = Net()
    net.stem.requires_grad_(False)
    with seegrad.record() as rec:
        net(torch.ones(2, 3, requires_grad=passes)).sum().backward()
    scene = draw(rec.recording)
    drawn = "".join([scene.body, *(markup for _, markup in scene.parts)])
    for item in scene.items:
        if item.kind == "group":
            inside = item.rows[0].values[0][1]
            grey = f"nd bd off{'' if passes else ' op'}"
            assert inside.endswith((" Functions, frozen" if passes else " ops, frozen", " Functions"))
            assert (f'class="{grey}" id="{scene.uid}-{item.id}"' in drawn) == ("frozen" in inside)
    assert any("frozen" in rows["inside"] for rows in boxes(scene).values())
    told = "41 leaves" if passes else "40 of 80 parameters"
    assert scene.frames[-1].diagnosis == f"{told} got a gradient; no problem was found."


def test_a_stretch_of_one_op_is_called_by_what_it_computes() -> None:
    torch.manual_seed(0)
    attention, x = torch.nn.MultiheadAttention(16, 2, batch_first=True), torch.randn(2, 5, 16)
    with seegrad.record() as rec:
        attention(x, x, x)[0].sum().backward()
    shown = [
        bundle.label
        for level in collapse(rec.recording, sketch(rec.recording), Room(LEVEL // 3, homes=True, deep=True))
        for bundle in level.sketch.bundles
        if bundle.loose
    ]
    assert any("softmax" in label for label in shown)
    assert len(set(shown)) == len(shown)
    assert not any(label.startswith(("part", "view", "ᵀ")) for label in shown)


def test_calls_of_a_module_are_counted_also_where_two_follow_each_other() -> None:
    torch.manual_seed(0)
    D = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))  # noqa: N806  # as it is called
    x = torch.randn(3, 2)
    with seegrad.record() as rec:
        real = D(x)
        made = D(x)
        loss = (real - made).mean() * 2
        (loss + D(x).mean()).backward()
    levels = collapse(rec.recording, sketch(rec.recording), Room(deep=True))
    assert [bundle.label for bundle in levels[0].sketch.bundles] == ["D, calls 1–2", "D, call 3"]


def test_a_module_s_own_that_run_by_turns_are_one_call_of_it() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(3):
                x = self.b(self.a(x))
            return x

    net = Net()
    with seegrad.record() as rec:
        (net(torch.ones(2)) * 2).sum().backward()
    levels = collapse(rec.recording, sketch(rec.recording), Room(deep=True, homes=True))
    assert levels[0].sketch.bundles[0].label == "net"


def test_what_a_loader_does_is_one_box_as_a_module_is() -> None:
    """A Dataset's lines and the putting together: dozens of views, also beside a graph that is small."""
    data = torch.utils.data.TensorDataset(torch.randn(32, 3), torch.randn(32, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    w = torch.zeros(3, 1, requires_grad=True)
    with seegrad.record() as rec:
        x, y = next(iter(loader))
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
    outer, *inner = collapse(rec.recording, sketch(rec.recording))
    assert [level.label for level in inner] == ["DataLoader"]
    assert [bundle.label for bundle in outer.sketch.bundles] == ["DataLoader"]
    assert len(outer.sketch.cards) < 8
    assert {card.label for card in outer.sketch.cards} >= {"w", "loss"}


def test_a_graph_in_a_dataset_s_line_stays_in_sight() -> None:
    class Embedded(torch.utils.data.Dataset[torch.Tensor]):
        def __getitem__(self, k: int) -> torch.Tensor:
            return w[k] * 2

        def __len__(self) -> int:
            return 3

    w = torch.ones(3, requires_grad=True)
    with seegrad.record() as rec:
        batch = next(iter(torch.utils.data.DataLoader(Embedded(), batch_size=3)))
        batch.sum().backward()
    outer = collapse(rec.recording, sketch(rec.recording))[0]
    assert len(outer.sketch.pills) == len([node for node in rec.recording.nodes if node.leaf is None])
