"""PyTorch's whole op database, plain and recorded: how many samples give the same bits, forward and backward.

python -m benchmarks.op_db [--ops N]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter

from tests.data.op_database import compared, names, samples

WORDS = {True: "the same bits", False: "other bits", None: "not repeatable without a recorder"}


def main() -> int:
    """Print counts; 1 where a sample differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.op_db", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--ops", type=int, default=None, help="only the first N ops")
    wanted = parser.parse_args().ops
    counts: Counter[str] = Counter()
    differing: dict[str, int] = {}
    begun, ops = time.monotonic(), names()[:wanted]
    for name in ops:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = [compared(op, sample) for op, sample in samples(name)]
        counts.update(WORDS[each] for each in results)
        if False in results:
            differing[name] = results.count(False)
    print(f"{len(ops)} ops, {counts.total()} samples, {time.monotonic() - begun:.0f} s")
    for word, count in counts.most_common():
        print(f"  {count:6} {word}")
    for name, count in differing.items():
        print(f"  differs: {name} ({count})")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
