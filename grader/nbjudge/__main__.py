"""nbjudge autograde | regrade | report | why | settings | doctor: grade a class and see how it went."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbjudge.errors import GraderError

if TYPE_CHECKING:
    from nbjudge.plugin import SandboxedAutograde

ADVICE = """What helps: Linux 6.12 or later, or user namespaces for this user
  sysctl user.max_user_namespaces=10000
  sysctl kernel.apparmor_restrict_unprivileged_userns=0      (Ubuntu 24.04 and later)
or a container that allows them (see the Dockerfile). --i-trust-these-students grades all the same."""
ALL_GRADED, SOME_NOT, COULD_NOT_START = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 (all graded), 1 (some refused or failed) or 2 (could not start, could not go on)."""
    options = _parser().parse_args(arguments)
    commands = {
        "autograde": _autograde,
        "regrade": _regrade,
        "report": _report,
        "why": _why,
        "settings": _settings,
        "doctor": _doctor,
    }
    try:
        return commands[options.command](options)
    except GraderError as error:
        print(f"nbjudge: {error}", file=sys.stderr)
        return COULD_NOT_START
    except KeyboardInterrupt:
        print("nbjudge: stopped. What is done is done; the same command goes on from here", file=sys.stderr)
        return COULD_NOT_START


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nbjudge", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    grade = commands.add_parser("autograde", help="grade what students handed in for an assignment")
    again = commands.add_parser(
        "regrade", help="after a mended test: back up, grade again, show every score that moves"
    )
    again.add_argument("--no-backup", action="store_true", help="don't copy the gradebook first")
    for command in (grade, again):
        _add_run_options(command)
    report = commands.add_parser("report", help="one HTML page on how the class did")
    report.add_argument("name", help="the assignment")
    report.add_argument("--to", default="", help="the file; default: report-NAME.html")
    why = commands.add_parser("why", help="one student's points, question by question")
    why.add_argument("student")
    why.add_argument("name", help="the assignment")
    commands.add_parser("settings", help="what nbgrader_config.py may set for the grader")
    commands.add_parser("doctor", help="which walls around students' code hold on this machine")
    return parser


def _add_run_options(command: argparse.ArgumentParser) -> None:
    flag: dict[str, Any] = {"action": "store_true"}
    command.add_argument("name", help="the assignment")
    command.add_argument("--student", default="*", help="only this student (a pattern may be given)")
    command.add_argument("--force", **flag, help="grade again what is unchanged")
    command.add_argument("--workers", type=int, default=0, help="submissions at once; default: one per core")
    command.add_argument("--dask", default="", metavar="ADDRESS", help="grade on a Dask cluster: tcp://HOST:8786")
    command.add_argument("--new-seed", **flag, help="draw other secret inputs for the tests")
    command.add_argument("--without-reference", **flag, help="don't ask first whether the source's own answers pass")
    command.add_argument("--i-trust-these-students", **flag, help="run their code even where it can't be confined")


# --- grading ---------------------------------------------------------------------------------------------------------


def _autograde(options: argparse.Namespace) -> int:
    from nbjudge.pages.screen import ProgressBar, table

    converter = _converter(options)
    with ProgressBar() as progress:
        entries = converter.grade_class(progress.show, new_seed=options.new_seed)
    print(table(entries))
    return SOME_NOT if any(entry.problem for entry in entries) else ALL_GRADED


def _converter(options: argparse.Namespace) -> SandboxedAutograde:
    """nbgrader's configuration, and what the command line says on top of it."""
    from nbjudge.plugin import converter_for

    if options.i_trust_these_students:
        print("nbjudge: students' code runs even where it can't be confined, as was asked", file=sys.stderr)
    asked: dict[str, Any] = {
        **({"workers": options.workers} if options.workers else {}),
        **({"dask": options.dask} if options.dask else {}),
        **({"trust_students": True} if options.i_trust_these_students else {}),
        **({"check_reference": False} if options.without_reference else {}),
    }
    return converter_for(options.name, student=options.student, force=options.force, **asked)


def _regrade(options: argparse.Namespace) -> int:
    from nbjudge.pages import regrade
    from nbjudge.pages.screen import ProgressBar, columns, totals

    converter = _converter(options)
    course = converter.course()
    with converter.record() as record:
        regrade.demand_generated(course, record.assignment(options.name, 0))
        before = record.standings(options.name)
    if not options.no_backup:
        print(f"The gradebook as it was: {regrade.back_up(course)}")
    with ProgressBar() as progress:
        entries = converter.grade_class(progress.show, new_seed=options.new_seed)
    with converter.record() as record:
        found = regrade.moves(before, record.standings(options.name), entries)
    print("\n".join(columns(regrade.rows(found))) if found else "No score moves.")
    print(f"\n{len(found)} scores moved, {len({move.student for move in found})} students; {totals(entries)}")
    return SOME_NOT if any(entry.problem for entry in entries) else ALL_GRADED


# --- looking ---------------------------------------------------------------------------------------------------------


def _report(options: argparse.Namespace) -> int:
    from pathlib import Path

    from nbjudge.course.layout import write_whole
    from nbjudge.pages.report import page
    from nbjudge.plugin import converter_for

    converter = converter_for(options.name, student="*")
    standings, results = converter.past(options.name)
    path = Path(options.to or f"report-{options.name}.html").absolute()
    write_whole(path, page(options.name, standings, results).encode())
    print(path)
    return ALL_GRADED


def _why(options: argparse.Namespace) -> int:
    from nbjudge.course.gradebook import found
    from nbjudge.errors import CourseError
    from nbjudge.pages.screen import explain
    from nbjudge.plugin import converter_for

    converter = converter_for(options.name, student="*")
    standings, results = converter.past(options.name)
    standing = found(standings, options.student)
    if standing is None or not standing.handed_in:
        known = ", ".join(one.student for one in standings if one.handed_in) or "nobody yet"
        raise CourseError(f"{options.student!r} has no graded submission of {options.name}; graded are: {known}")
    print(explain(standing, results.get(options.student)))
    return ALL_GRADED


def _settings(_: argparse.Namespace) -> int:
    from nbjudge.plugin import SandboxedAutograde, own_settings

    for name, trait in own_settings().items():
        print(f"c.{SandboxedAutograde.__name__}.{name} = {trait.default_value!r}\n    {trait.help}")
    return ALL_GRADED


def _doctor(_: argparse.Namespace) -> int:
    from nbjudge.sandbox import minimum, probe

    walls = probe()
    print(f"{platform.system()} {platform.release()} on {platform.machine()}, {_user()}\n")
    for wall in walls:
        print(f"{'holds  ' if wall.holds else 'MISSING'}  {wall.name:<22}  {wall.detail}")
    missing = minimum(walls)
    print(f"\nNot enough for untrusted code: {missing}.\n{ADVICE}" if missing else "\nEnough for untrusted code.")
    return COULD_NOT_START if missing else ALL_GRADED


def _user() -> str:
    if not hasattr(os, "getuid"):
        return "an ordinary user"
    return "as root, which students' code leaves at once" if os.getuid() == 0 else f"as user {os.getuid()}"


if __name__ == "__main__":
    sys.exit(main())
