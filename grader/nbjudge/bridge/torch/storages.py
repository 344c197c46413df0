"""A storage that two processes share: only what shared tensors show of it crosses.

A slice is a view on all of its tensor's bytes, test data beside training data. What no tensor that was passed shows
reads as zeros over there, and what is written there isn't taken over.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nbjudge.bridge.torch.autograd import overwrite, storage_bytes, view_of
from nbjudge.bridge.torch.records import ITEM_BYTES, Window
from nbjudge.bridge.values.memories import Extent, Memory


class Storage:
    """A shared storage, which of its bytes are shown, and those as both sides last agreed on them."""

    def __init__(
        self, number: int, here: torch.UntypedStorage, agreed: bytes | None, over: tuple[Memory, int] | None = None
    ) -> None:
        self.over = over  # the arrays' memory that it lies on, and where: what they show changes with them
        self.id, self.here, self.agreed = number, here, agreed  # None: the other side hasn't heard of it
        self._shown: Tensor | None = torch.zeros(here.nbytes(), dtype=torch.uint8)  # 255 where it is; None: all is
        self._untouched = True  # is nothing of it shown yet?
        self._view: Any = None  # made once: what lies here is compared in each packet
        self._place: tuple[int, int] = (0, 0)  # where that view looks

    def now(self) -> bytes:
        """What is shown of its bytes as they are now, zeros elsewhere; copied."""
        place = (self.here.data_ptr(), self.here.nbytes())
        if self._view is None or place != self._place:
            self._view, self._place = view_of(self.here), place
        if self._shown is None:
            return bytes(self._view.tobytes())
        if self._shown.numel() != self.here.nbytes():
            return bytes(self.here.nbytes())  # resized: the other side refuses it
        return bytes((self._view & self._shown.numpy()).tobytes())

    def show(self, window: Window) -> None:
        """From now on these items are shown too."""
        self._untouched = False
        if self._shown is not None and _is_whole(window, self._shown.numel()):
            self._shown = None  # as most are, without a look at any byte
        if self._shown is not None:
            _bytes_in(self._shown, window).fill_(255)
            if bool((self._shown == 255).all()):
                self._shown = None

    def shows(self, window: Window) -> bool:
        """Are all these items shown already?"""
        if self._shown is None or self._untouched:
            return self._shown is None or 0 in window.shape
        return bool((_bytes_in(self._shown, window) == 255).all())

    def show_array(self, extent: Extent) -> None:
        """The same of an array's, which brings its items: both sides know them then."""
        self._untouched = False
        if self._shown is not None:
            extent.items_of(self._shown.numpy())[...] = 255
            if bool((self._shown == 255).all()):
                self._shown = None
            self.agreed = self.now()

    @property
    def mask(self) -> Any:
        """For each byte, whether it is shown; None: all are."""
        return None if self._shown is None else self._shown.numpy() == 255

    def take(self, data: bytes) -> None:
        """Write what the other side has made of what is shown."""
        if self._shown is not None:
            shown = self._shown.numpy()
            told = torch.frombuffer(bytearray(data), dtype=torch.uint8).numpy() if data else view_of(self.here)
            data = ((told & shown) | (view_of(self.here) & ~shown)).tobytes()
        overwrite(self.here, data)

    def take_beside(self, data: bytes, memory: Memory, start: int) -> None:
        """Write what only tensors show of the arrays' memory beneath."""
        if memory.shown is not None:
            here, told = view_of(self.here), torch.frombuffer(bytearray(data), dtype=torch.uint8).numpy()
            beside = ~memory.shown[start : start + len(data)]
            here[beside] = told[beside]

    def only_here(self, memory: Memory, start: int) -> Any:
        """For each byte, whether tensors show it and no array on the memory beneath does; None: arrays show all."""
        if memory.shown is None:
            return None
        beside = ~memory.shown[start : start + self.here.nbytes()]
        return beside if self.mask is None else beside & self.mask

    def differs_at(self, where: Any, data: bytes) -> bool:
        """Is one of these of all bytes another here?"""
        told = torch.frombuffer(bytearray(data), dtype=torch.uint8).numpy()
        return bool((view_of(self.here) != told)[where].any())

    def put_at(self, where: Any, data: bytes) -> None:
        """Write these of all bytes."""
        view_of(self.here)[where] = torch.frombuffer(bytearray(data), dtype=torch.uint8).numpy()[where]

    def put(self, whole: bytes) -> None:
        """Write all bytes."""
        overwrite(self.here, whole)

    def whole(self) -> bytes:
        """All its bytes, copied."""
        return storage_bytes(self.here)


class StorageBeneath:
    """A shared storage as the memory that arrays lie in."""

    def __init__(self, storage: Storage, *, ours: bool) -> None:
        self.number, self.size, self.start = storage.id, storage.here.nbytes(), storage.here.data_ptr()
        self.ours, self._storage = ours, storage

    @property
    def shown(self) -> Any:
        """For each byte, whether it is shown; None: all are."""
        return self._storage.mask

    def flat(self) -> Any:
        """Its bytes, where they lie."""
        return view_of(self._storage.here)

    def shows(self, extent: Extent) -> bool:
        """Are all of these items shown?"""
        shown = self.shown
        return shown is None or bool(extent.items_of(shown).all())

    def show(self, extent: Extent) -> None:
        """From now on they are; the array that shows them brings them."""
        self._storage.show_array(extent)


def _is_whole(window: Window, size_bytes: int) -> bool:
    """Are these items, one after the other, all of a storage of so many bytes?"""
    items = 1
    for size, step in zip(reversed(window.shape), reversed(window.stride), strict=True):
        if size != 1 and step != items:
            return False
        items *= size
    return not window.offset and items * ITEM_BYTES[window.dtype] == size_bytes


def _bytes_in(mask: Tensor, window: Window) -> Tensor:
    """The bytes of a window's items, as a view; an expanded dimension once."""
    item_bytes = ITEM_BYTES[window.dtype]
    shape = [min(size, 1) if step == 0 else size for size, step in zip(window.shape, window.stride, strict=True)]
    strides = [step * item_bytes for step in window.stride]
    return mask.as_strided((*shape, item_bytes), (*strides, 1), window.offset * item_bytes)
