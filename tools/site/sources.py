"""The pages that Sphinx reads, put together in one folder a language.

::

    docs/, grader/*.md, the maps     ─▶ docs/ … as they are, links led to their pages
    docs/site/LANG/                  ─▶ index.md, errors/
    docs/site/programs/              ─▶ gallery/NAME.md, gallery/index.md by subject
    chapters, run (tools/course)     ─▶ course/NN_topic.md around the HTML of what they show,
                                        at its end the programs of docs/site/chapters.toml
    seegrad.__all__                  ─▶ api.rst
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import seegrad
from seegrad.words.languages import marked, translate
from tools.site.programs import FOLDER, FlippedProgram, read_programs, titles
from tools.site.subjects import SUBJECTS, chapter_of, chapters_of, core_of, error_of, subject_of
from tools.words.entries import EVERY_LANGUAGE

LINK = re.compile(r"(?P<image>!?)\[(?P<said>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<to>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
STAYS = ("https://", "http://", "mailto:")
WORDS = {
    "gallery": marked("Gallery"),
    "lead": marked("Each page is a small program with its mistake. Flip a line, and see what changes."),
    "more": marked("More on it: {links}"),
    "chapter": marked("chapter {title}"),
    "errors": marked("the error {title}"),
    "api": marked("API reference"),
    "flip": marked("Flip a line"),
    "run": marked(
        "This chapter has been run: its pictures step and ask here, without a kernel. What it says of kernels and "
        "menus is for who opens it in JupyterLab."
    ),
}


@dataclass(frozen=True, slots=True)
class Sources:
    """What a language is made of: the repository, the folder that Sphinx reads, the chapters' HTML."""

    root: Path
    folder: Path
    lang: str
    course: Path

    def write(self) -> None:
        """Put all of them there anew."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.root / "docs" / "site" / self.lang, self.folder)
        for name, title in self._chapters().items():
            page = f"# {title}\n\n{translate(WORDS['run'], self.lang)}\n\n:::{{chapter}} {name}\n:::\n"
            self._put(f"course/{name}.md", page + self._flips(name))
        self._gallery()
        if self.lang == "en":
            self._documents()
            self._put("api.rst", "\n".join(_api(translate(WORDS["api"], self.lang))))

    def _chapters(self) -> dict[str, str]:
        found = {}
        for path in sorted((self.course / self.lang).glob("*.html")):
            title = re.search(r"<h1[^>]*>(.*?)</h1>", path.read_text(encoding="utf-8"), re.DOTALL)
            found[path.stem] = re.sub(r"<code>(.*?)</code>", r"`\1`", title[1]) if title else path.stem
        return found

    def _flips(self, chapter: str) -> str:
        """The programs that belong to a chapter, at its end: there they tell no answer."""
        names = chapters_of(self.root).get(chapter, [])
        head = f"\n## {translate(WORDS['flip'], self.lang)}\n" if names else ""
        return head + "".join(f"\n:::{{flip}} {name}\n:::\n" for name in names)

    def _gallery(self) -> None:
        """A page for each program, and the one with all of them."""
        programs = read_programs(self.root)
        said = {name: (each.title, each.text) for name, each in programs.items()}
        said |= titles(self.root, self.lang) if self.lang != "en" else {}
        for name in programs:
            title, text = said[name]
            more = self._more(programs[name], programs)
            self._put(f"gallery/{name}.md", f"# {title}\n\n{text}\n\n:::{{flip}} {name}\n:::\n\n{more}\n")
        names = "\n".join(programs)
        there = {subject_of(program) for program in programs.values()}
        groups = [(each, translate(each.title, self.lang)) for each in SUBJECTS if each in there]
        head, lead = (translate(WORDS[key], self.lang) for key in ("gallery", "lead"))
        links = "\n".join(f"- {{ref}}`{said} <{each.name}>`" for each, said in groups)
        cards = "\n\n".join(f"({each.name})=\n## {said}\n\n:::{{cards}} {each.name}\n:::" for each, said in groups)
        page = f"# {head}\n\n{lead}\n\n{links}\n\n{cards}\n\n:::{{toctree}}\n:hidden:\n\n{names}\n:::\n"
        self._put("gallery/index.md", page)

    def _more(self, program: FlippedProgram, programs: dict[str, FlippedProgram]) -> str:
        """Where a program's page leads: to those beside it, to its error's page, to the chapter that teaches it."""
        subject = subject_of(program)
        links = [f"{{ref}}`{translate(subject.title, self.lang)} <{subject.name}>`"]
        error = error_of(program, sorted(self.folder.glob("errors/*.md")))
        if error is not None:
            said = translate(WORDS["errors"], self.lang).format(title=f"*{core_of(error)}*")
            links.append(f"[{said}](../errors/{error.name})")
        chapter = chapter_of(program, programs, self.root)
        title = self._chapters().get(chapter)
        if title is not None:
            said = translate(WORDS["chapter"], self.lang).format(title=title)
            links.append(f"[{said}](../course/{chapter}.md)")
        return translate(WORDS["more"], self.lang).format(links=" · ".join(links))

    def _documents(self) -> None:
        """What is kept as Markdown beside the code: a link leads to a page, or becomes words where none is here."""
        site = PurePosixPath("docs", "site", self.lang)
        written = dict(documents(self.root))
        written |= {site / "errors" / path.name: f"errors/{path.stem}" for path in self.folder.glob("errors/*.md")}
        chapters = {
            PurePosixPath(f"notebooks/{lang}/{name}.ipynb"): f"course/{name}"
            for name in self._chapters()
            for lang in EVERY_LANGUAGE
        }
        programs = {PurePosixPath(FOLDER / f"{name}.py"): f"gallery/{name}" for name in read_programs(self.root)}
        pages = written | chapters | programs
        for path, name in written.items():
            text = (self.root / path).read_text(encoding="utf-8")
            self._put(f"{name}.md", relinked(text, path, name, pages))
        pictures = self.root / "docs" / "pictures"
        if pictures.exists():
            shutil.copytree(pictures, self.folder / "docs" / "pictures")

    def _put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def documents(root: Path) -> Iterator[tuple[PurePosixPath, str]]:
    """Where a document lies in the repository, and what its page is called."""
    found = [*(root / "docs").glob("*.md"), *(root / "docs" / "teaching").glob("*.md"), *(root / "grader").glob("*.md")]
    found += [root / name for name in ("CONTRIBUTING.md", "ARCHITECTURE.md", "GLOSSARY.md", "CHANGELOG.md")]
    for path in sorted(path for path in found if path.exists()):
        place = PurePosixPath(path.relative_to(root).as_posix())
        yield place, str(place.with_suffix(""))


def relinked(text: str, path: PurePosixPath, name: str, pages: dict[PurePosixPath, str]) -> str:
    """A document whose links lead from page to page.

    >>> pages = {PurePosixPath("docs/a.md"): "docs/a", PurePosixPath("grader/README.md"): "grader/README"}
    >>> relinked("[1](../grader/README.md#x) [2](../Makefile) [3](#y)", PurePosixPath("docs/a.md"), "docs/a", pages)
    '[1](../grader/README.md#x) 2 [3](#y)'
    """

    def led(found: re.Match[str]) -> str:
        to, anchor = found["to"], found["anchor"] or ""
        if not to or to.startswith(STAYS) or found["image"]:
            return found[0]
        place = PurePosixPath(os.path.normpath(path.parent / to))
        page = pages.get(place)
        if page is None:
            return found["said"]
        return f"[{found['said']}]({os.path.relpath(f'{page}.md', PurePosixPath(name).parent)}{anchor})"

    parts = FENCE.split(text)
    return "".join(part if k % 2 else LINK.sub(led, part) for k, part in enumerate(parts))


def _api(title: str) -> Iterator[str]:
    """Every public name, from its docstring."""
    yield from (title, "=" * len(title), "", ".. default-role:: code", "")
    for name in seegrad.__all__:
        kind = "class" if inspect.isclass(getattr(seegrad, name)) else "function"
        yield from (f".. auto{kind}:: seegrad.{name}", *(["   :members:"] if kind == "class" else []), "")
