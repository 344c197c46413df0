"""Regrade requests: who asked for another look at which question, why, and what came of it.

One JSON file beside the gradebook, `.grader/requests.json`, written whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from nbjudge.course.layout import Course, held_alone, write_whole
from nbjudge.errors import CourseError

WAIT_S = 10.0  # for somebody else who is writing one down


@dataclass(frozen=True, slots=True)
class RegradeRequest:
    """One of them; it is open until somebody has answered."""

    number: int
    student: str
    assignment: str
    question: str
    text: str
    asked: str
    answer: str | None = None
    closed: str | None = None


class Requests:
    """All requests of a course."""

    def __init__(self, course: Course) -> None:
        self._path = course.state / "requests.json"

    def all(self) -> tuple[RegradeRequest, ...]:
        """In the order in which they came. Raises `CourseError` where the file is damaged."""
        try:
            return tuple(RegradeRequest(**fields) for fields in json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return ()
        except (ValueError, TypeError) as error:
            raise CourseError(f"{self._path} is damaged: {error}. Mend it or move it away") from error

    def add(self, student: str, assignment: str, text: str, question: str = "") -> RegradeRequest:
        """One more; returns it, with its number."""
        with self._alone():
            known = self.all()
            request = RegradeRequest(len(known) + 1, student, assignment, question, text, _now())
            self._write([*known, request])
        return request

    def close(self, number: int, answer: str) -> RegradeRequest:
        """Answered. Raises `CourseError` where there is none of that number, or it is closed."""
        with self._alone():
            known = list(self.all())
            found = next((request for request in known if request.number == number), None)
            if found is None or found.closed:
                raise CourseError(f"request {number} {'is closed already' if found else 'does not exist'}")
            closed = replace(found, answer=answer, closed=_now())
            self._write([closed if request is found else request for request in known])
        return closed

    def _alone(self) -> AbstractContextManager[None]:
        """From reading to writing: of two at once none is lost."""
        return held_alone(self._path.parent, "requests.lock", WAIT_S)

    def _write(self, requests: Sequence[RegradeRequest]) -> None:
        text = json.dumps([asdict(request) for request in requests], ensure_ascii=False, indent=1)
        write_whole(Path(self._path), text.encode())


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
