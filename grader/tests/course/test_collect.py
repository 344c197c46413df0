"""`nbgrader collect` with students who share the exchange: nothing is followed, nobody hands in for another."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from nbjudge_tests.classroom.commands import nbgrader

CONFIG = """
from nbjudge.plugin import install
c = get_config()
install(c)
c.CourseDirectory.course_id = "cs1"
c.Exchange.root = {exchange!r}
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="folders of several accounts are made by root"),
]


def dropped(exchange: Path, account: str, said: str, time: str) -> Path:
    """What an account has put into the drop box in somebody's name."""
    folder = exchange / f"cs1/inbound/{said}+ps1+2026-02-03 {time} UTC+random"
    folder.mkdir(parents=True)
    (folder / "ps1.ipynb").write_text(f"by {account}")
    for path in (folder, folder / "ps1.ipynb"):
        os.chown(path, pwd.getpwnam(account).pw_uid, -1)
    return folder


def test_only_plain_files_of_their_own_are_collected(tmp_path: Path) -> None:
    exchange, course = tmp_path / "exchange", tmp_path / "course"
    course.mkdir()
    (course / "nbgrader_config.py").write_text(CONFIG.format(exchange=str(exchange)))
    (course / "gradebook.txt").write_text("everybody's points")
    dropped(exchange, "daemon", "daemon", "10:00:00")
    dropped(exchange, "games", "daemon", "11:00:00")  # later, in another's name
    linked = dropped(exchange, "games", "games", "10:00:00")
    (linked / "notes.txt").symlink_to(course / "gradebook.txt")
    folder = dropped(exchange, "man", "man", "10:00:00")
    (folder / "files").symlink_to(course)
    os.mkfifo(dropped(exchange, "lp", "lp", "10:00:00") / "waits")
    dropped(exchange, "games", "mail", "10:00:00")
    said = nbgrader(course, "collect", "ps1")
    assert [path.name for path in (course / "submitted").iterdir() if (path / "ps1").exists()] == ["daemon"]
    assert (course / "submitted/daemon/ps1/ps1.ipynb").read_text() == "by daemon"
    for account, why in (
        ("games", "'notes.txt' is no plain file"),
        ("man", "'files' is a link"),
        ("lp", "'waits' is no"),
    ):
        assert f"{account}+ps1+2026-02-03 10:00:00 UTC+random isn't collected: {why}" in said
    assert "mail+ps1+2026-02-03 10:00:00 UTC+random isn't collected: it doesn't belong" in said
