"""What an author has got wrong in an assignment, by its source alone: said when it is generated, with a cure.

A `Remark` that stops leaves nothing to release: stock nbgrader would release it, and a student's points would show it.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nbjudge.course.naming import Written, naming, plain
from nbjudge.course.restore import released
from nbjudge.model import Notebook
from nbjudge.names import REPEATED, Statement, allows_an_error, checks_in, names_in, statements
from nbjudge.shown.text import placed

FLAGS = ("grade", "solution", "locked", "task")
NAME = re.compile(r"[A-Za-z0-9_\-]+")  # what nbgrader's toolbar accepts
REGIONS = (  # with the mark of the cells that they belong into, and what nbgrader's toolbar calls these
    ("BEGIN SOLUTION", "END SOLUTION", "solution", "an answer", "an autograded answer"),
    ("BEGIN HIDDEN TESTS", "END HIDDEN TESTS", "grade", "a test", "autograded tests"),
)
TO_CHANGE = re.compile(r"\b(chang|edit|replac|adjust|modif|fill|your|try|todo)", re.IGNORECASE)
BODY_IS_PYTHON = re.compile(r"^%%(time|timeit|capture|prun)\b[^\n]*\n")
CUT_OUT = re.compile(r"^[^\n]*BEGIN SOLUTION.*?END SOLUTION[^\n]*$", re.DOTALL | re.MULTILINE)
ASKING = re.compile(r"[?\uff1f]\W*$", re.MULTILINE)
NO_PROMPT = "nothing of this text is released, so students see no question, unless a text cell above asks it"
NO_PROMPT_CURE = (
    "ask it in a text cell above, or let it stand here before `### BEGIN SOLUTION`, with `### END SOLUTION` behind the "
    "answer"
)
UNKNOWN = "the test reads {name!r}, which neither the release nor an answer gives a value"
UNKNOWN_CURE = "correct its spelling, import it, or define it in the test or in a cell that students are given"
CONSTANT = "{name!r} looks like something that students are to change, but this is no answer: tests see it as released"
CONSTANT_CURE = "make this an autograded answer; or lock it, so that nobody changes it in vain"
COMPUTED = (
    "{test} reads {name!r}, which is computed with an answer, where the answers are: it may be given any value there"
)
COMPUTED_CURE = "compute it in the test, from the answer"
PASSED_BY = (
    "an answer that goes another way at line {line} than yours comes past this check, so a person has to look at it"
)
PASSED_BY_CURE = "make a check in either case"
RAISED_PAST = "an answer that raises at line {line} comes past this check, so a person has to look at it"
RAISED_PAST_CURE = (
    "where the error is allowed: a `try` for this call alone, in no loop and no function, with a clause that names the "
    "error and the check in its `else`"
)
BORROWED = "this reads {name!r}, which only tests give a value ({test}), and answers don't get what tests bind"
BORROWED_CURE = "pass it as an argument, or give it a value here or in a cell that students are given"


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that an author should know, where it is, and what to do."""

    notebook: str
    cell: str
    line: int  # 0: the cell as a whole
    what: str
    cure: str
    stops: bool = True

    def __str__(self) -> str:
        """
        >>> str(Remark("ps1", "cell 'q'", 3, "no such thing", "make one"))
        "ps1.ipynb, cell 'q', line 3: no such thing. Make one."
        """
        return f"{self.notebook}.ipynb, {self.said}"

    @property
    def said(self) -> str:
        """The same to who knows the file."""
        line = f", line {self.line}" if self.line else ""
        return f"{self.cell}{line}: {self.what}. {self.cure[:1].upper()}{self.cure[1:]}."


# ---------------------------------------------------------------------- before anything is made


