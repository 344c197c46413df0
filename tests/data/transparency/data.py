"""Tensors that are not plain: sparse, complex, narrow, empty, quantised, nested, shared with others."""

from __future__ import annotations

import numpy as np
import torch

from tests.data.transparency import whole


@whole
def w_sparse():
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    coo = dense.to_sparse().requires_grad_()
    out = torch.sparse.mm(coo, torch.randn(2, 3, requires_grad=True))
    out.sum().backward()
    return out, coo.grad, dense.to_sparse_csr().to_dense()


@whole
def w_sparse_written():
    sparse = torch.eye(3).to_sparse()
    sparse.mul_(2)
    w = torch.randn(3, 3, requires_grad=True)
    y = torch.sparse.mm(sparse, w)
    y.sum().backward()
    return sparse, w.grad


@whole
def w_complex():
    z = torch.randn(3, dtype=torch.complex64, requires_grad=True)
    y = torch.fft.ifft(torch.fft.fft(z) * z.conj())
    (y.real.square() + y.imag).sum().backward()
    return y, z.grad, torch.view_as_real(z.detach()), z.detach().conj().is_conj()


@whole
def w_narrow_numbers():
    x = torch.randn(4, dtype=torch.bfloat16, requires_grad=True)
    h = torch.randn(4, dtype=torch.float16)
    y = (x * x).sum() + (x.to(torch.float32) * h.float()).sum()
    y.backward()
    return y, x.grad, torch.randn(3).to(torch.float8_e4m3fn).to(torch.float32)


@whole
def w_integers_and_truth():
    x = torch.arange(6).reshape(2, 3)
    x[x > 2] = 0
    x |= 1
    return x, x.bool().any(), torch.bincount(x.flatten()), x // 2, x.tolist()


@whole
def w_empty_and_scalar():
    empty = torch.zeros(0, 3, requires_grad=True)
    scalar = torch.tensor(2.0, requires_grad=True)
    (empty.sum() + scalar**2).backward()
    scalar.data.fill_(3)
    empty.detach().fill_(1)
    return empty.grad, scalar.grad, scalar.item(), torch.zeros(())[None]


@whole
def w_not_a_number():
    x = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45], requires_grad=True)
    y = x / x + x.log()
    y.sum().backward()
    return y, x.grad, x.isnan()


@whole
def w_quantised():
    x = torch.tensor([1.0, 2.0, 3.0])
    q = torch.fake_quantize_per_tensor_affine(x.requires_grad_(), 0.1, 0, -128, 127)
    q.sum().backward()
    return q, x.grad


@whole
def w_nested():
    ragged = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
    w = torch.randn(3, 2, requires_grad=True)
    out = (ragged @ w).values()
    out.sum().backward()
    return out, w.grad


@whole
def w_shared_with_numpy():
    with torch.device("cpu"):
        a = np.arange(4, dtype=np.float32)
        x = torch.from_numpy(a)
        w = torch.ones(4, requires_grad=True)
        y = w * x
        a[0] = 9
        y.sum().backward()
        return w.grad, x, a, np.asarray(x), x.numpy().ctypes.data == a.ctypes.data


@whole
def w_shared_by_dlpack_and_storage():
    x = torch.randn(4)
    w = torch.randn(4, requires_grad=True)
    y = w * x
    alias = torch.from_dlpack(x)
    alias[0] = 3
    torch.empty(0, device=x.device).set_(x.untyped_storage()).mul_(2)
    y.sum().backward()
    return w.grad, x, x._version, alias._version


@whole
def w_views_of_views():
    base = torch.randn(4, 6, requires_grad=True)
    work = base * 1
    part = work[:, ::2].t()[1:]
    part.mul_(3)
    work.view(-1)[::5] += 1
    torch.as_strided(work, (2, 2), (6, 1)).zero_()
    first, second = work.chunk(2)
    (work * first.sum() + second.mean() + part.sum()).sum().backward()
    return base.grad, work, part, part._version


@whole
def w_views_that_may_not_be_written():
    a, b = torch.randn(4, requires_grad=True).exp().split(2)
    a.mul_(2)
    return b


@whole
def w_views_whose_base_was_written():
    work = torch.randn(4, requires_grad=True).exp()
    first, second = work.chunk(2)
    work[0] = 1
    return first * second


@whole
def w_overlapping_memory():
    torch.zeros(1).expand(3).add_(torch.arange(3))


@whole
def w_written_while_it_is_read():
    x = torch.arange(6.0)
    x[1:] = x[:-1].clone()
    x[:3].copy_(x[3:])
    torch.add(x, 1, out=x)
    return x, x._version, torch.sum(x, 0, out=torch.zeros(()))


@whole
def w_resized_and_set():
    x = torch.randn(4)
    x.resize_(2)
    y = torch.randn(3)
    x.set_(y)
    z = torch.randn(3, requires_grad=True)
    z.data = torch.ones(5)
    z.sum().backward()
    z.grad = None
    (z * 2).sum().backward()
    return x, y._version, z, z.grad


@whole
def w_indexed_in_all_ways():
    x = torch.randn(4, 4, requires_grad=True)
    y = x * 1
    y[torch.tensor([0, 2])] = 1.0
    y[y > 1] = 0.5
    y[..., None, 1] *= 2
    y[[1, 3], [0, 1]] = torch.zeros(2)
    y.index_add_(0, torch.tensor([1]), torch.ones(1, 4))
    y.scatter_(1, torch.zeros(4, 1, dtype=torch.long), 7.0)
    y.masked_fill_(torch.eye(4, dtype=torch.bool), -1)
    y.sum().backward()
    return y, x.grad, y._version


@whole
def w_linear_algebra():
    a = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    spd = a @ a.mT + torch.eye(3, dtype=torch.float64)
    parts = torch.linalg.cholesky(spd), torch.linalg.eigvalsh(spd), torch.linalg.solve(spd, a), spd.logdet()
    sum(each.sum() for each in parts).backward()
    return parts, a.grad


@whole
def w_foreach_and_out():
    tensors = [torch.randn(2) for _ in range(3)]
    torch._foreach_add_(tensors, 1.0)
    norms = torch._foreach_norm(tensors)
    out = torch.empty(2)
    torch.mul(tensors[0], tensors[1], out=out)
    return tensors, norms, out, [each._version for each in tensors]


@whole
def w_named_dimensions():
    x = torch.zeros(2, 3).refine_names("N", "C")
    return x.sum("C").rename(None), x.names


@whole
def w_printed():
    x = torch.arange(4.0, requires_grad=True)
    print(x, x * 2, f"{x.sum():.2f}", x.sum())
    return repr(x.exp()), str(torch.zeros(0)), len(x), bool(x[0] == 0), hash(x) == hash(x), x.sum().__format__(".1f")


@whole
def w_storage_freed_and_filled_again():
    """What FSDP does with the parameters that it has gathered; between the two there is nothing to read."""
    x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
    y, memory = (x * w).sum(), w.untyped_storage()
    memory.resize_(0)
    between = torch.ones(3) + 1
    memory.resize_(12)
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(w):
        w.fill_(2.0)
    y.backward()
    return x.grad, between


@whole
def w_copied_when_written():
    """Two tensors share their bytes until one is written, or its address is asked for."""
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    shared = y._lazy_clone()
    loss = (shared * y).sum()
    cow = torch._C._is_cow_tensor(shared), torch._C._is_cow_tensor(y)
    loss.backward()
    return cow, x.grad
