"""Whose each global name of an assignment is, from its source: what tests may ask of a student, and what is the test's.

An *asked* name is one that an answer binds or changes. All else that the release gives a value (imports, helpers,
constants) the judge makes for itself, from the release; a statement of the release that uses an asked name runs where
the answers are, and what it makes counts as the answer's.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from nbjudge.course.restore import released
from nbjudge.model import Naming, SourceCell
from nbjudge.names import Names, Statement, is_unchanged, names_in, packages, passed_on, statements

ALWAYS_THERE = frozenset(
    {*dir(builtins), "In", "Out", "_", "__", "___", "_i", "exit", "quit", "get_ipython", "display"}
)
LETTERS = 8000  # of a cell that shows a picture
KERNEL = frozenset({"__name__", "__doc__", "__file__", "__builtins__"})


@dataclass(frozen=True, slots=True)
class Written:
    """One code cell of an assignment: an answer (as released, as solved), a test, or what is given."""

    role: str  # "answer", "test" or "given"
    sources: tuple[str, ...]
    grade_id: str = ""


def written(rows: Sequence[SourceCell], source: Mapping[str, Any] | None) -> list[Written]:
    """The code cells in the course's order: marked ones as the gradebook has them, the others from the source."""
    known = {row.grade_id: row for row in rows}
    if source is None:
        return [_of_row(row, ()) for row in rows if row.cell_type == "code"]
    found = []
    for cell in source["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        row, text = known.get(str(marks.get("grade_id"))), _text(cell)
        if row is not None and row.cell_type == "code":
            found.append(_of_row(row, (text,)))
        elif row is None and cell["cell_type"] == "code":
            found.append(Written("given", (text,)))
    return found


def _text(cell: Mapping[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _of_row(row: SourceCell, solved: tuple[str, ...]) -> Written:
    if row.solution:
        return Written("answer", (row.source, *solved), row.grade_id)
    return Written("test" if row.grade else "given", (row.source,), row.grade_id)


def pictures(cells: Iterable[Written]) -> Iterator[str]:
    """What is given and only shows an exercise's picture: it imports seegrad's `pick` and calls it, nothing else.

    >>> texts = ["from seegrad import pick\\npick('a', {'n': [1, 2]}, 'b = 1')", "from seegrad import pick\\nopen('x')"]
    >>> [text[-10:] for text in pictures([Written("given", (text,)) for text in texts])]
    [", 'b = 1')"]
    """
    for source in (cell.sources[0] for cell in cells if cell.role == "given"):
        try:
            body = ast.parse(source).body
        except (SyntaxError, ValueError):
            continue
        match body:
            case [ast.ImportFrom(module="seegrad"), ast.Expr(ast.Call(ast.Name("pick")))] if len(source) < LETTERS:
                yield source


@lru_cache(maxsize=1)
def _transformer() -> TransformerManager:
    return TransformerManager()  # type: ignore[no-untyped-call]  # IPython types it nowhere


def plain(source: str) -> str:
    """A cell without IPython's own syntax."""
    return str(_transformer().transform_cell(source))


@dataclass(frozen=True, slots=True)
class CellRead:
    """What every judge of a class would find in a test cell anew."""

    plain: str
    names: Names
    passes_on: bool  # is its last expression a number as an answer gave it?


@lru_cache(maxsize=1024)
def reading(source: str, asked: frozenset[str], imported: frozenset[str] = frozenset()) -> CellRead | None:
    """A test cell without IPython's own syntax, and its names; None where it isn't Python.

    `asked` and, of libraries, `imported` are the names that come from the student's process.

    >>> reading("!ls\\nassert f(2) == 4", frozenset({"f"})).names.read
    ('f', 'get_ipython')
    """
    try:
        text = plain(source)
        return CellRead(text, names_in(text, asked), is_unchanged(text, asked | imported))
    except (SyntaxError, ValueError):
        return None


def _plain(source: str) -> Iterator[str]:
    """A cell without IPython's own syntax, where it is Python."""
    if reading(source, frozenset()) is not None:
        yield plain(source)


def _statements(source: str) -> tuple[Statement, ...]:
    try:
        return statements(plain(source))
    except (SyntaxError, ValueError):  # said where it is generated; a cell that can't run names nothing
        return ()


def _names(source: str, bound: Iterable[str]) -> Names:
    """`bound` is what the course gives a value: a name of Python's own among these is the course's."""
    try:
        return names_in(plain(source), frozenset(bound))
    except (SyntaxError, ValueError):
        return Names((), (), ())


def naming(cells: Sequence[Written], *, complete: bool = True) -> Naming:
    """Whose each name is.

    Without the source (`complete=False`) nobody knows what answers bind: whatever a student can see a test read is
    asked then.

    >>> given, test = Written("given", ("import math\\nn = 3\\ny = f(n)",)), Written("test", ("assert y == n",), "q")
    >>> found = naming([Written("answer", ("def f(x): return x",)), given, test])
    >>> found.asked, found.setup
    (('f', 'y'), (('q', ('n = 3',)),))
    """
    ready = _ready(cells)
    answers = [one for cell in cells for one in _of_answer(cell) if one.text not in ready]
    given = [(place, one) for place, cell in enumerate(cells) for one in _of_given(cell, ready)]
    release = [one for _, one in given]
    tested = [text for cell in cells if cell.role == "test" for text in _plain(cell.sources[0])]
    asked, imported = _asked(answers, release, tested)
    if not complete:
        visible = [_names(released(cell.sources[0]), ()) for cell in cells if cell.role == "test"]
        given_names = {name for one in release for name in one.binds}
        asked |= {name for names in visible for name in {*names.read} - {*names.bound} - given_names - imported.keys()}
    bound = {*asked, *imported, *(name for one in release for name in one.binds)}
    tests = {place: _names(cell.sources[0], bound) for place, cell in enumerate(cells) if cell.role == "test"}
    own = [one for cell in cells if cell.role == "test" for one in _statements(cell.sources[0])]
    theirs = {name for one in own if one.imports for name in packages(one.text)}
    ours = _needed([one for one in release if _is_ours(one, asked, imported, release)], tests.values(), asked, theirs)
    setup = _before_tests(cells, [(place, one.text) for place, one in given if one in ours])
    rebound = {name for one in answers for name in one.rebinds}
    bindings = [(place, name) for place, cell in enumerate(cells) for name in sorted(_bound_in(cell) & asked)]
    return Naming(
        asked=tuple(sorted(asked)),
        classes=tuple(sorted(_classes(answers) & asked)),
        imported=tuple(sorted(imported.items())),
        told=tuple(sorted({name for one in [*answers, *release] for name in one.inside} | rebound)),
        rebound=tuple(sorted(rebound)),
        setup=setup,
        renewed=_before_tests(cells, bindings),
        brought=tuple(_brought(cells, [*answers, *release])),
        unknown=tuple(_unknown(cells, tests, asked | imported.keys(), release)),
    )


def _bound_in(cell: Written) -> set[str]:
    """What a cell that isn't a test binds or changes."""
    every = (one for source in cell.sources for one in _statements(source)) if cell.role != "test" else ()
    return {name for one in every for name in one.binds | one.changes | one.rebinds}


def _of_answer(cell: Written) -> list[Statement]:
    return [one for source in cell.sources for one in _statements(source)] if cell.role == "answer" else []


def _of_given(cell: Written, ready: Collection[str]) -> Iterator[Statement]:
    """What the release gives there; in an answer cell, what stands ready in it."""
    if cell.role == "given":
        yield from (one for source in cell.sources for one in _statements(source))
    elif cell.role == "answer":
        yield from (one for source in cell.sources[:1] for one in _statements(source) if one.text in ready)


def _ready(cells: Sequence[Written]) -> frozenset[str]:
    """Functions and constants that stand in an answer cell as released and as solved: nobody is asked for them.

    They are given, unless another statement of an answer binds or changes their names, or what they read.

    >>> cell = Written("answer", ("EPS = 1\\ndef f(): ...", "EPS = 1\\ndef f(): return 2"))
    >>> _ready([cell])
    frozenset({'EPS = 1'})
    """
    pairs = [
        tuple(_statements(source) for source in cell.sources)
        for cell in cells
        if cell.role == "answer" and len(set(cell.sources)) > 1
    ]
    found = {one.text: one for old, new in pairs for one in old if one.fixed and one.text in {two.text for two in new}}
    others = [one for cell in cells for one in _of_answer(cell) if one.text not in found]
    asked = {name for one in others for name in one.binds | one.changes | one.rebinds}
    while lost := {text for text, one in found.items() if (one.binds | one.uses) & asked}:
        asked |= {name for text in lost for name in found[text].binds}
        found = {text: one for text, one in found.items() if text not in lost}
    return frozenset(found)


def _classes(answers: Iterable[Statement]) -> set[str]:
    return {name for one in answers if one.is_class for name in one.binds}


def _asked(
    answers: Sequence[Statement], release: Sequence[Statement], tested: Sequence[str]
) -> tuple[set[str], dict[str, str]]:
    """What answers bind or change, and what the release makes of that; what they merely import, with the import."""
    made = {name for one in answers if not one.imports for name in one.binds | one.rebinds}
    lived = _lived(answers, release, tested)
    fixed = {name for one in release if one.imports or one.defines for name in one.binds} - lived
    given = {name for one in release for name in one.binds}
    changed = {name for one in answers for name in one.changes} & given - fixed
    imports = {name: one.text for one in answers if one.imports for name in one.binds}
    asked = made | changed | lived
    imported = {name: text for name, text in imports.items() if name not in asked | fixed}
    while more := _made_of(release, asked | imported.keys(), fixed | imported.keys()) - asked:
        asked |= more
    return asked, {name: text for name, text in imported.items() if name not in asked}


def _lived(answers: Sequence[Statement], release: Sequence[Statement], tested: Sequence[str]) -> set[str]:
    """Classes that the release gives and answers use, or are passed objects of: these live where the answers are.

    >>> given, answer = statements("class Node: ...\\nclass Other: ..."), statements("def f(n): return n.value")
    >>> _lived(answer, given, ["assert f(Node(3)) == Other(3)"])
    {'Node'}
    """
    classes = {name for one in release if one.is_class and not one.is_kind for name in one.binds}
    if not classes:
        return classes
    asked = {name for one in answers if not one.imports for name in one.binds | one.rebinds}
    called = {name for one in answers if one.defines for name in one.binds}
    held = {name: _reach(one.uses | {name}, release) & classes for one in release for name in one.binds}
    given = {name for text in tested for name in passed_on(text, asked, held, called)}
    return classes & _reach(given.union(*(one.uses for one in answers)), release)


def _made_of(release: Sequence[Statement], asked: set[str], fixed: set[str]) -> set[str]:
    found = set[str]()
    for one in release:
        if not one.imports and _reach(one.reads, release) & asked:
            found |= one.binds | (one.changes - fixed)
    return found


def _reach(names: Iterable[str], release: Sequence[Statement]) -> set[str]:
    """These names, and what the release's own functions among them read, and so on."""
    reached = set(names)
    while more := {name for one in release if one.defines and one.binds & reached for name in one.uses} - reached:
        reached |= more
    return reached


def _is_ours(one: Statement, asked: set[str], imported: Mapping[str, str], release: Sequence[Statement]) -> bool:
    touched = one.binds | one.changes
    if one.imports and not touched:
        return True  # from … import *
    return bool(touched - asked) and (one.imports or not _reach(one.reads, release) & (asked | imported.keys()))


def _needed(ours: Sequence[Statement], tests: Iterable[Names], asked: set[str], theirs: set[str]) -> list[Statement]:
    """Of what the judge could run itself, what the tests need, in order; they import `theirs`, packages, themselves.

    What looks for modules beside the notebook, `sys.path`, they need as well: any import may.

    >>> given = statements("import sys\\nsys.path.append('code')\\nfrom tools import *\\nn = 3")
    >>> [one.text for one in _needed(given, [], set(), {"tools"})]
    ['import sys', "sys.path.append('code')", 'from tools import *']
    """
    wanted = {name for test in tests for name in (*test.read, *(test.mentioned if test.inspects else ()))}
    imports = [(one, packages(one.text)) for one in ours if one.imports]
    wanted |= {
        name for one, found in imports if "sys" in found for name in one.binds if name == "sys" or len(found) == 1
    }
    kept = set[int]()
    while more := {n for n, one in enumerate(ours) if n not in kept and _serves(one, wanted - asked, theirs, ours)}:
        kept |= more
        wanted |= {name for n in more for name in ours[n].uses}
        theirs = theirs.union(*(packages(ours[n].text) for n in more if ours[n].imports))
    return [one for n, one in enumerate(ours) if n in kept]


def _serves(one: Statement, wanted: set[str], theirs: set[str], ours: Sequence[Statement]) -> bool:
    """Does it bind or change what is wanted, also by a function of the release that it calls?

    An import serves its whole package: `import matplotlib.pyplot` is what gives `matplotlib.patches` a value.
    """
    touched = one.binds | one.changes
    if one.imports:
        return not touched or bool(touched & wanted or packages(one.text) & theirs)  # nothing: from … import *
    if not one.defines:
        touched |= {name for other in ours if other.defines and other.binds & one.reads for name in other.changes}
    return bool(touched & wanted)


def _before_tests(cells: Sequence[Written], ours: Sequence[tuple[int, str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The statements by the test that they first stand before."""
    found, last = [], -1
    for place, cell in enumerate(cells):
        if cell.role == "test":
            found.append((cell.grade_id, tuple(text for at, text in ours if last < at < place)))
            last = place
    return tuple(found)


def _brought(cells: Sequence[Written], others: Sequence[Statement]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What tests import although answers are who need it: in one process it is there from the first such test on."""
    missing = {name for one in others for name in one.uses} - {name for one in others for name in one.binds}
    for cell in cells:
        own = _statements(cell.sources[0]) if cell.role == "test" else ()
        if found := tuple(one.text for one in own if one.imports and one.binds & missing):
            yield cell.grade_id, found


def _unknown(
    cells: Sequence[Written], tests: Mapping[int, Names], asked: Iterable[str], release: Sequence[Statement]
) -> Iterator[tuple[str, str, int]]:
    """What a test reads, although neither the release nor an answer gives it a value."""
    known = {*asked, *ALWAYS_THERE, *KERNEL, *(name for one in release for name in one.binds | one.rebinds)}
    texts = [source for cell in cells for source in cell.sources]
    if any("import *" in text for text in texts):
        return
    for place, names in sorted(tests.items()):
        own = _statements(cells[place].sources[0])
        known |= {*names.bound, *(name for one in own for name in one.rebinds)}
        for name in names.read:
            if name not in known:
                yield cells[place].grade_id, name, next((one.line for one in own if name in one.uses), 1)
