"""python -m grader autograde NAME | doctor: grade a class, or ask what this machine can confine."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from tqdm import tqdm

from grader.batch import Entry
from grader.errors import GraderError

ALL_GRADED, SOME_NOT, COULD_NOT_START = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 (all graded), 1 (some refused or failed) or 2 (could not start)."""
    options = _parser().parse_args(arguments)
    try:
        return _doctor() if options.command == "doctor" else _autograde(options)
    except GraderError as error:
        print(f"grader: {error}", file=sys.stderr)
        return COULD_NOT_START


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m grader", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    grade = commands.add_parser("autograde", help="grade what students handed in for an assignment")
    grade.add_argument("name", help="the assignment")
    grade.add_argument("--student", default="*", help="only this student (a pattern may be given)")
    grade.add_argument("--force", action="store_true", help="grade again what is unchanged")
    grade.add_argument("--workers", type=int, default=0, help="submissions at once; default: one per core")
    grade.add_argument("--new-seed", action="store_true", help="draw other secret inputs for the tests")
    grade.add_argument(
        "--without-reference", action="store_true", help="don't ask first whether the source's own answers pass"
    )
    grade.add_argument(
        "--i-trust-these-students", action="store_true", help="run their code even where it can't be confined"
    )
    commands.add_parser("doctor", help="which walls around students' code hold on this machine")
    return parser


# --- autograde -------------------------------------------------------------------------------------------------------


def _autograde(options: argparse.Namespace) -> int:
    from grader.nbgrader_plugin import converter_for

    if options.i_trust_these_students:
        print("grader: students' code runs even where it can't be confined, as was asked", file=sys.stderr)
    asked = {
        **({"workers": options.workers} if options.workers else {}),
        **({"trust_students": True} if options.i_trust_these_students else {}),
        **({"check_reference": False} if options.without_reference else {}),
    }
    converter = converter_for(options.name, student=options.student, force=options.force, **asked)
    with _Progress() as progress:
        entries = converter.grade_class(progress.show, new_seed=options.new_seed)
    print(table(entries))
    return SOME_NOT if any(entry.problem for entry in entries) else ALL_GRADED


class _Progress:
    """A bar with rate and time left in a terminal; one line per student in a log."""

    def __init__(self) -> None:
        self._bar: tqdm[None] | None = None

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, entry: Entry, done: int, total: int) -> None:
        from grader.nbgrader_plugin import summary

        if not sys.stderr.isatty():
            print(f"{done}/{total} {summary(entry)}", file=sys.stderr, flush=True)
            return
        if self._bar is None:
            self._bar = tqdm(total=total, unit="student", desc="grading")
        self._bar.set_postfix_str(entry.student)
        self._bar.update(done - self._bar.n)


def table(entries: Sequence[Entry]) -> str:
    """Student, score, how their questions ended, and what was wrong; then a line of totals."""
    rows = [("student", "score", "questions", "remark"), *(_row(entry) for entry in entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(text.ljust(width) for text, width in zip(row[:3], widths, strict=True)), row[3]]).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines[:1])), *lines[1:], "", _totals(entries)])


def _row(entry: Entry) -> tuple[str, str, str, str]:
    result = entry.result
    if result.refusal is not None:
        return entry.student, "–", "", entry.problem or ""
    kinds = Counter(outcome.kind.value for outcome in result.outcomes)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return entry.student, f"{result.score:g}/{result.max_score:g}", counts, _remark(entry)


def _remark(entry: Entry) -> str:
    notes = [note for graded in entry.result.notebooks for note in graded.notes]
    died = [graded.died for graded in entry.result.notebooks if graded.died]
    claims = sum(bool(outcome.claims) for outcome in entry.result.outcomes)
    said = [f"{claims} rest on the student's word"] if claims else []
    unchanged = ["unchanged"] if entry.unchanged else []
    return "; ".join([*([entry.problem] if entry.problem else []), *died, *notes, *said, *unchanged])


def _totals(entries: Sequence[Entry]) -> str:
    bad = sum(entry.problem is not None for entry in entries)
    wall_s = sum(entry.result.wall_s for entry in entries if not entry.unchanged)
    return f"{len(entries) - bad} graded, {bad} not; {wall_s:.1f} s of work"


# --- doctor ----------------------------------------------------------------------------------------------------------


def _doctor() -> int:
    from grader.sandbox import minimum, probe

    layers = probe()
    for layer in layers:
        print(f"{'holds  ' if layer.holds else 'MISSING'}  {layer.name:<22} {layer.detail}")
    missing = minimum(layers)
    print(f"\nNot enough for untrusted code: {missing}." if missing else "\nEnough for untrusted code.")
    return COULD_NOT_START if missing else ALL_GRADED


if __name__ == "__main__":
    sys.exit(main())
