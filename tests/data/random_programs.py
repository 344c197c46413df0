"""Random torch programs as source text, one op a line, and what torch itself says of them.

Two witnesses, neither of which knows the recorder. `as_torch_says` runs a program line by line and reads, after each
line, every counter and every byte that the graph keeps. `true_gradients` runs it with each saved tensor copied at the
moment of saving: the gradients that the program would have if nothing had been written afterwards.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

MATRIX, VECTOR = (2, 2), (2,)

UNARY = ("{a}.sigmoid()", "{a}.tanh()", "{a}.sin()", "{a}.cos()", "{a} * 1.5", "{a} + 0.3")
UNARY += ("{a}.square()", "{a}.clone()", "torch.exp(-{a} * {a})", "{a}.sinh().cos()", "torch.nn.functional.silu({a})")
BINARY = ("{a} * {b}", "{a} + {b}", "{a} - {b} * 0.3", "torch.lerp({a}, {b}, 0.3)", "{a} / ({b}.square() + 1)")
BINARY += ("torch.atan2({a}, {b} + 2)", "torch.addcmul({a}, {b}, {a})", "torch.stack(({a}, {b})).mean(0)")
KINKED = (
    "{a}.relu()",
    "{a}.softmax(-1)",
    "torch.maximum({a}, {b})",
    "torch.where({a} > {b}, {a}, {b})",
    "{a}.clamp(-0.5, 0.5)",
)
ROWS = ("{a}[0]", "{a}[:, 1]", "{a}.diagonal()", "{a}[1].view_as({a}[1])")
SAME = ("{a}.t()", "{a}[:]", "{a}.view_as({a})", "{a}.detach()", "{a}.data", "{a}.expand_as({a})")

WRITES = ("{a}.mul_(1.7)", "{a}.add_(0.4)", "{a}.sigmoid_()", "{a}.sin_()", "{a}.zero_()", "{a} += {b}", "{a} *= {b}")
WRITES += ("{a}.copy_({b})", "{a}.mul_({b})", "{a}.sub_({b}, alpha=0.5)", "{a}.detach().mul_(1.2)", "{a}.fill_(0.6)")
PARTS = ("{a}[0] = {v}", "{a}[:, 0] *= 2", "{a}[1].mul_(3)", "{a}[0, 1] = 0.9", "{a}.diagonal().add_(0.2)")
WRITES += ("torch.nn.functional.silu({a}, inplace=True)", "torch.mul({b}.detach(), 1.1, out={a}.detach())")
WRITES += ("{a}.detach().numpy()[...] += 0.1", "torch._foreach_mul_([{a}], 1.2)", "torch.nn.init.constant_({a}, 0.7)")
UNSEEN = ("{a}.data.mul_(1.3)", "{a}.data[0] -= 0.7", "{a}.data = {b}.data * 0.9", "{a}.data.add_({b}.data)")


@dataclass(frozen=True)
class Source:
    """A program's text; `kinked` where a gradient may be 0 by itself, so that a wrong saved value does no harm."""

    text: str
    kinked: bool

    @property
    def lines(self) -> list[str]:
        """Its statements."""
        return self.text.splitlines()


