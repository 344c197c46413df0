"""What a Recording holds, against torch's own graph, gradients and counters."""

from __future__ import annotations

import contextlib
import ctypes
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch

import seegrad
from seegrad.capture.tables.frames import preview
from seegrad.model.recording import Frame, Recording, TensorRef
from seegrad.words.errors import RecordingError
from tests.data.programs import programs


@pytest.fixture(autouse=True)
def own_errors_are_raised(monkeypatch):
    monkeypatch.setenv("SEEGRAD_RAISE_OWN_ERRORS", "1")


def named(recording: Recording, name: str) -> TensorRef:
    (found,) = [t for t in recording.tensors if t.name == name]
    return found


def phases(recording: Recording) -> list[tuple[str, str]]:
    return [(frame.phase, frame.op) for frame in recording.frames]


def gradients(recording: Recording, frame: Frame) -> list[tuple[str | None, object, bool]]:
    return [(recording.tensors[g.tensor].name, g.preview, g.kept) for g in frame.gradients]


@pytest.fixture
def l1_to_l4() -> Recording:
    inp = torch.ones([2, 2], requires_grad=True)
    w1, w2, w3 = (torch.tensor(v, requires_grad=True) for v in (2.0, 3.0, 4.0))
    with seegrad.record() as rec:
        l1 = inp * w1
        l2 = l1 + w2
        l3 = l1 * w3
        l4 = l2 * l3
        l4.retain_grad()
        loss = l4.mean()
        loss.backward()
    return rec.recording


def test_one_frame_an_event(l1_to_l4: Recording) -> None:
    assert phases(l1_to_l4) == [
        ("start", "start"),
        ("forward", "mul"),
        ("forward", "add"),
        ("forward", "mul"),
        ("forward", "mul"),
        ("forward", "mean"),
        ("backward", "MeanBackward0"),
        ("backward", "MulBackward0"),
        ("backward", "MulBackward0"),
        ("backward", "AccumulateGrad"),
        ("backward", "AddBackward0"),
        ("backward", "AccumulateGrad"),
        ("backward", "MulBackward0"),
        ("backward", "AccumulateGrad"),
        ("backward", "AccumulateGrad"),
    ]
    assert [frame.index for frame in l1_to_l4.frames] == list(range(15))


