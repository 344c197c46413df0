"""One offline HTML file with the interactive picture: no request leaves the machine."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from pathlib import Path

from seegrad.model.recording import Recording
from seegrad.model.scene import Question
from seegrad.picture import draw, table
from seegrad.words.languages import marked, translate

STATIC = Path(__file__).parents[1] / "static"

HALVES = re.compile("[\ud800-\udfff]")

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
h1 {{ max-width: 1208px; margin: 0 auto 10px; font-size: 15px; }}
#picture {{ max-width: 1208px; margin: 0 auto; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #e6e9ee; }} }}
{css}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div id="picture"></div>
<noscript><pre>{table}</pre></noscript>
</main>
<script id="scene" type="application/json">{scene}</script>
<script>
{script}
seegrad.play(document.getElementById("picture"), JSON.parse(document.getElementById("scene").textContent));
</script>
</body>
</html>
"""


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
    return PAGE.format(
        lang=scene.lang.replace("_", "-"),
        title=escape(title or translate(marked("Autograd graph"), scene.lang)),
        css=asset("widget.css"),
        table=escape(table(scene, question.until_step if question else None)),
        scene=_inline(scene.to_json()),
        script=asset("standalone.js"),
    )


def write_page(recording: Recording, path: str | Path, title: str | None = None, lang: str | None = None) -> Path:
    """Write the page to a file and return its path. Raises: OSError when it can't be written."""
    target = Path(path)
    target.write_text(page(recording, title, lang), encoding="utf-8")
    return target


def _inline(text: str) -> str:
    """JSON that may stand inside a script element of a file: no `</script`, no comment, no half of a character."""
    short = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", short)
