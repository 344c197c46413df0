"""Custom autograd Functions, right ones and wrong ones."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.data.transparency import whole


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class CubeOnce(Cube):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class Split(Function):
    """The newer form: forward without ctx, with a rule for vmap and for forward mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor):
        return x * factor, x.argmax()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.factor = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g, _):
        return None if g is None else g * ctx.factor, None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent * ctx.factor, None


class Increment(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, g):
        return g


class Wrong(Function):
    @staticmethod
    def forward(ctx, x, how):
        ctx.how = how
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return {"count": (g,), "shape": (g[:1], None), "raise": ()}[ctx.how] if ctx.how != "raise" else 1 / 0


@whole
def w_custom_function():
    x = torch.randn(3, requires_grad=True)
    y = Cube.apply(x.sin())
    y.sum().backward()
    return y, x.grad


@whole
def w_custom_function_twice_differentiated():
    x = torch.randn(3, requires_grad=True)
    (first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    first.sum().backward()
    return first, x.grad


@whole
def w_custom_function_once_differentiable():
    x = torch.randn(3, requires_grad=True)
    (first,) = torch.autograd.grad((CubeOnce.apply(x) * x).sum(), x, create_graph=True)
    first.sum().backward()


@whole
def w_custom_function_in_the_newer_form():
    x = torch.randn(3, requires_grad=True)
    y, best = Split.apply(x, 4)
    y.sum().backward()
    mapped, _ = torch.func.vmap(Split.apply, (0, None))(torch.randn(2, 3), 5)
    return y, best, x.grad, mapped, torch.func.jvp(lambda v: Split.apply(v, 2)[0], (x.detach(),), (torch.ones(3),))


@whole
def w_custom_function_marks_dirty():
    x = torch.randn(3, requires_grad=True)
    y = x * 2
    z = Increment.apply(y)
    (z * z).sum().backward()
    return z is y, z, x.grad


@whole
def w_custom_function_dirties_a_leaf():
    return Increment.apply(torch.randn(3, requires_grad=True))


@whole
def w_custom_function_gives_too_few_gradients():
    Wrong.apply(torch.randn(3, requires_grad=True), "count").sum().backward()


@whole
def w_custom_function_gives_the_wrong_shape():
    Wrong.apply(torch.randn(3, requires_grad=True), "shape").sum().backward()


@whole
def w_custom_function_raises_in_backward():
    Wrong.apply(torch.randn(3, requires_grad=True), "raise").sum().backward()


@whole
def w_custom_function_saved_tensor_overwritten():
    x = torch.randn(3, requires_grad=True)
    h = x * 2
    y = Cube.apply(h)
    h.add_(1)
    y.sum().backward()


@whole
def w_custom_function_freed():
    x = torch.randn(3, requires_grad=True)
    y = Cube.apply(x).sum()
    y.backward()
    y.backward()


@whole
def w_custom_op():
    @torch.library.custom_op("seegrad_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def gradient(ctx, g):
        return g * 2

    twice.register_autograd(gradient)
    x = torch.randn(3, requires_grad=True)
    twice(x).sum().backward()
    return x.grad


@whole
def w_custom_op_that_writes():
    @torch.library.custom_op("seegrad_test::raise_by", mutates_args=("x",))
    def raise_by(x: torch.Tensor, amount: float) -> None:
        x.add_(amount)

    x = torch.randn(3)
    w = torch.randn(3, requires_grad=True)
    y = w * x
    raise_by(x, 1.5)
    y.sum().backward()
