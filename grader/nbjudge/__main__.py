"""nbjudge autograde | regrade | prove | report | why: grade a class and see how it went.

nbjudge extend | attempts | requests | roster: more time, attempts, requests for another look, names and ids.
nbjudge similar: pairs of submissions that are nearer to each other than the class is.
nbjudge generate: an assignment's rows in the gradebook. nbjudge hub: its files and permissions on a JupyterHub.
nbjudge passback: final scores to the platform that the class came from.
nbjudge judge: what tests say of a program, without a course.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from nbjudge.errors import CourseError, GraderError
from nbjudge.shown.text import counted, printable

if TYPE_CHECKING:
    from nbjudge.plugin import SandboxedAutograde

ADVICE = """What helps: Linux 6.12 or later, or user namespaces for this user
  sysctl user.max_user_namespaces=10000
  sysctl kernel.apparmor_restrict_unprivileged_userns=0      (Ubuntu 24.04 and later)
or a container that allows them (see the Dockerfile). --i-trust-these-students grades all the same."""
NOT_INSTALLED = """nbjudge: nbgrader_config.py doesn't name this grader, so `nbgrader autograde` and formgrader's button
would run the tests, hidden ones too, in the students' own processes. In the course's folder it needs these lines:
    from nbjudge.plugin import install

    c = get_config()
    install(c)"""
NO_MOVE = "No score moves of what was graded before."
PATHS = frozenset({"tests", "answers", "reference", "file", "to", "prefix"})
CANT_SEND = "Nothing was sent, and nothing can be yet: {lack}."
NOT_SENT = "Nothing was sent; --yes sends it."
ALL_GRADED, SOME_NOT, COULD_NOT_START = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 (all graded), 1 (some refused or failed) or 2 (could not start, could not go on)."""
    options = _parser().parse_args(arguments)
    commands = {
        "autograde": _autograde,
        "regrade": _regrade,
        "prove": _prove,
        "report": _report,
        "why": _why,
        "similar": _similar,
        "extend": _extend,
        "attempts": _attempts,
        "requests": _requests,
        "roster": _roster,
        "settings": _settings,
        "doctor": _doctor,
        "generate": _generate,
        "hub": _hub,
        "passback": _passback,
        "judge": _judge,
    }
    try:
        _demand_text(options)
        return commands[options.command](options)
    except GraderError as error:
        _say(f"nbjudge: {error}", sys.stderr)
        return COULD_NOT_START
    except KeyboardInterrupt:
        _say("nbjudge: stopped. What is done is done; the same command goes on from here", sys.stderr)
        return COULD_NOT_START


def _demand_text(options: argparse.Namespace) -> None:
    """Names and texts come as bytes from a shell; only a file's path may be any."""
    for name, given in vars(options).items():
        for text in given if isinstance(given, list) else [given]:
            if name not in PATHS and isinstance(text, str) and text.encode("utf-8", "replace").decode() != text:
                raise CourseError(f"{name}: {text!r} is not text in UTF-8")


