"""Programs on real libraries show the same recorded as alone, and no Diagnosis finds fault with them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.libraries.table import LibraryProgram, library_programs

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", library_programs())
def test_recording_changes_nothing_and_finds_nothing(name: str, record_property: Any) -> None:
    program = library_programs()[name]
    if program.missing:
        pytest.skip(f"{', '.join(program.missing)}: not here. `make test-libraries` installs what pip can.")
    ranks = together(name, program)
    record_property("library program", ranks[0])
    assert not [told for rank in ranks for told in rank["differences"]]
    assert not [found for rank in ranks for found in rank["found"] if found[0] != "note"]


def together(name: str, program: LibraryProgram) -> list[dict[str, Any]]:
    """What each of the program's processes says; all are ended where one takes too long."""
    port = free_port() if program.processes > 1 else 0
    started = [start(name, rank, program.processes, port) for rank in range(program.processes)]
    try:
        told = [each.communicate(timeout=program.limit_s) for each in started]
    finally:
        for each in started:
            each.kill()
            each.wait()
    for each, (_, errors) in zip(started, told, strict=True):
        assert each.returncode == 0, f"exit {each.returncode}\n{errors[-5000:]}"
    return [json.loads(printed.splitlines()[-1]) for printed, _ in told]


def start(name: str, rank: int, processes: int, port: int) -> subprocess.Popen[str]:
    """One process, offline, that meets the others where there are any."""
    world = {"RANK": rank, "WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environment = os.environ | {"SEEGRAD_RAISE_OWN_ERRORS": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    environment |= {key: str(value) for key, value in world.items()} if processes > 1 else {}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.libraries.four_times", name],
        **{"cwd": ROOT, "env": environment, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
    )


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
