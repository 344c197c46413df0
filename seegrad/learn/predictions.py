"""A learner's predictions, kept in one plain JSON file beside the notebook."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from seegrad.model.scene import Question
from seegrad.quiz import Feedback, judge

FILE = ".predictions.json"


def read_predictions(folder: Path | None = None) -> dict[str, Any]:
    """Everything kept so far, by question id; empty where nothing is, or what is there can't be read."""
    try:
        found = json.loads(((folder or Path.cwd()) / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep_prediction(question: Question, answer: dict[str, Any], folder: Path | None = None) -> Feedback:
    """Write the answer down and judge it. A folder that can't be written to costs the note, never the lesson."""
    verdict = judge(question, answer)
    kept = read_predictions(folder)
    kept[question.id] = {
        "answer": answer,
        "right": verdict.right,
        "misconception": verdict.misconception,
        "prompt": question.prompt,
    }
    with contextlib.suppress(OSError):
        text = json.dumps(kept, ensure_ascii=False, indent=1, sort_keys=True)
        ((folder or Path.cwd()) / FILE).write_text(text + "\n", encoding="utf-8")
    return verdict
