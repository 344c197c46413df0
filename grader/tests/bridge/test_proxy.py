"""A function that lives in another process behaves as if it lived here: torch itself, in one process, is the oracle."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from nbjudge.bridge.peer import DEPTH, Peer, RemoteError
from nbjudge.bridge.torch import FACTS, torch_private
from nbjudge.errors import StudentGone
from nbjudge.roles.witness import Witness
from nbjudge.wire import Pipe, pack
from nbjudge_tests.two_sides import Lend, lend, pair, raised, scenarios

__all__ = ["lend", "pair"]  # fixtures


def facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    name = None if tensor.grad_fn is None else tensor.grad_fn.name()
    return (tensor.tolist(), tensor.dtype, tensor.is_leaf, tensor.requires_grad, tensor._version, name)


# Each scenario takes `lend` and returns plain values; run with and without another process these must be the same.


def gradient(lend: Lend) -> Any:
    f = lend(lambda x: (x * x).sum())
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = f(x)
    y.backward()
    return facts(y), facts(x), x.grad.tolist()


def two_calls_accumulate(lend: Lend) -> Any:
    f = lend(lambda x: x.exp().sum())
    x = torch.tensor([0.5, 1.0], requires_grad=True)
    f(x).backward()
    f(x).backward()
    return x.grad.tolist()


def a_graph_is_used_once(lend: Lend) -> Any:
    f = lend(lambda x: x.exp())
    y = f(torch.ones(2, requires_grad=True)).sum()
    y.backward()
    return raised(y.backward)


def a_graph_without_saved_tensors_is_used_twice(lend: Lend) -> Any:
    f = lend(lambda x: x + 2)
    x = torch.ones(2, requires_grad=True)
    y = f(x)
    y.backward(torch.ones(2))
    y.backward(torch.ones(2))
    return x.grad.tolist()


def second_derivative(lend: Lend) -> Any:
    f = lend(lambda x: (x**3).sum())
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (first,) = torch.autograd.grad(f(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return first.tolist(), second.tolist()


def finite_differences(lend: Lend) -> Any:
    f = lend(lambda x, y: x * y.sin())
    inputs = [torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True) for _ in range(2)]
    return torch.autograd.gradcheck(f, inputs), torch.autograd.gradgradcheck(f, inputs)


def wrong_gradient(lend: Lend) -> Any:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * x

        @staticmethod
        def backward(_ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad

    f = lend(lambda x: Wrong.apply(x))
    x = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    return torch.autograd.gradcheck(f, (x,), raise_exception=False)


def in_place(lend: Lend) -> Any:
    f = lend(lambda x: x.add_(1))
    x = torch.zeros(3)
    y = f(x)
    return y is x, facts(x)


def in_place_with_history(lend: Lend) -> Any:
    f = lend(lambda x: x.mul_(3))
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    h = w * 2
    y = f(h)
    h.sum().backward()
    return y is h, h._version, h.tolist(), w.grad.tolist(), h.grad_fn.name()


def in_place_on_a_leaf(lend: Lend) -> Any:
    f = lend(lambda x: x.add_(1))
    return raised(lambda: f(torch.ones(2, requires_grad=True)))


def data_write_is_silent(lend: Lend) -> Any:
    f = lend(lambda out: out.data.zero_())
    x = torch.ones(2, requires_grad=True)
    out = x.sigmoid()
    f(out)
    out.sum().backward()
    return out._version, out.tolist(), x.grad.tolist()


def detach_write_raises(lend: Lend) -> Any:
    f = lend(lambda out: out.detach().zero_())
    out = torch.ones(2, requires_grad=True).sigmoid()
    f(out)
    return out._version, raised(out.sum().backward)


def a_write_here_breaks_a_graph_there(lend: Lend) -> Any:
    f = lend(lambda x: x.exp())
    y = f(torch.ones(2, requires_grad=True))
    y.detach().zero_()
    return raised(y.sum().backward)


def a_silent_write_here_reaches_a_graph_there(lend: Lend) -> Any:
    f = lend(lambda x: x.exp())
    x = torch.ones(2, requires_grad=True)
    y = f(x)
    y.data.fill_(7)
    y.sum().backward()
    return x.grad.tolist()


def detached_alias(lend: Lend) -> Any:
    f = lend(lambda x: x.detach())
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = f(x)
    before = facts(y), y.data_ptr() == x.data_ptr(), y is x
    y.add_(1)
    return before, x.tolist(), x._version


def data_alias(lend: Lend) -> Any:
    f = lend(lambda x: x.data)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = f(x)
    y.add_(1)
    return y.data_ptr() == x.data_ptr(), x.tolist(), x._version, y._version


def view(lend: Lend) -> Any:
    f = lend(lambda x: x[1:])
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = f(x)
    (y * y).sum().backward()
    same = y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return facts(y), same, y.storage_offset(), x.grad.tolist()


def copy(lend: Lend) -> Any:
    f = lend(lambda x: x.clone())
    x = torch.ones(2)
    y = f(x)
    y.zero_()
    return y.data_ptr() == x.data_ptr(), x.tolist()


def sees_what_it_gets(lend: Lend) -> Any:
    def look(x: torch.Tensor) -> Any:
        return [x.is_leaf, x.requires_grad, x._version, x.grad_fn is None, isinstance(x, torch.nn.Parameter)]

    f = lend(look)
    leaf = torch.ones(2, requires_grad=True)
    inner = leaf * 2
    written = torch.ones(2).add_(1)
    return [f(leaf), f(inner), f(written), f(torch.nn.Parameter(torch.ones(1)))]


def gradients_of_intermediate_tensors(lend: Lend) -> Any:
    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x * 3
        h.retain_grad()
        return h, (h * h).sum()

    h, y = lend(both)(x := torch.tensor([1.0, 2.0], requires_grad=True))
    (through,) = torch.autograd.grad(y, h, retain_graph=True)
    y.backward()
    return through.tolist(), h.grad.tolist(), h.retains_grad, x.grad.tolist()


def backward_inside(lend: Lend) -> Any:
    def step(w: torch.Tensor, loss: torch.Tensor) -> None:
        loss.backward()
        with torch.no_grad():
            w -= 0.5 * w.grad
        w.grad.zero_()

    w = torch.tensor([1.0, 2.0], requires_grad=True)
    lend(step)(w, (w * w).sum())
    return facts(w), w.grad.tolist()


def training(lend: Lend) -> Any:
    def step(w: torch.Tensor) -> torch.Tensor:
        loss = (w * w).sum()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        return loss.detach()

    f = lend(step)
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    losses = [float(f(w)) for _ in range(5)]
    return losses, facts(w), w.grad


def state_on_the_other_side(lend: Lend) -> Any:
    weight = torch.nn.Parameter(torch.tensor([2.0]))
    forward, look = lend(lambda x: weight * x), lend(lambda: weight)
    forward(torch.tensor([3.0])).backward()
    w = look()
    with torch.no_grad():
        w += 1
    return facts(w), w.grad.tolist(), forward(torch.tensor([1.0])).tolist(), look() is w, type(w).__name__


def callback(lend: Lend) -> Any:
    f = lend(lambda g, x: g(x) + g(2 * x))
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    scale = torch.tensor(3.0, requires_grad=True)
    f(lambda x: scale * x.sin(), x).sum().backward()
    return x.grad.tolist(), scale.grad.item(), f(lambda x: x + 1, 5)


def callback_that_raises(lend: Lend) -> Any:
    def careful(g: Callable[[], Any]) -> str:
        try:
            return str(g())
        except ZeroDivisionError:
            return "caught"

    return lend(careful)(lambda: 1 / 0), raised(lambda: lend(lambda g: g())(lambda: [][1]))


def containers(lend: Lend) -> Any:
    f = lend(lambda x: {"a": [x * 2, (x, 3)], 1: None, "f": lambda y: y + x})
    x = torch.tensor([1.0], requires_grad=True)
    found = f(x)
    value = found["f"](found["a"][0]).sum()
    value.backward()
    return found["a"][1][0] is x, found["a"][1][1], list(found), x.grad.tolist()


def no_grad(lend: Lend) -> Any:
    f = lend(lambda x: x * 2)
    x = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        y = f(x)
    return facts(y), facts(f(x))


def dtypes_and_shapes(lend: Lend) -> Any:
    f = lend(lambda x: x)
    kinds = (torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.complex64, torch.uint8)
    tensors = [torch.ones(2, 3).to(kind) for kind in kinds] + [torch.zeros(0, 4), torch.tensor(2.5)]
    mixed = lend(lambda: [torch.arange(6).reshape(2, 3).T, torch.ones(1).expand(3), torch.zeros(0), torch.float16])()
    described = [(tensor.tolist(), tensor.stride(), tensor.dtype) for tensor in mixed[:3]]
    return [f(tensor) is tensor for tensor in tensors], described, mixed[3], f(torch.float64)


def aliases_among_arguments(lend: Lend) -> Any:
    def write(base: torch.Tensor, row: torch.Tensor) -> list[float]:
        row.zero_()
        return base.tolist()

    base = torch.ones(2, 2)
    return lend(write)(base, base[0]), base.tolist(), base._version


def requires_grad_is_switched_on(lend: Lend) -> Any:
    f = lend(lambda x: x.requires_grad_())
    x = torch.ones(2)
    return f(x) is x, x.requires_grad, x.is_leaf


def hooks(lend: Lend) -> Any:
    def double(x: torch.Tensor) -> torch.Tensor:
        h = x * 1
        h.register_hook(lambda grad: grad * 2)
        return h.sum()

    x = torch.ones(2, requires_grad=True)
    lend(double)(x).backward()
    return x.grad.tolist()


def a_hook_that_writes_the_gradient_it_is_given(lend: Lend) -> Any:
    """An addition hands one memory to both of its inputs."""

    def limited(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.register_hook(lambda grad: grad.clamp_(-1, 1))
        return y

    def behind(x: torch.Tensor) -> torch.Tensor:
        inner = x.clone()
        inner.register_hook(lambda grad: grad.data.zero_())
        return inner * 1

    found = []
    for function in (limited, behind):
        x, near = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        beside = near * 1
        ((lend(function)(x) + beside) * 5).sum().backward()
        found.append((x.grad.tolist(), near.grad.tolist()))
    return found


def a_hook_on_what_was_given(lend: Lend) -> Any:
    def clipped(x: torch.Tensor) -> torch.Tensor:
        x.register_hook(lambda grad: grad.clamp(-1, 1))
        return x

    def both(x: torch.Tensor) -> torch.Tensor:
        x.register_hook(lambda grad: grad.clamp(-1, 1))
        return (x * 5).sum()

    x, z = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    inner = z * 1
    (lend(clipped)(x) * 3).sum().backward()
    (lend(both)(inner) + (inner * 7).sum()).backward()
    return x.grad.tolist(), z.grad.tolist()


def a_hook_on_a_parameter(lend: Lend) -> Any:
    w = torch.nn.Parameter(torch.ones(2))
    seen: list[Any] = []
    w.register_hook(lambda grad: seen.append(grad.tolist()))
    handle = w.register_hook(lambda grad: 2 * grad)
    f, look = lend(lambda x: (w * x).sum() + w.prod()), lend(lambda: w)
    f(torch.tensor([1.0, 2.0])).backward()
    first = look().grad.tolist()
    lend(handle.remove)()
    f(torch.tensor([1.0, 2.0])).backward()
    mine = look().register_hook(lambda grad: grad * 10)
    f(torch.tensor([1.0, 2.0])).backward()
    mine.remove()
    return first, look().grad.tolist(), lend(lambda: seen)()


def numpy_values(lend: Lend) -> Any:
    array = np.arange(6.0).reshape(2, 3)
    found = lend(lambda given: [given.T, np.float32(1.5), np.int64(7), np.bool_(True), np.zeros(0)])(array)
    return [(type(item).__name__, item.dtype.name, item.tolist()) for item in found]


def own_function(lend: Lend) -> Any:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(_ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    found = lend(lambda: Double)
    x = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    y = found().apply(x)
    y.backward()
    same = found() is found()
    return (
        issubclass(found(), torch.autograd.Function),
        same,
        facts(y),
        x.grad.tolist(),
        torch.autograd.gradcheck(found().apply, (x,)),
    )


def errors(lend: Lend) -> Any:
    class OwnError(ValueError):
        pass

    def own() -> None:
        raise OwnError("mine")

    def shapes() -> torch.Tensor:
        return torch.ones(2) @ torch.ones(3)

    return [raised(lend(own)), raised(lend(shapes)), raised(lend(lambda: {}["k"]))]


def library_functions(lend: Lend) -> Any:
    f = lend(lambda: [torch.exp, RuntimeError, torch.nn.functional])()
    x = torch.ones(1, requires_grad=True)
    return (
        f[0] is torch.exp,
        f[1] is RuntimeError,
        f[2] is torch.nn.functional,
        facts(lend(lambda g, x: g(x))(torch.sin, x)),
    )


def a_leaf_of_the_answer_s_own_gets_a_gradient_though_the_test_names_it_no_more(lend: Lend) -> Any:
    own, found = torch.ones(2, requires_grad=True), []
    named, loss_of = lend(lambda: own), lend(lambda x: (own * x).sum())
    grad = lend(lambda: own.grad is not None and own.grad.tolist())
    for number in range(3):
        (number * named()).sum().backward()
        found.append(grad())
        kept = loss_of(torch.ones(2))
        found.append([grad(), grad()])
        kept.backward()
        del kept
        found.append(grad())
    return found


SCENARIOS = scenarios(globals())


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_as_in_one_process(scenario: Callable[[Lend], Any], lend: Lend) -> None:
    assert scenario(lend) == scenario(lambda function: function)


def test_there_are_many_scenarios() -> None:
    assert len(SCENARIOS) > 30


def on_a_leaf_of_its_own(x: torch.Tensor) -> torch.Tensor:
    twin = x.detach().clone().requires_grad_()
    return (twin * twin).sum()


@pytest.mark.parametrize("answer", [lambda x: (x * x).sum(), on_a_leaf_of_its_own], ids=["given", "own"])
def test_what_is_no_longer_used_is_forgotten_on_both_sides(
    answer: Callable[[torch.Tensor], torch.Tensor], pair: tuple[Peer, Peer], lend: Lend
) -> None:
    judge, student = pair
    f = lend(answer)
    for _ in range(50):
        f(torch.ones(3, requires_grad=True)).backward()
    gc.collect()
    judge.ask("sync")
    judge.ask("sync")
    for peer in (judge, student):
        ledger = peer.parts["tensors"].mirror.ledger
        assert len(ledger.tensors()) + len(ledger.storages) + len(ledger.links) + len(ledger.edges) < 10


def test_an_unknown_exception_is_a_remote_error(lend: Lend) -> None:
    class Left(BaseException):
        pass

    def leave() -> None:
        raise Left(3)

    with pytest.raises(RemoteError, match="3"):
        lend(leave)()


def test_leaving_a_cell_is_python_s_own_exception(lend: Lend) -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit) as left:
        lend(leave)()
    assert left.value.code == 3


TENSORS: dict[str, Any] = {
    "gone": {"tensors": [], "storages": [], "links": []},
    "storages": [],
    "tensors": [],
    "grads": [],
}
WELL: dict[str, Any] = {"tensors": TENSORS, "gone": [], "containers": []}
NOTHING: dict[str, Any] = {"t": "tuple", "v": []}
KIND = {"t": "class", "id": 5, "name": "K", "bases": [], "special": [], "hashable": True}
FORGED: list[dict[str, Any]] = [
    {},
    {"result": 1},
    {**WELL, "result": 1, "tensors": {}},
    {**WELL, "result": 1, "gone": 3},
    {**WELL, "result": 1, "gone": [[1]]},
    {**WELL, "result": 1, "containers": [3]},
    {**WELL, "result": 1, "containers": [{"t": "list", "id": 7, "v": []}]},
    *(
        {**WELL, "result": tree}
        for tree in (
            [],
            {"t": "tensor", "id": 99},
            {"t": "yours", "id": 99},
            {"t": "library", "v": "os.system"},
            {"t": "library", "v": "builtins.exec"},
            {"t": "library", "v": "torch.load"},
            {"t": "library", "v": "torch.set_default_dtype"},
            {"t": "data", "dtype": "float32", "shape": [2], "start": 0, "size_bytes": 8},
            {"t": "pickle", "v": "gASVAAAA"},
            {"t": "device", "v": "nonsense"},
            {"t": "dtype", "v": "object"},
            {"t": "same", "id": 3},
            {"t": "list", "id": 1},
            {"t": "dict", "id": 1, "v": [[{"t": "list", "v": []}, 1]]},
            {"t": "dict", "id": 1, "v": [1]},
            {"t": "deque", "id": 1, "v": [-1]},
            {"t": "array", "id": 1, "v": {"t": "data"}},
            {"t": "size", "v": ["x"]},
            {"t": "slice", "v": [1]},
            {"t": "named", "name": "class", "fields": ["def"], "v": [1]},
            {"t": "class", "id": 5},
            {"t": "class", "id": 5, "name": "K", "bases": 3, "special": [], "hashable": True},
            {"t": "object", "id": 6, "class": 3},
            {"t": "object", "id": 6, "class": {"t": "library", "v": "torch.nn.Linear"}},
            {"t": "object", "id": 5, "class": KIND},
            {"t": "method", "of": 3, "name": "x"},
            {"t": "method", "of": {"t": "library", "v": "torch.nn"}, "name": "Linear"},
            {"t": "function", "id": 5, "name": "f", "parameters": [["a b", 1, None]]},
            {"t": "function", "id": 5, "name": "f", "parameters": [["a", 9, None]]},
            {"t": "function", "id": 5, "name": "f", "doc": 3},
            {"t": "exception"},
        )
    ),
    {**WELL, "raised": 3},
    {**WELL, "raised": {"name": "x"}},
    {**WELL, "raised": {"name": "x", "text": "", "bases": [], "args": [], "vars": [1]}},
    {**WELL, "op": "call", "value": {"t": "tuple", "v": [{"t": "yours", "id": 0}, NOTHING, NOTHING]}},
    {**WELL, "op": "call", "value": {"t": "tuple", "v": [{"t": "library", "v": "math.sin"}, NOTHING, NOTHING]}},
    {**WELL, "op": "call", "value": 3},
    {**WELL, "op": "attribute", "value": {"t": "tuple", "v": []}, "name": "x"},
    {**WELL, "result": 1, "tensors": {**TENSORS, "grads": [[1, 2]]}},
    {**WELL, "result": 1, "tensors": {**TENSORS, "grads": [1]}},
    {**WELL, "result": 1, "tensors": {**TENSORS, "storages": [{"id": 1, "start": 5, "size_bytes": 5}]}},
    {**WELL, "result": 1, "tensors": {**TENSORS, "tensors": [{"id": 1}]}},
]


@pytest.mark.parametrize("header", FORGED, ids=lambda header: str(header)[:50])
def test_a_forged_answer_ends_the_conversation(header: dict[str, Any]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        witness = Witness(Pipe(ours.fileno()))
        theirs.sendall(pack(header))
        with pytest.raises(StudentGone):
            witness.names(["x"])
        assert witness.gone is not None
        with pytest.raises(StudentGone):
            witness.names(["x"])


def test_calls_inside_calls_are_bounded() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = Peer(Pipe(ours.fileno()), side=0)
        number = peer.carrier.lent.function(lambda: peer.ask("sync"))
        call = {"t": "tuple", "v": [{"t": "yours", "id": number}, NOTHING, NOTHING]}
        for _ in range(DEPTH + 3):
            theirs.sendall(pack({**WELL, "op": "call", "value": call}))
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError):
            peer.ask("sync")
        said = [Pipe(theirs.fileno()).receive().header for _ in range(1 + DEPTH + 3)]
    assert [one["raised"]["name"] for one in said if "raised" in one] == ["RecursionError"] * 3


def test_the_end_of_the_student_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    witness = Witness(Pipe(ours.fileno()))
    theirs.close()
    with ours, pytest.raises(StudentGone):
        witness.names(["x"])


def witness_of(judge: Peer, monkeypatch: pytest.MonkeyPatch) -> Witness:
    for name in FACTS:
        monkeypatch.setattr(torch.Tensor, name, getattr(torch.Tensor, name), raising=False)
    witness = Witness(Pipe(os.dup(judge.pipe.fd)))
    os.close(witness.peer.pipe.fd)
    witness.peer = judge
    for part in judge.parts.values():
        part.watch(witness.places)
    return witness


class Counting(TorchFunctionMode):
    """A mode of the test's own."""

    seen = 0

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return function(*args, **(kwargs or {}))


