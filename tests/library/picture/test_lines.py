"""Lines and the tags on them have room: none runs under a part that isn't its own, no tag touches a card."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import seegrad
from nbjudge_tests.session import one_in
from seegrad.model.recording import Recording
from seegrad.model.scene import Point
from seegrad.picture import draw
from seegrad.picture.sketch import Sketch, sketch
from seegrad.picture.svg.sizes import NUMBER_PX, Box, SizedSketch
from seegrad.picture.svg.wires import Wiring
from tests.data.programs import programs
from tools.pictures.portraits import TRAINED, record

STYLE = Path(__file__).parents[3] / "frontend" / "src" / "style" / "svg.css"
PARTS = 20  # of a curve that are looked at
TOUCHES_PX = 1.5
SAMPLE = sorted(programs())[::40]


def of(name: str) -> Recording:
    program = programs()[name]
    torch.manual_seed(0)
    rec = seegrad.record(detail=program.detail)
    with contextlib.suppress(Exception), rec:
        program.run()
    return rec.recording


def lines(recording: Recording) -> Iterator[tuple[set[str], list[Point], dict[str, Box]]]:
    """Each line's two ends, the points of its curve, and where all parts stand."""
    drawn = sketch(recording)
    sized = SizedSketch(drawn)
    layout = sized.layout()
    boxes = sized.boxes(layout)
    wiring = Wiring(drawn, boxes, sized.routes(layout, (0.0, 0.0)), len(recording.frames))
    for number in wiring.routes:
        wire = drawn.wires[number]
        bends = pairwise(wiring.points(number))
        points = [point for here, there in bends if there[0] > here[0] for point in between(here, there)]
        yield {wire.source, wire.target}, points, boxes


def between(here: Point, there: Point) -> Iterator[Point]:
    """Points of the curve that leaves and arrives horizontally, its handles half way."""
    middle = (here[0] + there[0]) / 2
    for part in range(1, PARTS):
        t = part / PARTS
        u = 1 - t
        x = u**3 * here[0] + 3 * u * t * middle + t**3 * there[0]
        y = (u**3 + 3 * u * u * t) * here[1] + (3 * u * t * t + t**3) * there[1]
        yield x, y


