"""`record(detail="content")`: a write that no counter sees is found, told with its line, and nothing else is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

import seegrad
from seegrad.capture.tables import content
from seegrad.capture.tables.content import FEW_BYTES, Fingerprint, fingerprint, kept, same, signs

LARGE = (150, 150)
"""More bytes than are copied."""

# -- the fingerprint


def different(before: torch.Tensor, now: torch.Tensor) -> bool:
    """What a look tells, asked both ways."""
    old, new = fingerprint(before), fingerprint(now)
    assert bool(content.differ(old, new)) is not same(old, new)
    return not same(old, new)


@given(data=st.data(), size=st.integers(1, 40_000))
def test_any_changed_byte_is_seen(data: Any, size: int) -> None:
    before = torch.randint(0, 256, (size,), dtype=torch.uint8)
    now, place = before.clone(), data.draw(st.integers(0, size - 1))
    now[place] = now[place] ^ data.draw(st.integers(1, 255))
    assert different(before, now)


@given(data=st.data(), size=st.integers(2, 20_000), dtype=st.sampled_from([torch.int16, torch.int32, torch.int64]))
def test_two_unequal_elements_that_change_places_are_seen(data: Any, size: int, dtype: torch.dtype) -> None:
    before = torch.randint(-(2**15), 2**15, (size,)).to(dtype)
    one, other = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    now = before.clone()
    now[one], now[other] = before[other], before[one]
    assert different(before, now) == (not torch.equal(before, now))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64])
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.neg_(),
        lambda x: x.mul_(2),
        lambda x: x.zero_(),
        lambda x: x.copy_(x.flip(0)),
        lambda x: x.copy_(x.roll(1)),
        lambda x: x[::2].neg_(),
        lambda x: x.view(-1, 4)[:, 1:3].neg_(),
    ],
    ids=["neg", "mul", "zero", "flip", "roll", "every other", "two of four"],
)
@pytest.mark.parametrize("size", [4, 508, 1020, 40_000, 400_000])
def test_whole_writes_are_seen(write: Callable[[torch.Tensor], Any], dtype: torch.dtype, size: int) -> None:
    """Of 1 and -1 in turn, whose bytes differ in one bit, and of random numbers."""
    for before in (torch.tensor([1.0, -1.0, 1.0, 1.0]).repeat(size // 4), torch.randn(size)):
        now = before.to(dtype).clone()
        write(now)
        assert different(before.to(dtype), now)


def test_what_is_equal_as_a_number_but_not_as_bytes_is_seen() -> None:
    zero, nan = torch.zeros(9000), torch.full((9000,), float("nan"))
    other = nan.clone()
    other.view(torch.int32)[77] ^= 1
    negative = zero.clone()
    negative[77] = -0.0
    assert torch.equal(zero, negative)
    assert different(zero, negative)
    assert other.isnan().all()
    assert different(nan, other)
    assert not different(nan, nan.clone())


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x,
        lambda x: x.t(),
        lambda x: x[3:],
        lambda x: x[:, 1:],
        lambda x: x[:, 3],
        lambda x: x[1:, 1:].t(),
        lambda x: x[0].expand(9, 200),
        lambda x: x[:, ::3],
        lambda x: x[:0],
        lambda x: torch.complex(x, x).conj(),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8])
def test_a_view_has_the_fingerprint_of_its_own_bytes(look: Any, dtype: torch.dtype) -> None:
    """What lies in its gaps, and before and after it, may change."""
    base = torch.randint(0, 255, (300, 200)).to(torch.float32)
    view = (
        look(base)
        if dtype is torch.float32
        else look(base.to(dtype))
        if "complex" not in str(look(base).dtype)
        else None
    )
    if view is None:
        return
    before = fingerprint(view)
    assert same(before, fingerprint(view))
    if view._base is None or not view.numel():
        return
    touched = torch.zeros_like(view._base, dtype=torch.bool)
    touched.as_strided(view.shape, view.stride(), view.storage_offset()).fill_(value=True)
    view._base[~touched] += 1
    assert same(before, fingerprint(view))
    view.view(-1)[:1].add_(1) if view.is_contiguous() else view[tuple([0] * view.dim())].add_(1)
    assert not same(before, fingerprint(view))


def test_a_fingerprint_is_small() -> None:
    x = torch.randn(2**20)
    found = kept(x)
    assert isinstance(found, Fingerprint)
    assert found.sums.numel() * 8 < x.numel() * 4 / 50
    assert isinstance(kept(x[: FEW_BYTES // 4]), torch.Tensor)
    assert same(signs(x), signs(x * 2))
    assert not same(signs(x), signs(-x))


# -- what is told


def told(rec: seegrad.record) -> list[tuple[str, str | None]]:
    return [(each.kind, each.culprit and each.culprit.code) for each in rec.diagnoses if each.severity != "note"]


@pytest.fixture(params=["at once", "later"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device that tells at once whether bytes have changed, and one that isn't waited for until backward is over."""
    if request.param == "at once":
        yield
        return
    waits: list[str] = []
    monkeypatch.setattr(content, "answers_at_once", lambda _: False)
    monkeypatch.setattr(content, "same", lambda *_: waits.append("same"))
    yield
    assert not waits


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("shape", [(3, 3), LARGE], ids=["copied", "fingerprint"])
def test_a_pointer_s_write_is_told_with_its_line_many_lines_later(shape: tuple[int, int]) -> None:
    w = torch.ones(shape, requires_grad=True)
    address = w.data_ptr()
    with seegrad.record(detail="content") as rec:
        y = w * w
        z = y.exp()
        steps = len(y)
        ctypes.memset(address, 0, 4)
        steps += 1
        loss = (z + y).sum()
        loss = loss * 2
        loss.backward()
    assert told(rec) == [("silent_corruption", "ctypes.memset(address, 0, 4)")]
    assert rec.diagnoses[0].tensor == "w"


