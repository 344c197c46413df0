"""The picture: what it shows at which step, that it never breaks, and that it is the same bytes every time."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import fsum
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import seegrad
from seegrad.display.page import asset
from seegrad.model.recording import Edge, Frame, Node, Place, Recording, TensorRef
from seegrad.model.scene import Scene
from seegrad.picture import MOST_NODES, MOST_STEPS, MOST_TOLD, draw, still, table
from seegrad.picture.sketch import Sketch, at, sketch
from seegrad.picture.svg.sizes import SizedSketch
from seegrad.quiz import ask
from seegrad.words.errors import PictureError
from tests.library.recordings import overwritten_alias

SVG = "{http://www.w3.org/2000/svg}"


def picture(recording: Recording, step: int = -1) -> ElementTree.Element:
    return ElementTree.fromstring(still(draw(recording), step, ""))  # noqa: S314  # our own picture


def words(root: ElementTree.Element, class_: str = "") -> list[str]:
    """What stands in the picture, inside elements of one class."""
    found = [e for e in root.iter() if class_ in e.get("class", "").split()] if class_ else [root]
    return [t.text or "" for e in found for t in e.iter(f"{SVG}text")]


def states(root: ElementTree.Element) -> dict[str, str]:
    return {e.get("id", "").split("-", 1)[1]: e.get("data-s", "") for e in root.iter() if e.get("data-s")}


def silent() -> Recording:
    return overwritten_alias("data")


def raising() -> Recording:
    return overwritten_alias("detach")


def seed() -> Recording:
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    w = torch.tensor([[0.5, -1.0], [2.0, 1.0]], requires_grad=True)
    with seegrad.record() as rec:
        l1 = a * w
        l2 = l1 + w
        l3 = l1 * w
        loss = (l2 * l3).mean()
        loss.backward()
    return rec.recording


# the chapter's two cases


def test_detach_moves_the_badge_of_the_original() -> None:
    cards = {card.label: card for card in sketch(raising()).cards}
    assert cards["out"].versions == ((1, 0), (3, 1))
    root = picture(raising())
    assert "✎v1" in words(root, "moved")
    assert words(root, "clash") == ["v0 saved ≠ v1 now"]


def test_data_has_its_own_counter_and_the_numbers_change_under_the_original() -> None:
    parts = sketch(silent())
    out = next(card for card in parts.cards if card.label == "out")
    assert out.versions == ((1, 0),)
    assert at(out.values, 2) == (("0.731", "0.881", "0.953"),)
    assert at(out.values, 3) == (("0", "0", "0"),)
    assert out.overwritten == (3,)
    assert [card.label for card in parts.cards if card.stale is not None] == ["c"]


@pytest.mark.parametrize(("recording", "counters"), [(raising(), 1), (silent(), 2)], ids=["detach", "data"])
def test_names_of_one_storage_stand_in_one_frame(recording: Recording, counters: int) -> None:
    (group,) = sketch(recording).storages
    assert group.counters == counters
    root = picture(recording)
    assert words(root, "storage")[0] == "one storage"
    assert not words(picture(recording, 1), "st"), "one name alone has no frame"


class Kept(torch.autograd.Function):
    """A Function that keeps its input where torch doesn't look."""

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
        ctx.given = given
        return given**3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # one gradient
        return gradient * 3 * ctx.given**2


def test_what_an_attribute_keeps_has_no_version_in_the_picture_nor_in_words() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with seegrad.record() as rec:
        doubled = x * 2
        out = Kept.apply(doubled)
        doubled.mul_(10)
        out.sum().backward()
    root = picture(rec.recording)
    assert words(root, "clash") == ["no version was noted,", "and the numbers changed"]
    assert [pin.version for wire in sketch(rec.recording).wires for pin in wire.pins if pin.name == "doubled"] == [None]
    scene = draw(rec.recording)
    assert any("saves doubled (without a version)" in frame.text for frame in scene.frames)
    told = {row.key: row.values[0][1] for item in scene.items for row in item.rows}
    assert told["saved as ctx.given"] == "doubled  saved without a version"


def test_a_switch_is_told_as_one() -> None:
    with seegrad.record() as rec:
        v = (torch.ones(2) * 0.5).requires_grad_()
        v.sum().backward()
    assert "v asks for a gradient now." in [frame.text for frame in draw(rec.recording).frames]


@pytest.mark.parametrize("kind", ["outcome", "culprit"])
def test_how_it_ends_isn_t_told_before_by_versions(kind: str) -> None:
    """The picture's words at the steps that can be seen while the question is open."""
    question = ask(silent(), kind)
    told = [frame.text for frame in draw(silent(), question).frames[: question.until_step + 1]]
    assert "c is overwritten in place. The same bytes are out." in told
    assert not [text for text in told if "counter" in text]


