"""Other people's modes and tensor subclasses: what they see must be what they see without a recorder."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from tests.data.transparency import block, mark, whole


class FunctionLog(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class DispatchLog(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


class Logged(torch.Tensor):
    """A subclass that counts each function of torch that it passes through."""

    calls: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") == "tanh":
            raise TypeError("no tanh today")
        return super().__torch_function__(func, types, args, kwargs or {})


class Boxed:
    """Not a tensor, and takes part."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        open_ = [each.value if isinstance(each, Boxed) else each for each in args]
        return Boxed(func(*open_, **(kwargs or {})))


def step():
    x = torch.randn(3, 2, requires_grad=True)
    w = torch.randn(2, requires_grad=True)
    y = torch.matmul(x, w).sigmoid()
    y2 = y.detach()
    y2 = y2 * 2
    buffer = torch.zeros(3)
    buffer[0] = y2[0]
    (y * buffer).sum().backward()
    return x.grad, w.grad


@whole
def w_function_mode_of_another_inside():
    with FunctionLog() as log:
        return step(), log.calls


@whole
def w_dispatch_mode_of_another_inside():
    with DispatchLog() as log:
        return step(), log.calls


@whole
def w_dispatch_mode_of_another_outside():
    with DispatchLog() as log, block():
        result = step()
    return result, log.calls


@whole
def w_function_mode_of_another_outside():
    with FunctionLog() as log, block():
        result = step()
    return result, [name for name in log.calls if not name.startswith("__get__")]


@whole
def w_function_mode_that_raises():
    class Stop(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.Tensor.sigmoid:
                raise PermissionError("no sigmoid")
            return func(*args, **(kwargs or {}))

    with Stop():
        return step()


@whole
def w_function_mode_that_rewrites():
    class Rewrite(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return torch.tanh(*args) if func is torch.Tensor.sigmoid else func(*args, **(kwargs or {}))

    with Rewrite():
        return step()


@whole
def w_flops_are_counted():
    with FlopCounterMode(display=False) as count:
        lin = torch.nn.Linear(4, 8)
        lin(torch.randn(2, 4)).sum().backward()
    return count.get_total_flops(), lin.weight.grad


@whole
def w_profiled():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = step()
    return result, len(profile.events()) > 0


@whole
def w_fake_tensors():
    with torch._subclasses.FakeTensorMode():
        lin = torch.nn.Linear(4, 8)
        out = lin(torch.randn(2, 4)).relu().sum()
        out.backward()
        return tuple(out.shape), tuple(lin.weight.grad.shape), type(lin.weight.grad).__name__


@whole
def w_meta_tensors():
    with torch.device("meta"):
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        out = net(torch.randn(2, 4)).sum()
    out.backward()
    return tuple(out.shape), [tuple(each.grad.shape) for each in net.parameters()]


@whole
def w_subclass_that_logs():
    Logged.calls.clear()
    x = torch.randn(3).as_subclass(Logged).requires_grad_()
    y = (x.exp() + torch.ones(3)).sum()
    y.backward()
    calls = tuple(Logged.calls)
    return type(y).__name__, x.grad.as_subclass(torch.Tensor), calls


@whole
def w_subclass_that_refuses():
    x = torch.randn(3).as_subclass(Refusing).requires_grad_()
    y = x.exp()
    return torch.tanh(y)


@whole
def w_wrapper_subclass():
    x = TwoTensor(torch.randn(3), torch.randn(3)).requires_grad_()
    y = (x * 2).sin().sum()
    y.backward()
    return x.grad.a, x.grad.b, y.detach().a


@whole
def w_wrapper_subclass_written():
    x = TwoTensor(torch.randn(3), torch.randn(3)).requires_grad_()
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@whole
def w_duck_with_torch_function():
    return torch.add(Boxed(torch.ones(2)), torch.ones(2)).value, type(torch.sin(Boxed(torch.ones(1)))).__name__


@whole
def w_parameter_subclass_and_buffer():
    class Special(torch.nn.Parameter):
        pass

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Special(torch.randn(3))
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return (self.weight * x).sum() * self.count

    net = Net()
    net(torch.randn(3)).backward()
    return net, net.weight.grad


@whole
def w_one_record_in_another():
    x = torch.randn(3, requires_grad=True)
    with block():
        y = x.exp()
        with block():
            z = y * 2
        z.sum().backward()
    return x.grad


@whole
def w_inner_record_left_by_an_error():
    x = torch.randn(3, requires_grad=True)
    try:
        with block():
            x.exp().sum().backward()
            raise KeyError("inner")  # noqa: TRY301  # meant: it leaves the inner block only
    except KeyError:
        mark("caught")
    x.sin().sum().backward()
    return x.grad


@whole
def w_torch_functions_disabled():
    x = torch.randn(3, requires_grad=True)
    with torch._C.DisableTorchFunction():
        y = x.exp()
    with torch._C.DisableTorchFunctionSubclass():
        z = y * 2
    z.sum().backward()
    return x.grad


@whole
def w_default_device_and_dtype():
    x = torch.ones(2)
    with torch.device(x.device):
        a = torch.randn(2, requires_grad=True)
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        b = torch.randn(2)
        (a * b).sum().backward()
    finally:
        torch.set_default_dtype(previous)
    return a.grad, b


@whole
def w_exported_with_a_side_left_open():
    """Whoever reads that side decides it: torch notes a guard."""
    layer = torch.nn.Linear(3, 2)
    program = torch.export.export(layer, (torch.randn(4, 3),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    program.module()(torch.randn(5, 3)).sum().backward()
    return str(program.graph_module.code), str(program.range_constraints), layer.weight.grad