def test_the_graph_is_torch_s() -> None:
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        c = (a * b).exp() + a
        loss = c.sum()
    by_node, waiting, edges = {}, [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        by_node[node] = node.name().rpartition("::")[2]
        edges |= {
            (by_node[node], s, t.name().rpartition("::")[2], o) for s, (t, o) in enumerate(node.next_functions) if t
        }
        waiting += [t for t, _ in node.next_functions if t is not None]
    ours = rec.recording.nodes
    assert sorted(n.name for n in ours) == sorted(by_node.values())
    assert {
        (n.name, e.slot, ours[e.target].name, e.output_nr) for n in ours for e in n.edges if e.target is not None
    } == edges
    assert all(e.target < n.id for n in ours for e in n.edges if e.target is not None)


def test_inputs_outputs_and_what_a_saved_tensor_serves(l1_to_l4: Recording) -> None:
    node = next(n for n in l1_to_l4.nodes if n.op == "mul" and n.outputs == (named(l1_to_l4, "l4").id,))
    names = [l1_to_l4.tensors[i].name for i in node.inputs if i is not None]
    assert names == ["l2", "l3"]
    assert {(s.attr, l1_to_l4.tensors[s.tensor or 0].name, s.serves) for s in node.saved} == {
        ("self", "l2", (1,)),
        ("other", "l3", (0,)),
    }


def test_an_input_without_gradient_stays_at_its_slot() -> None:
    x, w = torch.ones(2), torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        y = x * w
    node = rec.recording.nodes[-1]
    assert [rec.recording.tensors[i].name for i in node.inputs if i is not None] == ["x", "w"]
    assert (node.edges[0].target, y.grad_fn.next_functions[0][0]) == (None, None)


def test_gradients_flow_and_are_kept(l1_to_l4: Recording) -> None:
    quarter, mul = (("0.25", "0.25"), ("0.25", "0.25")), l1_to_l4.frames[7]
    assert gradients(l1_to_l4, mul) == [("l4", quarter, False), ("l4", quarter, True)]
    kept = {name: value for frame in l1_to_l4.frames for name, value, is_kept in gradients(l1_to_l4, frame) if is_kept}
    assert kept == {
        "l4": quarter,
        "w1": (("28",),),
        "w2": (("8",),),
        "w3": (("10",),),
        "inp": (("14", "14"), ("14", "14")),
    }


def test_what_is_kept_adds_up() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        for _ in range(2):
            (a * 3).sum().backward()
    kept = [g.preview for frame in rec.frames for g in frame.gradients if g.kept]
    assert kept == [(("3", "3"),), (("6", "6"),)]
    assert [frame.backward for frame in rec.frames if frame.op == "AccumulateGrad"] == [0, 1]


def test_autograd_grad_hands_its_gradients_back() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        g = torch.autograd.grad((a * 3).sum(), a)[0]
    last = rec.frames[-1]
    assert gradients(rec.recording, last) == [("a", (("3", "3"),), False)]
    assert [rec.recording.tensors[i].name for i in last.outputs] == ["g"]
    assert g.tolist() == [3, 3]
    assert a.grad is None


def test_storage_counter_and_route_follow_torch() -> None:
    a = torch.arange(6.0).reshape(2, 3).requires_grad_()
    with seegrad.record() as rec:
        out = a * 1
        view, detached, data = out[1], out.detach(), out.data
        other = out.clone()
        made = {"out": out, "view": view, "detached": detached, "data": data, "other": other}
    refs = {name: named(rec.recording, name) for name in made}
    assert {name: ref.route for name, ref in refs.items()} == {
        "out": "self", "view": "view", "detached": "detach", "data": "data", "other": "self",
    }  # fmt: skip
    assert all(refs[name].alias_of == refs["out"].id for name in ("view", "detached", "data"))
    assert refs["view"].span == (12, 24)
    before = {name: t._version for name, t in made.items()}
    with torch.no_grad():
        out.zero_()
    for name, tensor in made.items():
        same_memory = tensor.untyped_storage().data_ptr() == out.untyped_storage().data_ptr()
        assert (refs[name].storage == refs["out"].storage) == same_memory
        assert (refs[name].counter == refs["out"].counter) == (tensor._version != before[name])


def test_a_write_shows_in_everyone_who_shares_the_bytes() -> None:
    with seegrad.record() as rec:
        out = torch.ones(3)
        c = out.data
        c[1:] = 5
    (write,), recording = rec.recording.writes, rec.recording
    assert (write.op, write.span, write.version_before, write.version_after) == ("__setitem__", (4, 12), 0, 1)
    frame = recording.frames[write.frame]
    assert frame.phase == "inplace"
    assert {recording.tensors[i].name: (v, dict(frame.versions)[i]) for i, v in frame.values} == {
        "out": ((("1", "5", "5"),), 0),
        "c": ((("1", "5", "5"),), 1),
    }
    assert out._version == 0


def test_versions_are_torch_s() -> None:
    with seegrad.record() as rec:
        t = torch.zeros(4)
        t.add_(1)
        t[0] += 1
        t[:2] *= 2
        t.squeeze_()
    last = {i: v for frame in rec.frames for i, v in frame.versions}
    assert last[named(rec.recording, "t").id] == t._version


def test_tensors_that_existed_belong_to_the_start() -> None:
    model = torch.nn.Linear(2, 1)
    batch = [torch.ones(1, 2)]
    with seegrad.record() as rec:
        loss = model(batch[0]).sum()
        loss.backward()
    start = {rec.recording.tensors[i].name for i, _ in rec.frames[0].values}
    assert start == {"model.weight", "model.bias", "batch[0]"}
    assert named(rec.recording, "model.weight").parameter


def test_what_an_object_with_slots_holds_has_names() -> None:
    class Trainer:
        __slots__ = ("model",)

        def __init__(self) -> None:
            self.model = torch.nn.Linear(2, 1)

        def step(self) -> None:
            self.model(torch.ones(1, 2)).sum().backward()

    trainer = Trainer()
    with seegrad.record() as rec:
        trainer.step()
    assert named(rec.recording, "self.model.weight").parameter


def test_modules_in_plain_lists_are_named_as_the_program_reaches_them() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    net.blocks, net.heads = [torch.nn.Sequential(torch.nn.Linear(2, 2))], {"a": torch.nn.Linear(2, 1)}
    layers = [torch.nn.Linear(2, 2)]
    with seegrad.record() as rec:
        net.heads["a"](net.blocks[0](net(layers[0](torch.ones(1, 2))))).sum().backward()
    names = {ref.name for ref in rec.recording.tensors if ref.parameter and ref.name and ref.name.endswith("weight")}
    assert names == {"net.0.weight", "net.blocks[0].0.weight", "net.heads['a'].weight", "layers[0].weight"}


def test_the_outermost_name_wins() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with seegrad.record() as rec:
        outside = torch.ones(2, requires_grad=True)
        inner(outside)
    assert named(rec.recording, "outside").is_leaf


def test_code_is_the_block_s_body_with_its_own_line_numbers(l1_to_l4: Recording) -> None:
    assert [text for _, text in l1_to_l4.code][:2] == ["l1 = inp * w1", "l2 = l1 + w2"]
    places = {frame.place.line: frame.place.code for frame in l1_to_l4.frames[1:] if frame.place}
    assert places.items() <= dict(l1_to_l4.code).items()
    assert l1_to_l4.code_file == __file__


def test_code_can_be_given() -> None:
    text = "import torch\nx = torch.ones(2)\ny = x + 1"
    with seegrad.record(code=("<cell>", 1, text)) as rec:
        exec(compile(text, "<cell>", "exec"), {})  # noqa: S102  # code without a file is what this is about
    assert [(f.place.line, f.place.code) for f in rec.frames[1:] if f.place] == [
        (2, "x = torch.ones(2)"),
        (3, "y = x + 1"),
    ]
    assert rec.recording.code[-1] == (3, "y = x + 1")
    assert [t.name for t in rec.recording.tensors] == ["x", "y"]


def test_a_graph_from_before_the_block_has_no_line() -> None:
    a = torch.ones(2, requires_grad=True)
    loss = a.exp().sum()
    loss.backward()
    rec = seegrad.record()
    with pytest.raises(RuntimeError), rec:
        loss.backward()
    (found,) = rec.diagnoses
    assert (found.kind, found.node, found.culprit, found.victim) == ("graph_freed", "ExpBackward0", None, None)
    assert "from a line before the recording" in found.message()


def test_a_custom_function_stands_where_it_is_applied() -> None:
    rec = seegrad.record()
    with pytest.raises(RuntimeError), rec:
        programs()["k_custom_function"].run()
    (found,) = rec.diagnoses
    assert found.node == "SquareBackward"
    assert found.victim is not None
    assert found.victim.code == "y = Square.apply(h)"


def test_an_error_that_the_block_catches_is_explained_too() -> None:
    with seegrad.record() as rec:
        a = torch.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError):
            a.add_(1)
        (a * 2).sum().backward()
    assert rec.error is None
    assert [d.kind for d in rec.diagnoses] == ["leaf_modified"]
    assert len(rec.recording.errors) == 1