def test_a_step_that_moves_many_alike_is_told_in_one_sentence() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    with seegrad.record() as rec:
        model(torch.ones(1, 2)).sum().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    moved = "the version of each goes 1 → 2."  # 1: they were initialised in place
    said = f"model.0.weight, model.0.bias and 2 more are overwritten in place: {moved}"
    assert draw(rec.recording).frames[-1].text == said


def test_the_raising_case_shows_torch_s_error_in_full() -> None:
    recording = raising()
    assert recording.error is not None
    scene = draw(recording)
    assert scene.frames[-1].message == f"RuntimeError: {recording.error.text}"
    root = picture(recording)
    assert states(root)["f1"] == "e"
    assert re.sub(r"\s+", " ", " ".join(words(root))).count(recording.error.text[:60]) == 1


def test_the_silent_case_is_marked_differently_and_its_gradient_is_called_wrong() -> None:
    root = picture(silent())
    assert states(root)["f1"] == "w"
    assert words(root, "clash") == ["v0 saved = v0 now,", "but the numbers changed"]
    assert "wrong" in words(root, "wrong")
    a = next(card for card in sketch(silent()).cards if card.label == "a")
    assert a.wrong_from == 7
    assert next(c for c in sketch(raising()).cards if c.label == "a").wrong_from is None


def test_a_pin_stands_where_the_result_leaves_and_names_its_version() -> None:
    root = picture(silent(), 1)
    (pin,) = [e for e in root.iter() if e.get("class") == "pin" and e.find(f"{SVG}title") is not None]
    assert pin.findtext(f"{SVG}title") == "saved: out at version 0"


def test_pins_are_struck_out_when_their_function_has_run_but_not_where_it_failed() -> None:
    def struck(root: ElementTree.Element) -> list[bool]:
        pins = [e.get("class", "").split() for g in root.iter() if g.get("class") == "pins" for e in g if len(e)]
        return ["free" in each for each in pins]

    assert words(picture(raising()), "pins") == ["v0"]
    assert struck(picture(raising())) == [False]
    fine = seed()
    assert struck(picture(fine, 3))
    assert not any(struck(picture(fine, 3)))
    assert all(struck(picture(fine)))


def test_accumulate_grad_is_no_pill() -> None:
    assert not [pill for pill in sketch(silent()).pills if "Accumulate" in pill.label]


def chain(count: int) -> Recording:
    """`y = y * 1`, `count` times."""
    place = Place("a.py", 2, "y = y * 1")
    tensors = [
        TensorRef(k, "y" if k else "x", (), "float32", "cpu", k == 0, True, k, k, (0, 4), k) for k in range(count + 1)
    ]
    nodes = [
        Node(k, "MulBackward0", "mul", k + 1, (Edge(0, k - 1 if k else None, 0),), (), (k,), (k + 1,))
        for k in range(count)
    ]
    start = Frame(0, "start", None, "start")
    frames = [
        Frame(k, "forward", place, "mul", inputs=(k - 1,), outputs=(k,), nodes=(k - 1,)) for k in range(1, count + 1)
    ]
    return Recording(frames=(start, *frames), tensors=tuple(tensors), nodes=tuple(nodes))


# real Recordings


def test_saved_tensors_are_pinned_where_their_line_enters() -> None:
    pins = [(wire.source, pin.name) for wire in sketch(seed()).wires for pin in wire.pins if pin.side == "in"]
    assert pins
    cards = {card.id: card.label for card in sketch(seed()).cards}
    assert all(cards[source] == name for source, name in pins)


def test_discs_number_the_engine_s_order() -> None:
    recording = seed()
    pills = {pill.node: pill for pill in sketch(recording).pills}
    ran = [frame.running for frame in recording.frames if frame.running in pills]
    assert [pills[node].runs[0][1] for node in ran] == list(range(1, len(ran) + 1))


def test_gradients_in_the_picture_are_torch_s() -> None:
    recording = seed()
    kept = {card.label: card.gradients[-1][1].preview for card in sketch(recording).cards if card.kind == "leaf"}
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    w = torch.tensor([[0.5, -1.0], [2.0, 1.0]], requires_grad=True)
    ((x * w + w) * (x * w * w)).mean().backward()
    for name, grad in (("a", x.grad), ("w", w.grad)):
        assert grad is not None
        shown = [[float(number) for number in row] for row in kept[name] or ()]
        torch.testing.assert_close(torch.tensor(shown), grad, rtol=5e-3, atol=0)


