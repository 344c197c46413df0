"""Files that an answer writes and a test reads, or the other way round: their bytes cross when a test looks.

In one process a test sees the files that the cells before it wrote. Here each process has a folder of its own; where
the test touches a file, the student's folder is read first, and what the test has written is told with its next
question. A file of the course's own is replaced only where the reference answer replaces it too, and nothing that could
be imported crosses.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import WireError

MOST = 1000  # files
BYTES = 32 << 20  # of all that cross at once
IMPORTED = (*importlib.machinery.all_suffixes(), ".pth")
LISTING = frozenset({"os.listdir", "os.scandir", "glob.glob", "sqlite3.connect"})
CHANGING = frozenset({"os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.truncate", "tempfile.mkdtemp"})
MADE = "tempfile.mkstemp"
RUNNING = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"})
FINDING = "pickle.find_class"
HEEDED = frozenset({"open", MADE, FINDING}) | LISTING | CHANGING | RUNNING  # `id` alone is told ten thousand times
PICKLED = frozenset(
    {
        *(("builtins", name) for name in ("set", "frozenset", "complex", "bytearray", "range", "slice")),
        *(("collections", name) for name in ("OrderedDict", "Counter", "deque")),
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        *(("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID")),
        *(("numpy", "ndarray"), ("numpy", "dtype"), ("numpy._core.multiarray", "_reconstruct")),
        *(("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "scalar")),
    }
)
PICKLE = "what a pickle names, {what}: unpickling runs code, so let answers write CSV, JSON or .npy"
PROGRAM = "a program that a test starts beside files that an answer wrote: it might run them"
_lstat = os.lstat  # as it is before anybody watches
Look = tuple[int, int, int]  # size, time of change, inode
UNKNOWN: Look = (-1, -1, -1)
Undo = Callable[[], None]


def place_of(name: str) -> str:
    """What a file is called in a verdict: one of the moment has another name each time.

    >>> place_of("a/b.txt"), place_of(f"{tempfile.gettempdir()}/tmpx2k.txt")
    ('the file b.txt', 'a file of the moment')
    """
    path = Path(name)
    return "a file of the moment" if str(path.parent) == tempfile.gettempdir() else f"the file {path.name}"


class Folder:
    """What both sides know of this one's working folder, and of folders below /tmp that a test has made."""

    def __init__(self) -> None:
        self._root = Path.cwd()
        self._known: dict[str, Look] = {}
        self._placed: dict[str, Look] = {}
        self.shared: set[str] = set()  # folders and files beside the working one, by absolute path

    def names(self) -> frozenset[str]:
        """Of all files, which both sides know as they are."""
        self._known = dict(self._looks())
        return frozenset(self._known)

    def settle(self) -> None:
        """What lies here now was handed out; nobody has written it yet."""
        with contextlib.suppress(UnsupportedError):
            self._placed = dict(self._looks())

    def untouched(self, names: Iterable[str]) -> frozenset[str]:
        """Which of these lie here as they were handed out?"""
        now = dict(self._looks())
        return frozenset(name for name in names if name in now and now[name] == self._placed.get(name))

    def changes(self, kept: Collection[str] = ()) -> tuple[tuple[tuple[str, bytes], ...], tuple[str, ...]]:
        """Files that are new or have changed since the other side was told, and names of those that have gone.

        Of `kept` ones nothing is told.

        Raises:
            UnsupportedError: it is too much.
        """
        now = {name: look for name, look in self._looks() if name not in kept}
        gone = tuple(sorted(self._known.keys() - now.keys()))
        new, total = [], 0
        for name, look in now.items():
            if self._known.get(name) != look:
                total += look[0]
                if total > BYTES:
                    raise UnsupportedError(f"files of more than {BYTES >> 20} MB")
                with contextlib.suppress(OSError):
                    new.append((name, (self._root / name).read_bytes()))
        self._known = now
        return tuple(new), gone

    def apply(self, new: Iterable[tuple[str, bytes]], gone: Iterable[str], kept: Collection[str] = ()) -> None:
        """Write what the other side has, but for `kept` files, which stay as they are."""
        for name, data in [*new, *((name, None) for name in gone)]:
            if name not in kept and self._is_ours(name):
                self.put(name, data)

    def path(self, name: str) -> Path:
        """Where it lies."""
        return self._root / name

    def put(self, name: str, data: bytes | None) -> None:
        """Let it hold this, as the other side knows already; None for no such file."""
        path = self.path(name)
        with contextlib.suppress(OSError):
            if data is None:
                path.unlink()
                self._known.pop(name, None)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                self._known[name] = _look(path)

    def untell(self, name: str) -> None:
        """The other side has something else there: it is told anew of this one's."""
        self._known[name] = UNKNOWN

    def make(self, folders: Iterable[str]) -> None:
        """Make the folders that a test has made."""
        for name in folders:
            with contextlib.suppress(OSError):
                (self._root / name).mkdir(parents=True, exist_ok=True)

    def _is_ours(self, name: str) -> bool:
        """May the other side name it so? In one spelling only: `a.py/` is `a.py` too, which could be imported."""
        path = Path(name)
        if name != str(path) or "\0" in name or ".." in path.parts or name.endswith(IMPORTED):
            return False
        return not path.is_absolute() or any(Path(shared) in (path, *path.parents) for shared in self.shared)

    def _looks(self) -> Iterator[tuple[str, Look]]:
        """Plain files, by name from here or absolute; links and modules aren't among them."""
        for count, path in enumerate(self._paths()):
            if count >= MOST:
                raise UnsupportedError(f"more than {MOST} files")
            with contextlib.suppress(OSError):
                near = path.is_relative_to(self._root)
                yield str(path.relative_to(self._root) if near else path), _look(path)

    def _paths(self) -> Iterator[Path]:
        for folder in (str(self._root), *sorted(self.shared)):
            if Path(folder).is_file() and not Path(folder).is_symlink() and not folder.endswith(IMPORTED):
                yield Path(folder)
            for place, folders, names in os.walk(folder):
                folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
                for name in names:
                    path = Path(place, name)
                    if not name.endswith(IMPORTED) and not path.is_symlink() and path.is_file() and _has_text(name):
                        yield path


