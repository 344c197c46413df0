"""What a test has put in place of Python's own, or of a module's, functions: the student's process uses it meanwhile.

A function of the test's is lent as ever, by a number that can be called; of `sys.stdin` its `readline`. What is put
back here is put back there. A module's function is looked at from the first time that a patch or an assignment of the
test's is about to replace it.
"""

from __future__ import annotations

import ast
import builtins
import io
import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from nbjudge.errors import WireError

NOTED = "_nbjudge_replaced"  # what is called before such an assignment; among the builtins, so no name of a test's
STDIN = "sys.stdin"
LISTENED_TO = frozenset({"sys.stdout", "sys.stderr"})  # what is printed comes back as text


class LentInput(io.TextIOBase):
    """`sys.stdin` of the test's, read by a function that was lent."""

    def __init__(self, readline: Callable[[], str]) -> None:
        self._readline = readline

    def readable(self) -> bool:
        """Always."""
        return True

    def readline(self, _size: Any = -1) -> str:  # type: ignore[override]  # a text's own signature is more exact
        """One line."""
        return str(self._readline())

    def read(self, _size: int | None = -1) -> str:
        """All that is left."""
        return "".join(iter(self.readline, ""))


class Replaced:
    """One side: the judge's finds what a test has replaced, the student's puts it in place.

    >>> ours, theirs = Replaced(), Replaced()
    >>> ours.watch(); before = builtins.input
    >>> builtins.input = len
    >>> told = ours.changes(lambda value: value.__name__)
    >>> told, ours.changes(lambda value: value.__name__)
    ([['builtins.input', 'len']], [])
    >>> builtins.input = before
    >>> ours.changes(lambda value: value.__name__)
    [['builtins.input']]
    """

    def __init__(self) -> None:
        self._watched: dict[str, tuple[Any, str, Any]] = {}  # where → module, name, what is there by rights
        self._told: dict[str, Any] = {}
        self._stands: tuple[Sequence[Any], Sequence[str], Sequence[Any]] | None = None  # all of these, as told last
        self._here: dict[str, tuple[Any, str, Any]] = {}  # in the student's process: what was there

    def watch(self) -> None:
        """In the judge, once, while all is as it should be."""
        for name, value in vars(builtins).items():
            if callable(value) and not name.startswith("_") and not isinstance(value, type):
                self._watched[f"builtins.{name}"] = (builtins, name, value)
        self._watched[STDIN] = (sys, "stdin", sys.stdin)
        enter = mock._patch.__enter__  # where every kind of patch begins

        def entered(patch: Any) -> Any:
            target = patch.getter()
            if isinstance(target, types.ModuleType) and target.__name__ != "__main__":
                self._note(target, patch.attribute)
            return enter(patch)

        mock._patch.__enter__ = entered  # type: ignore[method-assign]  # meant

    def _note(self, module: types.ModuleType, name: str) -> None:
        where = f"{module.__name__}.{name}"
        if where not in self._watched and where not in LISTENED_TO:
            self._watched[where] = (module, name, vars(module).get(name))
            self._stands = None

    def note(self, root: Any, *path: str) -> None:
        """A test is about to bind or delete what stands at this path; it counts where that is a function of a module's.

        Only modules are gone through: anything else may be the student's, and would be asked.
        """
        *inner, name = path
        for step in inner:
            root = vars(root).get(step) if _is_module(root) else None
        if _is_module(root) and root.__name__ != "__main__" and callable(vars(root).get(name)):
            self._note(root, name)

    def begin(self) -> None:
        """A new question: whatever is replaced is told again."""
        self._told.clear()
        self._stands = None

    def changes(self, encode: Callable[[Any], Any]) -> list[list[Any]]:
        """What has been replaced or put back since the last packet, as trees.

        Raises:
            UnsupportedError: it can neither be lent nor carried.
        """
        if self._stands is not None and self._is_as_told(*self._stands):
            return []
        found = list(self._changes(encode))
        modules, names, own = zip(*self._watched.values(), strict=True) if self._watched else ((), (), ())
        self._stands = modules, names, list(map(self._told.get, self._watched, own))
        return found

    @staticmethod
    def _is_as_told(modules: Sequence[Any], names: Sequence[str], known: Sequence[Any]) -> bool:
        """Asked with each packet, so without a line of Python for each name."""
        return all(map(operator.is_, map(getattr, modules, names, itertools.repeat(None)), known))

    def _changes(self, encode: Callable[[Any], Any]) -> Iterator[list[Any]]:
        for where, (module, name, own) in self._watched.items():
            now = getattr(module, name, None)
            if now is self._told.get(where, own):
                continue
            if now is own:
                yield [where]
                del self._told[where]
            else:
                yield [where, encode(getattr(now, "readline", None) if where == STDIN else now)]
                self._told[where] = now

    # ------------------------------------------------------------------ in the student's process

    def apply(self, told: list[Any], decode: Callable[[Any], Any]) -> None:
        """Put in place what the judge has told of; a name alone is put back."""
        for change in told:
            if type(change) is not list or not 1 <= len(change) <= 2 or type(change[0]) is not str:
                raise WireError("A frame replaces something that has no name.")
            where, *tree = change
            if not tree:
                self._put_back(where)
                continue
            module, _, name = where.rpartition(".")
            if (found := sys.modules.get(module)) is None:  # nobody here uses it
                continue
            self._here.setdefault(where, (found, name, getattr(found, name, None)))
            value = decode(tree[0])
            setattr(found, name, LentInput(value) if where == STDIN else value)

    def _put_back(self, where: str) -> None:
        if where in self._here:
            module, name, own = self._here.pop(where)
            setattr(module, name, own)

    def end(self) -> None:
        """A new question: all is as it was."""
        for where in list(self._here):
            self._put_back(where)