def of_source(notebook: str, document: Mapping[str, Any]) -> list[Remark]:
    """What a source notebook shows by itself: marks that nbgrader can't read, and cells that aren't Python."""
    cells = document["cells"]
    found = [*_of_grade_ids(notebook, document), *_of_prompts(notebook, cells), *_of_all_points(notebook, cells)]
    python = _is_python(document)
    for place, cell in placed(cells):
        marks = cell["metadata"].get("nbgrader")
        said = [*_of_marks(marks, cell["cell_type"])] if marks is not None else []
        text, marked = _text(cell), _marks(cell)
        said += _of_regions(text, marked)
        if python and cell["cell_type"] == "code" and not any(one[3] for one in said):
            said += _of_python(text, marked)
        found += [Remark(notebook, called(place, marked), line, what, cure, stops) for line, what, cure, stops in said]
    return found


Said = tuple[int, str, str, bool]


def _is_python(document: Mapping[str, Any]) -> bool:
    kernel = document.get("metadata", {}).get("kernelspec", {})
    return str(kernel.get("language", "python") or "python").lower() == "python"


def called(place: str, marks: Mapping[str, Any]) -> str:
    """A cell as an author finds it: by its grade_id, else by its place."""
    name = marks.get("grade_id")
    return f"cell {name!r}" if isinstance(name, str) and name else place


def _of_grade_ids(notebook: str, document: Mapping[str, Any]) -> Iterator[Remark]:
    seen: dict[str, str] = {}
    for place, cell in placed(document["cells"]):
        marks = cell["metadata"].get("nbgrader")
        name = marks.get("grade_id") if isinstance(marks, Mapping) and any(map(marks.get, FLAGS)) else None
        if isinstance(name, str) and name in seen:
            what = f"{seen[name]} has the same grade_id"
            yield Remark(notebook, f"{place} ({name!r})", 0, what, "give each marked cell a name of its own, in its ID")
        elif isinstance(name, str):
            seen[name] = place


def _of_all_points(notebook: str, cells: Sequence[Mapping[str, Any]]) -> Iterator[Remark]:
    """Points that nobody wrote: nbgrader's own sidebar begins with 0."""
    asked = [marks for marks in map(_marks, cells) if marks.get("grade") or marks.get("task")]
    if asked and all(marks.get("points") == 0 for marks in asked):
        what = "its questions have 0 points altogether, so whoever answers gets 0 of 0"
        yield Remark(notebook, "all cells", 0, what, "write into each question's Points what it is worth", stops=False)


def _of_prompts(notebook: str, cells: Sequence[Mapping[str, Any]]) -> Iterator[Remark]:
    """Free texts whose question is taken out with the answer, or stands nowhere."""
    before: Mapping[str, Any] | None = None
    for place, cell in placed(cells):
        if _is_free_text(cell):
            text = _text(cell)
            left = CUT_OUT.sub("", text) if CUT_OUT.search(text) else ""
            asked = before is not None and (_is_free_text(before) or _asks(before))
            if text.strip() and not left.strip() and (not asked or ASKING.search(text)):
                yield Remark(notebook, called(place, _marks(cell)), 0, NO_PROMPT, NO_PROMPT_CURE, stops=False)
        before = cell


def _is_free_text(cell: Mapping[str, Any]) -> bool:
    return cell["cell_type"] == "markdown" and bool(_marks(cell).get("grade") and _marks(cell).get("solution"))


def _asks(cell: Mapping[str, Any]) -> bool:
    """Has this text cell more to say than a heading?"""
    lines = [line for line in _text(cell).splitlines() if line.strip()] if cell["cell_type"] == "markdown" else []
    return any(not line.startswith("#") or ASKING.search(line) for line in lines)


def _of_marks(marks: Any, cell_type: str) -> Iterator[Said]:
    """nbgrader's metadata of one cell, as its own validator and its database want it."""
    if not isinstance(marks, Mapping):
        yield 0, f"its nbgrader metadata is {type(marks).__name__}, not an object", "mark the cell anew", True
        return
    odd = [flag for flag in FLAGS if not isinstance(marks.get(flag, False), bool)]
    if odd:
        yield 0, f"{odd[0]!r} is {marks[odd[0]]!r} in its nbgrader metadata", "write true or false", True
        return
    grade, solution, task = (bool(marks.get(flag)) for flag in ("grade", "solution", "task"))
    if not any(map(marks.get, FLAGS)):
        return
    name = marks.get("grade_id")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield 0, f"its grade_id is {name!r}", "give it a name of letters, digits, - and _", True
    if grade or task:
        yield from _of_points(marks.get("points"))
    if task and cell_type != "markdown":
        yield 0, "a task has to be a Markdown cell", "change its type, or its mark", True
    elif cell_type == "markdown" and not task and grade != solution:
        yield 0, "a Markdown cell that is graded is read by a person", "mark it as a manually graded answer", True


