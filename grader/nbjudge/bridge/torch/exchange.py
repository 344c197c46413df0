"""Tensors' part of a conversation: what they say in each packet, and the questions that gradients and hooks ask."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbjudge.bridge.around.parts import PARTS, Conversation, Looked
from nbjudge.bridge.torch import hooks, torch_private
from nbjudge.bridge.torch.autograd import storage_bytes, view_of
from nbjudge.bridge.torch.kinds import TENSORS, Bare
from nbjudge.bridge.torch.mirror import Message, Mirror
from nbjudge.bridge.torch.reads import FACTS, Reads, watched
from nbjudge.bridge.values.memories import Memories
from nbjudge.bridge.values.table import STORAGE_BYTES, Body, UnsupportedError
from nbjudge.errors import WireError
from nbjudge.wire import Packet, whole

GRADIENT = "a gradient on its way"  # the place of a write to one
CALLS = ("call", "method")  # a generator's step, or entering its own context, may leave what its next one puts back
FLOATS = {str(dtype): dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}


@dataclass(frozen=True, slots=True)
class SaidTensors:
    """What is said of tensors in one packet."""

    mirror: Mirror
    message: Message
    refused: str = ""  # why none may cross

    def share(self, tensor: Tensor) -> int:
        """The number of a tensor, telling the other side about it where it is new."""
        if self.refused:
            raise UnsupportedError(self.refused)
        return self.mirror.share(tensor, self.message)

    def data(self, tensor: Tensor) -> dict[str, Any]:
        """A tensor's values alone."""
        return self.mirror.data(tensor, self.message)

    def first(self, value: Any) -> None:
        """Say a tensor now: it is heard before arrays, which may lie in its memory."""
        if isinstance(value, Tensor) and value.layout is torch.strided:
            self.share(value)

    def check(self) -> None:
        """Raises UnsupportedError where something couldn't be said."""
        self.message.check()

    def to_json(self) -> dict[str, Any]:
        """The part of the header that is about tensors."""
        return self.message.to_json()