def _say(text: object, where: TextIO | None = None) -> None:
    """The one door to the terminal: names and outputs that a student chose may stand in any sentence."""
    stream = where or sys.stdout
    try:
        print(printable(str(text)), file=stream, flush=True)
    except BrokenPipeError:  # a pager or `head` has read enough: what is at work goes on
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nbjudge", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    grade = commands.add_parser("autograde", help="grade what students handed in for an assignment")
    again = commands.add_parser(
        "regrade", help="after a mended test: see that it was generated, then the same as autograde"
    )
    for command in (grade, again):
        _add_run_options(command)
    prove = commands.add_parser("prove", help="which wrong answers get points: a table of all questions")
    prove.add_argument("name", help="the assignment")
    report = commands.add_parser("report", help="one HTML page on how the class did")
    report.add_argument("name", help="the assignment")
    report.add_argument("--to", default="", help="the file; default: report-NAME.html")
    why = commands.add_parser("why", help="one student's points, question by question")
    why.add_argument("student")
    why.add_argument("name", help="the assignment")
    similar = commands.add_parser(
        "similar", help="pairs of submissions that are nearer than the class: a table, a page"
    )
    similar.add_argument("name", help="the assignment")
    similar.add_argument("--to", default="", help="the page's file; default: similar-NAME.html")
    similar.add_argument(
        "--given", action="append", default=[], metavar="FOLDER", help="notebooks that students were given, too"
    )
    _add_desk(commands)
    generate = commands.add_parser("generate", help="an assignment's rows in the gradebook, from its source")
    generate.add_argument("names", nargs="+", metavar="name", help="the assignment")
    generate.add_argument("--force", action="store_true", help="write the release anew, too")
    hub = commands.add_parser("hub", help="a course's files and permissions on a JupyterHub's machine; as root")
    hub.add_argument("file", help="hub.toml: who is grader, instructor, student, and where the exchange is")
    hub.add_argument("--check", action="store_true", help="change nothing, say what differs")
    hub.add_argument("--prefix", default=sys.prefix, help="the environment that the servers run in; default: this one")
    back = commands.add_parser("passback", help="final scores to the learning platform, by LTI 1.3")
    back.add_argument("name", help="the assignment")
    back.add_argument("--yes", action="store_true", help="send them; without it only what would be sent is shown")
    one = commands.add_parser("judge", help="what tests say of an answer, as JSON: no course, no gradebook")
    one.add_argument("tests", help="a Python file whose cells begin with `# %%%% name (2 points)`, or a notebook")
    one.add_argument("answers", nargs="+", metavar="answer", help="a Python file or a notebook; one line of JSON each")
    one.add_argument("--reference", help="an answer that is known to be right")
    one.add_argument("--preload", default="", metavar="NAMES", help="what answers import, imported once: torch,numpy")
    one.add_argument("--i-trust-these-students", action="store_true", help="run it even where it can't be confined")
    commands.add_parser("settings", help="what nbgrader_config.py may set for the grader")
    commands.add_parser("doctor", help="which walls around students' code hold on this machine")
    return parser


def _add_desk(commands: Any) -> None:
    more = commands.add_parser("extend", help="more time for one student, and what that moves")
    more.add_argument("student")
    more.add_argument("name", help="the assignment")
    more.add_argument("until", help="2026-12-01 18:00, in UTC or with an offset; none: as everybody has")
    tried = commands.add_parser("attempts", help="what each student handed in so far, and the points it got")
    tried.add_argument("name", help="the assignment")
    requests = commands.add_parser("requests", help="who asked for another look, and what came of it")
    kinds = requests.add_subparsers(dest="what", required=True)
    kinds.add_parser("list", help="those that are open").add_argument(
        "--all", action="store_true", help="closed ones too"
    )
    asked = kinds.add_parser("add", help="write one down")
    asked.add_argument("student")
    asked.add_argument("name", help="the assignment")
    asked.add_argument("text", help="what the student says")
    asked.add_argument("--question", default="", help="which one; default: the whole assignment")
    done = kinds.add_parser("close", help="answer one")
    done.add_argument("number", type=int)
    done.add_argument("answer")
    roster = commands.add_parser("roster", help="names, ids and e-mail from the CSV that Canvas or Moodle exports")
    roster.add_argument("file")
    roster.add_argument("--id", default="", metavar="COLUMN", help="the column with nbgrader's ids; exports go by it")
    for command in (more, roster):
        command.add_argument("--no-backup", action="store_true", help="don't copy the gradebook first")


