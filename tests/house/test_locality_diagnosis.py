"""A new kind of Diagnosis is one file of seegrad/diagnose/ and its translation: nothing else knows of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.words import catalogue, entries

ROOT = Path(__file__).parents[2]

NEW_KIND = '''\
"""A backward call added to a `.grad` that an earlier one had left."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Frame, Recording
from seegrad.words.languages import marked

ADDED_UP = DiagnosisKind("gradients_added_up", "note", marked("gradients added up"), (marked("two calls, one .grad"),))
SAID = marked("{Culprit} added to the gradient of {label} that {victim} had left there.")
ADVICE = marked("Set `{name}.grad = None` between the two calls if each is to stand alone.")


@finder()
def find_added_up(recording: Recording) -> Iterator[Diagnosis]:
    """One note for each leaf and call."""
    left: dict[int, Frame] = {}
    for frame in recording.frames:
        for tensor in (gradient.tensor for gradient in frame.gradients if gradient.kept):
            first = left.setdefault(tensor, frame)
            if first.backward != frame.backward:
                places = {"culprit": frame.place, "victim": first.place}
                finding = Finding(recording=recording, kind=ADDED_UP, frame=frame.index, tensor=tensor, **places)
                yield finding.told(SAID, ADVICE, {"label": label(recording, tensor)})
'''
CHINESE = {
    "gradients added up": "梯度累加",
    "two calls, one .grad": "两次调用，一个 .grad",
    "{Culprit} added to the gradient of {label} that {victim} had left there.": (
        "{Culprit}加到了{victim}留下的 {label} 的梯度上。"
    ),
    "Set `{name}.grad = None` between the two calls if each is to stand alone.": (
        "如果两次调用各算各的，请在中间写 `{name}.grad = None`。"
    ),
}
PROGRAM = """\
import torch
import seegrad

with seegrad.record() as rec:
    a = torch.ones(2, requires_grad=True)
    (a * 2).sum().backward()
    (a * 3).sum().backward()

from pathlib import Path

from seegrad.__main__ import heading
from seegrad.picture import draw
from seegrad.words.languages import speaking

(found,) = seegrad.Recording.from_json(rec.to_json()).diagnoses
for lang in ("en", "zh_CN"):
    scene = draw(rec.recording, lang=lang)
    tags = [tag for tag in ("two calls, one .grad", "两次调用，一个 .grad") if tag in scene.body]
    with speaking(lang):
        print(heading(found, Path.cwd()), found.message(lang), *tags, sep="|")
    assert found.message(lang) in {frame.diagnosis for frame in scene.frames}
"""
ENGLISH = (
    "note: gradients added up|Line 7 (`(a * 3).sum().backward()`) added to the gradient of `a` that line 6 had left "
    "there. Set `a.grad = None` between the two calls if each is to stand alone.|two calls, one .grad"
)
IN_CHINESE = (
    "注意: 梯度累加|第 7 行（`(a * 3).sum().backward()`）加到了第 6 行留下的 `a` 的梯度上。"
    "如果两次调用各算各的，请在中间写 `a.grad = None`。|两次调用，一个 .grad"
)


def test_a_new_kind_of_diagnosis_is_one_file_and_its_translation(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "seegrad", tmp_path / "seegrad", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "seegrad" / "diagnose" / "added_up.py").write_text(NEW_KIND, encoding="utf-8")
    (tmp_path / "script.py").write_text(PROGRAM, encoding="utf-8")
    translate(tmp_path)
    assert told(tmp_path) == [f"script.py:7: {ENGLISH}", f"script.py:7: {IN_CHINESE}"]


def translate(folder: Path) -> None:
    """What a translator adds, merged with what the sources say."""
    path = catalogue.po_file("zh_CN", folder)
    words = entries.read(path, "zh_CN")
    for english, chinese in CHINESE.items():
        words.add(english, chinese)
    path.write_bytes(entries.po_bytes(words))
    catalogue.build(folder)


def told(folder: Path) -> list[str]:
    """What the program prints with the copied package: a line a language."""
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
