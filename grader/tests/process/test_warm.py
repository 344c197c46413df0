"""The zygote's first uses leave nothing behind that a submission could see."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import stack_data
from ipykernel import ipkernel
from IPython.core.interactiveshell import InteractiveShell
from pygments.formatters.terminal256 import Terminal256Formatter
from pygments.styles import get_style_by_name

from nbjudge.course.naming import Written, pictures
from nbjudge.process import shortcuts
from nbjudge.process.zygote import ENVIRONMENT, Zygote
from nbjudge_tests.trials import cell, printed, run

SEEN = """
import json, os, sys, torch
import seegrad.display.magic
from ipywidgets.widgets import widget
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

for name in ("_numbers", "_modules", "_cell", "_late", "_shown", "_traceback", "_picture"):
    setattr(warm, name, trace(getattr(warm, name)))

def state():
    shell = kernel.shell
    return [
        sorted(shell.user_ns), shell.execution_count, len(shell.history_manager.input_hist_raw),
        [id(stream) for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)],
        torch.random.get_rng_state().sum().item(), torch.is_grad_enabled(),
        len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")),
        len(widget._instances), sorted(os.environ),
    ]

before = state()
warm.warm(kernel)
print(json.dumps([before, state(), failed]))
"""


CELLS = (
    *("1", "1;", "x = 1\n'a;b'", "f(1)  # ;", "f(1);  # why", "await f()", "async def f(): ...\nawaited = 1"),
    *("async with f() as g:\n    pass", "for x in y:", "await_ = 1", "[x async for x in f()]"),
)


def test_what_is_asked_less_often_gets_the_same_answer() -> None:
    plain, short = InteractiveShell(), InteractiveShell()
    style = get_style_by_name("monokai")
    colours = Terminal256Formatter(style=style).style_string
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Terminal256Formatter, "_closest_color", Terminal256Formatter._closest_color)
        patch.setattr(stack_data, "style_with_executing_node", stack_data.style_with_executing_node)
        patch.setattr(ipkernel, "_accepts_parameters", ipkernel._accepts_parameters)
        shortcuts.take(short)
        for cell in CELLS:
            given = {"transformed_cell": plain.transform_cell(cell)}
            assert short.should_run_async(cell, **given) == plain.should_run_async(cell, **given)
            shells = (plain, short)
            ends = [shell.displayhook.semicolon_at_end_of_expression(cell) for shell in shells]
            assert ends[0] == ends[1]
        assert Terminal256Formatter(style=style).style_string == colours
        for _ in range(2):
            told = ipkernel._accepts_parameters(short.run_cell, ["cell_id", "elsewhere"])
            assert told == {"cell_id": True, "elsewhere": False}


PICTURE = "from seegrad import pick\n\npick('a', {'n': [1, 2]}, 'b = a * 2', 'import torch\\na = torch.ones(2)')"
ASKED = "from seegrad.display.assigned import asked\nprint(asked._drawn.cache_info().hits)"


def test_the_picture_of_a_cell_of_the_release_is_drawn_once_for_a_class(zygote: Zygote) -> None:
    cells = (cell(PICTURE), cell(ASKED))
    with Zygote(("torch", "seegrad"), shown=[PICTURE, "from seegrad import pick\npick(", "raise SystemExit"]) as warm:
        drawn = run(warm, *cells)
    assert (printed(drawn, 1), printed(run(zygote, *cells), 1)) == ("1\n", "0\n")
    (shown,) = drawn.notebook["cells"][0]["outputs"]
    assert "<img" in "".join(shown["data"]["text/html"])


def test_only_a_cell_that_shows_a_picture_and_does_nothing_else_is_run_before_the_forks() -> None:
    texts = [
        "from seegrad import pick\nopen('x')",
        "import os\npick()",
        "from os import pick\npick()",
        "x = 1",
        "!ls",
        "",
    ]
    given = [Written("given", (text,)) for text in (*texts, PICTURE)]
    assert [*pictures([*given, Written("answer", (PICTURE,)), Written("test", (PICTURE,))])] == [PICTURE]


def test_what_was_used_once_before_the_forks_is_not_to_be_seen() -> None:
    environment = {**os.environ, **ENVIRONMENT}
    command = [sys.executable, "-c", SEEN]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    before, after, failed = json.loads(ended.stdout.splitlines()[-1])
    assert failed == []
    assert after == before
