"""Optimisers with the lines that made them: each asks of every Parameter that it is given whether it's a leaf."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import CodeType, FrameType

import torch
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes.places import Source, is_users, user_frame, user_frames
from seegrad.model.recording import Place

GIVEN = "add_param_group"
"""The method of torch's that asks."""

Way = dict[CodeType, Place]
"""The functions under way, the inmost last, with the line at which each was."""

Path = tuple[str, ...]
"""A module or a Parameter by the names that lead to it: `("model", "encoder", "0", "weight")`."""


class MadeOptimisers:
    """All that were made while the block ran, and live."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.places = weakref.WeakKeyDictionary[Optimizer, Place]()
        self.columns = weakref.WeakKeyDictionary[Optimizer, int | None]()
        self._ways = weakref.WeakKeyDictionary[Optimizer, Way]()

    def asked(self, _tensor: torch.Tensor, frame: FrameType) -> None:
        """Somebody asks of a tensor whether it's a leaf."""
        if frame.f_code.co_name != GIVEN or is_users(frame.f_code.co_filename):
            return
        optimiser = frame.f_locals.get("self")
        if isinstance(optimiser, Optimizer) and not optimiser.param_groups and optimiser not in self.places:
            user = user_frame(frame)
            while user is not None and user.f_locals.get("self") is optimiser:  # in a class of the user's
                user = user_frame(user.f_back)
            place = self._source.place(user)
            if user is not None and place is not None:
                around = user_frames(user, None)
                self.places[optimiser], self.columns[optimiser] = place, _column(user)
                self._ways[optimiser] = dict(
                    zip([each.f_code for each in around], self._source.way(around), strict=True)
                )

    def makers(self) -> list[CodeType]:
        """The functions that made an optimiser."""
        return [next(reversed(way)) for way in self._ways.values()]

    def apart(
        self, given: Iterable[torch.Tensor], frames: Sequence[FrameType]
    ) -> tuple[FrameType | None, Place | None]:
        """Where what is under way and the making of an optimiser that holds some of these part, and the line for that.

        The inmost function from which both come, if it has made the optimiser or been handed it: it may do one or the
        other first. Of none, the line that made the optimiser alone.
        """
        wanted = {id(each) for each in given}
        holders = [each for each in self._ways if wanted and any(id(leaf) in wanted for leaf in leaves(each))]
        for frame in reversed(frames):
            for each in holders:
                way = self._ways[each]
                if frame.f_code in way and (frame.f_code is next(reversed(way)) or _has(frame, each)):
                    return frame, way[frame.f_code]
        return None, self.places[holders[0]] if holders else None

    def beside(self, leaf: Path, paths: dict[int, Path]) -> tuple[Place, Path, Path] | None:
        """The line that made the one optimiser that holds the leaf's nearest neighbours: what of theirs, of what whole.

        `paths`: by its `id`, each Parameter that has one.
        """
        found: dict[int, list[tuple[Optimizer, set[Path]]]] = {}
        for optimiser in self.places:
            held = {paths[id(each)] for each in leaves(optimiser) if id(each) in paths}
            found.setdefault(max((_common(each, leaf) for each in held), default=0), []).append((optimiser, held))
        depth = max(found, default=0)
        if depth == 0 or len(found[depth]) > 1:
            return None
        ((optimiser, held),) = found[depth]
        near = [each for each in held if _common(each, leaf) == depth]
        return self.places[optimiser], _whole(near[0], depth, held, set(paths.values())), leaf[:depth]


def _column(frame: FrameType) -> int | None:
    """Where in its line the call begins that a frame is at: one line may make two optimisers."""
    return next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))[2]


def _has(frame: FrameType, optimiser: Optimizer) -> bool:
    """Is it a variable of that function's own?"""
    return any(each is optimiser for each in list(frame.f_locals.values()))


def leaves(optimiser: Optimizer) -> Iterator[torch.Tensor]:
    """All that it holds."""
    return (leaf for group in optimiser.param_groups for leaf in group["params"])


def _common(one: Path, other: Path) -> int:
    """How many names two paths begin with alike.

    >>> _common(("model", "encoder", "weight"), ("model", "decoder", "weight"))
    1
    """
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _whole(path: Path, depth: int, held: set[Path], known: set[Path]) -> Path:
    """The largest module around a Parameter, below that depth, all of whose Parameters are held."""
    for size in range(depth + 1, len(path)):
        if all(each in held for each in known if each[:size] == path[:size]):
            return path[:size]
    return path
