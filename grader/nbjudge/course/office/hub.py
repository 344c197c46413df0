"""One course on one JupyterHub: who is who, which file goes where, and who may read it.

`nbjudge hub hub.toml` writes what follows from the settings and says what it changed; `--check` only says what differs.
The hub's own configuration (`deploy/hub/jupyterhub_config.py`) reads the same file.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbjudge.course.layout import unusable, write_whole
from nbjudge.errors import CourseError

EXTENSIONS = ("formgrader", "create-assignment", "course-list")  # the grader's alone
SERVER_SIDE = ("nbgrader.server_extensions.formgrader", "nbgrader.server_extensions.course_list")
ALL, OWN, LISTED, DROP_BOX = 0o1777, 0o700, 0o755, 0o733  # of the exchange's folders; a drop box is written, not read
IN_ORDER, NOT_THERE = "All is as it has to be.", "is not there"
HUB_FILE = "zz_hub.json"  # the last in its folder: it has the last word
SOLUTIONS = (
    "every student reads what lies around {prefix}, and {clone} has the solutions and hidden tests: "
    "make the environment elsewhere (make hub HUB=/opt/seegrad-hub), and chmod 700 {clone}"
)
LACKING = "no account on this machine yet, unless the hub makes it at the first login: {names}"
OTHERWISE = (
    "{file} says course_id = {said!r}, and {course!r} is the course of the hub: what is released under one name "
    "nobody finds under the other. Make them one"
)
SAYS_COURSE = re.compile(r"^\s*c\.CourseDirectory\.course_id\s*=\s*[\"'](.+?)[\"']", re.MULTILINE)
NOTE = '"""Written by `nbjudge hub`; what is changed here is written anew."""\n\nc = get_config()  # noqa: F821\n'


@dataclass(frozen=True, slots=True)
class Hub:
    """What hub.toml says. `course` is nbgrader's course_id and the name of the grader's server."""

    course: str
    grader: str
    instructors: tuple[str, ...]
    students: tuple[str, ...]
    exchange: Path
    directory: str = "course"
    port: int = 9999


@dataclass(frozen=True, slots=True)
class Laid:
    """A folder or file as it has to be: its owner, its mode, and for a file of ours its text."""

    path: Path
    mode: int
    owner: str
    text: str | None = None


def read_hub(path: Path) -> Hub:
    """The settings in a TOML file; raises CourseError, which names what is wrong, where one is missing or no name.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    ...     _ = file.write('course = "cs1"\\ngrader = "grader-cs1"\\nexchange = "/srv/exchange"\\nstudents = ["ada"]')
    ...     file.flush()
    ...     read_hub(Path(file.name)).students
    ('ada',)
    """
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CourseError(f"{path}: {error}") from error
    known = Hub.__dataclass_fields__
    if strange := sorted(set(said) - set(known)):
        raise CourseError(f"{path}: {', '.join(strange)} is not a setting; they are {', '.join(known)}")
    if missing := [name for name in ("course", "grader", "exchange") if name not in said]:
        raise CourseError(f"{path}: {', '.join(missing)} is missing")
    people = {name: _names(path, name, said.get(name, [])) for name in ("instructors", "students")}
    for name in ("course", "grader", "directory"):
        _demand_name(path, name, said.get(name, "course"))
    _demand_apart(path, said["grader"], people)
    port = said.get("port", 9999)
    if not isinstance(port, int) or not 0 < port < 1 << 16:
        raise CourseError(f"{path}: port is {port!r}, not a number from 1 to 65535")
    exchange = Path(str(said["exchange"]))
    if not exchange.is_absolute():
        raise CourseError(f"{path}: exchange is {str(exchange)!r}; it has to begin with /, the same for everybody")
    directory = said.get("directory", "course")
    return Hub(said["course"], said["grader"], exchange=exchange, directory=directory, port=port, **people)


def _names(path: Path, name: str, said: Any) -> tuple[str, ...]:
    if not isinstance(said, list):
        raise CourseError(f'{path}: {name} is a list of accounts: ["ada", "kofi"]')
    for one in said:
        _demand_name(path, name, one)
    return tuple(dict.fromkeys(said))


def _demand_name(path: Path, name: str, said: Any) -> None:
    if not isinstance(said, str) or unusable(said):
        raise CourseError(f"{path}: {name}: {said!r} can't be the name of an account, a course or a folder")


def _demand_apart(path: Path, grader: str, people: Mapping[str, tuple[str, ...]]) -> None:
    """Whoever is two of them could read what the others mustn't."""
    instructors, students = set(people["instructors"]), set(people["students"])
    twice = (instructors & students) | ({grader} & (instructors | students))
    if twice:
        raise CourseError(f"{path}: {', '.join(sorted(twice))} can't be more than one of grader, instructor, student")


