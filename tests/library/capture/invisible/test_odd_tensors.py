"""Tensors that aren't rows of numbers on the CPU: the program goes as it goes alone, and nothing is said of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, hessian, jacrev, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_map

import seegrad
from seegrad.model.recording import Recording
from tests.data.transparency.observe import bits

pytestmark = pytest.mark.filterwarnings("ignore")  # most of these kinds warn that they're new


class Shell(torch.Tensor):
    """A wrapper without bytes of its own; once `gone`, whatever is asked of it fails, as on a device that was lost."""

    gone = False

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Shell:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, requires_grad=inner.requires_grad)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return "Shell"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if cls.gone:
            raise RuntimeError("the device is gone")
        plain = tree_map(lambda each: each.inner if isinstance(each, cls) else each, (args, kwargs or {}))
        return tree_map(lambda each: cls(each) if isinstance(each, torch.Tensor) else each, func(*plain[0], **plain[1]))


class Shapeless(torch.Tensor):
    @property
    def shape(self) -> torch.Size:
        raise RuntimeError("no shape")


class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError("no")


def square() -> torch.Tensor:
    return torch.arange(9.0).view(3, 3)


def ragged() -> list[torch.Tensor]:
    return [torch.ones(2), torch.ones(3)]


KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "coo": lambda: square().to_sparse(),
    "hybrid": lambda: square().to_sparse(1),
    "empty coo": lambda: torch.sparse_coo_tensor(size=(3, 3)),
    "csr": lambda: square().to_sparse_csr(),
    "csc": lambda: square().to_sparse_csc(),
    "bsr": lambda: torch.eye(4).to_sparse_bsr((2, 2)),
    "nested": lambda: torch.nested.nested_tensor(ragged()),
    "jagged": lambda: torch.nested.nested_tensor(ragged(), layout=torch.jagged),
    "quantized": lambda: torch.quantize_per_tensor(square(), 0.1, 0, torch.qint8),
    "quantized by channel": lambda: torch.quantize_per_channel(
        square(), torch.ones(3), torch.zeros(3), 0, torch.quint8
    ),
    "meta": lambda: torch.ones(3, 3, device="meta"),
    "fake": lambda: FakeTensorMode().from_tensor(square()),
    "symbolic": lambda: FakeTensorMode(shape_env=ShapeEnv()).from_tensor(square(), static_shapes=False),
    "mkldnn": lambda: square().to_mkldnn(),
    "two": lambda: TwoTensor(square(), square()),
    "shell": lambda: Shell(square()),
    "shapeless": lambda: square().as_subclass(Shapeless),
    "refusing": lambda: square().as_subclass(Refusing),
    "lazy": lambda: nn.parameter.UninitializedParameter(),
    "masked": lambda: torch.masked.masked_tensor(square(), square() > 0),
    "half complex": lambda: torch.ones(3, 3, dtype=torch.complex32),
    "bits": lambda: torch.ones(3, 3, dtype=torch.uint8).view(torch.bits8),
    "float8": lambda: square().to(torch.float8_e4m3fn),
    "zeros": lambda: torch._efficientzerotensor((3, 3)),
    "inference": torch.inference_mode()(square),
}
USES: tuple[Callable[[torch.Tensor], Any], ...] = (
    lambda x: x.requires_grad_(),
    lambda x: x * 1,
    lambda x: x.clone().add_(1),
    lambda x: x.detach(),
    lambda x: x[0],
    lambda x: x @ x,
    lambda x: torch.relu(x),
    lambda x: x.t().relu(),
    lambda x: x.to_dense(),
    lambda x: x.unbind(),
    lambda x: (x * 1).zero_(),
    lambda x: x.view(-1),
    lambda x: torch.cat([x, x]),
    lambda x: setattr(x, "data", x.data),
    lambda x: nn.Parameter(x),
    lambda x: x.register_hook(lambda gradient: gradient),
    lambda x: x.exp().sum().backward(),
    lambda x: (x * x).sum().backward(),
    lambda x: (x @ x).sum().backward(),
    lambda x: torch.autograd.grad((x * 2).sum(), x),
    lambda x: (x * x).detach().zero_(),
    lambda x: torch.ones(3, 3).add_(x),
    lambda x: x.grad,
)


def used(make: Callable[[], torch.Tensor]) -> list[str]:
    """The kinds of what the uses of such a tensor end with."""
    x, found = make(), []
    for use in USES:
        try:
            found.append(type(use(x)).__name__)
        except Exception as error:  # most kinds know few of these
            found.append(type(error).__name__)
    return found


@pytest.mark.parametrize("detail", ["default", "content"])
@pytest.mark.parametrize("kind", KINDS)
def test_odd_tensors_are_recorded_without_a_word(kind: str, detail: str, caplog, monkeypatch) -> None:
    monkeypatch.delenv("SEEGRAD_RAISE_OWN_ERRORS", raising=False)
    alone = used(KINDS[kind])
    with seegrad.record(detail=detail) as rec:
        recorded = used(KINDS[kind])
    assert recorded == alone
    assert not [each for each in caplog.records if each.name == "seegrad"]
    assert len(rec.frames) > 1
    assert Recording.from_json(rec.to_json()) == rec.recording


def test_a_device_that_goes_while_its_tensors_are_used(caplog, monkeypatch) -> None:
    monkeypatch.delenv("SEEGRAD_RAISE_OWN_ERRORS", raising=False)
    with seegrad.record() as rec:
        x = Shell(square().requires_grad_())
        y = (x * 2).exp()
        monkeypatch.setattr(Shell, "gone", True)
        with pytest.raises(RuntimeError, match="the device is gone"):
            y.sum().backward()
        with pytest.raises(RuntimeError, match="the device is gone"):
            y.detach()
    assert not [each for each in caplog.records if each.name == "seegrad"]
    assert [each.text for each in rec.recording.errors] == ["the device is gone"] * 2


def traced() -> Any:
    """Programs with symbols for sizes: whoever asks how they compare is remembered, as a guard."""
    env = ShapeEnv()
    x = FakeTensorMode(shape_env=env).from_tensor(torch.ones(3, 5), static_shapes=False).requires_grad_()
    y = x * 2
    total = torch.cat([y[:, 1:].t().exp(), y[:, 1:].t()]).sum()
    y.detach().zero_()
    total.detach()

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product = (a * b).add_(1)
        return product.exp().sum() + product.view(-1)[:3].sum()

    graph = make_fx(function, tracing_mode="symbolic")(torch.ones(4, 6), torch.ones(4, 6))
    guards = [[str(guard.expr) for guard in each.guards] for each in (env, graph.shape_env)]
    return guards, {str(a): str(b) for a, b in env.replacements.items()}, graph.code


def test_sizes_that_are_symbols_stay_open(caplog) -> None:
    alone = traced()
    with seegrad.record():
        recorded = traced()
    assert recorded == alone
    assert not [each for each in caplog.records if each.name == "seegrad"]


def wrapped(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x).sum()


def kept() -> list[str]:
    """Tensors of a transform that have got out of it."""
    held: list[torch.Tensor] = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        held.extend([x, x * 2])
        return held[-1].sum()

    grad(inner)(torch.ones(3))
    vmap(inner)(torch.ones(3, 2))
    return [repr(each * 2) for each in held[:2]] + [repr(each.shape) for each in held]


TRANSFORMS: dict[str, Callable[[], Any]] = {
    "vjp of vjp": lambda: vjp(lambda y: vjp(wrapped, y)[1](torch.ones(()))[0], torch.ones(3, requires_grad=True))[0],
    "hessian": lambda: hessian(wrapped)(torch.ones(3)),
    "jacrev of jacrev": lambda: jacrev(jacrev(wrapped))(torch.ones(3)),
    "vmap of grad": lambda: vmap(grad(wrapped))(torch.ones(2, 3)),
    "kept": kept,
    "in batches": lambda: torch.autograd.functional.jacobian(torch.exp, torch.ones(3), vectorize=True),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_transforms_wrap(name: str, caplog, monkeypatch) -> None:
    monkeypatch.delenv("SEEGRAD_RAISE_OWN_ERRORS", raising=False)
    alone = bits(TRANSFORMS[name]())
    with seegrad.record():
        recorded = bits(TRANSFORMS[name]())
    assert recorded == alone
    assert not [each for each in caplog.records if each.name == "seegrad"]
