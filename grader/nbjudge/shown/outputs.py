"""A cell's outputs → what may be shown of them: rebuilt from known types; markup is converted by whoever is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nbjudge.shown.patience import NotShown
from nbjudge.shown.pictures import IMAGES, Pictures
from nbjudge.shown.tex import plain_tex
from nbjudge.shown.text import ANSI, text_of

Convert = Callable[[str, str], str]  # "html", "markdown" or "svg", and its text → HTML; raises NotShown
MARKUP = {"text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg"}
COLOURS = 2000  # codes in one text
TEX_CHARS = 100_000
NOT_SHOWN = "(this output can't be shown here)"


class Shower:
    """Makes outputs safe, and remembers what it couldn't show: `withheld`, one clause each."""

    def __init__(self, convert: Convert, pictures: Pictures | None = None) -> None:
        self._convert = convert
        self._pictures = pictures or Pictures()
        self.withheld: list[str] = []

    def safe_outputs(self, outputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The same outputs, rebuilt from what can be shown without acting; anything odd is left out."""
        return [safe for output in outputs if (safe := self._safe_output(output)) is not None]

    def _safe_output(self, output: Mapping[str, Any]) -> dict[str, Any] | None:
        kind = output.get("output_type")
        if kind == "stream":
            name = "stderr" if output.get("name") == "stderr" else "stdout"
            return {"output_type": "stream", "name": name, "text": self._coloured(text_of(output.get("text")))}
        if kind == "error":
            return {
                "output_type": "error",
                "ename": text_of(output.get("ename")),
                "evalue": text_of(output.get("evalue")),
                "traceback": self._traceback([text_of(line) for line in output.get("traceback") or ()]),
            }
        if kind in ("display_data", "execute_result"):
            safe = {"output_type": kind, "data": self._safe_bundle(output.get("data") or {}), "metadata": {}}
            if kind == "execute_result":
                count = output.get("execution_count")
                safe["execution_count"] = count if isinstance(count, int) else None
            return safe
        return None

    def _safe_bundle(self, data: Mapping[str, Any]) -> dict[str, str]:
        """One representation to look at, and the text. Widget views, scripts and unknown types are dropped."""
        bundle: dict[str, str] = {}
        said = NOT_SHOWN
        for mime in [name for name in MARKUP if name in data][:1] + [name for name in IMAGES if name in data]:
            try:
                if mime in IMAGES:
                    bundle[mime] = self._pictures.encoded(text_of(data[mime]))
                else:
                    bundle["text/html"] = self._convert(MARKUP[mime], text_of(data[mime]))
            except NotShown as error:
                said = self._withhold(str(error))
        if "text/latex" in data and len(tex := text_of(data["text/latex"])) <= TEX_CHARS:
            bundle["text/latex"] = plain_tex(tex)
        if "text/plain" in data or not bundle:
            bundle["text/plain"] = self._coloured(text_of(data.get("text/plain", said)))
        return bundle

    def _withhold(self, why: str) -> str:
        self.withheld.append(why)
        return f"(This output isn't shown: {why}.)"

    def _coloured(self, text: str) -> str:
        """With its colours, where these are few: each costs its reader's program a look at the whole text."""
        if text.count("\x1b") <= COLOURS:
            return text
        self.withheld.append(f"its colours are left out, since they change more than {COLOURS} times")
        return ANSI.sub("", text).replace("\x1b", "")

    def _traceback(self, lines: list[str]) -> list[str]:
        return lines if "".join(lines).count("\x1b") <= COLOURS else [self._coloured("\n".join(lines))]
