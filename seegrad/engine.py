"""An engine of the learner's own, in the same picture as torch's: `follow` looks on while it runs backward."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

from seegrad.capture.tables.frames import MAX_SIDE, rows
from seegrad.model.recording import (
    Edge,
    Frame,
    Gradient,
    Node,
    Phase,
    Place,
    Preview,
    RaisedError,
    Recording,
    SavedTensor,
    TensorRef,
)
from seegrad.words.errors import RecordingError, text_of
from seegrad.words.languages import _

NEEDED = ("data", "inputs", "op", "grad")
MOST_FOLLOWED = 5000  # steps; more of them are an engine that doesn't end
MADE, ACCUMULATE = "tensor", "AccumulateGrad"


def follow(steps: Iterable[tuple[Any, Any]], names: Mapping[str, Any] | None = None) -> Recording:
    """Run an engine's backward to its end, and draw what it did.

    `steps` yields a pair whenever the engine is done with a value: the value, and the gradient that had come to it. The
    first is the one that backward began with. A value has `data` (a number or a tensor), `inputs` (the values that it
    was made from), `op` (a name, `""` for a leaf) and `grad`; `saved`, where it has that, are the values that its rule
    reads, each alone or with the version that it had. `names` says what they are called: `globals()` will do.

    What the engine raises after its first step is part of the Recording.

    Raises RecordingError when no step comes or they don't end, when a value lacks one of these or is its own ancestor.

    >>> from types import SimpleNamespace as Value
    >>> a = Value(data=3.0, op="", inputs=(), grad=0.0)
    >>> square = Value(data=9.0, op="mul", inputs=(a, a), grad=0.0)
    >>> def backward(loss):
    ...     yield loss, 1.0
    ...     a.grad += 2 * a.data
    ...     yield a, 6.0
    >>> recording = follow(backward(square), {"a": a, "square": square})
    >>> [text for _, text in recording.code], [frame.op for frame in recording.frames]
    (['a = 3', 'square = mul(a, a)', 'backward(square)'], ['start', 'tensor', 'mul', 'mul', 'AccumulateGrad'])
    """
    running = _steps(steps)
    first = next(running, None)
    if first is None:
        raise RecordingError(
            _("The engine made no step. Does its backward `yield` each value that it is done with, and its gradient?")
        )
    drawing = Drawing(_ancestors(first[0]), names or {})
    error: Exception | None = None
    try:
        for value, gradient in itertools.chain([first], running):
            drawing.ran(value, gradient)
    except RecordingError:
        raise
    except Exception as raised:  # the learner's engine: whatever it raises is shown
        error = raised
    return drawing.recording(error)


def _steps(steps: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(steps, Iterable):
        said = _("An engine's steps can be gone through one by one; this is {what}.")
        raise RecordingError(said.format(what=type(steps).__name__))
    for number, step in enumerate(steps):
        if number == MOST_FOLLOWED:
            raise RecordingError(_("The engine made {count} steps, and no end is in sight.").format(count=number))
        if not isinstance(step, tuple) or len(step) != 2:
            said = _("A step of an engine is a pair, a value and the gradient that came to it; this is {what}.")
            raise RecordingError(said.format(what=type(step).__name__))
        yield step


def _ancestors(root: Any) -> list[Any]:
    """Everything that `root` was made from and itself, each after its inputs."""
    found: dict[int, Any] = {}
    open_now: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        value, inputs_done = waiting.pop()
        if inputs_done:
            open_now.discard(id(value))
            found[id(value)] = value
        elif id(value) in open_now:
            raise RecordingError(_("A value is made from itself: its `inputs` lead in a circle."))
        elif id(value) not in found:
            _demand_value(value)
            open_now.add(id(value))
            waiting += [(value, True), *((one, False) for one in reversed(value.inputs) if id(one) not in found)]
    return list(found.values())


def _demand_value(value: Any) -> None:
    """What has come is a value of an engine, and no gradient, name or tensor of torch's."""
    lacking = ", ".join(f"`{name}`" for name in NEEDED if not hasattr(value, name))
    if lacking:
        said = _("A value of an engine has `data`, `inputs`, `op` and `grad`; this {what} lacks {names}.")
        raise RecordingError(said.format(what=type(value).__name__, names=lacking))


