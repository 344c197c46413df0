"""An executed notebook → the same with outputs that may be shown, its markup converted by a scribe, within bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nbjudge.model import Executed
from nbjudge.process.scribe import OVER, Scribe
from nbjudge.shown.markup import markdown_trouble
from nbjudge.shown.outputs import Shower
from nbjudge.shown.patience import NotShown
from nbjudge.shown.pictures import Pictures
from nbjudge.shown.text import placed, text_of

MARKDOWN = ("nbconvert.filters.markdown_mistune",)  # takes a second to load
PIECE_S = 1.0  # of CPU time, for one output
NOTEBOOK_S = 3.0  # for all of a notebook
NOTEBOOK_CHARS = 20_000_000  # of all that is made for a notebook: cleaned HTML is longer than it came
SPENT = f"the outputs before it took longer than {NOTEBOOK_S:g} s to convert"
FULL = f"the outputs before it are {NOTEBOOK_CHARS // 1_000_000} MB"
MARGIN = 1.5  # what a scribe stops itself comes as an answer; only what hangs in C is ended from outside


class Clerk:
    """One notebook's requests to a scribe, and the time they may take together."""

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self._left_s, self._left_chars = NOTEBOOK_S, NOTEBOOK_CHARS

    def convert(self, kind: str, source: str) -> str:
        """HTML that may be shown; raises `NotShown`."""
        if self._left_s <= 0:
            raise NotShown(SPENT)
        if kind == "markdown":
            if (trouble := markdown_trouble(source)) is not None:
                raise NotShown(trouble)
            self._scribe.learn(*MARKDOWN)
        asked = {"op": kind, "cpu_ms": round(1000 * PIECE_S)}
        packet, took_s = self._scribe.ask(asked, source.encode("utf-8", "replace"), MARGIN * PIECE_S)
        self._left_s -= took_s
        if packet is None:
            raise NotShown(OVER.format(seconds=PIECE_S))
        if (problem := packet.header.get("problem")) is not None:
            raise NotShown(str(problem))
        made = packet.body.decode("utf-8", "replace")
        if len(made) > self._left_chars:
            raise NotShown(FULL)
        self._left_chars -= len(made)
        return made


def cleaned(executed: Executed, scribe: Scribe) -> Executed:
    """With safe outputs, and a note for each kind of thing that isn't shown."""
    clerk, pictures = Clerk(scribe), Pictures()
    cells, notes = [], []
    for place, cell in placed(executed.notebook.get("cells", ())):
        shower = Shower(clerk.convert, pictures)
        if cell["cell_type"] == "code":
            cell = {**cell, "outputs": shower.safe_outputs(cell["outputs"])}
        elif (trouble := markdown_trouble(text_of(cell["source"]))) is not None:
            shower.withheld.append(trouble)
        cells.append(cell)
        notes += list(_notes(place, shower.withheld))
    return replace(executed, notebook={**executed.notebook, "cells": cells}, notes=(*executed.notes, *few(notes)))


def _notes(place: str, withheld: Iterable[str]) -> Iterable[str]:
    for why, count in Counter(withheld).items():
        times = f" ({count} times)" if count > 1 else ""
        yield f"something in {place} isn't shown: {why}{times}"


def few(notes: Sequence[str], most: int = 3) -> list[str]:
    """The first of them, and how many there are besides: one submission fills nobody's table.

    >>> few(["a", "b", "c"], 2)
    ['a', 'b', 'and 1 more like these']
    """
    more = [f"and {len(notes) - most} more like these"] if len(notes) > most else []
    return [*notes[:most], *more]
