"""What one submission may use: named in the configuration, and held to for all of its processes together."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import pytest
from traitlets.config.loader import PyFileConfigLoader

from nbjudge.grading.trial import judge_for
from nbjudge.model import Assignment, Limits, Notebook, SourceCell
from nbjudge.plugin import Limited
from nbjudge.process.imports import ALWAYS, PRELOADS
from nbjudge.process.zygote import Zygote
from nbjudge_tests.classroom import small
from nbjudge_tests.trials import cell, printed, run

MEMORY_BYTES = 1 << 30
FAMILY = """
import os, time
def child(work):
    if os.fork() == 0:
        kept = work()
        time.sleep(60)
        os._exit(0)
"""
HOARD = FAMILY + "for _ in range(8): child(lambda: b'x' * (200 << 20))\ntime.sleep(40)\nprint('alive')"
SHARE = FAMILY + "held = b'x' * (400 << 20)\nfor _ in range(6): child(lambda: None)\ntime.sleep(2)\nprint('alive')"
BURN = FAMILY + "for _ in range(4): child(lambda: [None for _ in iter(int, 1)])\ntime.sleep(40)\nprint('alive')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "limits", "what"),
    [
        (HOARD, Limits(memory_bytes=MEMORY_BYTES), "1024 MB of memory"),
        pytest.param(BURN, Limits(cpu_s=4), "4 s of CPU time", marks=pytest.mark.whole),
    ],
)
def test_a_family_of_processes_is_held_to_the_limit_of_one(source: str, limits: Limits, what: str) -> None:
    with Zygote(["json"], limits=limits) as zygote:
        ended = run(zygote, cell(source), limits=replace(limits, cell_s=60, notebook_s=90))
        assert printed(ended, 0) == ""
        assert f"its processes used more than {what} together" in str(ended.died)
        assert printed(run(zygote, cell("print('next')")), 0) == "next\n"


@pytest.mark.slow
def test_what_a_family_shares_counts_once() -> None:
    with Zygote(["torch"], limits=Limits(memory_bytes=MEMORY_BYTES)) as zygote:
        assert printed(run(zygote, cell(SHARE)), 0) == "alive\n"


@pytest.mark.slow
def test_what_is_imported_before_the_fork_leaves_all_of_the_limit() -> None:
    """torch's CUDA build takes 700 MB of a process's data, its CPU build 180 MB, and neither is the student's."""
    with Zygote(["torch"], limits=Limits(memory_bytes=200 << 20)) as zygote:
        assert printed(run(zygote, cell("held = b'x' * (150 << 20)\nprint('alive')")), 0) == "alive\n"
        assert printed(run(zygote, cell("held = b'x' * (220 << 20)\nprint('alive')")), 0) == ""


EMPTY_FILES = """
import os
os.mkdir("many")
try:
    for number in range(70_000): os.mknod(f"many/{number}")
except OSError as error: print(error.strerror)
"""


@pytest.mark.slow
def test_files_with_nothing_in_them_come_to_an_end() -> None:
    """Each takes a kilobyte of the kernel's memory, which counts for no process and no file."""
    with Zygote(["json"]) as zygote:
        assert printed(run(zygote, cell(EMPTY_FILES)), 0) == "No space left on device\n"


def test_every_limit_is_a_trait_that_says_what_it_is() -> None:
    traits = Limited.class_traits(config=True)
    assert set(traits) == {f"max_{field.name}" for field in fields(Limits)}
    assert Limited().limits() == Limits()
    assert all(len(trait.help) > 20 for trait in traits.values())


def test_what_a_course_s_notebooks_import_is_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    @contextmanager
    def zygote(preload: tuple[str, ...], **_limits: object) -> Iterator[None]:
        asked.append(preload)
        yield

    monkeypatch.setattr("nbjudge.grading.trial.Zygote", zygote)
    monkeypatch.setattr("nbjudge.grading.trial.Scribe", lambda _zygote: io.BytesIO())
    for text in ("import math", "from torch import nn", "%load_ext seegrad"):
        locked = SourceCell("a", "code", text, None, 0.0, grade=False, solution=False, locked=True, task=False)
        assignment = Assignment("ps", (Notebook("ps", "python3", (locked,)),), seed=1)
        with judge_for(assignment, limits=Limits(), trust_students=True, preload=("json", "csv")):
            pass
    known = ((), PRELOADS["torch"], ("torch", *PRELOADS["seegrad"]))
    assert asked == [(*ALWAYS, *modules, "json", "csv") for modules in known]


def test_the_course_s_configuration_names_them(tmp_path: Path) -> None:
    """Each limit stands in nbgrader_config.py as a comment that may be taken away."""
    lines = (small.ROOT / "nbgrader_config.py").read_text().splitlines()
    offered = [line.removeprefix("# ") for line in lines if line.startswith("# c.SandboxedAutograde.max_")]
    path = tmp_path / "nbgrader_config.py"
    path.write_text("\n".join(["c = get_config()", *offered]))
    config = PyFileConfigLoader(path.name, str(tmp_path)).load_config()
    assert Limited(**config.SandboxedAutograde).limits() == Limits()