def _solutions(prefix: Path) -> Path | None:
    """The course around an environment, a clone or not: every server runs from there, so every student reads it."""
    courses = (above for above in prefix.resolve().parents if (above / "nbgrader_config.py").exists())
    return next((above for above in courses if (above / "source").is_dir()), None)


def home(account: str) -> Path:
    """An account's home; raises CourseError with the command that makes one where there is none."""
    try:
        return Path(pwd.getpwnam(account).pw_dir)
    except KeyError:
        raise CourseError(f"no account {account} on this machine: useradd --create-home {account}") from None


def lacking(hub: Hub) -> str:
    """A sentence on the people who have no account here; empty where everybody has one."""
    names = [name for name in (*hub.instructors, *hub.students) if not _is_account(name)]
    return LACKING.format(names=", ".join(names)) if names else ""


def _is_account(name: str) -> bool:
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def _graders_home(hub: Hub) -> Path:
    """Raises CourseError that names all accounts which aren't there: they are made in one go."""
    try:
        return home(hub.grader)
    except CourseError as error:
        raise CourseError("; ".join(filter(None, (str(error), lacking(hub))))) from None


def places(hub: Hub, prefix: Path) -> Iterator[Laid]:
    """All that has to be, outer folders first. `prefix` is the environment that the servers run in."""
    root = "root"
    course, own = hub.exchange / hub.course, _graders_home(hub)
    yield Laid(hub.exchange, ALL, root)
    yield Laid(course, LISTED, hub.grader)
    yield Laid(course / "inbound", DROP_BOX, hub.grader)
    yield Laid(course / "outbound", LISTED, hub.grader)
    yield Laid(course / "feedback", 0o711, hub.grader)
    yield Laid(own, OWN, hub.grader)
    yield Laid(own / hub.directory, OWN, hub.grader)
    for account in (*hub.instructors, *hub.students):
        with suppress(KeyError):  # one that the hub itself makes at the first login
            yield Laid(Path(pwd.getpwnam(account).pw_dir), OWN, account)
    if (clone := _solutions(prefix)) is not None:
        raise CourseError(SOLUTIONS.format(prefix=prefix, clone=clone))
    _demand_one_name(own / hub.directory / "nbgrader_config.py", hub.course)
    etc = prefix / "etc/jupyter"
    yield from _configuration(etc, root, everybody(hub), graders_own=False)
    yield from _configuration(own / ".jupyter", hub.grader, graders(own / hub.directory), graders_own=True)


def _demand_one_name(file: Path, course: str) -> None:
    """The course's own settings are read last: raises CourseError where they call it otherwise."""
    said = SAYS_COURSE.findall(file.read_text(encoding="utf-8", errors="replace")) if file.is_file() else []
    if said and said[-1] != course:
        raise CourseError(OTHERWISE.format(file=file, said=said[-1], course=course))


def _configuration(folder: Path, owner: str, settings: str, *, graders_own: bool) -> Iterator[Laid]:
    """Files of our own beside the machine's: Jupyter reads all in a folder `NAME.d` together."""
    folders, files = (OWN, 0o600) if graders_own else (LISTED, 0o644)
    pages, servers = folder / "labconfig/page_config.d", folder / "jupyter_server_config.d"
    for one in (folder, pages.parent, pages, servers):
        yield Laid(one, folders, owner)
    yield Laid(folder / "nbgrader_config.py", files, owner, NOTE + settings)
    yield Laid(pages / HUB_FILE, files, owner, page_config(switched_off=not graders_own))
    yield Laid(servers / HUB_FILE, files, owner, server_config(switched_on=graders_own))


