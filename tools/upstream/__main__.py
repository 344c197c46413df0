"""Run torch's own tests plain and recorded: `python -m tools.upstream FOLDER [--mode nested] [--only PATTERN]`.

FOLDER holds test files of torch, as its source has them under test/; nothing is fetched. What differs is printed and,
with `--json`, written down; the exit status is 1 where a test differs that tools/upstream/unequal.toml doesn't name.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.upstream import crew
from tools.upstream.compare import FileCount, Run, Unequal, Verdict, classified, counted, explained, judge, written_list

LIST = Path(__file__).with_name("unequal.toml")
MODES = ("recorded", "raising", "nested", "content")
CHUNK = 120
"""Tests that one worker runs: a new process forgets what tests have left behind."""
AGAIN = 3
"""Pairs of runs where the first pair differs; the first of them only warms up."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What to run, and how."""

    folder: Path
    mode: str
    timeout_s: float
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    at_most: int = 0
    unequal: tuple[Unequal, ...] = ()

    def files(self) -> list[Path]:
        """The test files, those in folders too."""
        found = sorted(self.folder.rglob("test_*.py"))
        named = [path for path in found if any(each.partition("::")[0] in self.name(path) for each in self.only)]
        return named or found

    def verdicts(self, file: Path) -> Iterator[Verdict]:
        """A verdict for each test of a file.

        Raises: crew.NotLoaded.
        """
        wanted = self.chosen(file, crew.tests_in(file))
        for start in range(0, len(wanted), CHUNK):
            pairs = self._pairs(file, wanted[start : start + CHUNK])
            odd = [test for test, (here, there) in pairs.items() if differ(here, there)]
            again = self._pairs(file, odd, AGAIN)
            for test, (here, there) in pairs.items():
                here, there = (here, there) if test not in again else (again[test][0][1:], again[test][1][1:])
                yield explained(judge(f"{self.name(file)}::{test}", here, there), self.mode, self.unequal)

    def _pairs(self, file: Path, tests: Sequence[str], times: int = 1) -> dict[str, tuple[list[Run], list[Run]]]:
        found: dict[str, tuple[list[Run], list[Run]]] = {test: ([], []) for test in tests}
        tasks = [(test, side) for test in tests for _ in range(times) for side in ("plain", self.mode)]
        for (test, side), run in crew.runs(file, tasks, self.timeout_s):
            found[test][side != "plain"].append(run)
            if not run.ended:  # said at once: this is what takes long
                print(f"{self.name(file)}::{test}, {side}: {run.outcome}", file=sys.stderr, flush=True)
        return found

    def chosen(self, file: Path, tests: Sequence[str]) -> list[str]:
        """Those of a file's tests that are asked for."""
        named = [test for test in tests if self._matches(f"{self.name(file)}::{test}")]
        if not self.at_most or len(named) <= self.at_most:
            return named
        return [named[n * len(named) // self.at_most] for n in range(self.at_most)]

    def _matches(self, name: str) -> bool:
        only, without = (
            any(fnmatch.fnmatchcase(name, f"*{pattern}*") for pattern in patterns)
            for patterns in (self.only, self.without)
        )
        return (only or not self.only) and not without

    def name(self, file: Path) -> str:
        """A file as it's named in the folder."""
        return file.relative_to(self.folder).as_posix()


def differ(plain: Sequence[Run], recorded: Sequence[Run]) -> bool:
    """True where a pair has to be run again to be judged."""
    if any(run.outcome == "hung" for run in (*plain, *recorded)):
        return False  # it would hang again: one pair has to do
    verdict = judge("", plain, recorded)
    return bool(verdict.differences or verdict.unsteady)


def sentences(verdict: Verdict) -> Iterable[str]:
    """A verdict as lines of text; none where all is equal."""
    for each in verdict.differences:
        known = f"  ({verdict.why})" if verdict.why else ""
        yield f"{verdict.test}: {each.aspect}{known}"
        yield f"    plain:    {shortened(each.plain)}"
        yield f"    recorded: {shortened(each.recorded)}"


def shortened(text: str, most: int = 1500) -> str:
    """The end of a long text: a traceback's last lines say most.

    >>> shortened("abcdefgh", 4)
    '…efgh'
    """
    return text if len(text) <= most else f"…{text[-most:]}"


def counts_as_text(counts: Iterable[FileCount]) -> str:
    """A line for each file.

    >>> print(counts_as_text([FileCount("test_x.py", "nested", 9, 2, 0, 6, 1, 0, 0, 1.5)]))
    test_x.py, nested: 9 tests, 2 skipped, 0 too slow, 6 equal, 1 in the written list, 0 differ; time ×1.5
    """
    return "\n".join(
        f"{each.file}, {each.mode}: {each.tests} tests, {each.skipped} skipped, {each.too_slow} too slow, "
        f"{each.equal} equal, {each.listed} in the written list, {each.differ} differ; time ×{each.slowdown}"
        for each in counts
    )


def carried_out(campaign: Campaign, file: Path) -> list[Verdict]:
    """Run a file's tests, and say what differs as soon as it's seen."""
    start, verdicts = time.monotonic(), []
    try:
        for verdict in campaign.verdicts(file):
            verdicts.append(verdict)
            for sentence in sentences(verdict):
                print(sentence, flush=True)
    except crew.NotLoaded as error:
        print(error, file=sys.stderr, flush=True)
    print(f"{campaign.name(file)}: {len(verdicts)} tests in {time.monotonic() - start:.0f} s", flush=True)
    return verdicts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 where a test differs that no entry of the list covers, 2 where no test ran."""
    parser = argparse.ArgumentParser(prog="python -m tools.upstream", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="torch's test files")
    parser.add_argument("--mode", choices=MODES, default="recorded", help="how the second run of each is recorded")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="part of file.py::Class.method")
    parser.add_argument("--without", action="append", default=[], metavar="PATTERN", help="not these")
    parser.add_argument("--at-most", type=int, default=0, metavar="N", help="so many tests of each file, evenly spread")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="for one run of one test")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict there")
    options = parser.parse_args(arguments)
    campaign = Campaign(
        options.folder.resolve(),
        options.mode,
        options.timeout,
        tuple(options.only),
        tuple(options.without),
        options.at_most,
        written_list(LIST),
    )
    verdicts: list[Verdict] = []
    for file in campaign.files():
        verdicts += carried_out(campaign, file)
        if options.json:  # after each file: a long run may be ended
            written = {"mode": options.mode, "verdicts": [asdict(each) for each in verdicts]}
            options.json.write_text(json.dumps(written, indent=1), encoding="utf-8")
    print(counts_as_text(counted(verdicts, options.mode)) or "No test was found.")
    return 2 if not verdicts else int(any(classified(each) == "differs" for each in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
