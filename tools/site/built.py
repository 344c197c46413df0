"""One language of the site, by Sphinx: what it is told, and what is put beside its pages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from seegrad.diagnose import SEVERITIES
from seegrad.display.page import STATIC, asset
from seegrad.picture import draw
from seegrad.picture.still import still
from tools.course.masters import BookError
from tools.site.extension import PICTURES, SEARCH_SCRIPT, Parts, cards, learn, mended, titled
from tools.site.flipped import program_html
from tools.site.programs import read_programs, remarks, titles
from tools.site.recorded import plays, severity_of
from tools.site.sources import Sources
from tools.site.subjects import subject_of

HERE = Path(__file__).parent
SCRIPTS = ("standalone.js", "switches.js")
STYLES = ("widget.css", "switches.css")
ICON = "icon.svg"
SCRIPTS_MENDED = {
    # An excerpt is fetched from its page, which a page from the disk may not do.
    "documentation_options.js": ("SHOW_SEARCH_SUMMARY: false", 'SHOW_SEARCH_SUMMARY: location.protocol !== "file:"'),
    # What was searched for is marked on whatever page is opened next, found or not.
    "sphinx_highlight.js": ("SPHINX_HIGHLIGHT_ENABLED = true", "SPHINX_HIGHLIGHT_ENABLED = false"),
}
VERSION = "0.1.0"
OTHER = {"en": ("zh_CN", "中文", "zh_CN/"), "zh_CN": ("en", "English", "../")}


def build(root: Path, parts: Path, folder: Path, lang: str) -> None:
    """Write the pages of a language into a folder. Raises: BookError where Sphinx warns of anything."""
    sources = {each: Sources(root, parts / "sources" / each, each, parts / "course") for each in OTHER}
    for each in sources.values():
        each.write()
    static = parts / "static" / lang
    _put_beside(root, static, lang)
    other = OTHER[lang][0]
    pages = {
        path.relative_to(sources[other].folder).with_suffix("").as_posix()
        for path in sources[other].folder.rglob("*.*")
    }
    with patch_docutils(), docutils_namespace():  # else the second language finds the first one's directives
        app = Sphinx(
            srcdir=sources[lang].folder,
            confdir=None,
            outdir=folder,
            doctreedir=parts / "doctrees" / lang,
            buildername="html",
            confoverrides=_configuration(lang, static, pages),
            freshenv=True,
            status=None,
            warningiserror=True,
        )
        learn(app, _parts(root, parts / "course" / lang, lang))
        app.build()
    if app.statuscode:
        raise BookError(f"Sphinx has warned of the pages in {lang}.")
    for path in folder.rglob("*.html"):
        path.write_text(mended(path.read_text(encoding="utf-8"), lang), encoding="utf-8")
    for name, (written, wanted) in SCRIPTS_MENDED.items():
        path = folder / "_static" / name
        path.write_text(path.read_text(encoding="utf-8").replace(written, wanted), encoding="utf-8")
    for name in (".buildinfo", "_sources", ".doctrees"):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _parts(root: Path, course: Path, lang: str) -> Parts:
    programs = read_programs(root)
    said = {name: each.title for name, each in programs.items()}
    said |= {name: title for name, (title, _) in titles(root, lang).items()} if lang != "en" else {}
    but = remarks(root, lang) if lang != "en" else {}

    def drawn(subject: str) -> str:
        names = [name for name, each in programs.items() if subject_of(each).name == subject]
        names.sort(key=lambda name: SEVERITIES.index(severity_of(programs[name])))  # what torch raises comes first
        return cards([(name, said[name].replace("`", "")) for name in names])

    return Parts(
        flip=lambda name: program_html(programs[name], lang, but.get(name)),
        chapter=lambda name: titled(course / f"{name}.html"),
        cards=drawn,
        scripts=SCRIPTS,
    )


def _put_beside(root: Path, static: Path, lang: str) -> None:
    """The player, its style, the gallery's still pictures, what is told to Sphinx's search."""
    shutil.rmtree(static, ignore_errors=True)
    (static / PICTURES).mkdir(parents=True)
    for name in (*SCRIPTS, *STYLES):
        shutil.copy(STATIC / name, static)
    shutil.copy(HERE / SEARCH_SCRIPT, static)
    for name, program in read_programs(root).items():
        print(f"{lang}: gallery/{name} is drawn", flush=True)
        first = plays(program)[program.choices[0]]
        scene = draw(first.recording, None, lang)
        picture = still(scene, scene.first_look(), asset("svg.css"), heat=asset("heat.css"), caption=False)
        (static / PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")


def _configuration(lang: str, static: Path, pages: set[str]) -> dict[str, Any]:
    other, said, prefix = OTHER[lang]
    return {
        "project": "seegrad",
        "author": "The seegrad authors",
        "version": VERSION,
        "extensions": ["myst_parser", "sphinx.ext.autodoc"],
        "language": lang,
        "html_theme": "furo",
        "html_title": "seegrad",
        "html_static_path": [str(static)],
        "html_favicon": str(HERE / ICON),
        "html_css_files": list(STYLES),
        "html_copy_source": False,
        "html_show_sphinx": False,
        "html_show_copyright": False,
        "html_show_search_summary": False,
        "html_search_language": "zh" if lang == "zh_CN" else "en",
        "html_context": {
            "other_pages": pages, "other_prefix": prefix, "other_said": said, "other_lang": other.replace("_", "-"),
        },
        "templates_path": [str(HERE / "templates")],
        "html_sidebars": {
            "**": ["sidebar/brand.html", "language.html", "sidebar/search.html", "sidebar/scroll-start.html",
                   "sidebar/navigation.html", "sidebar/scroll-end.html"],
        },
        "myst_enable_extensions": ["colon_fence"],
        "myst_heading_anchors": 4,
        "suppress_warnings": ["myst.header"],  # what benchmarks write goes down from a page's title by two
        "default_role": "code",
        "autodoc_typehints": "signature",
        "add_module_names": False,
    }  # fmt: skip
