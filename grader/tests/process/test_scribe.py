"""The process that converts students' text: nothing keeps it, and nothing that happens to it is anybody else's."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from nbjudge.grading.clean import NOTEBOOK_S, Clerk
from nbjudge.process.scribe import Scribe
from nbjudge.process.zygote import Zygote
from nbjudge.shown.patience import NotShown
from nbjudge_tests.classroom import bombs

KINDS = {"text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg"}
LARGE = "".join(f"<b x={n}>" for n in range(90)) + "<p>" * 30_000  # its parser is busy for long enough to be measured


@pytest.fixture(scope="module")
def scribe() -> Iterator[Scribe]:
    with Zygote(("json",), roles=("scribe",)) as zygote:
        made = Scribe(zygote)
        yield made
        made.close()


@pytest.mark.parametrize("name", bombs.OUTPUTS)
def test_a_bomb_is_converted_in_time_or_named(name: str, scribe: Scribe) -> None:
    kind, text = bombs.OUTPUTS[name]
    made = ""
    with contextlib.suppress(NotShown):
        made = Clerk(scribe).convert(KINDS[kind], text)
    assert len(made) < 10 * len(text)
    assert Clerk(scribe).convert("html", "<b onclick=x()>next</b>") == "<b>next</b>"


@pytest.mark.parametrize("asleep", [False, True])
def test_one_that_hangs_is_ended_and_the_next_request_gets_another(asleep: bool, scribe: Scribe) -> None:
    Clerk(scribe).convert("html", "before")
    if asleep and scribe._child is not None:
        os.kill(scribe._child.pid, signal.SIGSTOP)  # uses no CPU time, and will never answer
    slow = bombs.OUTPUTS["code_never_closed"][1]  # ten times as long as the time between two looks at it
    packet, took_s = scribe.ask({"op": "markdown", "cpu_ms": 10_000}, slow.encode(), 0.01)
    assert (packet, took_s) == (None, 0.01)
    packet, _ = scribe.ask({"op": "html", "cpu_ms": 10_000}, b"next", 5.0)
    assert packet is not None
    assert packet.body == b"next"


def test_a_library_that_fails_costs_that_text_alone(scribe: Scribe) -> None:
    packet, _ = scribe.ask({"op": "html", "cpu_ms": 1000}, b"\xff", 5.0)
    assert packet is not None
    assert str(packet.header["problem"]).startswith("it can't be converted (UnicodeDecodeError")
    assert Clerk(scribe).convert("html", "next") == "next"


def test_a_notebook_s_outputs_have_a_time_together(scribe: Scribe) -> None:
    clerk = Clerk(scribe)
    clerk._left_s = 0.0
    with pytest.raises(NotShown, match=f"longer than {NOTEBOOK_S:g} s"):
        clerk.convert("html", "<b>5</b>")


def test_what_a_child_computes_is_known_out_here(scribe: Scribe) -> None:
    packet, took_s = scribe.ask({"op": "html", "cpu_ms": 30_000}, LARGE.encode(), 30.0)
    assert packet is not None
    assert 0 < took_s < 30
