"""Objects, classes, models, containers of another process behave as if they lived here: one process is the oracle."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import gc
import inspect
import io
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

from nbjudge.bridge.peer import Peer
from nbjudge.bridge.values import UnsupportedError
from nbjudge_tests.two_sides import Lend, lend, pair, raised, scenarios

__all__ = ["lend", "pair"]  # fixtures

# ---------------------------------------------------------------------- what a student may define


class Value:
    """A number that remembers how it was computed."""

    count = 0

    def __init__(self, data: float, parents: tuple[Value, ...] = ()) -> None:
        self.data, self.grad = data, 0.0
        self.parents = parents
        self.flow: Callable[[], None] = lambda: None
        type(self).count += 1

    def __add__(self, other: Any) -> Value:
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data + other.data, (self, other))

        def flow() -> None:
            self.grad += out.grad
            other.grad += out.grad

        out.flow = flow
        return out

    __radd__ = __add__

    def __mul__(self, other: Any) -> Value:
        if not isinstance(other, Value | int | float):
            return NotImplemented
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data * other.data, (self, other))

        def flow() -> None:
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out.flow = flow
        return out

    def __rmul__(self, other: Any) -> Value:
        return self * other

    def __neg__(self) -> Value:
        return self * -1

    def __float__(self) -> float:
        return float(self.data)

    def __repr__(self) -> str:
        return f"Value({self.data})"

    def backward(self) -> None:
        order: list[Value] = []
        waiting = [self]
        while waiting:
            order.append(waiting.pop())
            waiting.extend(order[-1].parents)
        self.grad = 1.0
        for value in order:
            value.flow()

    @classmethod
    def zero(cls) -> Value:
        return cls(0.0)

    @staticmethod
    def double(x: float) -> float:
        return 2 * x

    @property
    def sign(self) -> int:
        return 1 if self.data > 0 else -1


class Stack(list[Any]):
    def push(self, item: Any) -> Stack:
        self.append(item)
        return self


class Bag:
    def __init__(self, *items: Any) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]

    def __setitem__(self, place: Any, item: Any) -> None:
        self.items[place] = item

    def __delitem__(self, place: Any) -> None:
        del self.items[place]

    def __contains__(self, item: Any) -> bool:
        return item in self.items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]  # as a class with an equality of its own has it

    def __lt__(self, other: Bag) -> bool:
        return len(self) < len(other)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs


class Rank(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Pair(NamedTuple):
    left: int
    right: int


class OwnError(ValueError):
    def __init__(self, what: str, code: int) -> None:
        super().__init__(what, code)
        self.code = code

    def __str__(self) -> str:
        return f"own: {self.args[0]}"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)
        self.register_buffer("seen", torch.zeros(1))
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters(), 1):
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape) * number)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += 1
        return torch.as_tensor(self.second(self.first(x).tanh()))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grads[0]


def rounded(value: Any) -> Any:
    """Tensors as rounded lists, anywhere inside."""
    if isinstance(value, torch.Tensor):
        return [round(item, 5) for item in value.detach().double().flatten().tolist()]
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


# ---------------------------------------------------------------------- objects and classes


def operators(lend: Lend) -> Any:
    kind = lend(Value)
    a, b = kind(2.0), kind(-3.0)
    c = a * b + a + 1
    d = 2 * c + 1 * -a
    d.backward()
    return (
        d.data,
        a.grad,
        b.grad,
        float(d),
        repr(c),
        type(a) is kind,
        isinstance(d, kind),
        d.sign,
        raised(lambda: a * "x"),
    )


def class_attributes(lend: Lend) -> Any:
    kind = lend(Value)
    before = kind.count
    kind.count = before + 5
    zero = kind.zero()
    return kind.count - before, zero.data, kind.double(4), kind.__name__, inspect.isclass(kind), callable(zero)


def attributes(lend: Lend) -> Any:
    a = lend(Value(3.0))
    a.grad = 2.5
    a.extra = [1]
    a.extra.append(2)
    found = hasattr(a, "nothing"), raised(lambda: a.nothing), a.extra, sorted(vars(a))
    del a.extra
    return found, hasattr(a, "extra"), getattr(a, "nothing", 7)


def identity(lend: Lend) -> Any:
    a = Value(1.0)
    get = lend(lambda: a)
    twice = get() is get()
    same = lend(lambda other: other is a)
    return twice, same(get()), get() == get(), get() in {get()}, len({get(), get()}), bool(get())


def containers_of_one_s_own(lend: Lend) -> Any:
    bag = lend(Bag)(3, 1, 2)
    bag[0] = 7
    del bag[1]
    other = lend(Bag(7, 2))
    found = len(bag), list(bag), 2 in bag, bag[-1], bag[:1], bag == other, bag != other, bag < lend(Bag(1, 2, 3))
    return found, raised(lambda: bag[9]), raised(lambda: hash(bag)), bag(1, k=2), sorted(bag), max(*bag)


def subclass_of_a_container(lend: Lend) -> Any:
    stack = lend(Stack)()
    stack.push(1).push([2])
    return isinstance(stack, list), len(stack), stack[1], list(stack), stack.pop(), type(stack).__name__


def special_classes(lend: Lend) -> Any:
    rank, point = lend(Rank), lend(Point)
    p = point(1.0)
    p.y = 4.0
    pair = lend(Pair(1, 2))
    most = lend(lambda x: x.max(dim=0))(torch.tensor([[1.0, 5.0], [2.0, 3.0]]))
    return (
        (
            rank.LOW.value,
            rank.HIGH.name,
            rank.LOW is rank.LOW,
            len(rank),
            [item.name for item in rank],
            rank["LOW"].value,
        ),
        (p.x, p.y, repr(p), p == point(1.0, 4.0), p == point(1.0, 5.0)),
        (pair.left, pair[1], pair == (1, 2), type(pair).__name__, rounded(most.values), most.indices.tolist()),
    )


def copies(lend: Lend) -> Any:
    bag = lend(Bag([1], 2))
    shallow, deep = copy.copy(bag), copy.deepcopy(bag)
    bag[0].append(9)
    return shallow[0], deep[0], deep == bag


def context_managers(lend: Lend) -> Any:
    log: list[str] = []

    @contextlib.contextmanager
    def around(*, swallow: bool) -> Iterator[str]:
        log.append("in")
        try:
            yield "given"
        except ZeroDivisionError as error:
            log.append(str(error))
            if not swallow:
                raise
        finally:
            log.append("out")

    make = lend(around)
    with make(swallow=True) as given:
        _ = 1 / 0
    strict = make(swallow=False)

    def fail() -> None:
        with strict:
            _ = 1 / 0

    return given, raised(fail), lend(lambda: log)()


def generators(lend: Lend) -> Any:
    def count(most: int) -> Iterator[int]:
        yield from range(most)
        raise OwnError("over", most)

    def echo() -> Any:
        said = yield 0
        while said is not None:
            said = yield said * 2
        return "end"

    make = lend(count)
    first = make(3)
    found = (
        next(first),
        next(first),
        isinstance(first, types.GeneratorType),
        inspect.isgenerator(first),
        iter(first) is first,
    )
    talk = lend(echo)()
    ends = next(talk), talk.send(4), raised(lambda: talk.send(None))
    lazy = lend(lambda: map(str, [1, 2]))()
    return (
        found,
        raised(lambda: list(make(1))),
        ends,
        list(lazy),
        list(lend(lambda: enumerate("ab"))()),
        next(lazy, "none"),
    )


def coroutines(lend: Lend) -> Any:
    async def later(x: int) -> int:
        return x + 1

    import asyncio

    async def both() -> Any:
        return await lend(later)(2)

    with ThreadPoolExecutor(1) as pool:  # a browser test of this process may keep a loop running in the main thread
        return [pool.submit(asyncio.run, both()).result()]


def functions(lend: Lend) -> Any:
    def plain(a: int, b: int = 2, *rest: int, key: str = "k", **more: Any) -> Any:
        """Says so."""
        return a + b, rest, key, more

    counted = functools.lru_cache(lambda x: x + 1)
    partial = functools.partial(plain, 5)
    f = lend(plain)
    seen = [(part.name, part.kind) for part in inspect.signature(f).parameters.values()]
    made = lend(lambda n: lambda x: x * n)
    return (
        (
            f.__name__,
            f.__doc__,
            seen,
            isinstance(f, types.FunctionType),
            inspect.signature(f).parameters["key"].default,
        ),
        (lend(counted)(1), lend(counted).cache_info().hits, lend(partial)(1), [made(n)(2) for n in range(3)]),
        (lend([3, 1].__len__)(), lend(Value(2.0).backward)(), lend("a-b".split)("-")),
    )


def derived_from_a_plain_class(lend: Lend) -> Any:
    class Point(collections.namedtuple("Point", "x y")):  # type: ignore[misc]  # of fields that are told as a text
        """A point."""

        def half(self) -> Any:
            return self.x / 2

    class Bag(list[int]):
        """Numbers."""

    class Large(Bag):
        """Of many."""

    kinds = lend(Point), lend(Bag), lend(Large)
    point, bag, large = kinds[0](4, 5), kinds[1]([3]), kinds[2]([1, 2])
    is_what = [[isinstance(one, kind) for kind in (tuple, list, *kinds)] for one in (point, bag, large)]
    return is_what, point.x, point.half(), list(large)


def errors(lend: Lend) -> Any:
    own = lend(OwnError)

    def fail(what: str, code: int) -> None:
        raise OwnError(what, code)

    def catch(raiser: Callable[[], Any]) -> str:
        try:
            raiser()
        except OwnError as error:
            return f"caught {error.code}"
        return "nothing"

    def unicode() -> str:
        return b"\xff".decode()

    f = lend(fail)
    try:
        f("bad", 7)
    except own as error:
        found = str(error), error.code, error.args, isinstance(error, ValueError), type(error).__name__

    def raiser() -> None:
        raise own("back", 3)

    return (
        (found, issubclass(own, ValueError), raised(lambda: f("bad", 7)), lend(catch)(raiser)),
        (raised(lend(unicode)), raised(lend(lambda: {}[1])), raised(lend(lambda: torch.ones(2) @ torch.ones(3)))),
        (raised(lend(lambda: next(iter(())))), isinstance(lend(own("x", 1)) if False else own("x", 1), own)),
    )


# ---------------------------------------------------------------------- containers, changed in place


def arguments_changed_in_place(lend: Lend) -> Any:
    def change(items: Any, table: Any, members: Any, array: Any, nested: Any) -> Any:
        items.sort()
        items.append(torch.ones(1))
        table["new"] = table.pop("old")
        members.add(3)
        array *= 2
        nested["deep"][0].append("x")
        return items

    items, table, members, array = [3, 1, 2], {"old": 1, 2: None}, {1, 2}, np.arange(3.0)
    nested: dict[str, Any] = {"deep": [[]]}
    same = lend(change)(items, table, members, array, nested) is items
    return same, items[:3], rounded(items[3]), table, sorted(members), array.tolist(), nested


def state_that_grows(lend: Lend) -> Any:
    log: list[Any] = []
    cache: dict[Any, Any] = {}

    def remember(x: int) -> int:
        log.append(x)
        return cache.setdefault(x, x * x)

    seen, table, f = lend(log), lend(cache), lend(remember)
    values = [f(2), f(3), f(2)]
    seen.append("mine")
    return values, seen, table, lend(lambda: list(log))()


def kinds_of_containers(lend: Lend) -> Any:
    table = collections.defaultdict(list)
    table["a"].append(1)
    queue = collections.deque([1, 2, 3], maxlen=3)
    found = lend(
        lambda: [table, queue, collections.Counter("aab"), collections.OrderedDict(b=1, a=2), bytearray(b"xy")]
    )()
    found[0]["new"].append(2)
    found[1].append(4)
    return (
        [type(item).__name__ for item in found],
        dict(found[0]),
        list(found[1]),
        found[2]["b"],
        found[2]["z"],
        found[3:],
    )


def a_list_that_holds_itself(lend: Lend) -> Any:
    ring: list[Any] = [1]
    ring.append(ring)
    found = lend(lambda: ring)()
    return found[1] is found, found[1][1][0]


def keys_of_every_kind(lend: Lend) -> Any:
    w = torch.ones(2, requires_grad=True)
    table = {w: "tensor", Rank.LOW: "member", (1, "a"): "tuple", torch.exp: "function", None: "none", 2.5: "number"}
    found = lend(lambda: (w, table))()
    back = lend(lambda keys: sorted(table[key] for key in keys))
    return found[1][found[0]], sorted(found[1].values()), back(list(found[1]))


# ---------------------------------------------------------------------- models and optimisers


def model(lend: Lend) -> Any:
    net = lend(Net)()
    x = torch.tensor([[0.5, -1.0]], requires_grad=True)
    loss = net(x).pow(2).sum()
    loss.backward()
    grads = rounded([parameter.grad for parameter in net.parameters()])
    net.zero_grad()
    net.eval()
    return (
        (rounded(loss), rounded(x.grad), grads, [parameter.grad for parameter in net.parameters()]),
        (isinstance(net, nn.Module), net.training, net.first.training, rounded(net.seen), net.first.weight.is_leaf),
        [(name, tuple(parameter.shape)) for name, parameter in net.named_parameters()],
        (rounded(net.state_dict()), sum(parameter.numel() for parameter in net.parameters()), str(net)),
        (type(net.first).__name__, isinstance(net.first, nn.Linear), net.first.in_features, len(list(net.children()))),
    )


def sequential(lend: Lend) -> Any:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))

    net = lend(build)()
    with torch.no_grad():
        net[0].weight.fill_(0.5)
        net[2].bias.zero_()
    grads = torch.autograd.grad(net(torch.ones(3, 2)).sum(), list(net.parameters()))
    return len(net), isinstance(net[1], nn.ReLU), rounded(list(grads)), [type(part).__name__ for part in net]


def training_by_the_test(lend: Lend) -> Any:
    net = lend(Net)()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    x, y = torch.tensor([[0.5, -1.0], [1.0, 2.0]]), torch.tensor([[1.0], [-1.0]])
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        losses.append(rounded(loss))
    return losses, rounded(net(x)), rounded(net.second.bias)


def iterators_of_the_test_s(lend: Lend) -> Any:
    pairs = lend(lambda given: [next(given), *given])(zip([1, 2], "ab", strict=True))
    return pairs, lend(list)(n * n for n in range(3)), lend(sum)(map(abs, [-1, 2]))


def hooks(lend: Lend) -> Any:
    seen: list[Any] = []
    net = lend(Net)()
    handle = net.register_forward_hook(lambda _module, _args, out: seen.append(rounded(out)))
    net(torch.ones(1, 2))
    handle.remove()
    net(torch.ones(1, 2))
    return seen


def swapping_parts(lend: Lend) -> Any:
    net = lend(Net)()
    net.second = lend(nn.Identity())
    net.first.weight.data.fill_(0.25)
    shape = tuple(net(torch.ones(1, 2)).shape)
    again = lend(Net)()
    again.load_state_dict({name: torch.zeros_like(part) for name, part in again.state_dict().items()})
    return shape, rounded(again(torch.ones(1, 2))), rounded(net.first(torch.ones(1, 2)))


def inside_a_model_of_the_test_s(lend: Lend) -> Any:
    net = lend(Net)()
    whole = nn.Sequential(net, nn.Tanh())
    out = whole(torch.ones(1, 2))
    out.sum().backward()
    return rounded(out), rounded([part.grad for part in net.parameters()])


def own_function(lend: Lend) -> Any:
    cube = lend(Cube)
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(cube.apply(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    checked = torch.autograd.gradcheck(cube.apply, (x,)), torch.autograd.gradgradcheck(cube.apply, (x,))
    return rounded(first), rounded(second), checked, cube.__name__, issubclass(cube, torch.autograd.Function)


def second_order_through_a_model(lend: Lend) -> Any:
    net = lend(Net)().double()
    x = torch.tensor([[0.5, -1.0]], dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    grad.pow(2).sum().backward()
    hessian = torch.autograd.functional.hessian(lambda given: net(given).sum(), x.detach())
    return (
        rounded(grad),
        rounded([part.grad for part in net.parameters()]),
        rounded(hessian),
        torch.autograd.gradcheck(net, x),
    )


SCENARIOS = scenarios(globals())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_as_in_one_process(scenario: Callable[[Lend], Any], lend: Lend) -> None:
    expected = scenario(lambda thing: thing)
    assert scenario(lend) == expected


def test_what_is_no_longer_used_is_forgotten_on_both_sides(pair: tuple[Peer, Peer], lend: Lend) -> None:
    judge, student = pair
    kind = lend(Value)
    before = len(student.carrier.lent)
    for _ in range(300):
        a = kind(1.0)
        assert (a + [1.0][0]).data == 2.0
    del a
    gc.collect()
    judge.ask("sync")
    judge.ask("sync")
    assert len(student.carrier.lent) <= before + 1
    assert len(judge.carrier.containers) < 100


# ---------------------------------------------------------------------- what is refused


class Secret:
    """An object of a test's, with something behind it."""

    def __call__(self) -> int:
        return 3