def _add_run_options(command: argparse.ArgumentParser) -> None:
    flag: dict[str, Any] = {"action": "store_true"}
    command.add_argument("name", help="the assignment")
    only = "only this student, or those of a pattern; several times: each of them"
    command.add_argument("--student", action="append", default=[], metavar="STUDENT", help=only)
    command.add_argument("--force", **flag, help="grade again what is unchanged")
    command.add_argument("--workers", type=int, default=0, help="submissions at once; default: one per core")
    command.add_argument("--dask", default="", metavar="ADDRESS", help="grade on a Dask cluster: tcp://HOST:8786")
    command.add_argument("--new-seed", **flag, help="draw other secret inputs for the tests")
    command.add_argument("--without-reference", **flag, help="don't ask first whether the source's own answers pass")
    command.add_argument("--no-backup", **flag, help="don't copy the gradebook first")
    command.add_argument("--i-trust-these-students", **flag, help="run their code even where it can't be confined")


# --- grading ---------------------------------------------------------------------------------------------------------


def _autograde(options: argparse.Namespace) -> int:
    return _grade(_converter(options), options)


def _grade(converter: SandboxedAutograde, options: argparse.Namespace) -> int:
    """The run, its table, and what it has moved."""
    from nbjudge.pages.regrade import told
    from nbjudge.pages.screen import ProgressBar, table

    with ProgressBar() as progress:
        entries = converter.grade_class(progress.show, new_seed=options.new_seed, say=progress.say)
    known = any(one.before and one.before.handed_in for one in entries)
    _say("\n".join([table(entries), *converter.warnings, "", *(told(entries) or [NO_MOVE] * known)]))
    return SOME_NOT if any(entry.problem for entry in entries) else ALL_GRADED


def _converter(options: argparse.Namespace) -> SandboxedAutograde:
    """nbgrader's configuration, and what the command line says on top of it."""
    from nbjudge.plugin import converter_for

    if options.i_trust_these_students:
        _say("nbjudge: students' code runs even where it can't be confined, as was asked", sys.stderr)
    asked: dict[str, Any] = {
        **({"workers": options.workers} if options.workers else {}),
        **({"dask": options.dask} if options.dask else {}),
        **({"trust_students": True} if options.i_trust_these_students else {}),
        **({"check_reference": False} if options.without_reference else {}),
        **({"backup": False} if options.no_backup else {}),
    }
    converter = converter_for(options.name, student="*", force=options.force, **asked)
    converter.students = tuple(options.student)
    return converter


def _prove(options: argparse.Namespace) -> int:
    from nbjudge.grading.prove import legend, table
    from nbjudge.pages.screen import columns, turned
    from nbjudge.plugin import converter_for

    found = converter_for(options.name, student="*").proof()
    _say("\n".join([*columns(turned(table(found))), "", *legend(), "", *found.closing()]))
    return SOME_NOT if found.open else ALL_GRADED


def _regrade(options: argparse.Namespace) -> int:
    from functools import partial

    from nbjudge.pages import regrade
    from nbjudge.pages.generating import as_generated

    converter = _converter(options)
    with converter.record() as record:
        asked, made = record.assignment(options.name, 0), partial(as_generated, parent=converter)
    regrade.demand_generated(converter.course(), asked, made)
    return _grade(converter, options)


# --- besides grading -------------------------------------------------------------------------------------------------


def _desk(options: argparse.Namespace) -> SandboxedAutograde:
    """The course's configuration, where no assignment is graded."""
    from nbjudge.plugin import converter_for

    asked = {"backup": False} if getattr(options, "no_backup", False) else {}
    return converter_for(getattr(options, "name", ""), student="*", **asked)


def _extend(options: argparse.Namespace) -> int:
    from nbjudge.pages import desk

    converter, until = _desk(options), desk.until(options.until)
    with converter.alone() as record:
        converter.save(print)
        for line in desk.extended(record, options.student, options.name, until):
            _say(line)
    return ALL_GRADED


def _attempts(options: argparse.Namespace) -> int:
    from nbjudge.pages import desk

    with _desk(options).record() as record:
        _say("\n".join(desk.log_of_attempts(record, options.name)))
    return ALL_GRADED


