"""What is published: `python -m tools.release [DIR]` (`make dist`), in `dist/` unless a folder is named.

::

    seegrad/, frontend/ ─▶ seegrad-VERSION.whl, .tar.gz        the library; torch stays its user's
    grader/             ─▶ nbjudge-VERSION.whl, .tar.gz        the grader
    notebooks, release  ─▶ seegrad-course-VERSION.zip          what a class receives

Only what git tracks goes in. A README is shown on an index, where its relative links lead nowhere: in a package they
lead to the repository. `twine check --strict`, where twine is installed, has the last word.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools.course.kit import make_kit
from tools.course.masters import BookError

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = (".", "grader")
LINK = re.compile(r"(?P<picture>!?)\[(?P<said>(?:[^\[\]]|\[[^\]]*\]\([^)]*\))*)\]\((?!\w+:|#)(?P<to>[^)\s]+)\)")


def for_index(text: str, repository: str, folder: str = ".") -> str:
    """A README whose links lead into the repository, and its pictures come from there.

    >>> for_index("[a](docs/a.md), [b](#b), ![c](c.png)", "https://github.com/ada/seegrad")
    '[a](https://github.com/ada/seegrad/blob/HEAD/docs/a.md), [b](#b), ![c](https://github.com/ada/seegrad/raw/HEAD/c.png)'
    """

    def lead(found: re.Match[str]) -> str:
        path = Path(folder, found["to"])
        clean = "/".join(_normal(path.parts))
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}[{found['said']}]({repository}/{kind}/HEAD/{clean})"

    return LINK.sub(lead, text)


def _normal(parts: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        kept = kept[:-1] if part == ".." else [*kept, part]
    return kept


def build_packages(root: Path, folder: Path) -> list[Path]:
    """The wheels and sdists of both projects. Raises: BookError where one can't be built."""
    return [path for project in PROJECTS for path in _packed(root, project, folder)]


def _packed(root: Path, project: str, folder: Path) -> list[Path]:
    known = tomllib.loads((root / project / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = known["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    repository = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
    before = set(folder.iterdir())
    with tempfile.TemporaryDirectory(prefix="release-") as made:
        copy = Path(made)
        for name in _run(["git", "ls-files", "-z", "--", *wanted], root / project).split("\0"):
            if name and (root / project / name).is_file():  # a file that was deleted is tracked until it is committed
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / project / name, copy / name)
        readme = copy / known["project"]["readme"]
        readme.write_text(for_index(readme.read_text(encoding="utf-8"), repository, project), encoding="utf-8")
        _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)], copy)
    return sorted(set(folder.iterdir()) - before)


def build_kit(root: Path, folder: Path) -> Path:
    """The course's kit as one file."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    name = f"seegrad-course-{version}"
    with tempfile.TemporaryDirectory(prefix="release-") as made:
        make_kit(root, Path(made) / name)
        return Path(shutil.make_archive(str(folder / name), "zip", made, name))


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 -- our own
    if done.returncode:
        raise BookError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Build all of it into a new or empty folder, and check it; 1 where something is to be mended."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    folder = Path(words[0]) if words else ROOT / "dist"
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        print(f"{folder} isn't empty. Name a new folder, or empty it.", file=sys.stderr)
        return 1
    try:
        made = [*build_packages(ROOT, folder.resolve()), build_kit(ROOT, folder.resolve())]
        for path in made:
            print(f"wrote {path}")
        if importlib.util.find_spec("twine"):
            print(_run([sys.executable, "-m", "twine", "check", "--strict", *map(str, made[:-1])], ROOT), end="")
    except BookError as error:
        print(error, file=sys.stderr)
        return 1
    if "github.com/OWNER/NAME" in (ROOT / "pyproject.toml").read_text(encoding="utf-8"):
        print("No address has been said yet, so this can't be published. Run: python -m tools.online OWNER/NAME")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
