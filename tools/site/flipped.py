"""A program whose lines are flipped, as HTML: code, what came of it before and now, its picture.

All choices are inside, recorded: nothing is computed where it is read. `frontend/src/switches.ts` flips them.
"""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Template
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from seegrad.display.findings import SEVERITY, findings
from seegrad.picture import draw, table
from seegrad.words.languages import marked, translate
from tools.site.programs import Choice, FlippedProgram
from tools.site.recorded import Play, plays

TEMPLATE = Path(__file__).with_name("program.html.j2")
WORDS = {
    "line": marked("Line {line}, with alternatives"),
    "mistake": marked("The mistake"),
    "mended": marked("Mended"),
    "first": marked("with the mistake"),
    "now": marked("as chosen above"),
    "both": marked("both pictures"),
    "found": marked("found"),
    "says": marked("torch says"),
    "prints": marked("prints"),
    "nothing": marked("nothing"),
    "told": marked("{what}: {said}"),
    "none": marked("no such line"),
}
NO_LINE = "pass"
"""What stands for a line that isn't there, so that no choice moves another."""


def program_html(program: FlippedProgram, lang: str, but: Mapping[str, str] | None = None) -> str:
    """The whole of it, as one block of HTML; `but` is what its remarks are in another language."""
    known = _remarks(program, but or {})
    said = {key: translate(word, lang) for key, word in WORDS.items()}
    made = plays(program)
    labels = labels_of(made)
    first = made[program.choices[0]]
    data = {
        _key(choice): _data(done, labels, lang, [said[k] for said, k in zip(known, choice, strict=True)])
        for choice, done in made.items()
    }
    rows = [(said.get(label, f"<code>{escape(label)}</code>"), _row(label, first, lang)) for label in labels]
    template = Template(TEMPLATE.read_text(encoding="utf-8"))  # each part is escaped where it is made
    drawn = draw(first.recording, None, lang)
    lines, steps = _lines(program, known, lang), escape(table(drawn))
    ends = {"first": _key(program.choices[0]), "mended": _key(program.mended)}
    made_of = {"name": program.name, "lines": lines, "words": said, "rows": rows, "table": steps, "data": packed(data)}
    return str(template.render(made_of | ends))


def packed(data: dict[str, Any]) -> str:
    """As text that any page may hold, a tenth as long as JSON.

    >>> unpacked(packed({"0,1": "a < b"}))
    {'0,1': 'a < b'}
    """
    return b64encode(gzip.compress(json.dumps(data, ensure_ascii=False).encode(), mtime=0)).decode()


def unpacked(text: str) -> dict[str, Any]:
    """What `packed` made text of."""
    data: dict[str, Any] = json.loads(gzip.decompress(b64decode(text)))
    return data


def _key(choice: Choice) -> str:
    return ",".join(map(str, choice))


def labels_of(made: dict[Choice, Play]) -> list[str]:
    """The rows that have something to say for one choice at least."""
    done = list(made.values())
    labels = ["found"]
    labels += ["says"] if any(each.says for each in done) else []
    labels += ["prints"] if any(each.printed for each in done) else []
    return labels + list(dict.fromkeys(name for each in done for name, _ in each.gradients))


def _remarks(program: FlippedProgram, but: Mapping[str, str]) -> list[list[str]]:
    """What is said of each option of each line with alternatives."""
    return [
        [
            but.get(option.strip(), remark) if remark else ""
            for option, remark in zip(each.options, each.remarks, strict=True)
        ]
        for each in program.alternatives
    ]


def _data(done: Play, labels: list[str], lang: str, remarks: list[str]) -> dict[str, Any]:
    found = findings(done.recording, lang)
    says = found[0]["title"] if found else translate(WORDS["nothing"], lang)
    return {
        "rows": [_row(label, done, lang) for label in labels],
        "says": " ".join([_told(translate(WORDS["found"], lang), says, lang), *filter(None, remarks)]),
        "scene": draw(done.recording, None, lang).to_data(packed=True),
    }


def _row(label: str, done: Play, lang: str) -> str:
    nothing = escape(translate(WORDS["nothing"], lang))
    if label == "found":
        return "".join(_finding(each, lang) for each in findings(done.recording, lang)) or nothing
    told = {"says": done.says, "prints": done.printed}.get(label, dict(done.gradients).get(label, "–"))
    return f"<code>{escape(told)}</code>" if told else nothing


def _finding(found: dict[str, Any], lang: str) -> str:
    severity = translate(SEVERITY[found["severity"]], lang)
    message = _marked(found["message"])
    head = escape(_told(severity, found["title"], lang))
    return f'<p class="sw-{found["severity"]}"><strong>{head}</strong><br>{message}</p>'


def _marked(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _told(what: str, said: str, lang: str) -> str:
    return translate(WORDS["told"], lang).format(what=what, said=said)


Option = tuple[int, str, str]
"""(number, HTML, HTML of what is said of it)"""


def _lines(program: FlippedProgram, known: list[list[str]], lang: str) -> list[tuple[int, str, str, list[Option]]]:
    """(number, HTML, its indentation as an attribute, alternatives) of each line."""
    options = {
        each.line: list(zip(each.options, remarks, strict=True))
        for each, remarks in zip(program.alternatives, known, strict=True)
    }
    return [
        (
            number,
            coloured(line),
            _indented(len(line) - len(line.lstrip())),
            [(k, _option(each.strip(), lang), _marked(said)) for k, (each, said) in enumerate(options.get(number, ()))],
        )
        for number, line in enumerate(program.lines, 1)
    ]


def _option(line: str, lang: str) -> str:
    """A line to choose; of one that isn't there a comment says so, which is Python wherever it is copied to."""
    return coloured(f"{line}  # {translate(WORDS['none'], lang)}" if line == NO_LINE else line)


def _indented(blanks: int) -> str:
    return f' style="--in: {blanks}ch"' if blanks else ""


def coloured(code: str) -> str:
    """One line of Python with the classes that the theme colours.

    >>> coloured("  a = 1")
    '  <span class="n">a</span> <span class="o">=</span> <span class="mi">1</span>'
    """
    return str(highlight(code, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))).rstrip("\n")
