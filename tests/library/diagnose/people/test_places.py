"""A finding that can be mended at several lines names them all: the culprit first, then the others."""

from __future__ import annotations

import inspect
import json
import textwrap
import warnings
from contextlib import suppress

import pytest
import torch

import seegrad
from seegrad.display.findings import as_json
from seegrad.model.recording import Recording
from tests.data.programs import programs

OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith("reported_places")}


def read(name: str) -> Recording:
    """What is recorded of a program whose text is known, as that of a script is."""
    run, file = OWN[name].run, f"<{name}, read>"
    text = textwrap.dedent(inspect.getsource(run))
    text = f"{text[text.index('def ') :]}\n\n{run.__name__}()\n"
    torch.manual_seed(0)
    with suppress(RuntimeError), warnings.catch_warnings(action="ignore"), seegrad.record(code=(file, 1, text)) as rec:
        exec(compile(text, file, "exec"), dict(run.__globals__))  # noqa: S102  # our own program
    return rec.recording


def marked(recording: Recording, *marks: str) -> set[int]:
    """The lines of it that carry one of these marks."""
    return {line for line, text in recording.code if any(f"# {mark}" in text for mark in marks)}


@pytest.mark.parametrize("name", [name for name, each in OWN.items() if each.kind])
def test_the_line_and_the_other_one_are_named(name: str) -> None:
    recording = read(name)
    (first, *_) = recording.diagnoses
    assert first.kind == OWN[name].kind
    assert first.culprit is not None
    assert {first.culprit.line} == marked(recording, "culprit", "named")
    assert marked(recording, "instead") <= {place.line for place, _ in first.instead}


def test_each_is_said_in_the_message_and_told_as_data() -> None:
    recording = read("pl_layers_gated_behind_the_optimiser")
    (first, *_) = recording.diagnoses
    (other,) = json.loads(as_json(recording))["findings"][0]["instead"]
    assert (other["line"], other["code"]) == (4, "optimizer = of_all(net)  # instead")
    assert other["message"].startswith("Line 4 (`optimizer = of_all(net)`) makes that optimiser")
    assert first.message().endswith(other["message"])
    assert Recording.from_json(recording.to_json()) == recording
