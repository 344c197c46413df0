"""The table at the end: what each program cost, and the notes to be read."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

RUNS = "library program"
ROW = "{:<46} {:>8} {:>7} {:>7}  {}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One row a program; then each note once, with where it was said."""
    reports = [each for kind in ("passed", "failed") for each in terminalreporter.stats.get(kind, [])]
    told = {each.nodeid.partition("[")[2].rstrip("]"): dict(each.user_properties) for each in reports}
    rows = {
        name: found[RUNS] for name, found in sorted(told.items()) if len(found.get(RUNS, {}).get("seconds", ())) == 4
    }
    if not rows:
        return
    write = terminalreporter.write_line
    terminalreporter.section("recorded / plain, in CPU seconds of the second pair")
    write(ROW.format("program", "plain s", "ratio", "frames", "found"))
    for name, each in rows.items():
        kinds = Counter(kind for _, kind, _ in each["found"])
        found = ", ".join(f"{kind} ×{count}" for kind, count in kinds.items())
        write(ROW.format(name, f"{each['seconds'][2]:.2f}", f"×{ratio(each):.2f}", each["frames"], found))
    write(f"the median of {len(rows)} programs: ×{statistics.median(map(ratio, rows.values())):.2f}")
    for name, each in rows.items():
        for severity, kind, sentence in each["found"]:
            write(f"{name}: {severity}, {kind}: {sentence}")


def ratio(each: dict[str, Any]) -> float:
    """Recorded over plain, when both are warm."""
    return each["seconds"][3] / max(each["seconds"][2], 1e-6)
