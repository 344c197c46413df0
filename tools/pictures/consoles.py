"""The commands of a page, run, their real output put under them: `python -m tools.pictures.consoles [--check]`.

A page gives its files and its commands in Markdown, in the order in which a reader meets them:

- `<!-- file: train.py -->` before a block of code: that block is that file from here on;
- a block of `console`: each line `$ command` is run in the folder of those files, and its output follows it.

What isn't the reader's own is left out of tracebacks, with `…` in its place.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

PAGES = (Path(__file__).resolve().parents[2] / "docs" / "inplace_error.md",)
BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>[\w.]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
STEP = re.compile(r'^  File "(?P<path>[^"]+)", line ')
GAP = "  …"


def renewed(page: str) -> str:
    """The page with every command's output as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        return BLOCK.sub(lambda block: _renewed(block, Path(folder)), page)


def _renewed(block: re.Match[str], folder: Path) -> str:
    if block["file"]:
        (folder / block["file"]).write_text(block["text"], encoding="utf-8")
    if block["language"] != "console":
        return block[0]
    commands = [line for line in block["text"].splitlines() if line.startswith("$ ")]
    return "```console\n" + "".join(f"{line}\n{output_of(line[2:], folder)}" for line in commands) + "```"


def output_of(command: str, folder: Path) -> str:
    """What a command prints, stdout and stderr together, as its reader in that folder would see it.

    Raises: ValueError for a command other than `python`.
    """
    program, *arguments = command.split()
    if program != "python":
        raise ValueError(f"A page shows the command {command!r}: only `python …` can be run.")
    done = subprocess.run(  # noqa: S603  # our own page's commands
        [sys.executable, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"LC_ALL": "C.UTF-8", "LANGUAGE": "en"},
        check=False,  # most of these end with an error: that's what the page is about
    )
    text = "\n".join(readers_lines(done.stdout.decode().splitlines(), folder))
    return text + "\n" if text else ""


def readers_lines(lines: Sequence[str], folder: Path) -> Iterator[str]:
    """The lines without the steps of a traceback outside the folder, and with its files by their bare names."""
    inside, gap = True, False
    for line in lines:
        step = STEP.match(line)
        if step:
            inside = Path(step["path"]).is_relative_to(folder)
        elif not line.startswith("    "):
            inside = True
        if inside:
            yield line.replace(f"{folder}/", "")
        elif not gap:
            yield GAP
        gap = not inside


def stable(text: str) -> str:
    """What doesn't depend on torch's version: its messages end at their stable core.

    >>> stable("RuntimeError: … by an inplace operation: [torch.FloatTensor [3]], which is output 0 of Softmax, …")
    'RuntimeError: … by an inplace operation'
    """
    return re.sub(r"(?m)^(RuntimeError: [^:\n]*?(?:inplace operation|a second time)).*$", r"\1", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Renew the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.pictures.consoles", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="change nothing; 1 where an output isn't what is shown")
    options = parser.parse_args(arguments)
    stale = []
    for path in PAGES:
        old = path.read_text(encoding="utf-8")
        new = renewed(old)
        if stable(old) != stable(new):
            stale.append(path)
        if not options.check and old != new:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {path.name}")
    if options.check and stale:
        print("Other outputs than shown in:", *(path.name for path in stale), "Run: python -m tools.pictures.consoles")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