def _of_points(points: Any) -> Iterator[Said]:
    """Older versions of nbgrader wrote them as text, which it still reads."""
    try:
        number = math.nan if isinstance(points, bool) else float(points)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        said = "it has no points" if points is None else f"its points are {points!r}"
        yield 0, said, "write a number from 0 upwards into its Points", True


def _of_regions(text: str, marks: Mapping[str, Any]) -> Iterator[Said]:
    """What is to be cut out of the release has a beginning and an end, and stands in a cell of its kind."""
    for begin, end, mark, kind, called in REGIONS:
        opened, closed = 0, False  # closed: by the last line that isn't blank
        for line, written in enumerate(text.splitlines(), start=1):
            if begin in written:
                if opened:
                    yield line, f"{begin!r} stands twice before {end!r}", f"write `### {end}` before it", True
                elif not marks.get(mark):
                    yield line, f"{begin!r} stands in a cell that isn't {kind}", f"mark the cell as {called}", True
                opened = line
            elif end in written:
                if closed and not opened:  # nothing stands between the two: nbgrader cuts all that it should
                    yield line, f"{end!r} stands twice", "take one of them away", False
                elif not opened:
                    yield line, f"{end!r} without {begin!r}", f"write `### {begin}` before it", True
                opened = 0
            closed = end in written or (closed and not written.strip())
        if opened:
            yield opened, f"{begin!r} without {end!r}", f"write `### {end}` where it ends", True


def _of_python(text: str, marks: Mapping[str, Any]) -> Iterator[Said]:
    solution, grade = bool(marks.get("solution")), bool(marks.get("grade"))
    error = _syntax_error(text)
    if error is not None:
        kind = "the solution" if solution else "the test" if grade else "this"
        cure = "correct it" if solution or grade else "correct it, or make it a text cell"
        yield error.lineno or 0, f"{kind} isn't Python ({error.msg})", cure, solution or grade
    elif grade and not solution and (error := _syntax_error(released(text))) is not None:
        what = f"without its hidden part, which is how students get it, the test isn't Python ({error.msg})"
        yield error.lineno or 0, what, "hide whole statements, or leave a `pass`", True


def _syntax_error(text: str) -> SyntaxError | None:
    """IPython's own syntax is none; of `%%time` and its like what it runs is looked at."""
    body = BODY_IS_PYTHON.sub("pass\n", text)
    try:
        names_in(plain(body))
    except SyntaxError as error:
        return error
    except ValueError as error:  # a null byte
        return SyntaxError(str(error))
    return None


# ---------------------------------------------------------------------- with what nbgrader has made of it


def of_names(notebook: Notebook, document: Mapping[str, Any]) -> list[Remark]:
    """Names that nobody gives a value, only tests do, or a cell beside the answers; constants that change in vain."""
    unknown = [
        Remark(notebook.name, f"cell {cell!r}", line, UNKNOWN.format(name=name), UNKNOWN_CURE)
        for cell, name, line in notebook.naming.unknown
    ]
    cells = document["cells"]
    beside = [*_of_borrowed(notebook, cells), *_of_constants(notebook, cells), *_of_computed(notebook, cells)]
    return [*unknown, *beside, *_of_branches(notebook, cells)]