def test_retain_grad_turns_the_passing_gradient_into_a_kept_one() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        b = a * 2
        b.retain_grad()
        b.sum().backward()
    root = picture(rec.recording)
    assert words(root, "flow").count("∂ flows") > 0
    cards = {card.label: card for card in sketch(rec.recording).cards}
    assert cards["b"].keeps
    assert not cards["(sum)"].keeps


def test_a_direct_write_makes_a_new_card_and_strikes_the_old_one() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        b = a * 2
        b.add_(1)
    old, new = (card for card in sketch(rec.recording).cards if card.label == "b")
    assert old.stale == new.born
    assert states(picture(rec.recording))[old.id] == "s"
    assert "✎ add_" in words(picture(rec.recording), "ip")


def test_no_grad_anywhere_is_drawn_as_not_recorded() -> None:
    a = torch.ones(2)
    with seegrad.record() as rec:
        b = a + 1
        (b * 2).sum()
    assert words(picture(rec.recording)).count("not recorded") >= 3


# one string for every step


CASES: dict[str, Callable[[], Recording]] = {"silent": silent, "raising": raising, "seed": seed}


def test_a_picture_does_not_depend_on_how_python_adds_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.12 on `sum` compensates: three columns of one digit came out 0.1 px apart."""
    a = torch.tensor([7.0, 4.0, 6.0], requires_grad=True)
    with seegrad.record() as rec:
        (a * a).sum().backward()
    expected = still(draw(rec.recording), -1, "")
    for adds in (naive_sum, fsum):
        monkeypatch.setattr(builtins, "sum", adds)
        assert still(draw(rec.recording), -1, "") == expected


def naive_sum(numbers: Iterable[float], start: float = 0) -> float:
    for number in numbers:
        start += number
    return start


@pytest.mark.parametrize("case", CASES)
def test_a_still_shows_what_the_player_shows(case: str) -> None:
    """The player's rule, read from the body a second time: from data-a to data-b, or in the steps of data-at."""
    scene = draw(CASES[case]())
    for step in range(len(scene.frames)):
        live = ElementTree.fromstring(f"<svg>{scene.body}</svg>")  # noqa: S314  # our own picture
        stack, shown = [live], 0
        while stack:
            element = stack.pop()
            visible = int(element.get("data-a", "0")) <= step <= int(element.get("data-b", str(step)))
            visible = visible and str(step) in element.get("data-at", str(step)).split()
            if visible or element.get("class", "").split(" ")[0] == "e":
                shown += 1
                stack.extend(element)
        drawn = ElementTree.fromstring(still(scene, step, "", caption=False))  # noqa: S314  # our own picture
        frame = {f"{SVG}{name}" for name in ("title", "desc", "style")}
        own = [e for e in drawn if e.tag in frame]
        assert sum(1 for _ in drawn.iter()) - len(own) - 1 == shown
        assert float(drawn.get("height", "")) == scene.level("").height_px, "nothing stands below the graph"


@pytest.mark.parametrize("case", CASES)
def test_the_same_recording_gives_the_same_bytes(case: str) -> None:
    recording = CASES[case]()
    again = Recording.from_json(recording.to_json())
    assert draw(recording) == draw(again)
    assert still(draw(recording), -1, asset("svg.css")) == still(draw(again), -1, asset("svg.css"))


@pytest.mark.parametrize("case", CASES)
def test_a_scene_survives_json(case: str) -> None:
    scene = draw(CASES[case]())
    assert Scene.from_json(scene.to_json()) == scene


@pytest.mark.parametrize("text", ["[]", "{}", "not json", '{"schema": 99}', '{"schema": 1, "uid": 3}'])
def test_what_is_no_scene_is_refused_in_words(text: str) -> None:
    with pytest.raises(PictureError, match="Draw it again"):
        Scene.from_json(text)


@pytest.mark.parametrize("case", CASES)
def test_parts_do_not_overlap(case: str) -> None:
    sized = SizedSketch(sketch(CASES[case]()))
    boxes = list(sized.boxes(sized.layout()).values())
    for k, one in enumerate(boxes):
        for two in boxes[k + 1 :]:
            assert one.right <= two.x or two.right <= one.x or one.bottom <= two.y or two.bottom <= one.y


def test_the_text_table_of_the_silent_case() -> None:
    lines = table(draw(silent())).splitlines()
    assert lines[:8] == [
        " 1  start     before the first line",
        "              Nothing has run yet. Leaves, whose gradients will be kept: a.",
        " 2  forward   out = a.sigmoid()",
        "              out is computed; autograd records SigmoidBackward0 and saves out@v0.",
        " 3  forward   c = out.data",
        "              c is a second name for the bytes of out, without history, with a version counter of",
        "              its own.",
        " 4  inplace   c.zero_()",
    ]
    assert " 7 !backward  loss.backward()" in lines