@torch.library.custom_op("seegrad_tests::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    """An op that says it writes nothing, and does: what a kernel in Triton or CUDA may do."""
    out = x * 2
    x.detach().numpy()[...] += 1
    return out


scale.register_autograd(
    lambda ctx, gradient: gradient * 2 + ctx.saved_tensors[0] * 0,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),  # noqa: ARG005  # torch names them
)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("shape", [(3, 3), LARGE], ids=["copied", "fingerprint"])
def test_an_op_of_torch_library_that_writes_its_saved_input_is_told(shape: tuple[int, int]) -> None:
    x = torch.ones(shape, requires_grad=True)
    with seegrad.record(detail="content") as rec:
        y = x.exp()
        z = y * 1
        out = scale(y)
        out = out + 1
        (out + z).sum().backward()
    assert told(rec) == [("silent_corruption", "out = scale(y)")]
    assert rec.diagnoses[0].tensor == "y"
    assert x.grad is not None
    assert not torch.allclose(x.grad, 3 * torch.ones(shape).exp())


@pytest.mark.usefixtures("device")
def test_what_such_an_op_has_saved_is_told_when_a_second_call_writes_it() -> None:
    """What its own call wrote it has saved as it was left: only the second call spoils it."""
    x = torch.ones(LARGE, requires_grad=True)
    with seegrad.record(detail="content") as rec:
        y = x * 1
        one = scale(y)
        one.sum().backward(retain_graph=True)
        two = scale(y)
        (one + two).sum().backward()
    assert told(rec) == [("silent_corruption", "two = scale(y)")]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("shape", [(3, 3), LARGE], ids=["copied", "fingerprint"])
def test_numpy_s_write_is_told_many_events_after_the_array_was_made(shape: tuple[int, int]) -> None:
    x = torch.ones(shape, requires_grad=True)
    with seegrad.record(detail="content") as rec:
        y = x.exp()
        array = y.detach().numpy()
        z = y + 1
        z = z + 1
        array[0] = 7
        z = z + 1
        z.sum().backward()
    assert told(rec) == [("silent_corruption", "array[0] = 7")]


@pytest.mark.usefixtures("device")
def test_what_was_handed_out_long_ago_is_told_with_its_line() -> None:
    """It's compared ever less often: several lines may have written since the last look."""
    x = torch.ones(3, requires_grad=True)
    with seegrad.record(detail="content") as rec:
        y = x.exp()
        array = y.detach().numpy()
        z = y + 1
        for _ in range(150):
            z = z + 1
        z = z * 2
        sum(array)
        z = z * 2
        array[0] = 7
        z = z * 2
        z.sum().backward()
    assert told(rec) == [("silent_corruption", "array[0] = 7")]


def test_looks_at_what_many_calls_have_handed_out_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of kernels that are given every tensor's address: twice the calls take little more than twice the looks."""
    looks: list[int] = []
    monkeypatch.setattr(content, "same", lambda *both: bool(looks.append(1)) or same(*both))

    def looks_of(calls: int) -> int:
        looks.clear()
        with seegrad.record(detail="content"):
            x = torch.ones(3, requires_grad=True)
            for _ in range(calls):
                x = x.exp()
                x.data_ptr()
            x.sum().backward()
        return len(looks)

    assert looks_of(400) < 3 * looks_of(200)


def test_the_second_lap_of_a_loop_knows_the_line() -> None:
    """The first guess may be wrong: two calls between which nothing was compared look alike."""
    w = torch.ones(LARGE, requires_grad=True)
    address = w.data_ptr()

    def innocent() -> None:
        pass

    def guilty() -> None:
        ctypes.memset(address, 0, 4)

    with seegrad.record(detail="content") as rec:
        for _ in range(2):
            y = (w * w).exp()
            innocent()
            y = y + 1
            guilty()
            y = y + 1
            y.sum().backward()
            with torch.no_grad():
                w.fill_(1)
    assert told(rec)[-1] == ("silent_corruption", "guilty()")


class WritesInBackward(torch.autograd.Function):
    """Its backward goes to an address: what a kernel does that uses a saved tensor as scratch memory."""

    address = 0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG004  # torch's own signature
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # noqa: ARG004  # torch's own signature
        ctypes.memset(WritesInBackward.address, 0, 4)
        return gradient


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("shape", [(3, 3), LARGE], ids=["copied", "fingerprint"])
def test_a_write_by_a_custom_backward_is_found(shape: tuple[int, int]) -> None:
    w = torch.ones(shape, requires_grad=True)
    WritesInBackward.address = w.data_ptr()
    with seegrad.record(detail="content") as rec:
        WritesInBackward.apply(w * w).sum().backward()
    assert [kind for kind, _ in told(rec)] == ["silent_corruption"]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.relu(x * 1).data.mul_(2),
        lambda x: (x * 1).sum().backward(),
        lambda x: (x[:, :10] * x[:, :10]).sum().backward(),
        lambda x: (x.t() @ x).sum().backward(),
    ],
)
def test_nothing_is_told_where_nothing_is_wrong(program: Callable[[torch.Tensor], Any]) -> None:
    x = torch.randn(LARGE, requires_grad=True)
    with seegrad.record(detail="content") as rec:
        program(x)
    assert told(rec) == []


@pytest.mark.usefixtures("device")
def test_where_only_the_sign_is_read_only_the_sign_is_compared() -> None:
    x = torch.randn(LARGE, requires_grad=True)
    with seegrad.record(detail="content") as rec:
        y = torch.relu(x)
        y.data.mul_(2)
        y.sum().backward()
    assert told(rec) == []
    with seegrad.record(detail="content") as rec:
        y = torch.relu(x)
        y.data.add_(2)
        y.sum().backward()
    assert [kind for kind, _ in told(rec)] == ["silent_corruption"]


def test_a_conjugate_isn_t_the_same_as_its_tensor() -> None:
    z = torch.complex(torch.ones(LARGE), torch.ones(LARGE)).requires_grad_()
    with seegrad.record(detail="content") as rec:
        (z * z.conj()).real.sum().backward()
    assert told(rec) == []


def test_nothing_saved_lives_longer() -> None:
    with seegrad.record(detail="content"):
        x = torch.ones(LARGE, requires_grad=True)
        y = x.exp()
        loss = (y * y).sum()
        bytes_of_y = StorageWeakRef(y.untyped_storage())
        del y
        loss.backward()
        assert bytes_of_y.expired()
