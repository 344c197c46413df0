"""One offline HTML file with the interactive picture: no request leaves the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from seegrad.model.recording import Mend, Recording
from seegrad.model.scene import Question, Scene
from seegrad.picture import draw, table
from seegrad.words.languages import marked, translate

STATIC = Path(__file__).parents[1] / "static"

HALVES = re.compile("[\ud800-\udfff]")
OPENS = re.compile("<(!|script)", re.IGNORECASE)
"""What a browser reads inside a script element, beside its end."""

PAGE = """<!doctype html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 16px; background: #fff; font: 14px/1.5 system-ui, sans-serif; }}
header {{ display: flex; flex-wrap: wrap; justify-content: space-between; gap: 2px 24px; }}
header {{ max-width: 1208px; margin: 0 auto 10px; }}
header > * {{ margin: 0; font-size: 15px; }}
#walk {{ font-size: 13px; opacity: 0.75; }}
#picture {{ max-width: 1208px; margin: 0 auto; }}
.pair {{ display: flex; flex-wrap: wrap; gap: 12px; }}
.pair > div {{ flex: 1 1 440px; min-width: 0; }}
.pair h2 {{ margin: 0 0 6px; font-size: 14px; }}
pre, .notes {{ white-space: pre-wrap; }}
.notes {{ margin: 0 0 12px; }}
.notes code {{ font-weight: 600; }}
.line :is(del, ins) {{ display: block; padding-left: 8px; border-left: 4px solid #c62828; text-decoration: none; }}
.line ins {{ border-color: #2e7d32; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #e6e9ee; }} }}
{css}
</style>
</head>
<body>
<main>
<header><h1>{title}</h1><p id="walk"></p></header>
{pictures}
<noscript><pre>{table}</pre></noscript>
</main>
{scenes}
<script>
{script}
{play}
</script>
</body>
</html>
"""
ONE = """<script id="scene" type="application/json">{scene}</script>"""
PLAYED = """const scene = JSON.parse(document.getElementById("scene").textContent);
seegrad.alone(document.getElementById("picture"), scene);"""
SEVERAL = """for (const { textContent, dataset } of document.querySelectorAll("script[data-for]")) {
  const scene = JSON.parse(textContent);
  seegrad.play(document.getElementById(dataset.for), scene, Number(dataset.step ?? seegrad.found(scene)));
}"""


@cache
def asset(name: str) -> str:
    """A built file of the front end, such as `svg.css`, as text. Raises: FileNotFoundError when it wasn't built."""
    return (STATIC / name).read_text(encoding="utf-8")


def page(
    recording: Recording, title: str | None = None, lang: str | None = None, question: Question | None = None
) -> str:
    """The whole page as text, the same bytes every time; `question` has to be answered before the rest is shown.

    >>> page(Recording()).splitlines()[0]
    '<!doctype html>'
    """
    scene = draw(recording, question, lang)
    return _filled(
        scene.lang,
        title or translate(marked("Autograd graph"), scene.lang),
        table(scene, question.until_step if question else None),
        '<div id="picture"></div>',
        ONE.format(scene=inline(scene.to_data())),
        PLAYED,
    )


def pair_page(
    scenes: Sequence[Scene],
    notes: str,
    title: str | None = None,
    *,
    names: Sequence[str] = (marked("first"), marked("second")),
    changed: Mend | None = None,
    steps: Sequence[int] = (),
) -> str:
    """Two pictures side by side below what differs, as one page; `changed` is the line that only the second has.

    Each opens at its step of `steps`; without them where something was found.

    >>> pair_page([draw(Recording()), draw(Recording())], "Nothing differs.").count("data-for")
    3
    """
    lang = scenes[0].lang
    names = [translate(word, lang) for word in names]
    sides = "".join(f'<div><h2>{escape(name)}</h2><div id="p{k}"></div></div>' for k, name in enumerate(names))
    opens = [f' data-step="{step}"' for step in steps] or [""] * len(scenes)
    inlined = [
        f'<script data-for="p{k}"{at} type="application/json">{inline(scene.to_data())}</script>'
        for k, (scene, at) in enumerate(zip(scenes, opens, strict=True))
    ]
    return _filled(
        lang,
        title or translate(marked("Where two recordings differ"), lang),
        "\n\n".join(table(scene) for scene in scenes),
        f'{_line_changed(changed)}<p class="notes">{with_code(notes)}</p><div class="pair">{sides}</div>',
        "\n".join(inlined),
        SEVERAL,
    )


def _line_changed(mend: Mend | None) -> str:
    """The line as a diff shows it, where one is changed."""
    if mend is None:
        return ""
    place = f"{Path(mend.place.file).name}:{mend.place.line}"
    before, after = (escape(each.strip()) for each in (mend.place.code, mend.line))
    return f'<p>{escape(place)}</p>\n<pre class="line"><del>− {before}</del><ins>+ {after}</ins></pre>\n'


def _filled(lang: str, title: str, told: str, pictures: str, scenes: str, play: str) -> str:
    return PAGE.format(
        lang=lang.replace("_", "-"),
        title=escape(title),
        css=asset("widget.css"),
        table=escape(told),
        pictures=pictures,
        scenes=scenes,
        script=asset("standalone.js"),
        play=play,
    )


def with_code(told: str) -> str:
    """Plain text as HTML, with what stands between backticks as code.

    >>> with_code("`a < b` is True")
    '<code>a &lt; b</code> is True'
    """
    return "".join(f"<code>{escape(part)}</code>" if k % 2 else escape(part) for k, part in enumerate(told.split("`")))


def write_page(recording: Recording, path: str | Path, title: str | None = None, lang: str | None = None) -> Path:
    """Write the page to a file and return its path. Raises: OSError when it can't be written."""
    target = Path(path)
    target.write_text(page(recording, title, lang), encoding="utf-8")
    return target


def inline(data: Any) -> str:
    """JSON that may stand inside a script element of a file: no `</script`, no comment, no half of a character.

    >>> inline({"a": "</script>"})
    '{"a":"<\\\\/script>"}'
    """
    short = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    short = OPENS.sub(r"\\u003c\1", short.replace("</", r"<\/"))  # not each `<`: a picture has thousands
    return HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", short)
