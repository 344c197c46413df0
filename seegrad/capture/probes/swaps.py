"""`torch.utils.swap_tensors` while something is recorded: who is told of it, and whose weak references don't count."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from seegrad.capture.probes.torch_private import WeakTensor


class _Weakrefs:
    """The module `weakref` as `torch.utils` sees it while something is recorded: our references don't count.

    `torch.utils.swap_tensors` refuses tensors that somebody refers to weakly, and asks here, whoever has imported it.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[torch.Tensor], None]] = []
        self.lock = threading.Lock()

    def getweakrefs(self, tensor: torch.Tensor) -> list[Any]:
        for listener in list(self.listeners):
            listener(tensor)
        return [each for each in weakref.getweakrefs(tensor) if type(each) is not WeakTensor]

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)


_WEAKREFS = _Weakrefs()


def on_swap(listener: Callable[[torch.Tensor], None]) -> Callable[[], None]:
    """From now on, tell of each tensor whose body torch is about to exchange; what's returned ends it.

    Seen on 2.13. Where the last one has ended, `torch.utils` is as it was.
    """
    space = vars(torch.utils)
    with _WEAKREFS.lock:
        _WEAKREFS.listeners.append(listener)
        if space.get("weakref") is weakref:
            space["weakref"] = _WEAKREFS

    def end() -> None:
        with _WEAKREFS.lock:
            _WEAKREFS.listeners.remove(listener)
            if not _WEAKREFS.listeners and space.get("weakref") is _WEAKREFS:
                space["weakref"] = weakref

    return end