class Exchange:
    """One side's shared tensors, and what it asks and answers about them."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._judges = conversation.side == 0
        self.mirror = Mirror(conversation.side, self._products, self._hooked, self._settled)
        self.mirror.changes = conversation.changes
        self._reads: Reads | None = None  # of the question that is asked
        self._at_first, self._left = torch.get_default_dtype(), ""  # what this side's cells have left changed
        self._refused = ""  # while a call is answered after which the test would go on with that
        conversation.answers["products"] = self._answer_products
        conversation.answers["hooks"] = self._answer_hooks
        conversation.answers["settled"] = self._answer_settled

    # ------------------------------------------------------------------ packets

    def begin(self, body: Body) -> SaidTensors:
        """Say all that has changed here since the last packet."""
        if self._reads is not None:
            self._reads.rest()
        return SaidTensors(self.mirror, self.mirror.begin(body), self._refused)

    def hear(self, said: Any, body: Body) -> None:
        """Take over what the other side says is new, changed or gone."""
        self.mirror.apply(said, bytes(body.data))

    def lie_in(self, memories: Memories) -> None:
        """Arrays' memory and tensors' storages may be the same."""
        self.mirror.memories, memories.lender = memories, self.mirror

    def pinned(self) -> contextlib.AbstractContextManager[None]:
        """Meanwhile no shared tensor vanishes."""
        return self.mirror.ledger.pinned()

    def around(self) -> dict[str, Any]:
        """Whether gradients are recorded; the judge's default dtype too."""
        said: dict[str, Any] = {"grad": torch.is_grad_enabled()}
        return said | ({"dtype": str(torch.get_default_dtype())} if self._judges else {})

    @contextlib.contextmanager
    def entered(self, header: Mapping[str, Any]) -> Iterator[None]:
        """Meanwhile gradients are recorded, and numbers made, as the question says.

        Raises:
            UnsupportedError: an answer leaves either changed, or one of its cells has, which the test would go on with
                in one process; where it has no tensor of the answer's, it won't see that.
        """
        default, recorded = torch.get_default_dtype(), header.get("grad") is not False
        wanted = default if self._judges else FLOATS.get(str(header.get("dtype")), default)
        if header.get("op") == "names":  # before the test has changed either
            self._left = self._left_by_cells(recorded=recorded, changed=wanted is not default is not self._at_first)
        called = not self._judges and header.get("op") in CALLS
        self._refused = refused = self._left if called else ""
        if refused and _names_a_tensor([header.get("value"), header.get("containers")]):
            raise UnsupportedError(refused)
        try:
            with contextlib.nullcontext() if refused else self._as_asked(recorded, wanted, called=called):
                yield
        finally:
            self._refused = refused  # what it has asked meanwhile may have been answered by another rule

    @staticmethod
    @contextlib.contextmanager
    def _as_asked(recorded: bool, wanted: torch.dtype, *, called: bool) -> Iterator[None]:
        default = torch.get_default_dtype()
        with torch.set_grad_enabled(recorded):
            if wanted is not default:
                torch.set_default_dtype(wanted)
            try:
                yield
                if called:
                    if torch.is_grad_enabled() is not recorded:
                        raise UnsupportedError("a call that leaves the recording of gradients switched")
                    if torch.get_default_dtype() is not wanted:
                        raise UnsupportedError("a call that leaves another default dtype")
            finally:
                if wanted is not default:
                    torch.set_default_dtype(default)

    @staticmethod
    def _left_by_cells(*, recorded: bool, changed: bool) -> str:
        if recorded and not torch.is_grad_enabled():
            return "a cell that leaves the recording of gradients switched off"
        return "a cell that leaves another default dtype" if changed else ""

    # ------------------------------------------------------------------ generators

    def seeding(self) -> Sequence[tuple[Any, str]]:
        """The functions that set torch's generator."""
        return [(module, name) for module in (torch, torch.random) for name in ("manual_seed", "set_rng_state")]

    def random_state(self) -> bytes:
        """Where it stands."""
        return bytes(torch.get_rng_state().numpy().tobytes())

    def draw(self, count: int) -> None:
        """Draw so many numbers, for nobody."""
        with torch_private.unseen():
            torch.empty(count).uniform_()

    def put_random_state(self, stands: bytes) -> None:
        """Let it stand there."""
        torch.set_rng_state(torch.frombuffer(bytearray(stands), dtype=torch.uint8))

    # ------------------------------------------------------------------ what is passed

    def clone(self, value: Any, memo: dict[Any, Any]) -> Any:
        """Of a plain tensor; one that has to do with gradients has to be itself."""
        with torch_private.unseen():
            if type(value) is not Tensor or value.requires_grad or value.layout is not torch.strided:
                return value
            here = value.untyped_storage()
            if not here.nbytes() or here.nbytes() > STORAGE_BYTES or value.is_conj() or value.is_neg():
                return value.clone()
            copied = memo.setdefault(here.data_ptr(), view_of(here).copy())
            made = torch.empty(0, dtype=value.dtype)
            on = torch.from_numpy(copied).untyped_storage()
            return made.set_(on, value.storage_offset(), value.shape, value.stride())

    def keys(self, value: Any) -> list[tuple[Hashable, str]]:
        """What the changes of a tensor, and of its gradient, are known by; and which of the two it is."""
        if not isinstance(value, Tensor):
            return []
        with torch_private.unseen():
            return list(self.mirror.keys(value))

    # ------------------------------------------------------------------ what a test reads

    def is_foreign(self, tensor: Tensor) -> bool:
        """Did the other side bring this tensor in?"""
        number = self.mirror.ledger.number_of(tensor)
        return number is not None and number in self.mirror.ledger.foreign

    def watch(self, looked: Looked) -> None:
        """From here on, note what a test reads of a tensor that only the other side vouches for."""
        for name in FACTS:
            setattr(torch.Tensor, name, watched(name, looked, self.is_foreign))

    def reading(self, looked: Looked) -> Reads:
        """Meanwhile, note when a test looks at the values of such a tensor."""
        self._reads = Reads(looked, self.is_foreign)
        return self._reads

    # ------------------------------------------------------------------ asking

    def _products(self, link: int, grad: Tensor) -> Sequence[Tensor | None]:
        """The other side's vector-Jacobian products; shared, with their own history, when a graph of them is wanted."""
        create = torch.is_grad_enabled()
        said = {"link": link, "create": create}
        products, written = _two(self._conversation.ask("products", said, grad if create else Bare(grad)))
        if type(products) is not tuple or any(not (item is None or isinstance(item, Tensor)) for item in products):
            raise WireError("Gradients aren't tensors.")
        if (changes := self._conversation.changes) is not None:
            changes.came(GRADIENT, products)
        self._write(grad, written)
        return products

    def _hooked(self, number: int, grad: Tensor) -> Tensor | None:
        """What the other side's hooks make of the gradient of a shared tensor."""
        create = torch.is_grad_enabled()
        said = {"tensor": number, "create": create}
        changed, written = _two(self._conversation.ask("hooks", said, grad if create else Bare(grad)))
        if not isinstance(changed, Tensor) or changed.shape != grad.shape:
            raise WireError("A hook has made something else of a gradient.")
        self._write(grad, written)
        return changed

    def _write(self, grad: Tensor, written: Any) -> None:
        """A gradient has been written over there: whoever was given the same memory here sees it, as in one process.

        A test may have made what it expects of that memory: it is an effect, kept away when the question is asked anew.
        """
        if not isinstance(written, Tensor) or written.shape != grad.shape:
            return
        before, changes = grad.detach().clone(), self._conversation.changes
        if changes is None or changes.may_change(GRADIENT, lambda: _put(grad, before)):
            _put(grad, written)

    def _settled(self, number: int) -> None:
        """The other side's hooks see the gradient that a shared leaf has just got; what they change comes back."""
        self._conversation.ask("settled", {"tensor": number})

    # ------------------------------------------------------------------ answering

    def _answer_hooks(self, packet: Packet) -> Any:
        tensor = self.mirror.ledger.tensor(whole(packet.header, "tensor"))
        grad = self._conversation.given(packet)
        if not isinstance(grad, Tensor):
            raise WireError("A frame passes no gradient to a hook.")
        if packet.header.get("create") is True:
            return hooks.run(tensor, grad), None
        with _noticed(grad) as written:
            changed = hooks.run(tensor, grad)
        return Bare(changed), *written

    def _answer_settled(self, packet: Packet) -> None:
        hooks.run_after(self.mirror.ledger.tensor(whole(packet.header, "tensor")))

    def _answer_products(self, packet: Packet) -> Any:
        link = self.mirror.ledger.links.get(whole(packet.header, "link"))
        grad = self._conversation.given(packet)
        if link is None or not isinstance(grad, Tensor):
            raise WireError("A frame asks for a gradient of something unknown.")
        if not link.inputs:
            return (), None
        create = packet.header.get("create") is True
        with self.mirror.grads_kept(link), _noticed(grad) as written:
            products = link.products(grad, create_graph=create)
        if create:  # the gradient is shared: what is written to it crosses by itself
            return tuple(products), None
        return tuple(None if item is None else Bare(item) for item in products), *written


def _names_a_tensor(tree: Any) -> bool:
    """Does what a packet says hold a tensor?"""
    left = [tree]
    while left:
        item = left.pop()
        if type(item) is dict and item.get("t") == "tensor":
            return True
        left += item.values() if type(item) is dict else item if type(item) is list else ()
    return False


@contextlib.contextmanager
def _noticed(grad: Tensor) -> Iterator[list[Bare | None]]:
    """What a gradient has become meanwhile, None where nobody has written it: a hook may, behind its version too."""
    before, found = storage_bytes(grad.untyped_storage()), list[Bare | None]()
    yield found
    found.append(Bare(grad) if storage_bytes(grad.untyped_storage()) != before else None)


def _put(grad: Tensor, values: Tensor) -> None:
    with torch.no_grad():
        grad.copy_(values)


def _two(answer: Any) -> tuple[Any, Any]:
    if type(answer) is not tuple or len(answer) != 2:
        raise WireError("An answer about a gradient has another form.")
    return answer


PARTS[TENSORS] = Exchange
