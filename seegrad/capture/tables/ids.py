"""From the numbers that capture gives to those of the Recording: without the gaps of what was forgotten.

A draft holds what its class of the model holds, under the same names; only the numbers differ. So one `frozen` does for
all: the model's fields say which of them are numbers, and of what.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

Kind = TypeVar("Kind")

Ids = Mapping[str, Mapping[int, int]]
"""Of each table ("frame", "tensor", …): number given by capture → number in the Recording; not of what is forgotten."""

Renumber = Callable[[Any, Ids], Any]
"""A value with capture's numbers → the same with the Recording's. Raises KeyError for one that is forgotten."""


def without_gaps(**tables: Iterable[int]) -> Ids:
    """Number each kind from 0, in the given order.

    >>> without_gaps(frame=[0, 7, 9], tensor=[])
    {'frame': {0: 0, 7: 1, 9: 2}, 'tensor': {}}
    """
    return {name: {old: new for new, old in enumerate(numbers)} for name, numbers in tables.items()}


def frozen(kind: type[Kind], draft: Any, ids: Ids) -> Kind:
    """A draft, or a tuple of its fields in order, as the model has it. What it says of forgotten things is left out.

    >>> from seegrad.model.recording import Edge, RaisedError
    >>> ids = without_gaps(frame=[0, 7], node=[4])
    >>> frozen(Edge, (0, 4, 1), ids), frozen(Edge, (0, 5, 1), ids)
    (Edge(slot=0, target=0, output_nr=1), Edge(slot=0, target=None, output_nr=1))
    >>> error = frozen(RaisedError, RaisedError("ValueError", "", None, 7, 4), ids)
    >>> error.frame, error.node
    (1, 0)
    """
    read, numbered = _plan(typing.cast(Hashable, kind))
    values = list(draft if type(draft) is tuple else read(draft))
    for position, renumber in numbered:
        values[position] = renumber(values[position], ids)
    return kind(*values)


@lru_cache
def _plan(kind: Any) -> tuple[Callable[[Any], Iterable[Any]], list[tuple[int, Renumber]]]:
    """How to read all fields of a draft, and for those that hold numbers: their position, and what to do."""
    hints = typing.get_type_hints(kind, include_extras=True)
    names = [field.name for field in fields(kind)]
    found = [(position, _renumber(hints[name])) for position, name in enumerate(names)]
    return attrgetter(*names), [(position, renumber) for position, renumber in found if renumber is not None]


def _renumber(hint: Any) -> Renumber | None:
    """What to do with a value of that type; None where it holds no numbers."""
    arguments = typing.get_args(hint)
    if hasattr(hint, "__metadata__"):
        table = hint.__metadata__[0]
        return lambda number, ids: ids[table][number]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return _or_none(arguments[0])
    if typing.get_origin(hint) is tuple:
        return _each(arguments[0]) if arguments[-1] is ... else _fields(arguments)
    if is_dataclass(hint) and _plan(typing.cast(Hashable, hint))[1]:
        return lambda draft, ids: frozen(typing.cast(type, hint), draft, ids)
    return None


def _or_none(hint: Any) -> Renumber | None:
    """None stays None, and what is forgotten becomes None."""
    if not hasattr(hint, "__metadata__"):
        return None
    table = hint.__metadata__[0]
    return lambda number, ids: None if number is None else ids[table].get(number)


def _each(hint: Any) -> Renumber | None:
    """The items, without those that speak of something forgotten."""
    renumber = _renumber(hint)
    if renumber is None:
        return None

    def items(values: Collection[Any], ids: Ids) -> tuple[Any, ...]:
        if not values:  # as most are
            return ()
        found = []
        for value in values:
            try:
                found.append(renumber(value, ids))
            except KeyError:
                continue
        return tuple(found)

    return items


def _fields(hints: tuple[Any, ...]) -> Renumber | None:
    """A tuple of unlike things."""
    each = [_renumber(hint) for hint in hints]
    if not any(each):
        return None
    return lambda values, ids: tuple(
        [value if renumber is None else renumber(value, ids) for value, renumber in zip(values, each, strict=True)]
    )