def _of_borrowed(notebook: Notebook, cells: Sequence[Mapping[str, Any]]) -> Iterator[Remark]:
    """Names that answers and given cells read, although only tests bind them: in one kernel that would work."""
    read = [(place, cell, list(_statements(cell))) for place, cell in placed(cells)]
    tests = [(cell, one) for _, cell, every in read if _is_test(cell) for one in every if not one.imports]
    only = {name: _marks(cell)["grade_id"] for cell, one in tests for name in one.binds if not hasattr(builtins, name)}
    others = [(place, cell, one) for place, cell, every in read if not _is_test(cell) for one in every]
    bound = {name for _, _, one in others for name in one.binds | one.rebinds}
    seen = set[tuple[str, str]]()
    for place, cell, one in others:
        for name in sorted(one.uses & only.keys() - bound):
            if (place, name) in seen:
                continue
            seen.add((place, name))
            what, line = BORROWED.format(name=name, test=f"cell {only[name]!r}"), _line_of(name, _text(cell), one.line)
            yield Remark(notebook.name, called(place, _marks(cell)), line, what, BORROWED_CURE, stops=False)


def _line_of(name: str, text: str, first: int) -> int:
    """
    >>> _line_of("y", "y = 1\\ndef f():\\n    return x + y", 2)
    3
    """
    named = (node for node in ast.walk(ast.parse(plain(text))) if isinstance(node, ast.Name) and node.id == name)
    return min((node.lineno for node in named if node.lineno >= first), default=first)


def _statements(cell: Mapping[str, Any]) -> Iterator[Statement]:
    if cell["cell_type"] == "code":
        with suppress(SyntaxError, ValueError):  # said before
            yield from statements(plain(_text(cell)))


def _is_test(cell: Mapping[str, Any]) -> bool:
    return bool(_marks(cell).get("grade")) and not _marks(cell).get("solution")


def _marks(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    found = cell["metadata"].get("nbgrader")
    return found if isinstance(found, Mapping) else {}


def _text(cell: Mapping[str, Any]) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def _of_computed(notebook: Notebook, cells: Sequence[Mapping[str, Any]]) -> Iterator[Remark]:
    """What a cell of the release computes with an answer, and a test reads; but for an object of an answer's class."""
    read = [(place, cell, list(_statements(cell))) for place, cell in placed(cells)]
    answered = {name for _, cell, every in read if _marks(cell).get("solution") for one in every for name in one.binds}
    tests = [(_marks(cell)["grade_id"], every) for _, cell, every in read if _is_test(cell)]
    reader = {name: grade_id for grade_id, every in reversed(tests) for one in every for name in one.uses}
    theirs = {*notebook.naming.asked} - answered
    for place, cell, every in read:
        if _marks(cell).get("solution") or _is_test(cell):
            continue
        for one in every:
            for name in sorted(one.binds & theirs & reader.keys()):
                if _computes(one.text, notebook.naming.classes):
                    what = COMPUTED.format(name=name, test=f"cell {reader[name]!r}")
                    where = called(place, _marks(cell))
                    yield Remark(notebook.name, where, one.line, what, COMPUTED_CURE, stops=False)


def _computes(text: str, classes: Collection[str]) -> bool:
    """Does a statement call something, other than to make an object of one of these classes?

    >>> [_computes(text, {"Net"}) for text in ("net = Net(3)", "losses = train(net)", "n = 3")]
    [False, True, False]
    """
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return any(getattr(called, "id", "") not in classes for called in calls)


def _of_constants(notebook: Notebook, cells: Sequence[Mapping[str, Any]]) -> Iterator[Remark]:
    """A constant of an unlocked cell that a test reads, and that asks to be changed."""
    ours = {name for _, setup in notebook.naming.setup for one in setup for name in names_in(one).bound}
    for place, cell in placed(cells):
        if cell["cell_type"] != "code" or _marks(cell).get("grade_id"):
            continue
        for name, line in _asking(_text(cell)):
            if name in ours:
                what = CONSTANT.format(name=name)
                yield Remark(notebook.name, place, line, what, CONSTANT_CURE, stops=False)


def _asking(text: str) -> Iterator[tuple[str, int]]:
    """Constants with a placeholder for a value, or with words beside them that ask for a change, and their lines.

    >>> list(_asking("n = 3\\nrate = 0.1  # try another\\nname = ..."))
    [('rate', 2), ('name', 3)]
    """
    try:
        tree, lines = ast.parse(plain(text)), text.splitlines()
    except (SyntaxError, ValueError):
        return
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign) and _is_constant(node.value):
            around = lines[max(0, node.lineno - 2) : node.end_lineno] if len(lines) >= node.lineno else []
            comments = " ".join(line.partition("#")[2] for line in around)
            if _is_placeholder(node.value) or TO_CHANGE.search(comments):
                yield target.id, node.lineno


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _is_placeholder(node: ast.expr) -> bool:
    value = ast.literal_eval(node)
    return value is None or value is ... or value == "" or (isinstance(value, str) and bool(TO_CHANGE.search(value)))


