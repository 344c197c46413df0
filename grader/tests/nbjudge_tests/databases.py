"""The two gradebooks that the same tests run on: SQLite, and a real PostgreSQL server started for the session."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534  # PostgreSQL's server refuses to run as root
START_S = 60.0
OWNER = "grader"


class Sqlite:
    """A file in the course."""

    def fresh(self, root: Path) -> str:
        """The address of a gradebook that isn't there yet."""
        return f"sqlite:///{root / 'gradebook.db'}"

    def copy(self, _url: str, root: Path) -> str:
        """The address of the copy in a course that was copied to `root`."""
        return self.fresh(root)


class Postgresql:
    """Databases of a running server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://{OWNER}@/{name}?host={self.folder}"

    def run(self, statement: str) -> None:
        """One statement, outside of a transaction."""
        import psycopg

        with psycopg.connect(host=str(self.folder), user=OWNER, dbname="postgres", autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload] # our own words

    def fresh(self, _root: Path, template: str = "template0") -> str:
        name = f"course{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def copy(self, url: str, root: Path) -> str:
        return self.fresh(root, template=url.partition("@/")[2].partition("?")[0])

    def cut(self) -> None:
        """End every connection but this one's."""
        self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'course%'")


Database = Sqlite | Postgresql


def programs() -> Path | None:
    """Where the system's packages put the server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found += [Path(path).resolve().parent for path in [shutil.which("initdb")] if path]
    return next((folder for folder in found if (folder / "postgres").exists()), None)


@contextmanager
def server(bin_folder: Path) -> Iterator[Postgresql]:
    """A server of our own in a temporary folder, as an unprivileged user, on a Unix socket alone."""
    folder = Path(tempfile.mkdtemp(prefix="gradebooks-"))
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    if who:
        os.chown(folder, NOBODY, NOBODY)
    data = folder / "data"
    init = [bin_folder / "initdb", "-D", data, "-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run(init, cwd=folder, check=True, capture_output=True, **who)  # type: ignore[call-overload] # as above
    options = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", folder]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [bin_folder / "postgres", "-D", data, *options], cwd=folder, stdout=log, stderr=log, **who
        )  # type: ignore[call-overload] # the same
    try:
        ready = [bin_folder / "pg_isready", "-q", "-h", folder]
        deadline = time.monotonic() + START_S
        while subprocess.run(ready, check=False).returncode:
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield Postgresql(folder)
    finally:
        running.send_signal(signal.SIGINT)  # don't wait for clients
        running.wait()
        shutil.rmtree(folder)