@dataclass
class _Writer:
    draw: Callable[[Any], Any]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    grown: set[str] = field(default_factory=set)  # variables that (most likely) have a graph
    kinked: bool = False

    def variable(self, *shapes: tuple[int, ...], grown: bool = False) -> str:
        """A variable of one of these shapes, the younger the likelier."""
        names = [name for name, shape in self.shapes.items() if shape in (shapes or (MATRIX, VECTOR))]
        names = [name for name in names if name in self.grown] or names if grown else names
        back = self.draw(st.integers(0, len(names) - 1))
        return names[-1 - back]

    def fresh(self, shape: tuple[int, ...]) -> str:
        """A new variable, sometimes an old name again."""
        old = [name for name, each in self.shapes.items() if each == shape and name[0] == "v"]
        name = self.draw(st.sampled_from(old)) if old and self.draw(st.integers(0, 9)) == 0 else f"v{len(self.shapes)}"
        self.shapes[name] = shape
        return name

    def leaf(self, number: int, trained: bool) -> None:
        """A leaf: its numbers are no round ones, so that nothing is equal by chance."""
        name = f"{'w' if trained else 'c'}{number}"
        values = [[round(math.sin(3 * number + 1.7 * i + 0.9 * j) * 1.1, 3) for j in (0, 1)] for i in (0, 1)]
        self.shapes[name] = MATRIX
        self.grown |= {name} if trained else set()
        self.lines.append(f"{name} = torch.tensor({values}, dtype=torch.float64, requires_grad={trained})")

    def compute(self) -> None:
        """A line that makes a tensor."""
        kinds = [UNARY, BINARY, ROWS, SAME, KINKED, ("{a} @ {b}",), ("{a}.unbind(0)[1]", "{a}.split(1)[0][0]")]
        template = self.draw(st.sampled_from(self.draw(st.sampled_from([UNARY, BINARY, *kinds]))))
        vector = template in ROWS or "unbind" in template or "split" in template
        rows = vector or template in SAME or "@" in template
        a = self.variable(MATRIX, grown=True) if rows else self.variable(grown=self.draw(st.booleans()))
        shape = self.shapes[a]
        b = self.variable(shape if "@" not in template else MATRIX)
        text = template.format(a=a, b=b)
        quiet = "with torch.no_grad(): " if self.draw(st.integers(0, 15)) == 0 else ""
        ends = quiet or ".data" in template or ".detach" in template
        grown = not ends and ({a} | ({b} if "{b}" in template else set())) & self.grown
        target = self.fresh(VECTOR if vector else shape)
        self.grown = self.grown - {target} | ({target} if grown else set())
        self.kinked |= template in KINKED
        self.lines.append(f"{quiet}{target} = {text}")

    def write(self) -> None:
        """A line that writes a tensor in place."""
        template = self.draw(st.sampled_from(self.draw(st.sampled_from([WRITES, PARTS, UNSEEN, UNSEEN]))))
        a = self.variable(MATRIX) if template in PARTS or template in UNSEEN else self.variable()
        vectors = [name for name, shape in self.shapes.items() if shape == VECTOR]
        v = self.draw(st.sampled_from(vectors)) if vectors else "0.8"
        text = template.format(a=a, b=self.variable(self.shapes[a]), v=v)
        rarely = 1 if a[0] == "w" else 12  # a leaf that is written with grad mode on ends the program there
        quiet = "with torch.no_grad(): " if self.draw(st.integers(0, 15)) >= rarely else ""
        self.lines.append(f"{quiet}{text}")

    def backward(self) -> None:
        """A loss of some variables, and its backward."""
        count = self.draw(st.integers(1, 3))
        terms = [f"({self.variable(grown=True)} * {0.7 + 0.3 * i:.1f}).sum()" for i in range(count)]
        keep = self.draw(st.sampled_from(["", "retain_graph=True"]))
        self.lines.append(f"loss = {' + '.join(terms)}")
        self.lines.append(f"loss.backward({keep})")


@st.composite
def sources(draw: Callable[[Any], Any]) -> Source:
    """A random program."""
    writer = _Writer(draw)
    for number in range(draw(st.integers(1, 3))):
        writer.leaf(number, trained=number == 0 or draw(st.booleans()))
    for _ in range(draw(st.integers(2, 14))):
        step = draw(st.integers(0, 15))
        writer.compute() if step < 9 else writer.write() if step < 15 else writer.backward()
    writer.backward()
    return Source("\n".join(writer.lines) + "\n", writer.kinked)


# -- what torch says


Counters = dict[str, tuple[torch.Tensor, int, int]]
"""Variable → what it holds, its version, the line that moved it last."""


@dataclass
class Birth:
    """What a Node kept when it was made, and the first line that touched it since."""

    line: int
    versions: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, torch.Tensor] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)  # attribute → line that moved its version
    changed: dict[str, int] = field(default_factory=dict)  # attribute → line that changed its bytes, version or not
    runs: list[int] = field(default_factory=list)  # lines of the backward calls that ran it to its end


@dataclass(frozen=True)
class Account:
    """How a program ended. `culprits`: the lines that may rightly be named; none where a Node hides what it saves."""

    error: tuple[str, str] | None
    line: int | None  # where it was raised
    victim: int | None
    culprits: frozenset[int]
    gradients: tuple[Any, ...]
    changed: frozenset[int]  # lines that changed bytes of a saved tensor behind its version


def as_torch_says(source: Source) -> Account:
    """Run a program line by line and read the graph after each."""
    space: dict[str, Any] = {"torch": torch}
    running: list[tuple[str, Birth]] = []
    counters: Counters = {}
    for number, line in enumerate(source.lines, 1):
        handles = list(listen(space, running, number)) if ".backward(" in line else []
        try:
            exec(compile(line, "<line>", "exec"), space)  # noqa: S102  # the program is made above
        except Exception as error:
            written = {line for _, _, line in counters.values()}
            return told(error, number, running, written, as_it_runs(source))
        finally:
            for handle in handles:
                handle.remove()
            running.clear()
        look(space, number)
        count(space, counters, number)
    changed = {line for birth in all_births(space) for line in birth.changed.values()}
    return Account(None, None, None, frozenset(), as_it_runs(source), frozenset(changed))


