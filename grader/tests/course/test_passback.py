"""Grades that go to a learning platform: a stand-in for one checks signature, scopes, scores, and can be dead."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from traitlets.config import Config

from nbjudge.course.office.passback import SCOPES, Due, Passback, Sent, due, send
from nbjudge.course.office.standings import Score, Standing
from nbjudge.errors import CourseError

ADA, BO = Due("ada", "7", 8.5, 10.0), Due("bo", "8", 10.0, 10.0)


@dataclass
class Platform:
    """What it was asked, what it holds, and how it answers."""

    public_key: Any
    url: str = ""
    items: list[dict[str, Any]] = field(default_factory=list)
    scores: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    refuses: int = 0  # the status of an answer that refuses a score; 0: it takes them
    after: int = 0  # it takes so many first


def handler(platform: Platform) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

        def do_GET(self) -> None:
            if self.authorised():
                self.answer(200, platform.items)

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if self.path == "/token":
                self.give_token({name: values[0] for name, values in parse_qs(text).items()})
            elif not self.authorised():
                return
            elif self.path == "/items":
                item = {**json.loads(text), "id": f"{platform.url}/items/{len(platform.items) + 1}"}
                platform.items.append(item)
                self.answer(201, item)
            elif platform.refuses and len(platform.scores) >= platform.after:
                self.answer(platform.refuses, {"error": "no"})
            else:
                platform.scores.append((self.path, json.loads(text)))
                self.answer(200, None)

        def give_token(self, asked: dict[str, str]) -> None:
            claims = jwt.decode(
                asked["client_assertion"], platform.public_key, algorithms=["RS256"], audience=f"{platform.url}/token"
            )
            assert claims["iss"] == claims["sub"] == "tool-1"
            assert jwt.get_unverified_header(asked["client_assertion"])["kid"] == "key-1"
            assert set(asked["scope"].split()) == set(SCOPES)
            self.answer(200, {"access_token": "open", "expires_in": 3600, "token_type": "Bearer"})

        def authorised(self) -> bool:
            if self.headers["Authorization"] != "Bearer open":
                self.answer(401, {"error": "who are you?"})
                return False
            return True

        def answer(self, status: int, content: Any) -> None:
            body = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Answers


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def platform(key: rsa.RSAPrivateKey) -> Iterator[Platform]:
    standing = Platform(key.public_key())
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(standing))
    standing.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield standing
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def settings(platform: Platform, key: rsa.RSAPrivateKey, tmp_path: Path) -> Passback:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "key.pem"
    path.write_bytes(pem)
    path.chmod(0o600)
    said = Config()
    said.Passback.client_id, said.Passback.key_id, said.Passback.key_file = "tool-1", "key-1", str(path)
    said.Passback.token_url, said.Passback.lineitems = f"{platform.url}/token", f"{platform.url}/items"
    return Passback(config=said)


def test_each_score_arrives_with_its_maximum_under_one_line_item(
    settings: Passback, platform: Platform, tmp_path: Path
) -> None:
    sent = Sent(tmp_path, "ps1")
    assert list(send(settings, "ps1", [ADA], sent)) == [ADA]
    assert list(send(settings, "ps1", [BO], sent)) == [BO]
    (item,) = platform.items
    assert (item["tag"], item["label"], item["scoreMaximum"]) == ("ps1", "ps1", 10.0)
    assert [path for path, _ in platform.scores] == ["/items/1/scores"] * 2
    told = platform.scores[0][1]
    assert (told["userId"], told["scoreGiven"], told["scoreMaximum"]) == ("7", 8.5, 10.0)
    assert (told["activityProgress"], told["gradingProgress"]) == ("Completed", "FullyGraded")
    assert sent.newest() == {"ada": ADA, "bo": BO}


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_a_platform_that_refuses_stops_it_and_nothing_is_told_twice(
    settings: Passback, platform: Platform, tmp_path: Path, status: int
) -> None:
    sent = Sent(tmp_path, "ps1")
    platform.refuses, platform.after = status, 1
    with pytest.raises(CourseError, match=f"status {status}.*goes on from here"):
        list(send(settings, "ps1", [ADA, BO], sent))
    assert sent.newest() == {"ada": ADA}
    platform.refuses = 0
    rest = [one for one in (ADA, BO) if sent.newest().get(one.student) != one]
    assert list(send(settings, "ps1", rest, sent)) == [BO]
    assert [told["userId"] for _, told in platform.scores] == ["7", "8"]


def test_a_dead_platform_is_said(settings: Passback, tmp_path: Path) -> None:
    settings.lineitems = "http://127.0.0.1:9"  # nobody listens there
    settings.token_url = settings.lineitems
    with pytest.raises(CourseError, match="the platform has not taken it: ConnectionError"):
        list(send(settings, "ps1", [ADA], Sent(tmp_path, "ps1")))
    assert Sent(tmp_path, "ps1").newest() == {}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("client_id", "", "c.Passback.client_id is not set"),
        ("token_url", "http://lms.example.org/token", "has to begin with https://"),
        ("key_file", "/nowhere/key.pem", "c.Passback.key_file"),
    ],
)
def test_a_setting_that_would_give_grades_away_is_named(
    settings: Passback, tmp_path: Path, name: str, value: str, said: str
) -> None:
    setattr(settings, name, value)
    with pytest.raises(CourseError, match=said):
        list(send(settings, "ps1", [ADA], Sent(tmp_path, "ps1")))


def test_all_that_lacks_is_named_before_anything_is_sent(settings: Passback) -> None:
    assert settings.lacking() == ""
    settings.token_url = ""
    assert settings.lacking() == "c.Passback.token_url is not set in nbgrader_config.py"
    assert Passback().lacking() == (
        "c.Passback.client_id, c.Passback.token_url, c.Passback.lineitems and c.Passback.key_file are not set in "
        "nbgrader_config.py"
    )


def test_a_key_that_others_can_read_is_refused(settings: Passback, tmp_path: Path) -> None:
    Path(settings.key_file).chmod(0o644)
    with pytest.raises(CourseError, match="chmod 600"):
        list(send(settings, "ps1", [ADA], Sent(tmp_path, "ps1")))


def test_what_is_not_final_or_nobody_s_there_is_named() -> None:
    waits = Score("n", "q", None, None, 0.0, 5.0, waits=True)
    done = Score("n", "p", 3.0, None, 0.0, 5.0, waits=False)
    given = [
        Standing("ada", "ps1", (done,)),
        Standing("bo", "ps1", (done, waits)),
        Standing("cy", "ps1", handed_in=False),
        Standing("di", "ps1", (done,)),
    ]
    found, left_out = due(given, {"ada": "7", "bo": "8", "cy": "9"}, 10.0)
    assert found == [Due("ada", "7", 3.0, 10.0)]
    assert [line.split()[0] for line in left_out] == ["bo", "cy", "di"]
    assert "lms_user_id" in left_out[2]


def test_a_line_that_was_cut_off_counts_as_not_sent(tmp_path: Path) -> None:
    sent = Sent(tmp_path, "ps1")
    sent.note(ADA)
    path = tmp_path / "passback/ps1.jsonl"
    path.write_text(path.read_text() + '{"student": "bo", "us')
    assert sent.newest() == {"ada": ADA}
    sent.note(BO)
    assert sent.newest() == {"ada": ADA, "bo": BO}
    assert path.parent.stat().st_mode & 0o077 == 0
