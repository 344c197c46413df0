"""Build the course: masters → notebooks → nbgrader's source → release. `--check` compares, `--sync` goes back.

::

    notebooks/NN.py ─ locale/LANG/NN.po ─▶ notebooks/LANG/NN.ipynb ─ run ─▶ notebooks/executed/LANG/NN.ipynb
    source/NN.py ─▶ source/NN/NN.ipynb ─ nbgrader ─▶ release/en/NN/ ─ locale/zh_CN/NN.po ─▶ release/zh_CN/NN/

    python -m tools.book build              write every derived notebook whose bytes changed
    python -m tools.book build --missing    only those that aren't there (a learner's own edits stay)
    python -m tools.book --check            exit 1, naming each file that isn't what its master makes
    python -m tools.book --check --unrun    the same in seconds: what cells put out is left to nbval
    python -m tools.book --sync             carry an instructor's edit of source/NN/NN.ipynb back to source/NN.py
    python -m tools.book student-kit DIR    what a class receives: no solution, no hidden test, no answer
    python -m tools.book html DIR NAME      the chapters as pages that step and ask without a kernel (build/pages)
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.course.chapters import as_stored, executed
from tools.course.folds import presented
from tools.course.kit import make_kit
from tools.course.masters import (
    BookError,
    Master,
    canonical,
    from_notebook,
    notebook_bytes,
    notebook_of,
    read_master,
    read_notebook,
    to_notebook,
)
from tools.course.offline import DEFAULT, build_site
from tools.course.releases import released
from tools.words.entries import EVERY_LANGUAGE
from tools.words.translations import in_language, languages_of

ROOT = Path(__file__).resolve().parents[1]
TOTAL_POINTS = 100
KIT = "student-kit"
COMMANDS = ("build", KIT, "html")
KEY = "seegrad"  # in a source notebook's metadata: the hash of the master it was made from


@dataclass(frozen=True, slots=True)
class CourseFiles:
    """Where the course lies. `only` names the masters to work on, all of them when empty."""

    root: Path = ROOT
    only: tuple[str, ...] = ()

    def chapters(self) -> list[Path]:
        """Masters of the chapters."""
        return self._masters("notebooks")

    def assignments(self) -> list[Path]:
        """Masters of the assignments."""
        return self._masters("source")

    def languages(self, name: str) -> list[str]:
        """English, and each language with a catalogue for master `name`."""
        return languages_of(self.root, name)

    def notebook(self, name: str, lang: str = "en") -> Path:
        """The chapter of master `name` as a learner opens it: no cell has run."""
        return self.root / "notebooks" / lang / f"{name}.ipynb"

    def executed(self, name: str, lang: str = "en") -> Path:
        """The same with its outputs, for nbval and for previews."""
        return self.root / "notebooks" / "executed" / lang / f"{name}.ipynb"

    def source(self, name: str) -> Path:
        """The assignment `name` in nbgrader's source format."""
        return self.root / "source" / name / f"{name}.ipynb"

    def release(self, name: str, lang: str = "en") -> Path:
        """The folder of the released assignment `name`."""
        return self.root / "release" / lang / name

    def _masters(self, folder: str) -> list[Path]:
        found = sorted((self.root / folder).glob("*.py"))
        return [path for path in found if not self.only or path.stem in self.only]


def derived(course: CourseFiles, *, missing: bool = False, run: bool = True) -> Iterator[tuple[Path, bytes]]:
    """Each derived file and its bytes. With `missing`, chapters and assignments that are there are passed over.

    Without `run` a chapter has the outputs that it had.
    """
    for path in course.chapters():
        for lang in course.languages(path.stem):
            yield from _chapter(course, path, lang, missing=missing, run=run)
    for path in course.assignments():
        releases = [course.release(path.stem, lang) for lang in course.languages(path.stem)]
        if missing and all(made.exists() for made in (course.source(path.stem), *releases)):
            continue
        yield from _assignment(course, path)


def _chapter(course: CourseFiles, path: Path, lang: str, *, missing: bool, run: bool) -> Iterator[tuple[Path, bytes]]:
    master, made = read_master(path), course.notebook(path.stem, lang)
    if not (missing and made.exists()):
        yield made, notebook_bytes(presented(course.root, path.stem, to_notebook(master), lang))
    stored = course.executed(path.stem, lang)
    if not (missing and stored.exists()):
        made.parent.mkdir(parents=True, exist_ok=True)
        book = executed(master, made.parent, lang) if run else as_stored(master, stored)
        yield stored, notebook_bytes(presented(course.root, path.stem, book, lang))


def _assignment(course: CourseFiles, path: Path) -> Iterator[tuple[Path, bytes]]:
    master = read_master(path)
    _check_points(master)
    book, source = to_notebook(master), course.source(master.name)
    files = {source.name: notebook_bytes(book), **_extra_files(source)}  # a release doesn't say what it was made from
    book.metadata[KEY] = {"master": _digest(canonical(master))}
    yield source, notebook_bytes(book)
    for relative, data in released(master.name, files).items():
        for lang in course.languages(master.name):
            path = course.release(master.name, lang) / relative
            yield path, _released_in(course, master.name, data, lang) if path.suffix == ".ipynb" else data


def _released_in(course: CourseFiles, name: str, data: bytes, lang: str) -> bytes:
    """A released notebook in a language; nbgrader's own bytes in English."""
    return data if lang == "en" else notebook_bytes(in_language(course.root, name, notebook_of(data), lang))


def _extra_files(source: Path) -> dict[str, bytes]:
    """Data files that lie beside a source notebook: they are released with it."""
    folder = source.parent
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path != source
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def _check_points(master: Master) -> None:
    points = sum(cell.points or 0 for cell in master.cells)
    if points != TOTAL_POINTS:
        raise BookError(f"{master.path}: its points add up to {points:g}. An assignment has {TOTAL_POINTS}.")


