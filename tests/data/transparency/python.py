"""Python around the program: generators, coroutines, debuggers, proxies, odd names, code without a file."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys

import torch

from tests.data.transparency import block, mark, whole


@whole
def w_generator():
    def batches():
        x = torch.randn(3, requires_grad=True)
        for number in range(3):
            yield (x * number).sum(), x

    grads = []
    for loss, x in batches():
        loss.backward()
        grads.append(x.grad.clone())
    return grads


@whole
def w_record_around_a_yield():
    def recorded():
        with block():
            yield torch.randn(2, requires_grad=True)
            mark("resumed")

    running = recorded()
    x = next(running)
    (x * 2).sum().backward()
    return x.grad, list(running)


@whole
def w_generator_closed_early():
    def endless():
        try:
            while True:
                with block():
                    yield torch.ones(2)
        finally:
            mark("closed")

    running = endless()
    first = next(running)
    running.close()
    return first


@whole
def w_coroutines():
    async def work(number):
        x = torch.full((2,), float(number), requires_grad=True)
        y = x.exp()
        await asyncio.sleep(0)
        y.sum().backward()
        return x.grad

    async def both():
        return await asyncio.gather(work(1), work(2))

    return asyncio.run(both())


@whole
def w_context_manager_and_exit_stack():
    @contextlib.contextmanager
    def scaled(x):
        x.mul_(2)
        try:
            yield x
        finally:
            x.div_(2)

    with contextlib.ExitStack() as stack:
        x = stack.enter_context(scaled(torch.ones(2)))
        stack.enter_context(torch.no_grad())
        inside = x.clone()
    return inside, x, x._version


@whole
def w_traced_by_a_debugger():
    lines = []

    def trace(frame, event, _):
        if frame.f_code is traced.__code__ and event == "line":
            lines.append(frame.f_lineno)
        return trace

    def traced():
        x = torch.ones(2, requires_grad=True)
        (x * 2).sum().backward()
        return x.grad

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return traced(), lines, sys.gettrace() is trace
    finally:
        sys.settrace(before)


@whole
def w_proxy_and_broken_repr():
    class Proxy:
        def __init__(self, target):
            object.__setattr__(self, "target", target)

        @property
        def __class__(self):
            mark("asked for its class")
            return torch.Tensor

        def __repr__(self):
            raise RuntimeError("no repr")

        def __getattr__(self, name):
            mark(f"asked for {name}")
            return getattr(self.target, name)

        def __bool__(self):
            raise RuntimeError("no truth")

        def __eq__(self, other):
            raise RuntimeError("not comparable")

        __hash__ = None

    proxy = Proxy(torch.ones(2))
    bag = [proxy, proxy]
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.sum().backward()
    return x.grad, len(bag)


@whole
def w_lazy_attributes_are_not_asked():
    class Net(torch.nn.Module):
        @property
        def expensive(self):
            mark("computed")
            return torch.ones(1)

    class Registry(dict):
        def __getitem__(self, key):
            mark(f"looked up {key}")
            return super().__getitem__(key)

        def items(self):
            mark("listed")
            return super().items()

    net, registry = Net(), Registry(a=torch.ones(1))
    x = torch.ones(2, requires_grad=True)
    x.exp().sum().backward()
    return x.grad, isinstance(net, torch.nn.Module), len(registry)


@whole
def w_names_in_other_scripts():
    λ = torch.ones(2, requires_grad=True)
    权重 = λ * 2  # noqa: N806  # Chinese knows no small letters
    权重.sum().backward()
    return λ.grad


@whole
def w_enormous_local_variables():
    numbers = list(range(200_000))
    table = {str(i): i for i in range(50_000)}
    x = torch.ones(2, requires_grad=True)
    for _ in range(5):
        x.exp().sum().backward()
    return x.grad, len(numbers) + len(table)


@whole
def w_code_without_a_file():
    space = {"torch": torch}
    exec("x = torch.ones(2, requires_grad=True)\ny = x.exp()\ny.add_(1)\ny.sum().backward()", space)  # noqa: S102  # meant


@whole
def w_lambda_and_comprehension():
    x = torch.randn(3, requires_grad=True)
    parts = [(lambda v, k=k: v**k)(x).sum() for k in range(3)]
    total = {str(i): part for i, part in enumerate(parts)}
    sum(total.values()).backward()
    return x.grad


@whole
def w_stack_seen_by_the_program():
    """Who looks at its own callers finds the program's functions in the same order."""
    names = []

    class Watching(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            here = [frame.function for frame in inspect.stack() if frame.filename == __file__]
            names.append([name for name in here if not name.startswith("<")])
            return super().__torch_function__(func, types, args, kwargs or {})

    torch.ones(2).as_subclass(Watching).add(1)
    return names


@whole
def w_own_exception_class():
    class Strange(Exception):
        def __init__(self, code, *, hint):
            super().__init__(code)
            self.hint = hint

        def __str__(self):
            return f"{self.args[0]} ({self.hint})"

    x = torch.ones(2, requires_grad=True)
    y = x.exp()

    def raising(_):
        raise Strange(7, hint="on purpose")

    y.register_hook(raising)
    y.sum().backward()


@whole
def w_error_chained_by_the_program():
    try:
        torch.ones(2) @ torch.ones(3)
    except RuntimeError as error:
        raise ValueError("shapes") from error


@whole
def w_exit():
    torch.ones(2, requires_grad=True).exp().sum().backward()
    sys.exit(3)


@whole
def w_errors_that_are_caught():
    said = []
    x = torch.ones(2, requires_grad=True)
    for attempt in (
        lambda: x.add_(1),
        lambda: x.reshape(3),
        lambda: x[5],
        lambda: torch.no_such_function,
        lambda: torch.ones(2, dtype=torch.long, requires_grad=True),
        lambda: x.backward(torch.ones(5)),
        lambda: torch.cat([x, "not a tensor"]),
    ):
        try:
            attempt()
        except Exception as error:
            said.append((type(error).__name__, str(error)))
    return said