def of_checks(notebook: str, cells: Sequence[Mapping[str, Any]]) -> list[Remark]:
    """Checks that an answer comes past, by the author's cells alone: whose names are, no gradebook needs to say."""
    code = [(cell, _marks(cell)) for cell in cells if cell["cell_type"] == "code"]
    roles = ["answer" if marks.get("solution") else "test" if _is_test(cell) else "given" for cell, marks in code]
    told = zip(roles, code, strict=True)
    found = [Written(role, (_text(cell),), str(marks.get("grade_id", ""))) for role, (cell, marks) in told]
    whose = Notebook(notebook, "", (), naming(found, complete="answer" in roles))
    return [*_of_branches(whose, cells)]


def _of_branches(notebook: Notebook, cells: Sequence[Mapping[str, Any]]) -> Iterator[Remark]:
    """Checks that an answer comes past where a test goes one way or another by what it has given, or by its error."""
    for place, cell in placed(cells):
        if cell["cell_type"] != "code" or not _is_test(cell):
            continue
        with suppress(SyntaxError, ValueError):  # said before
            for line, what, cure in _passed_by(ast.parse(plain(_text(cell))), notebook.naming.asked):
                yield Remark(notebook.name, called(place, _marks(cell)), line, what, cure, stops=False)


def _passed_by(tree: ast.AST, asked: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """
    >>> cell = "out = f(1)\\nif isinstance(out, tuple):\\n    {}\\nassert out"
    >>> ways = ("assert out", "out = 1", "assert 0")
    >>> [[line for line, *_ in _passed_by(ast.parse(cell.format(way)), {"f"})] for way in ways]
    [[3], [], []]
    """
    theirs = _given_by(tree, asked)
    once = {id(node) for node in _not_repeated(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _names(node.test) & theirs:
            cases = [[*checks_in(case)] for case in (node.body, node.orelse)]
            raises = any(isinstance(part, ast.Raise) for case in (node.body, node.orelse) for part in case)
            if not all(cases) and any(cases) and not raises:
                line = min(check.lineno for case in cases for check in case)  # type: ignore[attr-defined]  # they have one
                yield line, PASSED_BY.format(line=node.lineno), PASSED_BY_CURE
        elif isinstance(node, ast.Try) and any(_names(part) & theirs for part in node.body):
            past = [
                *checks_in(node.body),
                *([] if id(node) in once and allows_an_error(node) else checks_in(node.orelse)),
            ]
            if past and any(map(_swallows, node.handlers)):
                line = min(check.lineno for check in past)  # type: ignore[attr-defined]  # they have one
                yield line, RAISED_PAST.format(line=node.lineno), RAISED_PAST_CURE


def _not_repeated(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes that lie in no loop and no function."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, REPEATED):
            yield from _not_repeated(node)


def _given_by(tree: ast.AST, asked: Collection[str]) -> set[str]:
    """The names that were asked for, and those that are made of what they give."""
    found = {*asked}
    for node in ast.walk(tree):
        made = getattr(node, "value", None) if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) else None
        made = node.iter if isinstance(node, ast.For) else made
        if made is not None and _names(made) & found:
            targets = getattr(node, "targets", None) or [getattr(node, "target", node)]
            found |= {name for target in targets for name in _names(target)}
    return found


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _swallows(clause: ast.ExceptHandler) -> bool:
    """Does the test go on after this error, without a check?"""
    return not any(checks_in(clause.body)) and not any(isinstance(part, ast.Raise) for part in ast.walk(clause))