def nodes_behind(space: dict[str, Any]) -> Iterator[Any]:
    """Every Node that the variables lead to."""
    waiting, seen = [], set()
    for value in space.values():
        if isinstance(value, torch.Tensor) and value.requires_grad:
            with contextlib.suppress(RuntimeError):  # a stale view has no Node that torch would show
                waiting.append(value.grad_fn)
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting.extend(target for target, _ in node.next_functions)


def all_births(space: dict[str, Any]) -> list[Birth]:
    """What is known of the Nodes."""
    return [node.metadata["birth"] for node in nodes_behind(space) if "birth" in node.metadata]


def kept(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(attribute, tensor) for what a Node keeps, unchecked."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            slot = getattr(node, name)
            for index, saved in enumerate(slot if isinstance(slot, tuple | list) else (slot,)):
                if saved is not None and isinstance(saved.data, torch.Tensor):
                    yield f"{name}{index}", saved.data


def look(space: dict[str, Any], line: int) -> None:
    """Note which Nodes are new and which saved tensors this line has touched."""
    for node in nodes_behind(space):
        birth = node.metadata.get("birth")
        if birth is None:
            birth = node.metadata["birth"] = Birth(line)
            for name, tensor in kept(node):
                birth.versions[name], birth.bytes[name] = tensor._version, tensor.detach().clone()
            continue
        for name, tensor in kept(node):
            if tensor._version != birth.versions[name]:
                birth.moved.setdefault(name, line)
            elif tensor.shape != birth.bytes[name].shape or not torch.equal(tensor.detach(), birth.bytes[name]):
                birth.changed.setdefault(name, line)


def listen(space: dict[str, Any], running: list[tuple[str, Birth]], line: int) -> Iterator[Any]:
    """Hooks that say which Node is running; the caller takes them off."""
    for node in list(nodes_behind(space)):
        birth, name = node.metadata.get("birth") or Birth(line), node.name()

        def begin(_: Any, birth: Birth = birth, name: str = name) -> None:
            running.append((name, birth))

        def end(_: Any, __: Any, birth: Birth = birth, name: str = name) -> None:
            running.remove((name, birth))
            birth.runs.append(line)

        yield node.register_prehook(begin)
        yield node.register_hook(end)


def count(space: dict[str, Any], counters: Counters, line: int) -> None:
    """Keep for each variable its version and the line that moved it last."""
    for name, value in space.items():
        if isinstance(value, torch.Tensor):
            known, version, _ = counters.get(name, (None, 0, 0))
            if known is not value or version != value._version:
                counters[name] = (value, value._version, line)


def told(
    error: Exception, line: int, running: list[tuple[str, Birth]], written: set[int], gradients: tuple[Any, ...]
) -> Account:
    """The account of a program that raised; `written` are the lines that were the last to write some storage."""
    _, birth = running[-1] if running else ("", Birth(line))
    text = str(error)
    culprits = {line}
    if "modified by an inplace operation" in text:
        culprits = set(birth.moved.values())
    elif "a second time" in text:
        first = max(birth.runs, default=line)
        since = [number for number in written if first < number < line]  # what it was computed with may be another now:
        culprits = {first, *range(min(since, default=line) + 1, line)}  # then it's to be computed anew, further down
    elif "another view of its base has been modified" in text:
        culprits = written
    return Account(
        (type(error).__name__, text),
        line,
        birth.line if running else None,
        frozenset(culprits),
        gradients,
        frozenset(),
    )


def gradients(space: dict[str, Any]) -> tuple[Any, ...]:
    """The `.grad` of every leaf."""
    return tuple(
        (name, None if value.grad is None else value.grad.clone())
        for name, value in sorted(space.items())
        if name[0] == "w" and isinstance(value, torch.Tensor) and value.is_leaf
    )


def as_it_runs(source: Source) -> tuple[Any, ...]:
    """Gradients of a program that nobody looks into.

    Whoever asks a view for its Node, once its base was written, makes torch build another: gradients then add up in
    another order, and may differ in their last bit.
    """
    space: dict[str, Any] = {"torch": torch}
    with contextlib.suppress(Exception):  # the account has it
        exec(compile(source.text, "<as it runs>", "exec"), space)  # noqa: S102  # the program is made above
    return gradients(space)


def true_gradients(source: Source) -> tuple[Any, ...]:
    """Gradients with each saved tensor as it was when it was saved."""
    space: dict[str, Any] = {"torch": torch}
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda kept: kept):
        exec(compile(source.text, "<copied>", "exec"), space)  # noqa: S102  # the program is made above
    return gradients(space)


def alike(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Equal gradients, up to the last bits: a copy may have other strides."""
    if [name for name, _ in first] != [name for name, _ in second]:
        return False
    return all(
        (a is None) == (b is None) and (a is None or torch.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True))
        for (_, a), (_, b) in zip(first, second, strict=True)
    )
