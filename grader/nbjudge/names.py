"""Which global names a piece of Python reads, binds and changes: a cell as a whole, and each statement at its top.

Bytecode says what is global and what is local; the tree says what a statement changes without binding it.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

HELD = "held"
"""What a judge notes at the line of a test's check: that it was made, and held."""
_READS = {"LOAD_NAME", "LOAD_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_BINDS = {"STORE_NAME", "STORE_GLOBAL"}
_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_IMPORTING = ast.Import | ast.ImportFrom
_DEFINING = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_INSPECTING = frozenset({"globals", "locals", "vars", "dir", "eval", "exec", "get_ipython", "testmod"})
"""Whoever reads one of these may read any name."""
_PYTHON_MAGICS = frozenset({"time", "timeit", "prun", "capture"})
"""Magics whose body is Python that runs in the notebook."""


@dataclass(frozen=True, slots=True)
class Names:
    """Global names, each in alphabetical order; `imported` are bound by an import at the top."""

    read: tuple[str, ...]
    bound: tuple[str, ...]
    imported: tuple[str, ...]
    mentioned: tuple[str, ...] = ()  # strings of the cell that could be a name: `"x" in globals()`
    inspects: bool = False  # does it look at the namespace as a whole?


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement at the top of a cell."""

    text: str
    line: int
    end: int  # its last line
    reads: frozenset[str]  # when it runs
    later: frozenset[str]  # when a function that it defines is called
    inside: frozenset[str]  # by any function in it, a lambda too
    binds: frozenset[str]
    changes: frozenset[str]  # without binding them: `data.append(3)`, `data[0] = 3`, `data.x = 3`
    rebinds: frozenset[str]  # by `global` inside a function
    imports: bool
    defines: bool  # def or class
    is_class: bool
    is_kind: bool = False  # a class whose objects are data: an enumeration, or a data class without methods
    fixed: bool = False  # an import, a function, or a value that is written out, of constants

    @property
    def uses(self) -> frozenset[str]:
        """All that it may read."""
        return self.reads | self.later


def names_in(source: str, asked: Collection[str] = ()) -> Names:
    """The global names of a cell of plain Python (IPython's own syntax already transformed).

    A name of Python's own, like `sum`, isn't among them, unless the assignment asks for one.

    Raises:
        SyntaxError: it isn't Python.

    >>> names_in("import torch\\ny = f(x) + len(z)")
    Names(read=('f', 'x', 'z'), bound=('torch', 'y'), imported=('torch',), mentioned=(), inspects=False)
    """
    code = compile(source, "<cell>", "exec", flags=_FLAGS, dont_inherit=True)
    tree = ast.parse(source)
    bound = sorted(set(_named(code, _BINDS, top=True)))
    defined = sorted({name for node in tree.body for name in _defined(node)})
    reads = {*_named(code, _READS), *_patched(tree)}
    read = sorted({name for name in reads if _is_global(name, asked)} - (set(defined) - set(asked)))
    imported = sorted({name for node in tree.body if isinstance(node, _IMPORTING) for name in _defined(node)})
    return Names(tuple(read), tuple(bound), tuple(imported), tuple(sorted(_mentioned(tree))), _inspects(tree, reads))


def _patched(tree: ast.AST) -> Iterator[str]:
    """Names in the texts that `unittest.mock.patch` is given: `"__main__.helper"`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("__main__."):
            name = node.value.split(".")[1]
            if name.isidentifier():
                yield name


def _inspects(tree: ast.AST, reads: Collection[str]) -> bool:
    looked = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return bool(_INSPECTING & {*reads, *looked})


def _is_global(name: str, asked: Collection[str]) -> bool:
    return name in asked or not hasattr(builtins, name)


def _mentioned(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def read_by_functions(names: Iterable[str], namespace: Mapping[str, Any], asked: Collection[str] = ()) -> set[str]:
    """The global names that our own functions among `names` read, and the functions that these call, and so on."""
    wanted, seen = list(names), set[str]()
    while wanted:
        value = namespace.get(wanted.pop())
        parts = vars(value).values() if isinstance(value, type) and value.__module__ == "__main__" else (value,)
        functions = [function for part in parts if (function := _function(part)) and function.__globals__ is namespace]
        read = {name for function in functions for name in _named(function.__code__, _READS)}
        new = {name for name in read if _is_global(name, asked)} - seen
        seen |= new
        wanted.extend(new)
    return seen


def is_unchanged(source: str, asked: Collection[str]) -> bool:
    """Is a cell's last expression a number as an answer gave it: passed on, rounded, bounded, scaled?

    >>> is_unchanged("s = f(3)\\nround(min(s, 5), 2) * 2", {"f"}), is_unchanged("f(3) + (g(2) == 4)", {"f", "g"})
    (True, False)
    """
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return False
    theirs = set(asked)
    for node in ast.walk(tree):  # in the order of the text, as far as a score is passed from name to name
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if _is_theirs(node.value, theirs):
                theirs |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return _is_theirs(last.value, theirs)


_PASSING = frozenset({"float", "int", "round", "min", "max", "sum", "complex"})  # no abs: a distance isn't passed on


def _is_theirs(node: ast.expr, theirs: Collection[str]) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PASSING - {*theirs}:
        return all(_is_theirs(part, theirs) or isinstance(part, ast.Constant) for part in node.args) and any(
            _is_theirs(part, theirs) for part in node.args
        )
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.IfExp):
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        parts = [part for part in parts if not isinstance(part, ast.Constant)]
        parts = [part for part in parts if not (isinstance(node, ast.IfExp) and part is node.test)]
        return bool(parts) and all(_is_theirs(part, theirs) for part in parts)
    if isinstance(node, ast.Await | ast.NamedExpr | ast.Starred):
        return _is_theirs(node.value, theirs)
    return any(name in theirs for name in _root(node))


def passed_on(
    source: str, asked: Collection[str], held: Mapping[str, Collection[str]], called: Collection[str] = ()
) -> set[str]:
    """Of what these names hold, what a cell passes to the asked ones, or to what has come of them.

    What stands in one call with a function of the student's (`called`) is passed to it: `map(f, nodes)`.

    >>> sorted(passed_on("n = Node(1)\\nq = Queue()\\nq.put(Job())\\nf(n.next) == Near(3)", {"f", "Queue"},
    ...     {name: {name} for name in ("Node", "Job", "Near")}))
    ['Job', 'Node']
    >>> passed_on("raises(Odd, f, Job()); same(f(1), Near(3))", {"f"}, {"Job": {"Job"}, "Near": {"Near"}}, {"f"})
    {'Job'}
    """
    theirs, holds, found = set(asked), {name: set(what) for name, what in held.items()}, set[str]()

    def mentioned(node: ast.AST) -> set[str]:
        return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}

    for node in ast.walk(tree := ast.parse(source)):
        for target, value in _given_to(node):
            names, used = mentioned(target), mentioned(value)
            theirs |= names if used & theirs else set()
            for name in names:
                holds.setdefault(name, set()).update(*(holds.get(one, ()) for one in used))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        handed = {part.id for part in node.args if isinstance(part, ast.Name)} & {*called}
        if handed or theirs & {*_root(node.func)}:
            used = {name for part in (*node.args, *node.keywords) for name in mentioned(part)} - handed
            found.update(*(holds.get(name, ()) for name in used))
    return found


def _given_to(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What is bound here, and to what; a function holds what it mentions."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AugAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.comprehension):
        yield node.target, node.iter
    elif isinstance(node, ast.FunctionDef):
        yield from ((ast.Name(node.name, ast.Store()), part) for part in node.body)


def _function(part: Any) -> types.FunctionType | None:
    """The function behind what a class holds: a method, static or not, a property.

    By its type alone: of a thing of the student's nothing may be asked here, where no test looks at it.
    """
    kind = type(part)
    if issubclass(kind, staticmethod | classmethod | types.MethodType):
        part = part.__func__
    elif issubclass(kind, property):
        part = part.fget
    return part if isinstance(part, types.FunctionType) else None


# ---------------------------------------------------------------------- statement by statement


def statements(source: str) -> tuple[Statement, ...]:
    """The statements at the top of a cell of plain Python, in order; of `%%time` and its like those inside.

    Raises:
        SyntaxError: it isn't Python.

    >>> [sorted(one.changes) for one in statements("data.append(f(3))\\nx.y[0] = 1\\ndata = 3")]
    [['data'], ['x'], []]
    """
    return tuple(_statement(node) for node in _unfolded(ast.parse(source).body))


def _unfolded(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        inner = _inside_magic(node)
        if inner is None:
            yield node
            continue
        yield from _unfolded(inner)


def _inside_magic(node: ast.stmt) -> list[ast.stmt] | None:
    """The statements of `%%time` and its like, as IPython's transformer writes them; None for any other statement."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    given = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    if call.func.attr not in ("run_cell_magic", "run_line_magic") or not given or given[0] not in _PYTHON_MAGICS:
        return None
    try:
        body = ast.parse(str(given[-1])).body
    except SyntaxError:
        return None
    if given[0] == "capture" and len(given) > 2 and str(given[1]).rpartition(" ")[2].isidentifier():
        body = [ast.If(ast.Constant(True), [*body, *ast.parse(f"{str(given[1]).rpartition(' ')[2]} = None").body], [])]
        ast.fix_missing_locations(body[0])
    for inner in body:
        ast.increment_lineno(inner, node.lineno)
    return body


def _statement(node: ast.stmt) -> Statement:
    module = ast.Module([node], [])
    code = compile(module, "<cell>", "exec", flags=_FLAGS, dont_inherit=True)
    defines = isinstance(node, _DEFINING)
    every = frozenset(_named(code, _READS))
    at_once = frozenset(_read_at_once(code))
    reads = at_once if defines else every
    return Statement(
        text=ast.unparse(module),
        line=node.lineno,
        end=node.end_lineno or node.lineno,
        reads=reads,
        later=every - reads,
        inside=frozenset(_named_inside(code)),
        binds=frozenset(_named(code, _BINDS, top=True)),
        changes=frozenset(_changed(node)) & every,
        rebinds=frozenset(_named(code, {"STORE_GLOBAL", "DELETE_GLOBAL"})),
        imports=isinstance(node, _IMPORTING),
        defines=defines,
        is_class=isinstance(node, ast.ClassDef),
        is_kind=isinstance(node, ast.ClassDef) and _is_kind(node),
        fixed=_is_fixed(node),
    )


_WRITTEN_OUT = ast.Constant | ast.Tuple | ast.List | ast.Set | ast.Dict
_LITERAL = _WRITTEN_OUT | ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop | ast.expr_context


def _is_fixed(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        return all(isinstance(part, _LITERAL) for part in ast.walk(node.value))
    return isinstance(node, _IMPORTING | ast.FunctionDef | ast.AsyncFunctionDef)


_KINDS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "NamedTuple", "TypedDict"})


def _is_kind(node: ast.ClassDef) -> bool:
    """
    >>> classes = ["@dataclass\\nclass P: x: int", "class C(enum.Enum): A = 1", "class D: x = 1"]
    >>> [statements(one)[0].is_kind for one in classes]
    [True, True, False]
    """
    with_methods = any(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in ast.walk(node))
    made = {_last_name(part) for part in node.decorator_list}
    return bool({_last_name(base) for base in node.bases} & _KINDS) or ("dataclass" in made and not with_methods)


def _last_name(node: ast.expr) -> str:
    """Of `dataclasses.dataclass(order=True)` it is `dataclass`."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _read_at_once(code: types.CodeType) -> Iterator[str]:
    """What a def or class reads before anybody calls it: decorators, defaults, bases, a class's body."""
    yield from (name for operation, name in _uses(code) if operation in _READS)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and not constant.co_flags & inspect.CO_OPTIMIZED:
            yield from _read_at_once(constant)


def _named_inside(code: types.CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            optimised = constant.co_flags & inspect.CO_OPTIMIZED
            yield from _named(constant, _READS) if optimised else _named_inside(constant)


def _changed(tree: ast.AST) -> Iterator[str]:
    """The names whose things are changed: an item or attribute is set or deleted, a method's result isn't used."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield from _root(node)
        elif isinstance(node, ast.AugAssign):
            yield from _root(node.target)
        elif isinstance(node, ast.Expr):
            call = node.value.value if isinstance(node.value, ast.Await) else node.value
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                yield from _root(call.func)


def _root(node: ast.AST) -> Iterator[str]:
    """The name at the beginning of `name.a[0].b()`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        yield node.id


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, _IMPORTING):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, _DEFINING):
        yield node.name


def packages(source: str) -> set[str]:
    """The first names of what imports at the top of a cell import.

    >>> sorted(packages("import os.path, json as j\\nfrom numpy.linalg import norm"))
    ['json', 'numpy', 'os']
    """
    body = ast.parse(source).body
    whole = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
    whole += [node.module or "" for node in body if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in whole}


def _named(code: types.CodeType, operations: Collection[str], *, top: bool = False) -> Iterator[str]:
    """Names in the given operations of a code object and, unless `top`, of all inside it (STORE_GLOBAL always)."""
    stack, outermost = [code], code
    while stack:
        current = stack.pop()
        for operation, name in _uses(current):
            inner_local = top and current is not outermost and not operation.endswith("GLOBAL")
            in_class_body = current is not outermost and operation == "STORE_NAME"
            if operation in operations and not inner_local and not in_class_body:
                yield name
        stack.extend(constant for constant in current.co_consts if isinstance(constant, types.CodeType))


_NAMED = _READS | _BINDS | {"DELETE_GLOBAL"}


@functools.lru_cache(maxsize=1024)
def _uses(code: types.CodeType) -> tuple[tuple[str, str], ...]:
    """(operation, global name) in one code object: asked for again with every test that calls the same functions."""
    return tuple(
        (instruction.opname, instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname in _NAMED
    )


# ---------------------------------------------------------------------- the checks of a test

_TOO_WIDE = frozenset(
    {"BaseException", "Exception", "AssertionError", "StopIteration", "StopAsyncIteration", "KeyboardInterrupt"}
)
REPEATED = ast.For | ast.AsyncFor | ast.While | _DEFINING  # what lies in it may run again and again


def checks_in(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Assertions, Python's or a library's; but for what always fails: the reference never comes to that.

    >>> cell = "assert f(1) == 2\\nassert False, 'no'\\nself.assertEqual(f(1), 2)"
    >>> [node.lineno for node in checks_in(ast.parse(cell).body)]
    [1, 3]
    """
    for node in (one for part in body for one in ast.walk(part)):
        fails = isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and not node.test.value
        called = isinstance(node, ast.Call) and "assert" in _last_name(node.func).lower()
        if called or (isinstance(node, ast.Assert) and not fails):
            yield node


def allows_an_error(node: ast.Try) -> bool:
    """May a call either raise or give something that is checked? Each clause names its error, and passes or checks.

    >>> trial = "try: x = f()\\nexcept {}: {}\\nelse: assert x"
    >>> said = [("ValueError", "pass"), ("", "pass"), ("Exception", "pass"), ("(KeyError, m.Error)", "x = 3")]
    >>> [allows_an_error(ast.parse(trial.format(*one)).body[0]) for one in said]
    [True, False, False, False]
    """
    clauses = [
        _names_its_error(clause) and (only_passes(clause) or any(checks_in(clause.body))) for clause in node.handlers
    ]
    return bool(clauses) and all(clauses) and any(checks_in(node.orelse))


def _names_its_error(clause: ast.ExceptHandler) -> bool:
    kinds = clause.type.elts if isinstance(clause.type, ast.Tuple) else [clause.type]
    names = [kind is not None and _last_name(kind) for kind in kinds]
    return all(name and name not in _TOO_WIDE for name in names)


def only_passes(clause: ast.ExceptHandler) -> bool:
    """Does it say nothing but that this error may be?"""
    return all(
        isinstance(one, ast.Pass) or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        for one in clause.body
    )
