"""Grades to the learning platform that the class came from: LTI 1.3, Assignment and Grade Services 2.0.

Only final scores are sent, each once: what was sent stands in `.grader/passback/NAME.jsonl`, and only what differs from
it is sent again. The protocol is PyLTI1p3's; the extra `passback` brings it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from traitlets import Float, Unicode
from traitlets.config import Configurable

from nbjudge.course.layout import writing
from nbjudge.course.office.standings import Stage, Standing
from nbjudge.errors import CourseError

SCOPES: Any = (
    "https://purl.imsglobal.org/spec/lti-ags/scope/lineitem",
    "https://purl.imsglobal.org/spec/lti-ags/scope/score",
)
NEEDED = ("client_id", "token_url", "lineitems", "key_file")
LOCAL = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Due:
    """One student's score as the platform gets it: who they are there, points, and how many could be reached."""

    student: str
    user: str
    points: float
    most: float


class Passback(Configurable):
    """What the platform has told when this tool was registered there, in `nbgrader_config.py`."""

    client_id = Unicode(help="The id that the platform has given this tool.").tag(config=True)
    token_url = Unicode(help="Where the platform gives access tokens.").tag(config=True)
    lineitems = Unicode(help="The course's line items, the address in the platform's launch.").tag(config=True)
    key_file = Unicode(help="The tool's private key, PEM, readable by its owner alone.").tag(config=True)
    key_id = Unicode(help="The key's `kid`, where the platform knows several.").tag(config=True)
    audience = Unicode(help="The token's audience, where it isn't `token_url`.").tag(config=True)
    timeout_s = Float(30.0, help="How long one answer of the platform may take.").tag(config=True)

    def lacking(self) -> str:
        """A clause on the settings without which nothing can be sent; empty where all are there."""
        names = [f"c.Passback.{name}" for name in NEEDED if not getattr(self, name)]
        if not names:
            return ""
        *first, last = names
        said = f"{', '.join(first)} and {last} are" if first else f"{last} is"
        return f"{said} not set in nbgrader_config.py"

    def key(self) -> str:
        """The private key; raises CourseError for settings that lack, an open key file, an address without https."""
        if lacking := self.lacking():
            raise CourseError(lacking)
        for address in (self.token_url, self.lineitems):
            parts = urlsplit(address)
            if parts.scheme != "https" and parts.hostname not in LOCAL:
                raise CourseError(f"{address} has to begin with https://: a token and grades go there")
        path = Path(self.key_file).expanduser()
        try:
            if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise CourseError(f"others on this machine can read {path}: chmod 600 {path}")
            return path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise CourseError(f"c.Passback.key_file: {error}") from error


def due(standings: Iterable[Standing], users: Mapping[str, str], most: float) -> tuple[list[Due], list[str]]:
    """What is to be known there, and a sentence about each student whose score isn't sent.

    >>> due([Standing("ada", "ps1"), Standing("bo", "ps1", handed_in=False)], {"ada": "7"}, 10.0)
    ([Due(student='ada', user='7', points=0.0, most=10.0)], ['bo is left out: not handed in'])
    """
    found, left_out = [], []
    for one in standings:
        if one.state is not Stage.GRADED:
            left_out.append(f"{one.student} is left out: {one.state}")
        elif one.student not in users:
            left_out.append(f"{one.student} is left out: the gradebook has no lms_user_id (nbjudge roster reads it)")
        else:
            found.append(Due(one.student, users[one.student], one.points, most))
    return found, left_out


class Sent:
    """What the platform has been told about one assignment, the newest last."""

    def __init__(self, state: Path, assignment: str) -> None:
        self._path = state / "passback" / f"{assignment}.jsonl"

    def newest(self) -> dict[str, Due]:
        """student → what was sent last; a line that a full disk has cut off counts as not sent."""
        found = {}
        for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.is_file() else ():
            try:
                said = json.loads(line)
                found[said["student"]] = Due(said["student"], said["user"], said["points"], said["most"])
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def note(self, one: Due) -> None:
        """One line more, on the disk before the next is sent."""
        with writing(self._path):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            with self._path.open("a+", encoding="utf-8") as file:
                file.seek(0)
                whole = (file.read() or "\n").endswith("\n")
                file.write("\n" * (not whole) + json.dumps({"at": _now(), **asdict(one)}, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())


def send(settings: Passback, assignment: str, found: Iterable[Due], sent: Sent) -> Iterator[Due]:
    """Sends each in turn and yields it once it is there; raises CourseError where the platform doesn't take it."""
    key = settings.key()
    try:
        from pylti1p3.exception import LtiException
        from requests import RequestException
    except ImportError as error:
        raise CourseError("grades are sent by PyLTI1p3: pip install 'nbjudge[passback]'") from error
    try:
        service = _service(settings, key)
        item = None
        for one in found:
            item = item or service.find_or_create_lineitem(_line_item(assignment, one.most))
            service.put_grade(_grade(one), item)
            sent.note(one)
            yield one
    except (LtiException, RequestException, ValueError) as error:  # ValueError: a key, or an answer, that is none
        said = f"the platform has not taken it: {_said(error)}; the same command goes on from here"
        raise CourseError(said) from error


def _service(settings: Passback, key: str) -> Any:
    import requests
    from pylti1p3.assignments_grades import AssignmentsGradesService
    from pylti1p3.registration import Registration
    from pylti1p3.service_connector import ServiceConnector

    class Patient(requests.Session):
        """requests waits for ever unless each call says how long."""

        def request(self, *given: Any, **named: Any) -> requests.Response:
            return super().request(*given, **{"timeout": settings.timeout_s, **named})

    class Registered(Registration):
        """Knows its key's name without the public key."""

        def get_kid(self) -> str | None:
            return settings.key_id or None

    registered = Registered()
    registered.set_client_id(settings.client_id).set_auth_token_url(settings.token_url).set_tool_private_key(key)
    if settings.audience:
        registered.set_auth_audience(settings.audience)
    return AssignmentsGradesService(
        ServiceConnector(registered, Patient()), {"scope": [*SCOPES], "lineitems": settings.lineitems}
    )


def _line_item(assignment: str, most: float) -> Any:
    from pylti1p3.lineitem import LineItem

    return LineItem().set_tag(assignment).set_label(assignment).set_score_maximum(most)


def _grade(one: Due) -> Any:
    from pylti1p3.grade import Grade

    grade = Grade().set_user_id(one.user).set_score_given(one.points).set_score_maximum(one.most)
    return grade.set_timestamp(_now()).set_activity_progress("Completed").set_grading_progress("FullyGraded")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _said(error: Exception) -> str:
    """A platform's refusal with its status; another error by its own words."""
    response = getattr(error, "response", None)
    return f"status {response.status_code}" if response is not None else f"{type(error).__name__}: {error}"
