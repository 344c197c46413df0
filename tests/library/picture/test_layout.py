"""The Layout: everything in its column, nothing on top of anything, the same every time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.picture import graph_of, lstm, ours
from seegrad.model.scene import Layout, Shape
from seegrad.picture.layout import arrange, fold
from seegrad.picture.layout.coordinates import isotonic
from seegrad.picture.layout.fold import EDGE_PX
from seegrad.picture.layout.order import count_crossings, first_order
from seegrad.picture.layout.ranks import ranked

Graph = tuple[list[Shape], list[tuple[str, str]]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Acyclic graphs: a link always leads to a later shape."""
    count = draw(st.integers(1, 14))
    pixels = st.floats(10, 120)
    shapes = [Shape(f"n{k}", draw(pixels), draw(pixels), draw(pixels)) for k in range(count)]
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda ab: ab[0] < ab[1])
    links = draw(st.lists(pair, max_size=24)) if count > 1 else []
    return shapes, [(f"n{a}", f"n{b}") for a, b in links]


def rectangles(shapes: list[Shape], layout: Layout) -> dict[str, tuple[float, float, float, float]]:
    centres = dict(layout.centres)
    found = {}
    for shape in shapes:
        x, y = centres[shape.id]
        found[shape.id] = (x - shape.width_px / 2, y - shape.above_px, x + shape.width_px / 2, y + shape.below_px)
    return found


def assert_apart_and_inside(shapes: list[Shape], layout: Layout, gap_px: float) -> None:
    """No two shapes touch by more than rounding; none leaves the picture."""
    boxes = list(rectangles(shapes, layout).values())
    for k, (left, top, right, bottom) in enumerate(boxes):
        assert left >= -0.2
        assert top >= -0.2
        assert right <= layout.width_px + 0.2
        assert bottom <= layout.height_px + 0.2
        for other in boxes[k + 1 :]:
            apart = (
                right < other[0] + gap_px
                or other[2] < left + gap_px
                or bottom < other[1] + gap_px
                or other[3] < top + gap_px
            )
            assert apart


@given(graphs())
def test_nothing_overlaps_and_everything_is_inside(graph: Graph) -> None:
    shapes, links = graph
    layout = arrange(shapes, links)
    assert_apart_and_inside(shapes, layout, 0.2)


@given(graphs())
def test_links_run_to_the_right(graph: Graph) -> None:
    shapes, links = graph
    layout = arrange(shapes, links)
    boxes = rectangles(shapes, layout)
    for source, target in links:
        assert boxes[source][2] < boxes[target][0]
    for route in layout.routes:
        assert [x for x, _ in route] == sorted(x for x, _ in route)


@given(graphs())
def test_the_same_graph_gives_the_same_layout(graph: Graph) -> None:
    assert arrange(*graph) == arrange(*graph)


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0.1, 9)), min_size=1, max_size=8))
def test_isotonic_is_no_worse_than_any_other_sorted_list(points: list[tuple[float, float]]) -> None:
    wishes, weights = [a for a, _ in points], [b for _, b in points]
    ours = isotonic(wishes, weights)
    assert ours == sorted(ours)

    def cost(values: list[float]) -> float:
        return sum(w * (v - x) ** 2 for v, x, w in zip(values, wishes, weights, strict=True))

    mean = sum(w * x for x, w in zip(wishes, weights, strict=True)) / sum(weights)
    for other in (sorted(wishes), [mean] * len(wishes), [max(wishes[: k + 1]) for k in range(len(wishes))]):
        assert cost(ours) <= cost(other) + 1e-6


@given(graphs(), st.integers(0, 3))
def test_crossings_are_those_that_a_plain_count_finds(graph: Graph, start: int) -> None:
    shapes, links = graph
    pairs = [(int(a[1:]), int(b[1:])) for a, b in links]
    ranks = ranked(len(shapes), pairs, None)
    columns, position = first_order(ranks, start)
    plain = 0
    for column in columns[:-1]:
        lines = [(position[here], position[target]) for here in column for target in ranks.after[here]]
        plain += sum(a[0] < b[0] and a[1] > b[1] for a in lines for b in lines)
    assert count_crossings(ranks, columns, position) == plain