def _has_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _look(path: Path) -> Look:
    found = path.lstat()
    return found.st_size, found.st_mtime_ns, found.st_ino


class Files:
    """The judge's: it notices when a test touches a file, and asks."""

    def __init__(
        self,
        ask: Callable[[Any], Any],
        refuse: Callable[[str], NoReturn],
        may_change: Callable[[str, Undo], bool],
        replaceable: Callable[[Collection[str]], Collection[str]],
    ) -> None:
        self.folder = Folder()
        self._replaceable = replaceable  # of the course's own files, those that answers write anew
        self.replaced: set[str] = set()  # and those that these answers did
        self._may_change = may_change
        self._written: set[str] = set()  # by tests
        self.hollow: dict[str, bool] = {}  # by the place of a file of the student's: is there nothing in it?
        self._brought: set[str] = set()  # by the student's process
        self._owed: set[str] = set()  # which have to be over there again what they are here
        self.missed: set[str] = set()  # places of files that a test has looked for in vain
        self.laid: set[str] = set()  # of files that it has looked for, and the student's process has brought
        self._refuse = refuse
        self.active = False  # while a test cell runs, and nothing is being asked
        self._ask = ask  # for what the student's folder has that this one hasn't
        self._own: frozenset[str] = frozenset()
        self._stale = True  # has the student's process run since it was asked?
        self._touched = False
        self._theirs = False  # do files of the student's lie here?
        self._made: set[str] = set()  # folders

    def watch(self) -> None:
        """From here on it is noticed. The course's own files lie here already."""
        tempfile.gettempdir()  # to find it opens a file, under a lock: within the hook that would wait for itself

        def audited(event: str, args: tuple[Any, ...]) -> None:  # calling a method takes Python five times as long
            if event in HEEDED:
                self._audited(event, args)

        sys.addaudithook(audited)
        for name in ("stat", "lstat", "access"):
            setattr(os, name, self._looking(getattr(os, name)))

    def own(self) -> None:
        """The course's own files lie here now."""
        self._own = self.folder.names()

    def begin(self) -> None:
        """A test cell begins."""
        self.active, self._stale, self._touched = True, True, bool(self._owed)
        for name in self._owed:
            self.folder.untell(name)
        self._owed.clear()
        self.hollow.clear()
        self.missed.clear()
        self.laid.clear()

    def end(self) -> None:
        """It has ended; what it wrote is told with the last question."""
        self.active = False

    def look(self) -> None:
        """What answers have made of files that tests wrote, also where no test has looked since."""
        if self._written:
            self._stale = True
            self._touch()
            self.active = False

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Meanwhile the student's process runs: what lies there may have changed afterwards."""
        before, self.active = self.active, False
        try:
            yield
        finally:
            self.active, self._stale = before, True

    def _looking(self, look: Callable[..., Any]) -> Callable[..., Any]:
        def looking(path: Any, *args: Any, **named: Any) -> Any:
            if self.active and self._is_near(path):
                self._touch()
                self._seek(path)
            return look(path, *args, **named)

        return looking

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event == "open":
            if self._is_near(args[0]):
                self._touch()
                if "r" in str(args[1]):
                    self._seek(args[0])
        elif event == MADE:
            self.folder.shared.add(os.fsdecode(args[0]))
            self._touch()
        elif event in LISTING or event in CHANGING:
            if event == "os.mkdir":
                self._share(args[0])
            self._touch()
        elif event in RUNNING and self._theirs:
            self._refuse(PROGRAM)
        elif event == FINDING and (args[0], args[1]) not in PICKLED:
            self._refuse(PICKLE.format(what=f"{args[0]}.{args[1]}"[:80]))

    def _is_near(self, path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        name = os.fsdecode(path)
        return not name.startswith("/") or name.startswith((str(Path.cwd()), tempfile.gettempdir()))

    def _share(self, path: Any) -> None:
        """A folder that the test makes: for files of the moment, or for an answer to write into."""
        if self._is_near(path):
            found = Path(os.fsdecode(path))
            self._made.add(str(found))
            if found.is_absolute() and str(found.parent) == tempfile.gettempdir():
                self.folder.shared.add(str(found))

    def _seek(self, path: Any) -> None:
        """Is it there, and whose is it?"""
        name = str(Path.cwd() / os.fsdecode(path))
        try:
            _lstat(name)
        except (OSError, ValueError):
            self.missed.add(place_of(name))
        else:
            self.laid |= {place_of(name)} if name in self._brought else set()

    def _touch(self) -> None:
        self._touched = True
        if self._stale:
            self._stale, self.active = False, False
            try:
                maybe = self._own & {*self._replaceable(self._own)}
                own = self._own - maybe
                new, gone = self._heard(self._ask((tuple(sorted(self.folder.shared)), tuple(own), tuple(maybe))))
                self.replaced |= maybe & {*dict(new), *gone}
                self._theirs = self._theirs or bool(new)
                self.hollow |= {place_of(name): not data.strip() for name, data in new}
                kept = {name for name in (*dict(new), *gone) if name in self._written and not self._changes(name)}
                self.folder.apply(new, gone, own | kept)
                self._brought |= {str(self.folder.path(name)) for name, _ in new}
            finally:
                self.active = True

    def _changes(self, name: str) -> bool:
        """The answer has changed a file that a test wrote: is that to be seen here?"""
        path = self.folder.path(name)
        before = path.read_bytes() if path.is_file() else None

        def undo() -> None:
            self.folder.put(name, before)
            self._owed.add(name)

        changes = self._may_change(place_of(name), undo)
        self._owed |= set() if changes else {name}
        return changes

    @staticmethod
    def _heard(said: Any) -> tuple[Any, Any]:
        if type(said) is not tuple or len(said) != 2 or any(type(part) is not tuple for part in said):
            raise WireError("Files aren't told as files.")
        new, gone = said
        pairs = all(
            type(one) is tuple and len(one) == 2 and (type(one[0]), type(one[1])) == (str, bytes) for one in new
        )
        if not pairs or any(type(name) is not str for name in gone):
            raise WireError("Files aren't told as files.")
        return new, gone

    def told(self) -> Any:
        """What the test has written or removed since the last question, for the student's process; None for nothing."""
        if not self._touched:
            return None
        new, gone = self.folder.changes()
        self._written = (self._written | {*dict(new)}) - {*gone}
        made, self._made = tuple(sorted(self._made)), set()
        return (tuple(sorted(self.folder.shared)), made, new, gone) if new or gone or made else None