def _requests(options: argparse.Namespace) -> int:
    from nbjudge.course.office.requests import Requests
    from nbjudge.pages import desk

    converter = _desk(options)
    requests = Requests(converter.course())
    if options.what == "add":
        with converter.record() as record:
            desk.demand_known(record, options.student, options.name, options.question)
        shown = [requests.add(options.student, options.name, options.text, options.question)]
    elif options.what == "close":
        shown = [requests.close(options.number, options.answer)]
    else:
        shown = [request for request in requests.all() if options.all or not request.closed]
    _say("\n".join(desk.listed(shown)))
    return ALL_GRADED


def _roster(options: argparse.Namespace) -> int:
    from pathlib import Path

    from nbjudge.course.exporters import id_columns
    from nbjudge.course.office.roster import demand_somebody, read_roster
    from nbjudge.pages import desk

    converter, path = _desk(options), Path(options.file)
    with converter.alone() as record:
        roster = read_roster(path, options.id, {**record.id_columns(), **id_columns(converter.config)})
        if not options.id:  # a person's word for it
            demand_somebody(roster, record.handed_in(), path)
        converter.save(print)
        for line in desk.enrolled(record, roster):
            _say(line)
    return SOME_NOT if roster.left_out else ALL_GRADED


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
    _say(path)
    return ALL_GRADED


def _why(options: argparse.Namespace) -> int:
    from nbjudge.course.office.standings import found
    from nbjudge.pages import desk
    from nbjudge.pages.screen import explain
    from nbjudge.plugin import converter_for

    converter = converter_for(options.name, student="*")
    standings, results = converter.past(options.name)
    standing = found(standings, options.student)
    if standing is None or not standing.handed_in:
        with converter.record() as record:
            raise CourseError(desk.not_graded(record, converter.course(), options.student, options.name))
    _say(explain(standing, results.get(options.student)))
    return ALL_GRADED


def _similar(options: argparse.Namespace) -> int:
    from pathlib import Path

    from nbjudge.course.layout import write_whole
    from nbjudge.pages import classmates
    from nbjudge.plugin import converter_for

    converter = converter_for(options.name, student="*")
    with converter.record() as record:
        assignment = record.assignment(options.name, 0, converter.limits())
    compared = classmates.compare(converter.course(), assignment, converter.given(options.given))
    path = Path(options.to or f"similar-{options.name}.html").absolute()
    write_whole(path, classmates.page(compared, converter.language()).encode())
    _say("\n".join([*classmates.table(compared), "", str(path)]))
    return SOME_NOT if compared.left_out or compared.in_part else ALL_GRADED


def _generate(options: argparse.Namespace) -> int:
    from functools import partial

    from nbjudge.course.generate import generate
    from nbjudge.plugin import converter_for, generator_for

    stale = False
    for name in options.names:
        course = converter_for(name, student="*").course()
        made = generate(generator_for(name, partial(_say, where=sys.stderr)), course, force=options.force)
        _say(made.told)
        stale = stale or made.stale
    _warn_of_stock_grader()
    return SOME_NOT if stale else ALL_GRADED


def _warn_of_stock_grader() -> None:
    """After nbgrader's configuration has been read."""
    from nbjudge.plugin import installed

    if not installed():
        _say(NOT_INSTALLED, sys.stderr)


def _hub(options: argparse.Namespace) -> int:
    from pathlib import Path

    from nbjudge.course.office import hub as hubs

    hub = hubs.read_hub(Path(options.file))
    try:
        laid = [(place, wrong) for place in hubs.places(hub, Path(options.prefix)) if (wrong := hubs.differing(place))]
    except PermissionError as error:
        raise CourseError(f"{error.filename} is closed to you: sudo nbjudge hub FILE --check") from None
    if lacking := hubs.lacking(hub):
        _say(lacking)
    if options.check:
        _say("\n".join(f"{place.path} {wrong}" for place, wrong in laid) or hubs.IN_ORDER)
        return SOME_NOT if laid else ALL_GRADED
    if os.getuid() != 0:
        raise CourseError("other accounts' files are laid by root: sudo nbjudge hub FILE, or --check")
    for place, _ in laid:
        _say(hubs.put(place))
    course = hubs.home(hub.grader) / hub.directory
    if given := hubs.give(course, hub.grader):
        _say(f"{course}: {counted(given, 'file or folder', 'files and folders')} given to {hub.grader} alone")
    elif not laid:
        _say(hubs.IN_ORDER)
    return ALL_GRADED