def test_asked_inside_the_block_it_tells_what_was_seen_so_far() -> None:
    with seegrad.record() as rec:
        a = torch.ones(2, requires_grad=True)
        b = a.exp()
        assert phases(rec.recording)[1:] == [("forward", "ones"), ("forward", "exp")]
        b.sum()
    assert len(rec.frames) == 4


def test_an_op_knows_the_module_whose_forward_made_it() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(x).relu()

    class Holder:
        hidden = torch.nn.Sequential(torch.nn.Linear(2, 1))

    net, holder = Net(), Holder()
    x = torch.ones(1, 2)
    with seegrad.record() as rec:
        y = net(x) * 2
        holder.hidden(y).sum()
    modules = [(frame.op, frame.module) for frame in rec.frames[1:]]
    assert modules == [
        ("linear", "net.first"),
        ("relu", "net"),
        ("mul", ""),
        ("linear", "Sequential.0"),
        ("sum", ""),
    ]


def test_the_user_s_hooks_are_seen_where_they_are_put_on() -> None:
    def halve(gradient: torch.Tensor) -> torch.Tensor:
        return gradient / 2

    with seegrad.record() as rec:
        a = torch.ones(2, requires_grad=True)
        b = a * 3
        b.retain_grad()
        b.register_hook(halve)
        a.register_post_accumulate_grad_hook(print)
        b.sum()
    tensors = rec.recording.tensors
    found = [(each.kind, tensors[each.tensor or 0].name, each.name) for each in rec.recording.hooks]
    assert found == [("retain", "b", ""), ("tensor", "b", "halve"), ("accumulated", "a", "print")]
    assert [each.place.code for each in rec.recording.hooks if each.place][1] == "b.register_hook(halve)"