def _is_module(thing: Any) -> bool:
    return issubclass(type(thing), types.ModuleType)  # `isinstance` would ask a student's object for its class


class Announced(ast.NodeTransformer):
    """Has each assignment to, and each deletion of, a name's attribute said before, to `note`.

    >>> tree = Announced(print).visit(ast.parse("np.linalg.inv = None\\nsetattr(random, 'random', f)"))
    >>> print(ast.unparse(tree))
    _nbjudge_replaced(np, 'linalg', 'inv')
    np.linalg.inv = None
    _nbjudge_replaced(random, 'random')
    setattr(random, 'random', f)
    """

    def __init__(self, note: Callable[..., None]) -> None:
        setattr(builtins, NOTED, note)

    def visit(self, node: ast.AST) -> Any:
        """An expression, as most of a cell is, holds no statement."""
        return node if isinstance(node, ast.expr) else super().visit(node)

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        """`np.linalg.inv = None`."""
        return [*_announced(node, node.targets), node]

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        """`del np.linalg.inv`."""
        return [*_announced(node, node.targets), node]

    def visit_Expr(self, node: ast.Expr) -> Any:
        """`setattr(np.linalg, "inv", None)`."""
        self.generic_visit(node)
        match node.value:
            case ast.Call(ast.Name("setattr" | "delattr"), [owner, ast.Constant(str(name)), *_]):
                return [*_announced(node, [ast.Attribute(owner, name, ast.Store())]), node]
        return node


def _announced(node: ast.stmt, targets: Sequence[ast.expr]) -> Iterator[ast.stmt]:
    parts = (part for target in targets for part in getattr(target, "elts", [target]))
    for part in parts:
        path, root = list[ast.expr](), part
        while isinstance(root, ast.Attribute):
            path.insert(0, ast.Constant(root.attr))
            root = root.value
        if path and isinstance(root, ast.Name):
            said = ast.Call(ast.Name(NOTED, ast.Load()), [ast.Name(root.id, ast.Load()), *path], [])
            yield ast.fix_missing_locations(ast.copy_location(ast.Expr(said), node))
