"""Classes of a course, as they lie beside a notebook."""

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass, field


class Shape(ABC):
    made = 0

    @abstractmethod
    def area(self): ...

    def __repr__(self):
        return f"{type(self).__name__}({self.area()})"


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2

    def __eq__(self, other):
        return isinstance(other, Square) and self.side == other.side

    def __hash__(self):
        return hash(self.side)


class Room(Shape):
    def __init__(self, *parts):
        self.parts = list(parts)

    def area(self):
        return sum(part.area() for part in self.parts)


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x, y=0):
        self.x, self.y = x, y

    @property
    def sum(self):
        return self.x + self.y

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)


class Tree:
    def __init__(self, key, left=None, right=None):
        self.key, self.left, self.right = key, left, right

    def height(self):
        return 1 + max((t.height() for t in (self.left, self.right) if t), default=0)

    def keys(self):
        left, right = (t.keys() if t else [] for t in (self.left, self.right))
        return [*left, self.key, *right]


class Link:
    def __init__(self, value):
        self.value, self.next, self.last = value, self, self

    def __iter__(self):
        at = self
        while True:
            yield at.value
            if (at := at.next) is self:
                return


@dataclass
class Account:
    owner: str
    entries: list = field(default_factory=list)

    @property
    def balance(self):
        return sum(self.entries)

    def pay(self, amount):
        self.entries.append(amount)

    @functools.cached_property
    def letters(self):
        return len(self.owner)


@dataclass
class Cell:
    value: int
    next: object = None


class Person:
    def __init__(self, name):
        self.name, self.knows = name, set()

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Any:
    def __eq__(self, other):
        return True