def test_what_a_hook_saw_and_gave_is_what_the_hook_itself_says() -> None:
    said: list[tuple[torch.Tensor, torch.Tensor]] = []

    def tenfold(gradient: torch.Tensor) -> torch.Tensor:
        said.append((gradient.clone(), gradient * 10))
        return said[-1][1]

    def halve_the_sum(leaf: torch.Tensor) -> None:
        assert leaf.grad is not None
        before = leaf.grad.clone()
        leaf.grad.mul_(0.5)
        said.append((before, leaf.grad.clone()))

    with seegrad.record() as rec:
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = a * 3
        b.register_hook(tenfold)
        a.register_post_accumulate_grad_hook(halve_the_sum)
        loss = (b + b.exp()).sum()
        loss.register_hook(tenfold)
        for _ in range(2):
            loss.backward(retain_graph=True)
    calls = [call for hook in rec.recording.hooks for call in hook.calls]
    found = sorted((call.frame, call.saw, call.returned) for call in calls)
    assert [(saw, gave) for _, saw, gave in found] == [(preview(saw), preview(gave)) for saw, gave in said]
    assert all(call.alone for call in calls)


def test_a_hook_that_was_taken_off_or_refused_sees_nothing() -> None:
    with seegrad.record() as rec:
        a = torch.ones(2, requires_grad=True)
        b = a * 3
        handle = b.register_hook(abs)
        b.sum().backward(retain_graph=True)
        handle.remove()
        b.sum().backward()
        with contextlib.suppress(RuntimeError):
            torch.ones(2).register_hook(abs)
    assert [len(hook.calls) for hook in rec.recording.hooks] == [1]


@pytest.mark.parametrize("given", [None, 5.0])
def test_a_hook_on_the_root_saw_what_backward_began_with(given: float | None) -> None:
    with seegrad.record() as rec:
        a = torch.tensor([2.0], requires_grad=True)
        b = a * 3
        b.register_hook(abs)
        torch.autograd.grad(b, a, torch.tensor([given]) if given else None)
    ((call,),) = [hook.calls for hook in rec.recording.hooks]
    assert call.saw == ((f"{given or 1:.0f}",),)


def test_of_several_hooks_the_first_saw_and_the_last_gave() -> None:
    with seegrad.record() as rec:
        b = torch.ones(2, requires_grad=True) * 3
        for factor in (2, 5, 7):
            b.register_hook(lambda gradient, factor=factor: gradient * factor)
        b.sum().backward()
    calls = [call for hook in rec.recording.hooks for call in hook.calls]
    assert [(call.saw, call.returned, call.alone) for call in calls] == [
        ((("1", "1"),), None, False),
        (None, None, False),
        (None, (("70", "70"),), False),
    ]