def near(points: list[Point], boxes: dict[str, Box]) -> Iterator[tuple[str, Box]]:
    """The boxes that the rectangle round all points touches: few of a thousand, whose points are then tried."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    left, right, top, bottom = min(xs), max(xs), min(ys), max(ys)
    for other, box in boxes.items():
        if left < box.right and right > box.x and top < box.bottom and bottom > box.y:
            yield other, box


def covers(box: Box, point: Point) -> bool:
    inside = box.x + TOUCHES_PX < point[0] < box.right - TOUCHES_PX
    return inside and box.y + TOUCHES_PX < point[1] < box.bottom - TOUCHES_PX


@pytest.mark.parametrize("name", one_in(8, SAMPLE))
def test_no_line_runs_under_a_part_that_is_not_its_own(name: str) -> None:
    under = [
        (ends, other)
        for ends, points, boxes in lines(of(name))
        for other, box in (near(points, boxes) if points else ())
        if other not in ends and any(covers(box, point) for point in points)
    ]
    assert not under


def test_the_tag_of_a_saved_tensor_has_room_beside_the_card() -> None:
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    with seegrad.record() as rec:
        (a * a).sum().backward()
    drawn = sketch(rec.recording)
    sized = SizedSketch(drawn)
    boxes = sized.boxes(sized.layout())
    card, pill = boxes["t0-0"], next(boxes[wire.target] for wire in drawn.wires if wire.pins)
    assert pill.x - card.right == 36  # a tag takes 22 of them


def test_a_line_to_come_lies_on_none_that_is_there() -> None:
    """Lines to come are pale, of one colour however many lie over each other, so the newest has to be the lowest."""
    seq = torch.ones(4, 3)
    w = torch.ones(3, requires_grad=True)
    with seegrad.record() as rec:
        h = torch.zeros(3)
        for k in range(4):
            h = torch.tanh(seq[k] * w + h)
        h.sum().backward()
    drawn = sketch(rec.recording)
    sized = SizedSketch(drawn)
    layout = sized.layout()
    wiring = Wiring(drawn, sized.boxes(layout), sized.routes(layout, (0.0, 0.0)), len(rec.recording.frames))
    (edges,) = wiring.draw()
    born = [int(step) for step in re.findall(r'<path class="e[^>]*? data-a="(\d+)"', edges)][
        : len(wiring.routes)
    ]  # then those inside stacks
    assert len(set(born)) > 4
    assert born == sorted(born, reverse=True)
    assert "opacity" not in re.findall(r"\.e\.ghost \{([^}]*)\}", STYLE.read_text(encoding="utf-8"))[0]


def test_each_line_tells_what_goes_over_it_and_why_nothing_comes_back() -> None:
    with seegrad.record() as rec:
        x, w = torch.ones(2, 3), torch.ones(3, 2, requires_grad=True)
        h = x @ w
        kept = h.detach()
        h.max(1)
        loss = (h * h + kept).sum()
        loss.backward()
    said = {
        name: {told for wire in sketch(rec.recording).wires for told in wire.travels if f" {name}, " in told}
        for name in ("x", "w", "h", "loss")
    }
    assert said["x"] == {"Forward: x, (2, 3). No gradient comes back: x needs none."}
    assert said["w"] == {"Forward: w, (3, 2). Backward: its gradient, of the same shape."}
    assert said["h"] == {
        "Forward: h, (2, 2). Backward: its gradient, of the same shape.",
        "Forward: h, (2, 2). Backward: one of 2 gradients that are added up.",
        "Forward: h, (2, 2). No gradient comes back: it is cut off by .detach().",
        "Forward: h, (2, 2). No gradient comes back: no backward has passed here.",
    }
    assert said["loss"] == {"Forward: loss, scalar. Backward: its gradient, of the same shape."}


def test_a_line_goes_through_its_own_tag_however_many_stand_there() -> None:
    norm = torch.nn.BatchNorm1d(3)
    with seegrad.record() as rec:
        (norm(torch.ones(4, 3, requires_grad=True) * 2)).sum().backward()
    drawn = sketch(rec.recording)
    sized = SizedSketch(drawn)
    layout = sized.layout()
    boxes = sized.boxes(layout)
    wiring = Wiring(drawn, boxes, sized.routes(layout, (0.0, 0.0)), len(rec.recording.frames))
    markup = wiring.pins()
    places = [(float(x), float(y)) for x, y in re.findall(r'class="pin" transform="translate\((\S+) (\S+)\)"', markup)]
    through = [point for k in wiring.routes for point in wiring.points(k)]
    entries = [(x, y) for x, y in places if x in {box.x for box in boxes.values()}]
    assert len(entries) > 3
    for x, y in entries:
        assert any(x - 22 <= there <= x and abs(y - height) <= 8 for there, height in through), (x, y)


def test_the_label_of_a_line_lies_above_the_rings_of_the_parts_beside_it() -> None:
    with seegrad.record() as rec:
        w = torch.ones(2, requires_grad=True)
        out = w * 2
        same = out.data
        (out * same.clone()).sum().backward()
    body = draw(rec.recording).body
    assert body.index('class="lk"') > max(found.start() for found in re.finditer('class="halo"', body))


def test_a_label_goes_along_its_line_to_where_nothing_else_stands() -> None:
    wiring = Wiring(Sketch(), {"card": Box(10, 0, 60, 40)}, {}, 1)
    wiring.points = lambda _k: [(0, 20), (5, 60), (90, 60)]  # type: ignore[method-assign]  # a route by hand
    assert wiring._beside(0, ".detach()") == (9, 57)
    wiring.boxes = {}
    assert wiring._beside(0, ".detach()") == (4, 12)


def test_the_label_of_a_cut_line_has_room_between_two_boxes() -> None:
    body = draw(record(TRAINED["gan_steps"])).passes[-1].scene.level("").body
    [(x, y)] = re.findall(r'<text x="(\S+)" y="(\S+)" class="lk"[^>]*>\.detach', body)
    right = float(x) + len(".detach()") * NUMBER_PX
    boxes = re.findall(
        r'translate\(([\d.]+) ([\d.]+)\)"><title>[^<]*</title><rect class="bx under"[^>]*height="(\d+)"', body
    )
    places = [tuple(map(float, box)) for box in boxes]
    beside = [left for left, top, high in places if left > float(x) and top < float(y) < top + high]
    assert len(places) > 3
    assert beside
    assert right < min(beside)