def test_operations_are_watched_until_the_test_has_looked(
    pair: tuple[Peer, Peer], lend: Lend, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = witness_of(pair[0], monkeypatch)
    f = lend(lambda x: x * 2)
    watching = torch_private.innermost_mode
    with witness.reading():
        y = f(torch.ones(2))
        assert watching() is not None
        assert torch.equal(y, y)
        f(torch.ones(2))
        assert watching() is None
    witness.begin()
    with witness.reading():
        y = f(torch.ones(2))
        with Counting() as counting:
            assert torch.equal(y, y)
            f(torch.ones(2))
            seen = counting.seen
            assert watching() is counting
            torch.add(1, 1)
            assert counting.seen > seen
        f(torch.ones(2))
        assert watching() is None
    assert watching() is None


def test_a_storage_that_moves_is_looked_at_where_it_is(lend: Lend) -> None:
    f = lend(lambda x: x.sum())
    x = torch.ones(3)
    assert f(x) == 3
    x.share_memory_()  # its numbers lie elsewhere from here on
    x.numpy()[0] = 5.0
    assert f(x) == 7


def test_claims_are_what_a_test_read(pair: tuple[Peer, Peer], lend: Lend, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = witness_of(pair[0], monkeypatch)
    f = lend(lambda x: x * 2)
    y = f(torch.ones(2, requires_grad=True))
    assert torch.ones(1).is_leaf
    assert torch.equal(y, y)
    assert witness.places.claims == ()
    assert not y.is_leaf
    assert (witness.places.claims, witness.places.alone) == (("is_leaf",), True)
    with witness.reading():
        assert y.shape == (2,)
        assert witness.places.alone
        assert torch.equal(y, y)
    assert not witness.places.alone
    witness.begin()
    assert witness.places.claims == ()