def test_a_gradient_is_kept_once_when_its_tensor_was_written_in_place() -> None:
    with seegrad.record() as rec:
        b = torch.ones(2, requires_grad=True) * 3
        b.retain_grad()
        b.mul_(2)
        b.sum().backward()
    kept = [(frame.op, each.tensor) for frame in rec.frames for each in frame.gradients if each.kept]
    numbers = [tensor for _, tensor in kept]
    assert len(numbers) == len(set(numbers)) == 2


def test_misuse_is_said_in_a_sentence() -> None:
    rec = seegrad.record()
    with pytest.raises(RecordingError, match="Nothing is recorded yet"):
        _ = rec.diagnoses
    with rec:
        pass
    with pytest.raises(RecordingError, match="Make a new one"):
        rec.__enter__()
    with pytest.raises(RecordingError, match="default"):
        seegrad.record(detail="everything")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(("detail", "kinds"), [("default", []), ("content", ["silent_corruption"])])
def test_content_finds_the_write_that_nothing_announced(detail: str, kinds: list[str]) -> None:
    w = torch.ones(3, requires_grad=True)
    address = w.data_ptr()
    with seegrad.record(detail=detail) as rec:  # type: ignore[arg-type]  # one of the two
        loss = (w * w).sum()
        ctypes.memset(address, 0, 12)
        loss.backward()
    assert [d.kind for d in rec.diagnoses] == kinds
    assert all(d.culprit and d.culprit.code == "ctypes.memset(address, 0, 12)" for d in rec.diagnoses)
    assert w.grad is not None
    assert w.grad.tolist() == [0, 0, 0]  # 2 is right: the wrong gradient is real


def test_a_notebook_cell_is_called_by_its_number() -> None:
    script = """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_cell("import torch, seegrad\\na = torch.ones(2, requires_grad=True)", store_history=True)
        shell.run_cell("with seegrad.record() as rec:\\n    b = a.exp()\\n    c = b * 2", store_history=True)
        shell.run_cell("print([str(f.place) for f in rec.frames], rec.recording.code, rec.recording.code_file)")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == (
        "['In [2]:1: with seegrad.record() as rec:', 'In [2]:2: b = a.exp()', 'In [2]:3: c = b * 2'] "
        "((2, 'b = a.exp()'), (3, 'c = b * 2')) In [2]"
    )


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="derivatives.json is made from torch 2.13")
def test_the_formulas_are_those_of_torchgen() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.evidence.derivatives", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("size", [2, 50])
def test_a_gradient_kept_for_inputs_is_seen_whatever_its_size(size: int) -> None:
    """`backward(inputs=…)` has torch retain gradients of results; it asks for that only once it runs."""
    a = torch.ones(size, requires_grad=True)
    with seegrad.record() as rec:
        x = a * 2
        (x * x).sum().backward(inputs=[x])
    kept = {rec.recording.tensors[each.tensor].name for frame in rec.frames for each in frame.gradients if each.kept}
    assert kept == {name for name, tensor in (("a", a), ("x", x)) if tensor.grad is not None} == {"x"}


def test_a_tensor_that_was_sent_or_stored_has_the_shape_that_it_came_with() -> None:
    """Torch makes an empty one first, and gives it its storage by a call that nobody sees."""
    sent = pickle.loads(pickle.dumps(torch.arange(3.0)))  # noqa: S301  # our own
    with seegrad.record() as rec:
        come = pickle.loads(pickle.dumps(sent))  # noqa: S301  # our own
        y = torch.ones(3, 1, requires_grad=True) * 2
        torch.nn.functional.mse_loss(y, come.unsqueeze(1)).backward()
    (met,) = {tensor.shape for tensor in rec.recording.tensors if tensor.name == "come"}
    assert met == (3,)
