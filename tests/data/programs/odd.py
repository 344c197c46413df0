"""Input that a recorder must survive: a picture or a plain sentence, never an error of ours."""

from __future__ import annotations

import torch

from tests.data.programs import program


class BrokenRepr:
    def __repr__(self):
        raise RuntimeError("no repr")

    @property
    def __class__(self):
        raise RuntimeError("no class either")


@program()
def o_nothing_at_all():
    return 1 + 1


@program()
def o_no_gradient_anywhere():
    x = torch.arange(6).reshape(2, 3)
    return x @ x.T, x.sum()


@program()
def o_zero_elements():
    x = torch.empty(0, 3, requires_grad=True)
    y = (x * 2).sum()
    y.backward()
    x.data.zero_()
    return x.grad, y


@program()
def o_nan_and_infinity():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0], requires_grad=True)
    y = x.exp()
    y.sum().backward()
    return x.grad, y


@program()
def o_inference_tensor():
    with torch.inference_mode():
        x = torch.ones(2)
        x.add_(1)
    w = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        return x * w


@program()
def o_complex():
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    return z.grad


@program("silent_corruption", node="MulBackward0", tensor="z", route="data")
def o_complex_corrupted():
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    y = (z * z).abs().sum()  # victim
    z.data.zero_()  # culprit
    y.backward()
    return z.grad


@program()
def o_sparse():
    s = torch.eye(3).to_sparse().requires_grad_()
    torch.sparse.mm(s, torch.ones(3, 2)).sum().backward()
    return s.grad.to_dense()


@program()
def o_broken_repr_among_the_variables():
    broken = BrokenRepr()
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    return x.grad, id(broken) > 0


@program()
def o_an_error_that_is_not_torch_s():
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    raise ValueError("mine")


@program()
def o_shapes_that_do_not_fit():
    x = torch.ones(2, requires_grad=True)
    return x * torch.ones(3)


@program()
def o_source_that_nobody_has():
    space = {"torch": torch}
    code = "x = torch.ones(2, requires_grad=True)\ny = x.exp()\ny.sum().backward()"
    exec(compile(code, "<nowhere>", "exec"), space)  # noqa: S102  # code without a file is what this is about
    return space["x"].grad


@program()
def o_a_hook_that_raises():
    x = torch.ones(2, requires_grad=True)
    y = x * 2

    def hook(grad):
        raise KeyError(grad.shape)

    y.register_hook(hook)
    y.sum().backward()


@program()
def o_tensor_subclass():
    class Mine(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Mine).requires_grad_()
    (x * 2).sum().backward()
    return x.grad.as_subclass(torch.Tensor)