def build(course: CourseFiles, *, missing: bool = False) -> list[Path]:
    """Write the derived files whose bytes changed; returns them. Raises BookError before it overwrites an edit."""
    for path in course.assignments():
        _refuse_to_overwrite(course.source(path.stem), path)
    written = []
    for path, data in derived(course, missing=missing):
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            written.append(path)
    return written


def check(course: CourseFiles, *, run: bool = True) -> list[str]:
    """One sentence for each derived file that isn't what its master makes, or that no master makes."""
    complaints, known = [], set()
    for path, data in derived(course, run=run):
        known.add(path)
        if not path.exists():
            complaints.append(f"{path.relative_to(course.root)} is missing. Run: python -m tools.book build")
        elif path.read_bytes() != data:
            complaints.append(f"{path.relative_to(course.root)} isn't what its master makes. {_remedy(course, path)}")
    if not course.only:
        complaints += [
            f"{path.relative_to(course.root)} has no master. Run: git rm {path.relative_to(course.root)}"
            for path in _derived_on_disk(course)
            if path not in known
        ]
    return complaints


def _remedy(course: CourseFiles, path: Path) -> str:
    master = course.root / "source" / f"{path.stem}.py"
    if path == course.source(path.stem) and master.exists() and _edited(path):
        return "It was edited in Jupyter. Run: python -m tools.book --sync"
    return "Run: python -m tools.book build"


def _derived_on_disk(course: CourseFiles) -> Iterator[Path]:
    for lang in EVERY_LANGUAGE:
        for chapters in ("notebooks", "notebooks/executed"):
            yield from sorted((course.root / chapters / lang).glob("*.ipynb"))
        yield from sorted(path for path in (course.root / "release" / lang).rglob("*") if path.is_file())
    yield from sorted((course.root / "source").glob("*/*.ipynb"))


def sync(course: CourseFiles) -> list[Path]:
    """Carry edits of source notebooks back to their masters; returns the masters that changed.

    Raises BookError when a master was edited too since the notebook was made: then nobody but you can settle it.
    """
    changed = []
    for path in course.assignments():
        notebook = course.source(path.stem)
        if not notebook.exists() or not _edited(notebook):
            continue
        text, master = from_notebook(read_notebook(notebook), notebook), canonical(read_master(path))
        if text == master:
            continue
        if _origin(notebook) != _digest(master):
            raise BookError(f"{path} and {notebook} were both edited. Undo one of the two, then run --sync or build.")
        path.write_text(text, encoding="utf-8")
        changed.append(path)
    return changed


def _refuse_to_overwrite(notebook: Path, master: Path) -> None:
    if not notebook.exists() or not _edited(notebook):
        return
    if from_notebook(read_notebook(notebook), notebook) != canonical(read_master(master)):
        raise BookError(
            f"{notebook} was edited in Jupyter. Run `python -m tools.book --sync` to keep the edit, or delete the file."
        )


def _edited(notebook: Path) -> bool:
    """Does a source notebook say anything else than the master that it was made from?"""
    return _origin(notebook) != _digest(from_notebook(read_notebook(notebook), notebook))


def _origin(notebook: Path) -> str | None:
    digest = read_notebook(notebook).metadata.get(KEY, {}).get("master")
    return digest if isinstance(digest, str) else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.book", description="Build the course from its masters.")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="COMMAND NAME",
        help="build, html [DIR] or student-kit DIR; masters to work on (default: all)",
    )
    parser.add_argument("--check", action="store_true", help="compare the derived notebooks, write nothing")
    parser.add_argument("--unrun", action="store_true", help="with --check: don't run the chapters")
    parser.add_argument("--sync", action="store_true", help="carry edits of source notebooks back to their masters")
    parser.add_argument("--missing", action="store_true", help="with build: only what isn't there yet")
    parser.add_argument("--root", type=Path, default=ROOT, help="where the course lies")
    arguments = parser.parse_args(argv)
    arguments.command = arguments.words.pop(0) if arguments.words and arguments.words[0] in COMMANDS else None
    if not (arguments.command or arguments.check or arguments.sync):
        parser.error("say what to do: build, html, student-kit DIR, --check or --sync")
    if arguments.command == KIT and len(arguments.words) != 1:
        parser.error("say where the kit goes: student-kit DIR")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when all is well, 1 when something is to be mended."""
    arguments = _arguments(argv)
    root = arguments.root.resolve()
    try:
        complaints = _run(arguments, root)
    except BookError as error:
        complaints = [str(error)]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def _run(arguments: argparse.Namespace, root: Path) -> list[str]:
    """Do what was asked for; what is to be mended."""
    if arguments.command == KIT:
        made = make_kit(root, Path(arguments.words[0]))
        print(f"wrote {made}")
        return []
    if arguments.command == "html":
        folder, *names = map(Path, arguments.words or [root / DEFAULT])
        for path in build_site(root, folder, tuple(map(str, names))):
            print(f"wrote {path}")
        return []
    course = CourseFiles(root, tuple(arguments.words))
    for name in set(course.only) - {path.stem for path in (*course.chapters(), *course.assignments())}:
        raise BookError(f"There is no notebooks/{name}.py and no source/{name}.py.")
    if arguments.sync:
        for path in sync(course):
            print(f"synced {path.relative_to(course.root)}")
    if arguments.command == "build":
        for path in build(course, missing=arguments.missing):
            print(f"wrote {path.relative_to(course.root)}")
    return check(course, run=not arguments.unrun) if arguments.check else []


if __name__ == "__main__":
    raise SystemExit(main())
