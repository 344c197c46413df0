"""What a picture costs: laying out a graph, against other engines in the same run, and one step of the player.

    python -m benchmarks.picture [ROUNDS]

All sides lay out the same grad_fn graph with the same box sizes, taking turns; the figure is the median CPU time of
the layout alone, and its ratio to ours. Peers are optional: `cd benchmarks/peers && npm ci` brings dagre, ELK and
graphviz as WebAssembly; a `dot` on the PATH is measured too.
"""

from __future__ import annotations

import gc
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import sync_playwright

import seegrad
from seegrad.display.page import write_page
from seegrad.model.recording import Recording
from seegrad.model.scene import Shape
from seegrad.picture import draw
from seegrad.picture.layout import arrange
from seegrad.picture.sketch import collapse, sketch
from seegrad.picture.svg.sizes import SizedSketch

ROUNDS = 3
PATIENCE_S = 90  # of CPU time for one layout
PEERS = Path(__file__).parent / "peers"
STEPS = 40
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of backward Functions, ready to be laid out."""

    name: str
    shapes: tuple[Shape, ...]
    links: tuple[tuple[str, str], ...]


def graph_of(name: str, result: torch.Tensor) -> Graph:
    """The graph behind a result, as torch holds it."""
    numbers: dict[Any, int] = {}
    waiting: list[Any] = [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node not in numbers:
            numbers[node] = len(numbers)
            waiting.extend(target for target, _ in node.next_functions if target is not None)
    shapes = tuple(Shape(f"n{k}", max(64.0, 6.35 * len(node.name()) + 16), 20, 20) for node, k in numbers.items())
    links = tuple(
        (f"n{numbers[target]}", f"n{k}") for node, k in numbers.items() for target, _ in node.next_functions if target
    )
    return Graph(name, shapes, links)


def encoder(layers: int) -> torch.Tensor:
    """A TransformerEncoder's result; f32[2, 5, 16] → f32[]."""
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)(torch.randn(2, 5, 16)).mean()  # type: ignore[no-any-return]  # torch types forward as Any


def lstm(steps: int) -> torch.Tensor:
    """An LSTMCell unrolled, its weights shared by all steps; f32[steps, 3, 4] → f32[]."""
    cell, h, c = torch.nn.LSTMCell(4, 8), torch.zeros(3, 8), torch.zeros(3, 8)
    for x in torch.randn(steps, 3, 4):
        h, c = cell(x, (h, c))
    return h.mean()


def ours(graph: Graph) -> float:
    """CPU milliseconds of our layout."""
    gc.collect()
    start = time.process_time()
    arrange(graph.shapes, graph.links, graph.shapes[0].id)
    return 1e3 * (time.process_time() - start)


def by_node(engine: str) -> Callable[[Graph], float | None]:
    """A side that runs one of the engines under benchmarks/peers."""

    def run(graph: Graph) -> float | None:
        nodes = [{"id": s.id, "width": s.width_px, "height": s.above_px + s.below_px} for s in graph.shapes]
        text = json.dumps({"nodes": nodes, "edges": graph.links})
        done = _finished(["node", "--max-old-space-size=4096", str(PEERS / "layout.mjs"), engine], text)
        return None if done is None else float(json.loads(done)["cpu_ms"])

    return run


def by_dot(graph: Graph) -> float | None:
    """CPU milliseconds of graphviz's `dot`, its start included."""
    import resource

    boxes = [f"{s.id} [width={s.width_px / 72:.3f} height={(s.above_px + s.below_px) / 72:.3f}]" for s in graph.shapes]
    text = "\n".join(["digraph{rankdir=LR;node[shape=box fixedsize=true label=x]", *boxes])
    text += "\n" + "\n".join(f"{a}->{b}" for a, b in graph.links) + "}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = _finished(["dot", "-Tplain"], text)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return None if done is None else 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _finished(command: list[str], text: str) -> str | None:
    """What a command printed, None when it failed or took too long."""
    limited = ["prlimit", f"--cpu={PATIENCE_S}", *command]
    done = subprocess.run(limited, input=text, capture_output=True, text=True, check=False)  # noqa: S603  # our own command
    return done.stdout if done.returncode == 0 else None


