"""The zygote's first uses leave nothing behind that a submission could see."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from nbjudge.process.zygote import ENVIRONMENT

SEEN = """
import json, os, sys, torch
from nbjudge.process.kernel import Kernel
from nbjudge.roles import warm

kernel = Kernel()
failed = []

def trace(part):
    def tried(*given):
        try:
            part(*given)
        except Exception as error:
            failed.append(f"{part.__name__}: {error!r}")
    return tried

for name in ("_numbers", "_modules", "_cell", "_shown", "_traceback"):
    setattr(warm, name, trace(getattr(warm, name)))

def state():
    shell = kernel.shell
    return [
        sorted(shell.user_ns), shell.execution_count, len(shell.history_manager.input_hist_raw),
        [id(stream) for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)],
        torch.random.get_rng_state().sum().item(), torch.is_grad_enabled(),
        len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")),
    ]

before = state()
warm.warm(kernel)
print(json.dumps([before, state(), failed]))
"""


def test_what_was_used_once_before_the_forks_is_not_to_be_seen() -> None:
    environment = {**os.environ, **ENVIRONMENT}
    command = [sys.executable, "-c", SEEN]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    before, after, failed = json.loads(ended.stdout.splitlines()[-1])
    assert failed == []
    assert after == before
