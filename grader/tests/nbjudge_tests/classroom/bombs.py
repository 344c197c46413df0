"""Texts that keep a parser busy for minutes, each far smaller than what may be handed in or put out."""

from __future__ import annotations

from collections.abc import Mapping

USED = "".join(f"<g id='a{n + 1}'>" + f"<use href='#a{n}'/>" * 10 + "</g>" for n in range(9))
# name → the type that an output gives itself, and its text
OUTPUTS: Mapping[str, tuple[str, str]] = {
    "nested_div": ("text/html", "<div>" * 20_000),
    "formatting_again_and_again": ("text/html", "".join(f"<b x={n}>" for n in range(90)) + "<p>" * 30_000),
    "tables_in_tables": ("text/html", "<table>" * 95 + "<td>x" * 15_000),
    "links_never_closed": ("text/html", "<a href=x><p>" * 7_000),
    "begin_without_end": ("text/markdown", "\\begin{a}" * 20_000),
    "begin_without_its_end": ("text/markdown", "\\begin{a}\\end{b}" * 6_000),
    "quotes_in_quotes": ("text/markdown", ">" * 90_000 + "x"),
    "emphasis_never_closed": ("text/markdown", "a**b*c_d" * 12_000),
    "brackets": ("text/markdown", "[a](" * 22_000),
    "backticks": ("text/markdown", "".join("a" + "`" * n for n in range(440))),
    "code_never_closed": ("text/markdown", "```python\n" + "(" * 90_000),
    "uses_of_uses": ("image/svg+xml", f"<svg>{USED}<use href='#a9'/></svg>"),
}
CELLS: Mapping[str, str] = {name: text for name, (kind, text) in OUTPUTS.items() if kind == "text/markdown"}
CODE: Mapping[str, str] = {
    "brackets": "(" * 300_000,
    "strings_never_closed": 'f"{' * 90_000,
    "backslashes": "\\" * 99_000,
    "one_long_name": "a" * 900_000,
}
COLOURS = "\x1b[31mx\x1b[0m" * 45_000
