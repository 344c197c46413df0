"""In the judge: what a test cell asks of the student's process, and what was only claimed over there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from nbjudge.bridge.around import looks
from nbjudge.bridge.around.files import Files
from nbjudge.bridge.peer import Peer
from nbjudge.bridge.raised import is_told
from nbjudge.bridge.values import Crossing, UnsupportedError
from nbjudge.errors import StudentGone, WireError
from nbjudge.roles.places import Known, Places
from nbjudge.roles.verdict import clipped
from nbjudge.wire import Pipe, PipeEnd

GONE = "the student's process ended during this question"
BROKEN = "the student's process broke the rules of the conversation: {why}"
OF_THE_CONVERSATION = {"names": "asked for its names", "sync": "told what the test has changed"}  # runs no answer
T = TypeVar("T")


class Witness:
    """The student's process, as a test cell sees it. Remembers what went wrong, also when a test's `except` hid it."""

    def __init__(self, pipe: Pipe) -> None:
        self.places = Places()
        self._wanted: Sequence[str] = ()
        self.gone: str | None = None
        self.unsupported: str | None = None
        self.peer = Peer(pipe, side=0)
        self.peer.carrier.gate = self.places
        self.files = Files(
            lambda asked: self.peer.ask("files", value=asked),
            self._refuse,
            self.peer.effects.may_change,
            self.places.replaceable,
        )
        self.peer.ask = self._guarded(self.peer.ask)  # type: ignore[method-assign]  # stand-ins call it by name

    def hold(self, known: Known | None, *, recording: bool) -> None:
        """What the reference answer has shown at each place of the next question; or, that this is the reference."""
        self.places.hold(known, recording=recording)

    def begin(self, kept: Sequence[str] | None = None) -> None:
        """A new test cell: what was claimed or couldn't be carried before is no matter of its own.

        `kept`: the same cell once more, with clones for the student of what doesn't stand in these places.
        """
        self.places.begin()
        self.peer.effects.begin(kept)
        self.peer.begin_question()
        self.peer.replaced.begin()
        self.peer.names.watch({}, (), ())  # between questions the judge's namespace is its own
        self.unsupported = None
        self.files.begin()

    def names(self, wanted: Sequence[str], told: Sequence[str] = (), heard: Sequence[str] = ()) -> dict[str, Any]:
        """What these names stand for over there; a name that isn't there is left out.

        During this question the other side hears where the test binds or deletes one of `told`, and tells where an
        answer does so with one of `heard`.

        Values that can't be carried come as UnsupportedError objects, for the caller to raise where they are read.
        """
        self._wanted = wanted
        said = {"names": list(wanted), "told": list(told), "heard": list(heard), "classes": sorted(self.places.asked)}
        known: dict[str, Any] = self.peer.ask("names", said, hear=self._heard)
        found = {name: value for name, value in known.items() if name in wanted}
        self.peer.effects.name(found)
        return found

    def _heard(self, tree: Any, crossing: Crossing) -> dict[str, Any]:
        """What each name stands for: classes first, as the others may be made of them."""
        pairs = tree.get("v") if type(tree) is dict and tree.get("t") in ("list", "tuple") else None
        named: dict[str, Any] = {}
        for pair in pairs if type(pairs) is list else (None,):
            parts = pair.get("v") if type(pair) is dict else None
            if type(parts) is not list or len(parts) != 2 or type(parts[0]) is not str:
                raise WireError("the answer to a question for names isn't one")
            named[parts[0]] = parts[1]
        if named.keys() - self.places.asked - set(self._wanted):
            raise WireError("the answer to a question for names has others")
        return self.peer.carrier.decode_names(named, crossing)

    def finish(self) -> None:
        """Tell the other side what the test cell has changed, before the student's next cell runs."""
        self.files.end()
        if self.gone is None:
            self.peer.ask("sync")
        self.places.wrote(self.files.hollow)
        self.places.sought(self.files.missed, self.files.laid)
        self.places.replaced(self.files.replaced)

    def look_at_files(self) -> None:
        """A test that has failed may not have looked at what the answer has made of its files; a later one will."""
        if self.gone is None:
            with contextlib.suppress(Exception):  # the question is over: whatever this says is no matter of its own
                self.files.look()

    def _refuse(self, what: str) -> NoReturn:
        self.unsupported = self.unsupported or what
        raise UnsupportedError(what)

    def _break(self, why: str) -> None:
        self.gone = BROKEN.format(why=why)
        raise StudentGone(self.gone)

    def _guarded(self, ask: Callable[..., T]) -> Callable[..., T]:
        def guarded(op: str, *args: Any, **kwargs: Any) -> T:
            if self.gone is not None:
                raise StudentGone(self.gone)
            try:
                return ask(op, *args, **kwargs)
            except UnsupportedError as error:
                self.unsupported = self.unsupported or str(error)
                raise
            except PipeEnd:
                self.gone = GONE
                raise StudentGone(self.gone) from None
            except WireError as error:
                self._break(str(error))
                raise
            except (Exception, SystemExit) as error:
                if op not in OF_THE_CONVERSATION or not is_told(error):
                    raise
                why = f"{OF_THE_CONVERSATION[op]}, it raised {type(error).__name__}: {error}"
                raise StudentGone(clipped(BROKEN.format(why=why))) from None  # it may answer the next question

        return guarded

    # ------------------------------------------------------------------ claims

    def watch(self) -> None:
        """From here on, note when a test reads what only the student's process vouches for."""
        self.peer.surroundings.watch()
        self.peer.replaced.watch()
        looks.install(self.peer)
        self.files.watch()
        self.peer.files = self.files
        for part in self.peer.parts.values():
            part.watch(self.places)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Meanwhile, note when a test looks at numbers that the student's process has brought."""
        with contextlib.ExitStack() as stack:
            for part in self.peer.parts.values():
                stack.enter_context(part.reading(self.places))
            yield


def readable(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The values that could be carried."""
    return {name: value for name, value in values if not isinstance(value, UnsupportedError)}
