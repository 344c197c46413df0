"""A learner's own copy of the course, in a folder that git leaves alone: `my_work`.

::

    notebooks/LANG, release/LANG ─▶ my_work/notebooks/LANG, my_work/release/LANG

    python -m tools.my_work      copy what isn't there, and anew what nobody has changed (`make lab` does)

What its learner has changed stays, whatever becomes of the course: it's no longer what was copied, and that is kept in
`my_work/.copied.json`. So a `git pull` reaches all that is still the course's, and meets nothing that somebody wrote.

The standard library is all that it needs: where pip alone has installed the course, the tools' packages aren't there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from seegrad.words.languages import LANGUAGES

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "my_work"
RECORD = ".copied.json"
STAYS = (
    f"{FOLDER}/{{name}} is yours and stays; the course's has changed since it was copied. "
    "For that one, rename yours and say this again."
)


def copy(root: Path = ROOT) -> list[str]:
    """Bring the copy up to date; returns what stays as its learner has it though the course has a newer one."""
    folder, stays = root / FOLDER, []
    copied = _copied(folder / RECORD)
    for path in _course(root):
        name, content = path.relative_to(root).as_posix(), path.read_bytes()
        mine, course = folder / name, _known(content)
        have = _known(mine.read_bytes()) if mine.exists() else None
        if have is None or (have != course and have == copied.get(name)):
            _write(mine, content)
        elif have != course:
            stays += [name] if copied.get(name, course) != course else []
            continue
        copied[name] = course
    _write(folder / RECORD, json.dumps(copied, indent=1, sort_keys=True).encode())
    return stays


def _course(root: Path) -> Iterator[Path]:
    """The chapters, and all that is released: what the class's kit has, too."""
    for lang in LANGUAGES:
        found = [*(root / "notebooks" / lang).glob("*.ipynb"), *(root / "release" / lang).rglob("*")]
        for path in sorted(path for path in found if path.is_file()):
            if not any(part.startswith(".") for part in path.relative_to(root).parts):
                yield path


def _copied(record: Path) -> dict[str, str]:
    """What each file was when it was copied; where that can't be read, all that differs is the learner's."""
    try:
        return {str(name): str(known) for name, known in json.loads(record.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _known(content: bytes) -> str:
    """What tells files apart; of a notebook its cells do: to open one writes beside them which Python it was."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        content = json.dumps(json.loads(content)["cells"], sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing: half a notebook would pass for one that was changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)


if __name__ == "__main__":
    for name in copy():
        print(STAYS.format(name=name))
