"""Running the commands that an instructor runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def python(root: Path, *arguments: str, status: int = 0, timeout_s: float = 240, **variables: str) -> str:
    """`python …` in a folder; the output, which is also the message where it ends otherwise than with `status`."""
    command, environment = [sys.executable, *arguments], {**ENVIRONMENT, **variables}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def nbgrader(root: Path, *arguments: str, status: int = 0, timeout_s: float = 240) -> str:
    return python(root, "-m", "nbgrader", *arguments, status=status, timeout_s=timeout_s)
