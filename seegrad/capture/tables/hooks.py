"""The hooks that the user registers: where they sit, and on which line that was said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch.utils.hooks import RemovableHandle

from seegrad.capture.tables.frames import Numbers, told
from seegrad.capture.tables.tensors import Source
from seegrad.model.recording import HookCall, Place

KINDS: dict[str, Literal["tensor", "accumulated", "retain"]] = {
    "register_hook": "tensor",
    "register_post_accumulate_grad_hook": "accumulated",
    "retain_grad": "retain",
}
"""Methods of a tensor that register a hook. A Node's own are methods of C++ that no mode sees."""


@dataclass(frozen=True, slots=True)
class Called:
    """A hook ran in a Frame; what its gradient was before and after all hooks there, and which of them this one is."""

    frame: int
    saw: Numbers
    gave: Numbers
    first: bool
    last: bool

    def told(self) -> HookCall:
        """What is known of it; of several hooks that changed something, each knows one side only."""
        saw, gave = told(self.saw), told(self.gave)
        alone = (self.first and self.last) or saw == gave
        changed = gave if (alone or self.last) and gave != saw else None
        return HookCall(self.frame, saw if alone or self.first else None, changed, alone)


@dataclass(eq=False, slots=True)
class HookDraft:
    """A Hook, numbered as capture numbers.

    `at`: the Node and output that made its tensor, None for a leaf; `handle`: what torch returned, to take it off.
    """

    id: int
    kind: Literal["tensor", "accumulated", "retain"]
    frame: int
    place: Place | None
    tensor: int
    name: str
    at: tuple[int, int] | None = None
    handle: RemovableHandle | None = None
    called: list[Called] = field(default_factory=list)
    node: None = None  # of the model's Hook: nobody sees a Node's own hooks

    @property
    def calls(self) -> list[HookCall]:
        """Each time it ran."""
        return [each.told() for each in self.called]

    @property
    def is_on(self) -> bool:
        """False once its handle has taken it off."""
        return self.handle is None or is_registered(self.handle)


def is_registered(handle: RemovableHandle) -> bool:
    """False once a hook's handle has taken it off. Seen on 2.9 to 2.15."""
    return handle.id in (handle.hooks_dict_ref() or ())


class UserHooks:
    """All hooks of one Recording that weren't forgotten."""

    def __init__(self) -> None:
        self.drafts: dict[int, HookDraft] = {}
        self._next = 0

    def add(
        self, method: str, hook: Sequence[Any], frame: int, place: Place | None, tensor: int, at: Source | None, on: Any
    ) -> None:
        """The user has called that method of a tensor with that function, and was given the handle `on`."""
        number, self._next = self._next, self._next + 1
        self.drafts[number] = HookDraft(number, KINDS[method], frame, place, tensor, name_of(hook), at, on)

    def keeps(self, tensor: int | None) -> bool:
        """Is it asked already that this tensor keeps its gradient?"""
        return any(hook.kind == "retain" and hook.tensor == tensor for hook in self.drafts.values())

    def on_tensors(self) -> list[HookDraft]:
        """Those that a gradient is given to and that weren't taken off."""
        return [hook for hook in self.drafts.values() if hook.kind != "retain" and hook.is_on]

    def forget(self, tensors: set[int]) -> None:
        """Keep the hooks on these tensors."""
        self.drafts = {number: hook for number, hook in self.drafts.items() if hook.tensor in tensors}


def name_of(arguments: Sequence[Any]) -> str:
    """What the hook is called: `print`, `<lambda>`. Asked of functions alone: another object's answer is user code.

    >>> name_of((print,)), name_of(())
    ('print', '')
    """
    given = arguments[0] if arguments else None
    plain = type(given).__name__ in ("function", "builtin_function_or_method", "method")
    return str(getattr(given, "__qualname__", "")).rpartition("<locals>.")[2] if plain else ""
