"""Passes of a training loop: recognised, drawn one at a time, alike in names and places, small together."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

import seegrad
from nbjudge_tests.session import first_of
from seegrad.display.page import page
from seegrad.model.recording import Recording
from seegrad.model.scene import Scene
from seegrad.picture import draw, still
from seegrad.picture.sketch import Room, Stretch, collapse, excerpt, sketch, stretches
from seegrad.picture.svg.sizes import SizedSketch
from tools.pictures.portraits import TRAINED, record

WIDEST_PX, HIGHEST_PX = 1100, 600
EPOCHS_BYTES, CHAIN_BYTES = 400_000, 1_500_000


def regression(passes: int = 5, *, broken: int | None = None, clear: bool = True) -> Recording:
    """Linear regression; `broken` is the pass in which something saved is overwritten before backward."""
    x, y = torch.linspace(-1, 1, 20), torch.linspace(-2, 4, 20)
    w, b = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    with seegrad.record() as rec:
        try:
            for number in range(passes):
                guess = w * x + b
                loss = ((guess - y) ** 2).mean()
                if number == broken:
                    guess.sub_(loss.detach())
                    loss = loss + (guess * guess).mean()
                    guess.add_(1.0)
                loss.backward()
                with torch.no_grad():
                    w -= 0.5 * w.grad
                    b -= 0.5 * b.grad
                if clear:
                    w.grad = b.grad = None
        except RuntimeError:
            pass  # what the picture is about
    return rec.recording


def numbers(recording: Recording) -> list[tuple[int, int]]:
    return [(each.number, each.total) for each in stretches(recording)]


@pytest.fixture(scope="module")
def looped() -> Scene:
    return draw(regression())


# -- recognised


def test_each_backward_call_on_one_line_is_a_pass() -> None:
    recording = regression()
    found = stretches(recording)
    assert numbers(recording) == [(k, 5) for k in range(1, 6)]
    assert [found[0].first, *(each.stop for each in found)] == [each.first for each in found] + [len(recording.frames)]
    for each in found:
        frames = recording.frames[each.first : each.stop]
        assert {frame.backward for frame in frames} - {None} == {each.number - 1}
        assert frames[-1].op == "sub_", "the update belongs to the pass that computed its gradient"


def test_what_stands_around_a_loop_is_no_pass() -> None:
    model, x = nn.Linear(3, 1), torch.ones(2, 3)
    with seegrad.record() as rec:
        x = x * 2
        x = x + 1
        for _ in range(3):
            model(x).sum().backward()
        with torch.no_grad():
            model(x) * 2
    assert numbers(rec.recording) == [(0, 0), (1, 3), (2, 3), (3, 3), (0, 0)]


def test_two_backward_calls_can_be_one_pass_and_loops_follow_each_other() -> None:
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        for _ in range(3):
            (a * b).sum().backward()
            (a + b).sum().backward()
        for _ in range(2):
            (a / b).sum().backward()
    assert numbers(rec.recording) == [(1, 3), (2, 3), (3, 3), (1, 2), (2, 2)]


def test_passes_of_several_lengths_and_one_that_never_came_to_its_backward_call() -> None:
    w = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec, contextlib.suppress(RuntimeError):
        for length in (1, 4, 2, 3):
            h = w * 1
            for _ in range(length):
                h = torch.tanh(h * w)
            (h + torch.ones(length + 5) if length == 3 else h).sum().backward()
    recording = rec.recording
    assert numbers(recording) == [(k, 4) for k in range(1, 5)]
    ops = [[frame.op for frame in recording.frames[s.first : s.stop]].count("tanh") for s in stretches(recording)]
    assert ops == [1, 4, 2, 3]


def recurrent() -> None:
    h = w = torch.ones(2, requires_grad=True)
    for _ in range(9):
        h = torch.tanh(h * w)
    h.sum().backward()


def again() -> None:
    y = (torch.ones(2, requires_grad=True) ** 2).sum()
    for _ in range(3):
        y.backward(retain_graph=True)


def once() -> None:
    (torch.ones(2, requires_grad=True) ** 2).sum().backward()


@pytest.mark.parametrize("program", [recurrent, again, once], ids=lambda program: program.__name__)
def test_no_training_loop_no_passes(program: object) -> None:
    with seegrad.record() as rec:
        program()  # type: ignore[operator]  # one of the three above
    assert stretches(rec.recording) == ()


# -- drawn


def test_a_small_loop_is_drawn_by_pass_too() -> None:
    assert [each.number for each in draw(regression(2)).passes] == [1, 2]


def test_every_step_is_told_once_and_drawn_in_its_own_pass(looped: Scene) -> None:
    assert looped.frames == tuple(frame for each in looped.passes for frame in each.scene.frames)
    for step in range(len(looped.frames)):
        scene, inside = looped.drawn_at(step)
        assert scene.frames[inside] == looped.frames[step]
        names = {item.id for item in scene.items}
        assert names.issuperset(looped.frames[step].on)


def test_a_parameter_stands_once_and_shows_its_versions(looped: Scene) -> None:
    for number, each in enumerate(looped.passes):
        (w,) = [item for item in each.scene.items if item.label == "w"]
        versions = next(row.values for row in w.rows if row.key == "_version")
        assert [version for _step, version in versions] == [str(number), str(number + 1)]


def test_passes_are_alike_in_names_and_places(looped: Scene) -> None:
    """What is open or selected stays so in the next pass, and nothing jumps."""
    first, *others = [each.scene for each in looped.passes]
    places = re.compile(r"\ue001\S+ \S+ \S+\ue001")
    for scene in others:
        assert [item.id for item in scene.items] == [item.id for item in first.items]
        assert [level.id for level in scene.levels] == [level.id for level in first.levels]
        assert places.findall(scene.body) == places.findall(first.body)


def test_the_strip_knows_each_loss(looped: Scene) -> None:
    x, y = torch.linspace(-1, 1, 20), torch.linspace(-2, 4, 20)
    w, b = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for each in looped.passes:
        loss = F.mse_loss(w * x + b, y)
        assert float(each.loss) == pytest.approx(loss.item(), rel=1e-2)
        for leaf, gradient in zip((w, b), torch.autograd.grad(loss, (w, b)), strict=True):
            leaf.data -= 0.5 * gradient


def test_the_update_is_one_box_that_opens(looped: Scene) -> None:
    last = looped.passes[-1].scene
    (box,) = [item for item in last.items if item.kind == "group"]
    assert (box.label, box.rows[0].values) == ("update", ((0, "2 parameters"),))
    assert [item.label for item in last.items if item.level == box.id and item.kind == "write"] == ["sub_", "sub_"]


def test_a_finding_is_marked_in_its_own_pass_and_seen_first() -> None:
    recording = regression(5, broken=4)
    scene = draw(recording)
    assert scene.frames[scene.first_look()].severity == "error"
    marked = ['class="bang error"' in each.scene.level("").body for each in scene.passes]
    assert marked == [False, False, False, False, True]
    drawn = still(scene, scene.first_look(), "")
    assert 'class="bang error"' in drawn
    assert "pass 5 of 5" in drawn, "a still image says which pass it shows"


def test_a_graph_of_an_earlier_pass_that_runs_again_is_seen_in_the_pass_that_runs_it() -> None:
    w = torch.ones(3, requires_grad=True)
    state = torch.ones(3)
    with seegrad.record() as rec:
        try:
            for _ in range(3):
                state = torch.tanh(state * w)
                loss = (state * state).sum()
                loss.backward()
        except RuntimeError:
            pass  # the graph of the first pass is freed
    recording = rec.recording
    parts, last = sketch(recording), stretches(recording)[-1]
    assert recording.errors
    (mark,) = excerpt(recording, parts, last).marks
    assert mark.target.startswith("fx"), "a Function of the pass before"


def test_a_gradient_that_was_cleared_isnt_there_when_the_next_pass_begins() -> None:
    def first_gradient(recording: Recording) -> int:
        second = stretches(recording)[1]
        part = excerpt(recording, sketch(recording), second)
        return next(card.gradients[0][0] for card in part.cards if card.label == "w")

    assert first_gradient(regression(clear=False)) == 0
    assert first_gradient(regression()) > 0


def test_the_whole_as_one_stretch_loses_no_function() -> None:
    recording = regression()
    parts = sketch(recording)
    part = excerpt(recording, parts, Stretch(0, len(recording.frames)))
    assert len(part.pills) == len(parts.pills)
    assert {card.label for card in part.cards if card.kind == "leaf"} == {"w", "b"}


# -- real programs


@pytest.mark.parametrize(
    "name", first_of(["gan_steps", "lstm", "mlp_adam", "linear_regression", "encoder", "conv", "gpt"])
)
def test_a_real_program_fits_closed_and_open(name: str) -> None:
    scene = draw(record(TRAINED[name]))
    for each in [each.scene for each in scene.passes] or [scene]:
        for level in (each.level(""), *each.levels):
            assert level.width_px <= WIDEST_PX, level.label
            assert level.height_px <= HIGHEST_PX, level.label
    assert Scene.from_json(scene.to_json()) == scene


def test_a_deep_model_that_is_cloned_and_unrolled_opens_in_parts_that_fit() -> None:
    """Clones of parameters that no line joins, an attention of 27 Functions, a cell called 40 times."""
    layer = nn.TransformerEncoderLayer(16, nhead=2, dim_feedforward=32, dropout=0.0)
    with seegrad.record() as rec:
        encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        cell = nn.LSTMCell(16, 16)
        x = encoder(torch.ones(5, 2, 16))
        state = torch.zeros(2, 16), torch.zeros(2, 16)
        for k in range(10):
            state = cell(x[k % 5], state)
        state[0].sum().backward()
    scene = draw(rec.recording)
    assert scene.alone
    assert {level.label: level.height_px for level in scene.levels if level.height_px > HIGHEST_PX} == {}


def test_ten_epochs_are_a_small_page() -> None:
    assert len(page(record(TRAINED["mlp_adam"])).encode()) <= EPOCHS_BYTES


@pytest.mark.whole
def test_a_long_chain_is_a_small_page() -> None:
    x = torch.ones(3, requires_grad=True)
    with seegrad.record() as rec:
        for _ in range(2000):
            x = x.sin()
        x.sum().backward()
    assert len(page(rec.recording).encode()) <= CHAIN_BYTES


# -- an optimiser's step


class Net(nn.Module):
    """Layers whose results have names inside `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.a(x))
        x = torch.relu(self.b(x))
        return self.c(x)


def stepped(model: nn.Module, clip: float = 0.0) -> Recording:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(3, 4)
    with seegrad.record() as rec:
        for _ in range(2):
            optimiser.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimiser.step()
    return rec.recording


@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize(
    "model", [Net(), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))], ids=["module", "sequential"]
)
def test_a_step_is_one_box_with_a_pill_for_each_parameter_and_it_alone(model: nn.Module, clip: float) -> None:
    scene = draw(stepped(model, clip)).passes[-1].scene
    steps = [item for item in scene.items if item.label == "step"]
    (home,) = {item.level for item in steps}
    assert next(level.label for level in scene.levels if level.id == home) == "optimiser.step()"
    names = [f"model.{name}" for name, _ in model.named_parameters()]
    assert [item.rows[0].values[0][1] for item in steps] == names

    parts = sketch(stepped(model, clip))
    tensors = {card.id: card.full_name for card in parts.cards}
    for pill in parts.pills:
        if pill.label == "step":
            sources = [tensors[wire.source] for wire in parts.wires if wire.target == pill.id]
            assert [name for name in sources if name in names] == [pill.writes_to]
            assert len(sources) <= 2  # its gradient, where it was seen elsewhere


def test_what_no_line_joins_stands_in_the_order_in_which_it_ran() -> None:
    with seegrad.record() as rec:
        model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(20)])
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        optimiser.step()
    whole = Stretch(0, len(rec.recording.frames))
    outer = collapse(rec.recording, excerpt(rec.recording, sketch(rec.recording), whole), Room(homes=True, deep=True))[
        0
    ]
    sized = SizedSketch(outer.sketch, alone=True)
    boxes = sized.boxes(sized.layout())
    first, last = (
        next(b.id for b in outer.sketch.bundles if b.label == label) for label in ("initialisation", "optimiser.step()")
    )
    assert outer.sketch.root is not None
    places = [(boxes[part].y > boxes[first].bottom, boxes[part].x) for part in (first, outer.sketch.root, last)]
    assert places == sorted(places)


def test_what_runs_outside_of_modules_stands_in_no_box_of_one() -> None:
    """Its steps alone write to leaves of one module: that doesn't make it a call of that module."""
    body = nn.Sequential(*[nn.Linear(2, 2) for _ in range(40)]).requires_grad_(False)
    head, prompt = nn.Linear(2, 2), torch.zeros(1, 2, requires_grad=True)
    optimiser = torch.optim.SGD([prompt, *head.parameters()], lr=0.1)
    with seegrad.record() as rec:
        for _ in range(2):
            loss = head(body(torch.ones(1, 2) + prompt)).sum()
            loss.backward()
            optimiser.step()
    for each in draw(rec.recording).passes:
        homes = {level.id: level.label for level in each.scene.levels} | {"": ""}
        assert {homes[item.level] for item in each.scene.items if item.label in ("AddBackward0", "SumBackward0")} == {
            ""
        }


def test_derivatives_of_one_graph_in_turn_are_no_training_loop() -> None:
    """One for each column: in a comprehension, or in a loop of several lines."""
    points = torch.ones(1, 2, requires_grad=True)
    with seegrad.record() as rec:
        (first,) = torch.autograd.grad((points**3).sum(), points, create_graph=True)
        [torch.autograd.grad(first[:, k].sum(), points, create_graph=True)[0][:, k] for k in (0, 1)]
        for k in range(2):
            column = first[0, k] * 2
            torch.autograd.grad(column, points, retain_graph=True)
    assert stretches(rec.recording) == ()


def test_a_loop_that_takes_steps_by_grad_is_a_training_loop() -> None:
    w = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        for _ in range(3):
            loss = (w * 2).sum()
            (slope,) = torch.autograd.grad(loss, w)
            with torch.no_grad():
                w -= 0.1 * slope
    assert [each.number for each in stretches(rec.recording) if each.number] == [1, 2, 3]


def test_functions_from_before_a_pass_are_not_called_after_its_first_op() -> None:
    """A state that is never cut off: backward runs through all passes before."""
    w = torch.ones(2, requires_grad=True)
    state = torch.ones(2)
    with seegrad.record() as rec:
        for _ in range(3):
            state = state.sin()
            for _ in range(16):
                state = state * w
            loss = state.sum()
            loss.backward(retain_graph=True)
    last = stretches(rec.recording)[-1]
    own = replace(rec.recording, frames=rec.recording.frames[last.first : last.stop])
    levels = collapse(own, excerpt(rec.recording, sketch(rec.recording), last), Room(12, homes=True, deep=True))
    assert [level.label for level in levels if level.label.startswith(("sin", "from before"))] == ["from before"]


def test_what_a_long_training_has_left_behind_counts_among_its_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seegrad.capture.tables.forget.PATIENCE", 40)
    scene = draw(regression(60))
    labels = [each.label for each in scene.passes if each.number]
    assert labels[-2:] == ["pass 59 of 60", "pass 60 of 60"]
    skipped = (
        each
        for each, before in zip(scene.passes, (None, *scene.passes), strict=False)
        if before is None or each.number > before.number + 1
    )
    here = next(each for each in skipped if each.number)
    said = f"to {here.number - 1} of this loop only what was found is kept."
    assert scene.frames[here.first].text.endswith(said)
