"""What rooms above this one bring to a conversation: parts of every packet, and bases that a stand-in may derive from.

torch's tensors are such a part. Whoever imports their room has them in each conversation that begins later.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from nbjudge.bridge.values.memories import Memories
from nbjudge.bridge.values.table import Body
from nbjudge.wire import Packet


class Changes(Protocol):
    """Who is told of what the other side has changed in place."""

    def note(self, key: Hashable, undo: Callable[[], None], *, ours: bool) -> None:
        """Something that is known by `key` is about to be changed here as it was over there."""

    def may_change(self, place: str, undo: Callable[[], None]) -> bool:
        """What lies at this place, and isn't passed, is about to be changed as it was over there: is it, here?"""

    def came(self, place: str, value: Any) -> None:
        """The other side has brought this of itself."""


class Conversation(Protocol):
    """The side of a conversation that a part belongs to."""

    side: int
    changes: Changes | None
    answers: dict[str, Callable[[Packet], Any]]

    def ask(self, op: str, said: Mapping[str, Any] | None = None, value: Any = None) -> Any:
        """Ask the other side and wait."""

    def given(self, packet: Packet) -> Any:
        """The value that a question brings."""


class Said(Protocol):
    """What a part says in one packet."""

    def first(self, value: Any) -> None:
        """Say this now if it is one of these: it is heard before arrays, which may lie in its memory."""

    def check(self) -> None:
        """Raises UnsupportedError where something couldn't be said."""

    def to_json(self) -> dict[str, Any]:
        """Its part of the header."""


class Looked(Protocol):
    """Who wants to know what a test has looked at."""

    facts: set[str]
    data: bool
    worded: list[Any]  # what only an object of the other side's has said


class Part(Protocol):
    """What takes part in every packet, before the values that lean on it."""

    def begin(self, body: Body) -> Said:
        """Say all that has changed here since the last packet."""

    def hear(self, said: Any, body: Body) -> None:
        """Take over what the other side has said."""

    def lie_in(self, memories: Memories) -> None:
        """What arrays lie in: it may be the same."""

    def pinned(self) -> AbstractContextManager[None]:
        """Meanwhile nothing that the other side may be about to name vanishes."""

    def around(self) -> dict[str, Any]:
        """What a question takes along of the process around it."""

    def entered(self, header: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Meanwhile this process is as the question says."""

    def seeding(self) -> Sequence[tuple[Any, str]]:
        """The functions that set its random generators, as modules and names."""

    def random_state(self) -> bytes:
        """Where they stand."""

    def put_random_state(self, stands: bytes) -> None:
        """Let them stand there."""

    def draw(self, count: int) -> None:
        """Draw so many numbers, for nobody."""

    def clone(self, value: Any, memo: dict[Any, Any]) -> Any:
        """A copy; the value itself where it isn't one of these, or has to be itself.

        `memo` has, by its address, the copy of each memory that copies lie in; nothing else is shared with them.
        """

    def keys(self, value: Any) -> Iterable[tuple[Hashable, str]]:
        """What the changes of this value are known by; beside it which part of it they change: "", ".grad"."""

    def watch(self, looked: Looked) -> None:
        """From here on, note what a test reads that only the other side vouches for."""

    def reading(self, looked: Looked) -> AbstractContextManager[Any]:
        """Meanwhile, note when a test looks at numbers that the other side has brought."""


PARTS: dict[str, Callable[[Conversation], Part]] = {}
BASES: list[type] = [BaseException]  # their subclasses over there have stand-ins here that derive from them
BY_METHOD: dict[str, tuple[type, str]] = {}  # a class over there is, here, one of this base with this one method
