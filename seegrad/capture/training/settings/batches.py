"""A loader that is begun anew for each step: one that hands out its data in order gives its first batch each time."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator, Sequence
from types import FrameType

from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from seegrad.capture.probes.places import Source, nodes
from seegrad.capture.probes.source_text import called
from seegrad.capture.probes.variables import Reach, is_a
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

SEVERAL = 3
"""Looks between which the line has run again."""


class FirstBatches:
    """The lines that take it: of each loader, the newest Frame of such a line at each look that found a newer one."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._ran = weakref.WeakKeyDictionary[DataLoader[object], dict[Place, list[int]]]()

    def look(self, frames: Sequence[FrameType]) -> None:
        """An optimiser is about to step, for the first time, the second, the fourth, …"""
        lines = [frame for frame in frames if "next(iter(" in self._source.text(frame.f_code.co_filename)]
        reach = Reach(list(frames)) if lines else None
        held = [each for frame in frames for each in reach.of(frame)] if reach is not None else []
        loaders: dict[str, list[DataLoader[object]]] = {}
        for name, each in held:
            if is_a(each, DataLoader):
                loaders.setdefault(name.rpartition(".")[2], []).append(each)
        for place, name in self._begun(lines) if loaders else ():
            found = loaders.get(name, [])
            if len({id(each) for each in found}) == 1 and _is_in_order(found[0]):
                self._see(place, name, found[0])

    def _begun(self, frames: Sequence[FrameType]) -> Iterator[tuple[Place, str]]:
        """The lines with `next(iter(loader))`, and what they call the loader."""
        for file in dict.fromkeys(frame.f_code.co_filename for frame in frames):
            for each in nodes(self._source.text(file)):
                match each:
                    case ast.Call(func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter"), args=[loader])]):
                        yield self._source.at(file, each.lineno), called(loader)

    def _see(self, place: Place, name: str, loader: DataLoader[object]) -> None:
        drafts = self._tables.frames.drafts
        newest = next((number for number in reversed(drafts) if drafts[number].place == place), None)
        ran = self._ran.setdefault(loader, {}).setdefault(place, [])
        if newest is None or newest in ran or len(ran) >= SEVERAL:
            return
        ran.append(newest)
        if len(ran) == SEVERAL:
            facts = (("loader", name),)
            self._tables.clues.append(Clue("first batch", newest, place, tuple(drafts[newest].outputs), facts))


def _is_in_order(loader: DataLoader[object]) -> bool:
    """Does it hand out several batches, each time the same first one?"""
    sampler = loader.sampler
    if not isinstance(sampler, SequentialSampler) or type(loader.batch_sampler) is not BatchSampler:
        return False
    return len(sampler) > (loader.batch_size or 0)
