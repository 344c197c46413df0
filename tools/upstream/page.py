"""Put what was run, and the tests that can't be equal, into docs/transparency.md.

`python -m tools.upstream.page FILE.json …`: the files are what `python -m tools.upstream --json` wrote, one a mode;
without any, only the list is renewed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.upstream.compare import FileCount, Unequal, Verdict, counted, explained, written_list
from tools.words.marks import markdown_table, write_between

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "transparency.md"
LIST = Path(__file__).with_name("unequal.toml")


def verdicts_in(path: Path) -> tuple[str, list[Verdict]]:
    """The mode and the verdicts that a file holds."""
    data = json.loads(path.read_text(encoding="utf-8"))
    entries = written_list(LIST)
    return data["mode"], [explained(Verdict.from_data(each), data["mode"], entries) for each in data["verdicts"]]


def table_of_counts(counts: Iterable[FileCount]) -> str:
    """The counts as Markdown, a row for each file and mode."""
    rows = [
        (
            each.file,
            each.mode,
            *map(str, (each.tests, each.skipped, each.too_slow, each.equal, each.listed, each.differ)),
            f"×{each.slowdown:.1f}",
        )
        for each in sorted(counts, key=lambda each: (each.file, each.mode))
    ]
    return markdown_table(
        ("file", "mode", "tests", "skipped", "too slow", "equal", "in the list", "differ otherwise", "time"), rows
    )


def table_of_reasons(entries: Iterable[Unequal]) -> str:
    """The written list as Markdown.

    >>> print(table_of_reasons([Unequal("test_x.py::T.a", ("outcome",), "It counts events.", ("nested",))]))
    | tests | what differs | mode | why |
    |---|---|---|---|
    | `test_x.py::T.a` | outcome | nested | It counts events. |
    """
    rows = [(f"`{each.tests}`", ", ".join(each.aspects), ", ".join(each.modes) or "all", each.why) for each in entries]
    return markdown_table(("tests", "what differs", "mode", "why"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    files = [Path(each) for each in (sys.argv[1:] if arguments is None else arguments)]
    counts = [count for mode, verdicts in map(verdicts_in, files) for count in counted(verdicts, mode)]
    if counts:
        write_between(PAGE, table_of_counts(counts), "counts")
    write_between(PAGE, table_of_reasons(written_list(LIST)), "list")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