@dataclass
class Drawing:
    """A Recording in the making: `values` in the order of the forward, then what backward did to them."""

    values: list[Any]
    names: Mapping[str, Any]
    numbers: dict[int, int] = field(init=False)  # of a value, by its identity: all of them live as long as this does
    labels: list[str] = field(init=False)
    frames: list[Frame] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = {id(value): number for number, value in enumerate(self.values)}
        called = {id(value): name for name, value in reversed(list(self.names.items())) if not name.startswith("_")}
        self.labels = [called.get(id(value), f"v{number}") for number, value in enumerate(self.values)]
        self.frames = [Frame(0, "start", None, "start")]
        for number, value in enumerate(self.values):
            self._frame(
                "forward",
                value.op if value.inputs else MADE,
                number,
                inputs=self._inputs(value),
                outputs=(number,),
                nodes=(number,),
                values=((number, _preview(value.data)),),
            )

    def ran(self, value: Any, gradient: Any) -> None:
        """Backward is done with `value`, to which `gradient` had come."""
        number = self.numbers.get(id(value))
        if number is None:
            said = _("The engine came to a value that backward's first one wasn't made from: {value}.")
            raise RecordingError(said.format(value=repr(value)))
        came = [Gradient(number, _preview(gradient), _shape(gradient))]
        if not value.inputs:
            came.append(Gradient(number, _preview(value.grad), _shape(value.grad), kept=True))
        self._frame(
            "backward",
            value.op if value.inputs else ACCUMULATE,
            len(self.values),
            running=number,
            gradients=tuple(came),
            backward=0,
            grad_enabled=False,
            keeps_graph=True,
        )

    def recording(self, error: Exception | None) -> Recording:
        """All of it, frozen."""
        raised = None
        if error is not None:
            text = text_of(error)
            self._frame("error", type(error).__name__, len(self.values), backward=0)
            raised = RaisedError(type(error).__name__, text, self.frames[-1].place, self.frames[-1].index)
        return Recording(
            frames=tuple(self.frames),
            tensors=tuple(map(self._tensor, range(len(self.values)))),
            nodes=tuple(map(self._node, range(len(self.values)))),
            code=tuple((number + 1, self._line(number)) for number in range(len(self.values) + 1)),
            root=len(self.values) - 1,
            error=raised,
            errors=(raised,) if raised else (),
        )

    def _frame(self, phase: Phase, op: str, line: int, **more: Any) -> None:
        place = Place("", line + 1, self._line(line))
        self.frames.append(Frame(len(self.frames), phase, place, op, **more))

    def _line(self, number: int) -> str:
        """A line of the program as the graph remembers it; the last one is backward's."""
        if number == len(self.values):
            return f"backward({self.labels[-1]})"
        value = self.values[number]
        inputs = ", ".join(self.labels[one] for one in self._inputs(value))
        return f"{self.labels[number]} = " + (f"{value.op}({inputs})" if value.inputs else _written(value.data))

    def _inputs(self, value: Any) -> tuple[int, ...]:
        return tuple(self.numbers[id(one)] for one in value.inputs)

    def _tensor(self, number: int) -> TensorRef:
        value = self.values[number]
        return TensorRef(
            id=number,
            name=self.labels[number],
            shape=_shape(value.data),
            dtype=str(getattr(value.data, "dtype", type(value.data).__name__)).removeprefix("torch."),
            device=str(getattr(value.data, "device", "cpu")),
            is_leaf=not value.inputs,
            requires_grad=True,
            storage=number,
            counter=number,
            span=(0, 1),
            frame=number + 1,
        )

    def _node(self, number: int) -> Node:
        value = self.values[number]
        inputs = self._inputs(value)
        if not inputs:
            return Node(number, ACCUMULATE, "accumulate_grad", number + 1, (), (), leaf=number)
        edges = tuple(Edge(slot, one, 0) for slot, one in enumerate(inputs))
        saved = tuple(self._saved(k, kept, len(inputs)) for k, kept in enumerate(getattr(value, "saved", ())))
        return Node(number, value.op, "", number + 1, edges, saved, inputs, (number,))

    def _saved(self, place: int, kept: Any, slots: int) -> SavedTensor:
        value, version = kept if isinstance(kept, tuple) else (kept, None)
        number = self.numbers.get(id(value))
        storage = len(self.values) + place if number is None else number
        return SavedTensor(f"saved[{place}]", number, version, storage, (0, 1), tuple(range(slots)))


def _shape(data: Any) -> tuple[int, ...]:
    return tuple(int(side) for side in getattr(data, "shape", ()))


def _preview(data: Any) -> Preview | None:
    """The numbers of a value or of its gradient; None where there are too many, or none."""
    shape = _shape(data)
    if isinstance(data, Number):
        return rows([data], 0)
    if not hasattr(data, "tolist") or len(shape) > 2 or any(side > MAX_SIDE for side in shape):
        return None
    return rows(data.tolist() if shape else [data.tolist()], len(shape))


def _written(data: Any) -> str:
    preview, shape = _preview(data), _shape(data)
    if preview is None:
        return f"… {list(shape)}"
    lines = ["[" + ", ".join(row) + "]" for row in preview]
    return preview[0][0] if not shape else lines[0] if len(shape) == 1 else "[" + ", ".join(lines) + "]"