def sides() -> dict[str, Callable[[Graph], float | None]]:
    """Ours, and the peers that are installed."""
    found: dict[str, Callable[[Graph], float | None]] = {"ours": ours}
    if (PEERS / "node_modules").exists() and shutil.which("node"):
        found |= {engine: by_node(engine) for engine in ("dagre", "elk", "graphviz")}
    else:
        print("dagre, ELK and graphviz aren't installed: cd benchmarks/peers && npm ci")
    if shutil.which("dot"):
        found["dot"] = by_dot
    return found


def compare(graph: Graph, rounds: int) -> None:
    """One line a side; a side that was out of patience once isn't asked again."""
    print(f"{graph.name}: {len(graph.shapes)} Nodes, {len(graph.links)} Edges")
    running = sides()
    times: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(rounds):
        for name, side in list(running.items()):
            took = side(graph)
            if took is None:
                del running[name]
            else:
                times[name].append(took)
    base = statistics.median(times["ours"])
    for name, each in times.items():
        if each:
            middle = statistics.median(each)
            print(f"  {name:<10} {middle:9.0f} ms   ×{middle / base:6.1f}", flush=True)
        else:
            print(f"  {name:<10} failed, or took more than {PATIENCE_S} s of CPU time", flush=True)


def recorded(layers: int) -> Recording:
    """A Recording of an encoder, forward and backward."""
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    x = torch.randn(2, 5, 16)
    with seegrad.record() as rec:
        model(x).mean().backward()
    return rec.recording


def whole_picture(recording: Recording) -> None:
    """The stages from Recording to Scene."""
    start = time.process_time()
    parts = sketch(recording)
    sketched = time.process_time()
    levels = collapse(recording, parts)
    grouped = time.process_time()
    for level in levels:
        SizedSketch(level.sketch).layout()
    placed = time.process_time()
    text = draw(recording).to_json()
    drawn = time.process_time()
    print(f"encoder of {len(recording.nodes)} Nodes, {len(recording.frames)} steps, {len(levels)} levels:")
    for name, took in (
        ("what is in it", sketched - start),
        ("levels", grouped - sketched),
        ("layout of all levels", placed - grouped),
        ("all, with drawing and JSON", drawn - placed),
    ):
        print(f"  {name:<28} {1e3 * took:7.0f} ms")
    print(f"  {'Scene':<28} {len(text) / 1000:7.0f} kB")


def steps_in_a_browser(recording: Recording) -> None:
    """CPU time of the page's main thread for one step, with style, layout and paint, from Chromium's own counters.

    First with all boxes closed, then with the second one open and a box inside it; forward steps and backward ones.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("No Chromium here: the player isn't measured.")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = write_page(recording, Path(folder) / "page.html")
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGS)
        page = browser.new_page(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
        page.goto(path.as_uri())
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def busy_s() -> float:
            metrics = session.send("Performance.getMetrics")["metrics"]
            return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

        for boxes in ("closed", "open"):
            if boxes == "open":
                page.locator(".bd").nth(1).click()
                page.locator(".frame ~ g .bd").first.click()
            took = []
            for key in ["Home", *["ArrowRight"] * STEPS, "End", *["ArrowLeft"] * STEPS]:
                page.locator(".sg-tl input").focus()
                before = busy_s()
                page.keyboard.press(key)
                page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                took += [1e3 * (busy_s() - before)] if key.startswith("Arrow") else []
            parts = page.locator("[data-st]").count()
            middle, worst = statistics.median(took), max(took)
            print(f"one step with paint, boxes {boxes}, {parts} parts: median {middle:.1f} ms, worst {worst:.1f} ms")
        browser.close()


def main() -> None:
    """Print everything."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    for graph in (graph_of("12-layer encoder", encoder(12)), graph_of("LSTM, 75 steps", lstm(75))):
        compare(graph, rounds)
    for steps in (75, 150, 300, 660):
        graph = graph_of(f"LSTM, {steps} steps", lstm(steps))
        took = min(ours(graph) for _ in range(rounds))
        print(
            f"{graph.name}: {len(graph.shapes)} Nodes in {took:.0f} ms, {1e3 * took / len(graph.shapes):.0f} µs a Node"
        )
    recording = recorded(19)
    whole_picture(recording)
    steps_in_a_browser(recording)


if __name__ == "__main__":
    main()