# the legend


def test_the_legend_names_only_what_occurs() -> None:
    assert "wrong, no error" in words(picture(silent()), "legend")
    assert "torch raised" not in words(picture(silent()), "legend")
    assert "same bytes" not in words(picture(seed()), "legend")


def test_the_legend_says_nothing_early() -> None:
    assert "wrong, no error" not in words(picture(silent(), 3), "legend")
    assert "in-place write" not in words(picture(silent(), 2), "legend")


# bad input


def lone(name: str | None, **more: object) -> Recording:
    ref = replace(TensorRef(0, name, (2,), "float32", "cpu", True, True, 0, 0, (0, 8), 0), **more)  # type: ignore[arg-type]  # fields by name
    return Recording(frames=(Frame(0, "start", None, "start"),), tensors=(ref,))


def test_markup_in_a_name_stays_text() -> None:
    scene = draw(lone("<script>alert(1)</script>&\"'"))
    assert "<script" not in scene.body
    assert "<script>alert" in "".join(words(picture(lone("<script>alert(1)</script>"))))[:60] or "…" in scene.body


def test_a_name_of_300_characters_is_cut_and_told_in_full() -> None:
    scene = draw(lone("x" * 300))
    assert scene.width_px < 900
    assert "x" * 300 in scene.items[0].rows[0].values[0][1]


@pytest.mark.parametrize("name", ["\x00\x1b", "\ud800", "名前", "", "\ue000"])
def test_odd_characters_in_names_make_no_broken_svg(name: str) -> None:
    picture(lone(name))


@pytest.mark.parametrize(
    "more", [{"shape": (0,)}, {"shape": ()}, {"dtype": "complex64"}, {"counter": None}, {"shape": (10**9,) * 9}]
)
def test_odd_tensors_are_drawn(more: dict[str, object]) -> None:
    assert words(picture(lone("a", **more)))


def test_nothing_recorded_is_a_sentence() -> None:
    assert "No tensor was seen" in "".join(words(picture(Recording())))
    assert sketch(Recording()) == Sketch()


def test_too_large_a_graph_is_a_sentence_with_its_size() -> None:
    recording = chain(MOST_NODES + 1)
    shown = " ".join(words(picture(recording)))
    assert f"at most {MOST_NODES} Functions and {MOST_STEPS} steps: it has {MOST_NODES + 1} and " in shown
    assert "Record fewer lines" in shown


@pytest.mark.slow
def test_fifty_thousand_nodes_are_a_sentence_and_the_ends_of_the_story() -> None:
    recording = chain(50_000)
    scene = draw(recording)
    assert f"it has 50000 and {len(recording.frames)}" in " ".join(words(picture(recording)))
    assert len(scene.frames) < 200
    assert len(scene.to_json()) < 100_000
    left_out = [frame.text for frame in scene.frames if frame.title == "…"]
    assert left_out == [f"{len(recording.frames) - len(scene.frames) + 1} steps are left out here."]
    assert len(recording.frames) > MOST_TOLD


def test_a_very_long_story_tells_what_went_wrong_in_its_middle() -> None:
    recording = chain(MOST_NODES + 1)
    middle = len(recording.frames) // 2
    damage = replace(silent().diagnoses[0], frame=middle)
    scene = draw(replace(recording, diagnoses=(damage,)))
    assert "wrong" in {frame.severity for frame in scene.frames}


@pytest.mark.slow
def test_a_deep_graph_needs_no_recursion_and_fits_the_page() -> None:
    scene = draw(chain(1500))
    assert len(scene.levels) > 40
    for level in scene.levels:
        assert level.width_px <= 1210


def test_there_is_no_step_beyond_the_last() -> None:
    with pytest.raises(IndexError):
        still(draw(Recording()), 5, "")


def test_a_gradient_s_card_comes_with_the_gradient() -> None:
    """Until then it would tell, in a picture that asks, who gets one."""
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        (a * 2).sum().backward()
        with torch.no_grad():
            a -= 0.1 * a.grad
    scene = draw(rec.recording)
    (card,) = [item for item in scene.items if item.label == "a.grad"]
    assert scene.frames[card.born].phase == "backward"


def test_while_a_question_is_open_a_picture_is_as_high_as_what_is_shown() -> None:
    with seegrad.record() as rec:
        p = torch.ones(2)
        p *= 3
        p.sub_(1)
    asked = draw(rec.recording, ask(rec.recording, "versions"))
    assert 0 < asked.asked_px < asked.height_px / 2
    plain = draw(rec.recording)
    assert plain.asked_px == plain.height_px
