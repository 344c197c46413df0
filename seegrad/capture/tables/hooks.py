"""The hooks that the user registers: where they sit, and on which line that was said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch.utils.hooks import RemovableHandle

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.tables.ids import Ids
from seegrad.model.recording import Hook, HookCall, Place

KINDS: dict[str, Literal["tensor", "accumulated", "retain"]] = {
    "register_hook": "tensor",
    "register_post_accumulate_grad_hook": "accumulated",
    "retain_grad": "retain",
}
"""Methods of a tensor that register a hook. A Node's own are methods of C++ that no mode sees."""


@dataclass(eq=False, slots=True)
class HookDraft:
    """A Hook, numbered as capture numbers.

    `at`: the Node and output that made its tensor, None for a leaf; `handle`: what torch returned, to take it off.
    """

    kind: Literal["tensor", "accumulated", "retain"]
    frame: int
    place: Place | None
    tensor: int
    name: str
    at: tuple[int, int] | None = None
    handle: RemovableHandle | None = None
    calls: list[HookCall] = field(default_factory=list)

    @property
    def is_on(self) -> bool:
        """False once its handle has taken it off."""
        return self.handle is None or _torch.is_registered(self.handle)

    def freeze(self, number: int, ids: Ids) -> Hook:
        """The Hook as the model has it."""
        frame, tensor = ids.frames[self.frame], ids.tensors[self.tensor]
        calls = [replace(call, frame=ids.frames[call.frame]) for call in self.calls if call.frame in ids.frames]
        return Hook(number, self.kind, frame, self.place, tensor, name=self.name, calls=tuple(calls))


def frozen(drafts: Sequence[HookDraft], ids: Ids) -> tuple[Hook, ...]:
    """The Hooks of what wasn't forgotten."""
    kept = [draft for draft in drafts if draft.tensor in ids.tensors and draft.frame in ids.frames]
    return tuple(draft.freeze(number, ids) for number, draft in enumerate(kept))


def name_of(arguments: Sequence[Any]) -> str:
    """What the hook is called: `print`, `<lambda>`. Asked of functions alone: another object's answer is user code.

    >>> name_of((print,)), name_of(())
    ('print', '')
    """
    given = arguments[0] if arguments else None
    plain = type(given).__name__ in ("function", "builtin_function_or_method", "method")
    return str(getattr(given, "__qualname__", "")).rpartition("<locals>.")[2] if plain else ""
