"""Hand-made Recordings for tests of what follows capture: each is what `record()` gives for the code it shows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from seegrad.model.recording import (
    Diagnosis,
    Edge,
    Frame,
    Gradient,
    Node,
    Place,
    Preview,
    RaisedError,
    Recording,
    SavedTensor,
    TensorRef,
    Write,
)
from seegrad.words.phrases import phrase

FILE = "In [1]"
VECTOR: Preview = (("1", "2", "3"),)
SIGMOID: Preview = (("0.731", "0.881", "0.953"),)
ZEROS: Preview = (("0", "0", "0"),)
MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [3]], which is output 0 of Sigmoid, is at version 1; expected version 0 instead."
)


@dataclass
class Story:
    """Builds a Recording line by line."""

    code: list[str]
    frames: list[Frame] = field(default_factory=list)
    tensors: list[TensorRef] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)

    def tensor(
        self, name: str | None, *, leaf: bool = False, grad: bool = True, shape: tuple[int, ...] = (3,), **more: object
    ) -> int:
        number = len(self.tensors)
        ref = TensorRef(number, name, shape, "float32", "cpu", leaf, grad, number, number, (0, 12), len(self.frames))
        self.tensors.append(replace(ref, **more))  # type: ignore[arg-type]  # fields by name
        return number

    def place(self, line: int) -> Place:
        return Place(FILE, line, self.code[line - 1])

    def frame(self, phase: str, line: int | None, op: str, **more: object) -> int:
        number = len(self.frames)
        frame = Frame(number, phase, None if line is None else self.place(line), op)  # type: ignore[arg-type]  # a literal
        self.frames.append(replace(frame, **more))  # type: ignore[arg-type]  # fields by name
        return number

    def node(self, name: str, op: str, edges: list[tuple[int | None, int]], **more: object) -> int:
        number = len(self.nodes)
        made = tuple(Edge(slot, target, nr) for slot, (target, nr) in enumerate(edges))
        self.nodes.append(replace(Node(number, name, op, len(self.frames), made, ()), **more))  # type: ignore[arg-type]  # fields by name
        return number

    def leaf_node(self, tensor: int) -> int:
        return self.node("torch::autograd::AccumulateGrad", "", [], leaf=tensor)

    def recording(self, **more: object) -> Recording:
        made = Recording(
            tuple(self.frames),
            tuple(self.tensors),
            tuple(self.nodes),
            tuple(self.writes),
            code=tuple(enumerate(self.code, 1)),
            code_file=FILE,
        )
        return replace(made, **more)  # type: ignore[arg-type]  # fields by name


def overwritten_alias(route: str) -> Recording:
    """Chapter 05: `c = out.data` (silent) or `c = out.detach()` (raises), then `c.zero_()`."""
    shared = route == "detach"
    call = "out.detach()" if shared else "out.data"
    story = Story(["out = a.sigmoid()", f"c = {call}", "c.zero_()", "loss = out.sum()", "loss.backward()"])
    a = story.tensor("a", leaf=True)
    story.frame("start", None, "", values=((a, VECTOR),), versions=((a, 0),))
    out = story.tensor("out")
    leaf = story.leaf_node(a)
    saved = SavedTensor("result", out, 0, out, (0, 12), (0,))
    sigmoid = story.node("SigmoidBackward0", "sigmoid", [(leaf, 0)], saved=(saved,), inputs=(a,), outputs=(out,))
    story.frame(
        "forward",
        1,
        "sigmoid",
        inputs=(a,),
        outputs=(out,),
        nodes=(leaf, sigmoid),
        values=((out, SIGMOID),),
        versions=((out, 0),),
    )
    c = story.tensor("c", leaf=True, grad=False, storage=out, counter=out if shared else 9, alias_of=out, route=route)
    story.frame("forward", 2, route, inputs=(out,), outputs=(c,), values=((c, SIGMOID),), versions=((c, 0),))
    story.writes.append(Write(0, 3, c, out, (0, 12), "zero_", story.place(3), 0, 1))
    moved = ((c, 1), (out, 1 if shared else 0))
    story.frame(
        "inplace", 3, "zero_", inputs=(c,), outputs=(c,), writes=(0,), values=((c, ZEROS), (out, ZEROS)), versions=moved
    )
    loss = story.tensor("loss", shape=())
    total = story.node("SumBackward0", "sum", [(sigmoid, 0)], inputs=(out,), outputs=(loss,))
    story.frame(
        "forward",
        4,
        "sum",
        inputs=(out,),
        outputs=(loss,),
        nodes=(total,),
        values=((loss, (("0",),)),),
        versions=((loss, 0),),
    )
    ones = Gradient(out, (("1", "1", "1"),), (3,))
    story.frame("backward", 5, "backward", running=total, gradients=(Gradient(loss, (("1",),), ()),), backward=0)
    story.frame("backward", 5, "backward", running=sigmoid, gradients=(ones,), backward=0)
    if shared:
        return _raising(story, sigmoid, out, loss)
    stored = (Gradient(a, ZEROS, (3,)), Gradient(a, ZEROS, (3,), True))
    story.frame("backward", 5, "backward", running=leaf, gradients=stored, backward=0)
    silent = Diagnosis(
        "silent_corruption",
        "wrong",
        False,
        story.place(3),
        story.place(1),
        "SigmoidBackward0",
        "out",
        0,
        0,
        "data",
        node_id=sigmoid,
        tensor_id=out,
        tag=(phrase("v{saved} saved = v{now} now,", saved=0, now=0), phrase("but the numbers changed")),
        write_id=0,
        frame=6,
    )
    return story.recording(diagnoses=(silent,), root=loss)


def _raising(story: Story, sigmoid: int, out: int, loss: int) -> Recording:
    last = story.frame("error", 5, "backward", running=sigmoid, backward=0)
    raised = Diagnosis(
        "saved_tensor_modified",
        "error",
        True,
        story.place(3),
        story.place(1),
        "SigmoidBackward0",
        "out",
        0,
        1,
        "detach",
        node_id=sigmoid,
        tensor_id=out,
        tag=(phrase("v{saved} saved ≠ v{now} now", saved=0, now=1),),
        write_id=0,
        frame=last,
    )
    error = RaisedError("RuntimeError", MODIFIED, story.place(5), last, sigmoid)
    return story.recording(diagnoses=(raised,), error=error, root=loss)
