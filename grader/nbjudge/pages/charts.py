"""The report's pictures, by matplotlib: SVG without a script, every number also written beside its bar."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nbjudge.model import Kind

BLUE, GREY, INK = "#2b6cb0", "#a0aec0", "#1a202c"
KINDS: Mapping[Kind, tuple[str, str]] = {  # colour and hatch: never by colour alone
    Kind.PASSED: ("#2f855a", ""),
    Kind.PARTLY: ("#9ae6b4", "//"),
    Kind.FAILED: ("#c05621", ""),
    Kind.NOT_ANSWERED: ("#e2e8f0", ""),
    Kind.CRASHED: ("#742a2a", "xx"),
    Kind.TIMED_OUT: ("#553c9a", ".."),
    Kind.REFUSED: ("#4a5568", "\\\\"),
    Kind.GRADER_FAILURE: ("#000000", "++"),
    Kind.BY_HAND: ("#bee3f8", "--"),
}
WIDTH_IN, ROW_IN, EDGE_IN = 8.0, 0.34, 1.0
MOST_BINS = 20
STYLE: dict[Any, Any] = {"svg.hashsalt": "grader", "svg.fonttype": "path", "font.size": 9.5, "text.color": INK}


def distribution(points: Sequence[float], possible: float) -> str:
    """How many students reached how many points, as SVG."""
    bins = max(1, min(MOST_BINS, round(possible) or 1))
    figure, axes = _figure(2.6)
    width = (possible or 1) / bins
    places = Counter(min(bins - 1, int(reached / width)) for reached in points)
    bars = axes.bar(
        [(place + 0.5) * width for place in range(bins)],
        [places[place] for place in range(bins)],
        width,
        color=BLUE,
        edgecolor="white",
    )
    axes.bar_label(bars, [str(places[place] or "") for place in range(bins)])
    axes.set_xlabel("points")
    axes.set_ylabel("students")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(0, possible or 1)
    axes.margins(y=0.15)
    return _svg(figure)


def questions(counts: Mapping[str, Mapping[Kind, int]]) -> str:
    """How each question ended, as SVG: one bar a question, one piece an outcome."""
    figure, axes = _figure(EDGE_IN + ROW_IN * len(counts))
    names = list(counts)
    left = [0] * len(names)
    for kind, (colour, hatch) in KINDS.items():
        values = [counts[name].get(kind, 0) for name in names]
        if any(values):
            bars = axes.barh(names, values, left=left, color=colour, hatch=hatch, edgecolor="white", label=kind.value)
            dark = kind in (Kind.PASSED, Kind.FAILED, Kind.CRASHED, Kind.TIMED_OUT, Kind.REFUSED, Kind.GRADER_FAILURE)
            texts = [str(value) if value else "" for value in values]
            box: Any = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
            axes.bar_label(bars, texts, label_type="center", color="white" if dark else INK, bbox=box)
            left = [start + value for start, value in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("students")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.55 / max(1, len(names)) - 0.12), ncols=5, frameon=False)
    return _svg(figure)


def misconceptions(holders: Mapping[str, int], students: int) -> str:
    """How many students still hold each misconception, as SVG."""
    figure, axes = _figure(EDGE_IN + ROW_IN * len(holders))
    bars = axes.barh(
        list(holders), list(holders.values()), color=[BLUE if count else GREY for count in holders.values()]
    )
    axes.bar_label(bars, [f" {count}" for count in holders.values()])
    axes.invert_yaxis()
    axes.set_xlim(0, max(1, students))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"students of {students}")
    return _svg(figure)


def _figure(height_in: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with mpl.rc_context(STYLE):
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(text, metadata={"Date": None, "Creator": None})
    return text.getvalue()