def _passback(options: argparse.Namespace) -> int:
    from nbjudge.course.office import passback

    converter = _desk(options)
    with converter.record() as record:
        record.assignment(options.name, 0)  # raises where there is none
        most = record.most(options.name)
        due, left_out = passback.due(record.standings(options.name), record.platform_ids(), most)
    sent = passback.Sent(converter.course().state, options.name)
    known = sent.newest()
    new = [one for one in due if known.get(one.student) != one]
    settings = passback.Passback(parent=converter)
    for one in passback.send(settings, options.name, new, sent) if options.yes else new:
        _say(f"{one.student}  {one.points:g}/{one.most:g}  {'sent' if options.yes else 'would be sent'}")
    there = counted(len(due) - len(new), "is there already", "are there already")
    unsent = [] if options.yes else [NOT_SENT if not (lack := settings.lacking()) else CANT_SEND.format(lack=lack)]
    _say("\n".join([*left_out, f"{there}.", *unsent]))
    return SOME_NOT if left_out else ALL_GRADED


def _judge(options: argparse.Namespace) -> int:
    import json
    from pathlib import Path

    from nbjudge import single
    from nbjudge.process.imports import preloads

    tests = single.tests_in(Path(options.tests))
    reference = single.answer_in(Path(options.reference)) if options.reference else None
    for said in single.passed_by(tests, reference):
        _say(f"nbjudge: {options.tests}, {said}", sys.stderr)
    texts = [*(test.code for test in tests), *(reference or ())]
    preload = [*preloads(texts), *(name for name in options.preload.split(",") if name)]
    full = True
    with single.open_judge(trust_students=options.i_trust_these_students, preload=preload) as judge:
        for answer in options.answers:
            try:
                cells = single.answer_in(Path(answer))
            except CourseError as error:  # of this answer; tests and reference have been read
                verdict = single.refused(str(error))
            else:
                verdict = judge(cells, tests, reference=reference)
            full = full and verdict["score"] >= verdict["max_score"] and verdict["refusal"] is None
            _say(
                json.dumps({"answer": answer, **verdict})
            )  # escaped: nothing in it acts on a terminal, and nothing is lost
    return ALL_GRADED if full else SOME_NOT


def _settings(_: argparse.Namespace) -> int:
    from nbjudge.plugin import own_settings

    for name, trait in own_settings():
        _say(f"{name} = {trait.default()!r}\n    {trait.help}")
    return ALL_GRADED


def _doctor(_: argparse.Namespace) -> int:
    from nbjudge.sandbox import minimum, probe

    walls = probe()
    _say(f"{platform.system()} {platform.release()} on {platform.machine()}, {_user()}\n")
    for wall in walls:
        _say(f"{'holds  ' if wall.holds else 'MISSING'}  {wall.name:<22}  {wall.detail}")
    missing = minimum(walls)
    _say(f"\nNot enough for untrusted code: {missing}.\n{ADVICE}" if missing else "\nEnough for untrusted code.")
    _say_of_course()
    return COULD_NOT_START if missing else ALL_GRADED


def _say_of_course() -> None:
    """In a course: who would grade it, what of it everybody on this machine can read, and what it lacks."""
    from nbjudge.pages import desk
    from nbjudge.plugin import converter_for

    try:
        course = converter_for("", student="*").course()
    except CourseError as error:
        _say(desk.NO_COURSE.format(why=error))
        return
    _warn_of_stock_grader()
    _say("\n".join(["", *desk.checked(course)]))


def _user() -> str:
    if not hasattr(os, "getuid"):
        return "an ordinary user"
    return "as root, which students' code leaves at once" if os.getuid() == 0 else f"as user {os.getuid()}"


if __name__ == "__main__":
    sys.exit(main())