def everybody(hub: Hub) -> str:
    """nbgrader's settings for every account."""
    return f"c.CourseDirectory.course_id = {hub.course!r}\nc.Exchange.root = {str(hub.exchange)!r}\n"


def graders(course: Path) -> str:
    """Those of the grader's account: the course's own file, read after them, says the rest."""
    own = course / "nbgrader_config.py"
    return f"c.CourseDirectory.root = {str(course)!r}\nload_subconfig({str(own)!r})  # noqa: F821\n"


def page_config(*, switched_off: bool) -> str:
    """JupyterLab's own list of what is off: an instructor's tools don't open in a student's page."""
    listed = {f"@jupyter/nbgrader:{name}": switched_off for name in EXTENSIONS}
    return json.dumps({"disabledExtensions": listed}, indent=1)


def server_config(*, switched_on: bool) -> str:
    """The same for the part that runs in the server."""
    listed = dict.fromkeys(SERVER_SIDE, switched_on)
    return json.dumps({"ServerApp": {"jpserver_extensions": listed}}, indent=1)


def differing(place: Laid) -> str:
    """What is not as it has to be, in words; empty where nothing is.

    >>> differing(Laid(Path("/etc/nowhere"), 0o644, "root"))
    'is not there'
    """
    try:
        found = place.path.lstat()
    except FileNotFoundError:
        return NOT_THERE
    if stat.S_ISLNK(found.st_mode) or stat.S_ISDIR(found.st_mode) != (place.text is None):
        return f"is no {'folder' if place.text is None else 'file'} of its own"
    wrong = []
    if found.st_uid != pwd.getpwnam(place.owner).pw_uid:
        wrong.append(f"doesn't belong to {place.owner}")
    if stat.S_IMODE(found.st_mode) != place.mode:
        wrong.append(f"has mode {stat.S_IMODE(found.st_mode):04o}, not {place.mode:04o}")
    if place.text is not None and place.path.read_text(encoding="utf-8", errors="replace") != place.text:
        wrong.append("says something else")
    return " and ".join(wrong)


def put(place: Laid) -> str:
    """Makes it so, and says what that was: raises CourseError where somebody else's thing stands in its way.

    What an account has made for itself it may hold open, or swap for a link: it is never taken over.
    """
    if "of its own" in (wrong := differing(place)):
        raise CourseError(f"{place.path} {wrong}: move it away, then run this again")
    account = pwd.getpwnam(place.owner)
    if place.text is None:
        place.path.mkdir(parents=True, exist_ok=True)
    elif not place.path.is_file() or place.path.read_text(encoding="utf-8", errors="replace") != place.text:
        write_whole(place.path, place.text.encode())
    held = os.open(place.path, os.O_RDONLY | os.O_NOFOLLOW | (os.O_DIRECTORY if place.text is None else 0))
    try:
        if (owner := os.fstat(held).st_uid) not in (os.getuid(), account.pw_uid):
            raise CourseError(f"{place.path} belongs to {_called(owner)}: move it away, then run this again")
        os.fchown(held, account.pw_uid, account.pw_gid)
        os.fchmod(held, place.mode)
    finally:
        os.close(held)
    return f"{place.path}: {'made' if wrong == NOT_THERE else wrong.replace(' and ', ', ') + '; mended'}"


def _called(owner: int) -> str:
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"the account {owner}"


def give(folder: Path, account: str) -> int:
    """All of a folder to one account and to nobody else; returns how many files and folders had to change."""
    owner, changed = pwd.getpwnam(account), 0
    for base, folders, files in os.walk(folder):
        for path in (Path(base, name) for name in (*folders, *files)):
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                continue
            mode = stat.S_IMODE(found.st_mode) & ~(stat.S_IRWXG | stat.S_IRWXO)
            if (found.st_uid, stat.S_IMODE(found.st_mode)) != (owner.pw_uid, mode):
                with suppress(FileNotFoundError):  # a file that somebody is just replacing
                    os.chown(path, owner.pw_uid, owner.pw_gid)
                    path.chmod(mode)
                    changed += 1
    return changed