KEPT: dict[str, Callable[[], Any]] = {
    "a class": lambda: Secret,
    "its instance": lambda: Secret(),
    "a module": lambda: nn.Linear(2, 1),
    "an optimizer": lambda: torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1),
    "a loader": lambda: torch.utils.data.DataLoader([1, 2]),
    "a file": lambda: io.TextIOWrapper(io.BytesIO()),
    "a mock": lambda: Mock(**{"get.return_value": 3}),
}


@pytest.mark.parametrize("made", KEPT.values(), ids=KEPT)
def test_of_a_test_s_own_things_only_data_functions_and_iterators_are_lent(
    made: Callable[[], Any], lend: Lend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbjudge.bridge.objects.TESTS", __name__)
    with pytest.raises(UnsupportedError, match="of the test's"):
        lend(lambda given: given)(made())


@pytest.mark.parametrize(
    "reach",
    [
        lambda thing: thing.gi_frame,
        lambda thing: thing.send(None),
        lambda thing: thing.__class__.__init__.__globals__,
        lambda thing: type(thing)(),
        lambda thing: setattr(thing, "__name__", 3),
        lambda thing: delattr(thing, "__name__"),
        lambda thing: thing.__reduce_ex__(2),
        lambda thing: thing.__getattribute__("gi_frame"),
    ],
)
def test_the_student_gets_at_nothing_behind_an_iterator_of_the_test_s(reach: Callable[[Any], Any], lend: Lend) -> None:
    with pytest.raises((UnsupportedError, AttributeError)):
        lend(reach)(n for n in range(3))


def test_too_much_at_once_is_refused_and_the_next_question_is_answered(lend: Lend) -> None:
    wide = lend(lambda: [torch.zeros(10 << 20) for _ in range(5)])
    with pytest.raises(UnsupportedError, match="MiB"):
        wide()
    with pytest.raises(UnsupportedError, match="items"):
        lend(lambda: torch.zeros(20 << 20))()
    with pytest.raises(UnsupportedError, match="fits"):
        lend(lambda: ["x" * (1 << 20)] * 20)()
    assert lend(lambda x: x + 1)(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    "value",
    [torch.ones(2, device="meta"), torch.eye(2).to_sparse(), 1 << 15_000],
    ids=range(3),
)
def test_what_cannot_be_carried_says_so(value: Any, lend: Lend) -> None:
    changed: list[Any] = []

    def give() -> Any:
        changed.append(1)
        return value

    seen, f = lend(changed), lend(give)
    with pytest.raises(UnsupportedError):
        f()
    assert seen == [1]  # what else has happened is told


@dataclasses.dataclass
class Corner:
    x: int
    y: int = 0

    def right(self) -> Corner:
        return Corner(self.x + 1, self.y)


def test_a_data_class_that_was_asked_for_has_its_fields_here(lend: Lend) -> None:
    kind = lend(Corner)
    there = kind(1, 2)
    assert [(one.name, one.type, one.default) for one in dataclasses.fields(kind)][1] == ("y", int, 0)
    assert (dataclasses.asdict(there.right()), dataclasses.astuple(there)) == ({"x": 2, "y": 2}, (1, 2))
    assert dataclasses.replace(there, x=5).x == 5
    assert lend(lambda given: (type(given) is Corner, given.x))(there) == (True, 1)
    assert not dataclasses.is_dataclass(lend(type("Plain", (), {})))