def chain() -> Graph:
    """The l1…l4 example: two products of l1 that meet again."""
    names = ["inp", "w1", "mul1", "l1", "w2", "add", "l2", "w3", "mul2", "l3", "mul3", "l4", "mean", "loss"]
    text = "inp>mul1 w1>mul1 mul1>l1 l1>add w2>add add>l2 l1>mul2 w3>mul2 mul2>l3 l2>mul3 l3>mul3 mul3>l4 l4>mean"
    return [Shape(name, 92, 40, 40) for name in names], [
        (a, b) for a, b in (link.split(">") for link in f"{text} mean>loss".split())
    ]


def test_the_example_has_no_crossing_and_a_straight_spine() -> None:
    layout = arrange(*chain(), "loss")
    y = {name: place[1] for name, place in layout.centres}
    assert layout.crossings == 0
    assert y["mul1"] == y["l1"]
    assert len({y[name] for name in ("mul3", "l4", "mean", "loss")}) == 1
    assert y["inp"] < y["w1"], "earlier arguments stand above later ones"


def test_a_leaf_stands_beside_its_first_use() -> None:
    x = {name: place[0] for name, place in arrange(*chain(), "loss").centres}
    assert x["w2"] == x["l1"] == x["w3"]


def test_a_circle_is_refused() -> None:
    shapes = [Shape("a", 10, 5, 5), Shape("b", 10, 5, 5)]
    with pytest.raises(ValueError, match="circle"):
        arrange(shapes, [("a", "b"), ("b", "a")])


def test_an_unknown_shape_is_named() -> None:
    with pytest.raises(ValueError, match="nobody"):
        arrange([Shape("a", 10, 5, 5)], [("a", "nobody")])


def test_nothing_has_no_size() -> None:
    assert arrange([], []) == Layout((), (), 0.0, 0.0)


def test_a_long_chain_needs_no_recursion() -> None:
    count = 20_000
    shapes = [Shape(f"n{k}", 10, 5, 5) for k in range(count)]
    layout = arrange(shapes, [(f"n{k}", f"n{k + 1}") for k in range(count - 1)])
    assert len({y for _, (_, y) in layout.centres}) == 1


def test_the_order_of_links_from_one_shape_does_not_change_the_size() -> None:
    shapes, links = chain()
    mixed = links[::-3] + links[1::3] + links[2::3]
    mixed += [link for link in links if link not in mixed]
    assert arrange(shapes, mixed, "loss").crossings == arrange(shapes, links, "loss").crossings


# folded


@given(graphs(), st.floats(200, 900))
def test_a_folded_layout_is_narrower_and_nothing_overlaps(graph: Graph, widest: float) -> None:
    shapes, links = graph
    flat = arrange(shapes, links)
    layout = fold(flat, shapes, widest)
    assert layout.width_px <= max(flat.width_px, max(shape.width_px for shape in shapes) + 2 * EDGE_PX) + 0.2
    assert_apart_and_inside(shapes, layout, 0.4)


@given(graphs(), st.floats(200, 900))
def test_a_folded_route_still_begins_and_ends_at_its_shapes(graph: Graph, widest: float) -> None:
    shapes, links = graph
    layout = fold(arrange(shapes, links), shapes, widest)
    centres = dict(layout.centres)
    for (source, target), route in zip(links, layout.routes, strict=True):
        assert (route[0], route[-1]) == (centres[source], centres[target])


def test_a_chain_is_folded_into_even_bands_and_each_line_turns_once() -> None:
    count = 20
    shapes = [Shape(f"n{k}", 90, 20, 20) for k in range(count)]
    links = [(f"n{k}", f"n{k + 1}") for k in range(count - 1)]
    layout = fold(arrange(shapes, links), shapes, 800)
    rows: dict[float, list[float]] = {}
    for _, (x, y) in layout.centres:
        rows.setdefault(y, []).append(x)
    assert len(rows) == 4
    assert all(len(row) >= 4 and row == sorted(row) for row in rows.values())
    assert sorted(len(route) for route in layout.routes) == [2] * 16 + [5] * 3


def test_what_fits_is_left_alone() -> None:
    flat = arrange(*chain(), "loss")
    assert fold(flat, chain()[0], flat.width_px) == flat


def test_the_benchmark_s_graphs_are_laid_out() -> None:
    graph = graph_of("two steps", lstm(2))
    assert ours(graph) > 0
    layout = arrange(graph.shapes, graph.links, graph.shapes[0].id)
    assert len(layout.centres) == len(graph.shapes) > 20
    assert len(layout.routes) == len(graph.links)
