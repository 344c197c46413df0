"""Whose a name is: the test's own names are never asked of a student, and an asked one is shared as in one process."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from nbjudge.course.naming import Naming, Written, naming
from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment, Ending, Outcome
from nbjudge.process.zygote import Zygote
from nbjudge_tests.trials import LIMITS, answer, cell, check, locked, mine, notebook, only, printed, run, stock_points

SQUARES = "def squares(n): return [i ** 2 for i in range(1, n + 1)]"


def judged(zygote: Zygote, *cells: dict[str, Any], **more: Any) -> Outcome:
    return only(run(zygote, *cells, **more))


# ---------------------------------------------------------------------- the test's own names

GIVEN = """import torch
import numpy as np
from math import isclose
LIMIT = 1e-6
def near(a, b): return abs(a - b) < LIMIT"""
CHEATS = {
    "torch": (
        "torch.allclose(torch.tensor(f(3.0)), torch.tensor(9.0))",
        "class torch: allclose = tensor = lambda *a: True",
    ),
    "np": ("np.allclose(f(3.0), 9.0)", "class np: allclose = staticmethod(lambda *a: True)"),
    "a function": ("isclose(f(3.0), 9.0)", "def isclose(*a): return True"),
    "a helper": ("near(f(3.0), 9.0)", "def near(*a): return True"),
    "a constant": ("abs(f(3.0) - 9.0) < LIMIT", "LIMIT = 1e9"),
    "a constant of a helper": ("near(f(3.0), 9.0)", "LIMIT = 1e9"),
}


@pytest.mark.parametrize(
    "given", [cell(GIVEN), locked(GIVEN), cell(f"{GIVEN}\nf(2.0)"), locked(f"{GIVEN}\nshown = f(2.0)")]
)
@pytest.mark.parametrize("name", CHEATS)
def test_what_the_release_gives_is_never_the_student_s(name: str, given: dict[str, Any], zygote: Zygote) -> None:
    test, cheat = CHEATS[name]
    right = "def f(x): return x * x"
    cells = (given, answer(f"def f(x): return 0.0\n{cheat}"), mine(cheat), check(f"assert {test}"))
    assert judged(zygote, *cells, reference=right).kind is Ending.FAILED
    assert judged(zygote, given, answer(right), check(f"assert {test}")).kind is Ending.PASSED


def test_what_an_answer_imports_has_to_be_there_and_is_the_judge_s_own(zygote: Zygote) -> None:
    test, right = check("assert np.allclose(f(3.0), 9.0)"), "import numpy as np\ndef f(x): return x * x"
    cheat = "class np: allclose = staticmethod(lambda *a: True)\ndef f(x): return 0.0"
    assert judged(zygote, answer(right), test).kind is Ending.PASSED
    assert judged(zygote, answer(cheat), test, reference=right).kind is Ending.FAILED
    missing = judged(zygote, answer("def f(x): return x * x"), test, reference=right)
    assert missing.message == "NameError: name 'np' is not defined"


def test_no_name_of_a_hidden_variable_reaches_the_student_s_process(zygote: Zygote) -> None:
    spy = (
        "import sys\ndef f(x):\n    print(sorted(k for k in sys._getframe(0).f_globals if 'hidden' in k))\n    return 9"
    )
    spying = f"{spy}\nfrom nbjudge.bridge import peer\nheard = []\nown = peer.Peer.answer\n" + (
        "def answer(self, packet):\n    heard.append(dict(packet.header))\n    return own(self, packet)\n"
        "peer.Peer.answer = answer"
    )
    test = "### BEGIN HIDDEN TESTS\nhidden_want = 9\nassert f(3) == hidden_want\n### END HIDDEN TESTS"
    cells = (answer(spying), check(test), mine("print('hidden_want' in repr(heard), bool(heard))"))
    ran = run(zygote, *cells, reference="def f(x): return x * x")
    assert printed(ran, 1) == "[]\n"
    assert printed(ran, 2) == "False True\n"


# ---------------------------------------------------------------------- asked names, shared

DELETED = "del squares\ntry:\n    total(1)\nexcept NameError:\n    pass\nelse:\n    raise AssertionError"
ONE_PROCESS = {  # answer, tests, right?
    "deleted": (
        f"{SQUARES}\ndef total(n): return sum(squares(n))",
        f"kept = squares\n{DELETED}\nfinally:\n    squares = kept",
        "assert total(3) == 14",
    ),
    "replaced": (
        f"{SQUARES}\ndef total(n): return sum(squares(n))",
        "kept = squares\ncalls = []\ndef squares(n):\n    calls.append(n)\n    return [1, 2]\n"
        "assert total(5) == 3 and calls == [5]\nsquares = kept",
        "assert total(3) == 14",
    ),
    "not used": (
        f"{SQUARES}\ndef total(n): return sum(i * i for i in range(n + 1))",
        DELETED,
        "assert total(3) == 14",
    ),
    "counted": (
        "count = 0\ndef tick():\n    global count\n    count += 1",
        "tick(); tick()\nassert count == 2",
        "count = 5\ntick()\nassert count == 6",
    ),
    "bound anew by an answer": (
        "log = []\ndef begin(x):\n    global log\n    log = [x]",
        "log = [9]\nassert log == [9]",
        "begin(3)\nassert log == [3]",
    ),
    "bound anew while a test runs": (
        "log = []\ndef begin(x):\n    global log\n    log = [x]",
        "log = [9]\nbegin(2)\nassert log == [2]",
        "assert log == [2]\nlog = []\nbegin(3)\nassert log == [3]",
    ),
    "bound anew, and used by another": (
        "log = []\ndef begin():\n    global log\n    log = []\ndef note(x): log.append(x)",
        "log = [9]\nbegin(); note(1)\nassert log == [1]",
        "note(2)\nassert log == [1, 2]\nlog = [4]\nbegin()\nassert log == []",
    ),
    "constant": (
        "rate = 2\ndef price(x): return rate * x",
        "rate = 5\nassert price(2) == 10",
        "assert price(2) == 10 and rate == 5",
    ),
    "in globals": (
        "x = 3\ny = None",
        "assert 'x' in globals() and 'z' not in globals() and globals()['x'] == 3",
        "assert eval('x') == 3 and 'y' in dir()",
    ),
    "method": (
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
        "s = Stack()\ns.push(1)",
        "s.push(2)\nassert s.items == [1, 2]",
        "assert s.items == [1, 2]",
    ),
    "data changed": ("data.append(3)", "assert data == [1, 2, 3]", "assert sum(data) == 6"),
    "a given class": (
        "def turned(node):\n    found = None\n    while node:\n        found = Node(node.value, found)\n"
        "        node = node.next\n    return found",
        "found = turned(Node(1, Node(2)))\nassert (found.value, found.next.value, found.next.next) == (2, 1, None)",
        "node = Node(3)\nassert turned(node).value == 3 and isinstance(turned(node), Node)",
    ),
    "a given class that no answer names": (
        "def total(tree): return 0 if tree is None else total(tree.left) + tree.value + total(tree.right)",
        "assert total(grown([2, 1, 3])) == 6 and total(empty) == 0",
        "tree = None\nfor n in range(50): tree = Tree(n, tree)\nassert total(tree) == sum(range(50))",
    ),
    "a given base": (
        "class Square(Shape):\n    def area(self): return 4",
        "assert Square().twice() == 8 and isinstance(Square(), Shape) and issubclass(Square, Shape)",
        "try:\n    Shape().area()\nexcept NotImplementedError: pass\nelse: assert False",
    ),
    "a given error": (
        "def pay(n):\n    if n > 5: raise Broke(f'no {n}')\n    return n",
        "try:\n    pay(6)\nexcept Broke as error: assert str(error) == 'no 6'\nelse: assert False",
        "assert pay(5) == 5",
    ),
    "a given enumeration": (
        "def other(colour): return Colour.RED if colour is Colour.BLUE else Colour.BLUE",
        "assert other(Colour.RED) is Colour.BLUE and other(Colour.BLUE) == Colour.RED",
        "assert isinstance(other(Colour.RED), Colour) and other(Colour.RED).value == 2",
    ),
    "a given data class": (
        "def middle(a, b):\n    assert isinstance(a, Point)\n    return Point((a.x + b.x) / 2, (a.y + b.y) / 2)",
        "assert middle(Point(0, 0), Point(2, 4)) == Point(1, 2)",
        "assert isinstance(middle(Point(0, 0), Point(2, 4)), Point)",
    ),
    "imported by both": (
        "from collections import Counter\ndef count(text): return Counter(text)",
        "from collections import Counter\nassert count('aab') == Counter('aab')",
        "import collections\nassert count('aab') == collections.Counter('aab')",
    ),
    "a wrapped function": (
        "import functools\ndef loud(f):\n    @functools.wraps(f)\n    def g(x): return f(x).upper()\n    return g",
        "@loud\ndef hello(x):\n    'Greets.'\n    return 'hello ' + x\nassert hello.__name__ == 'hello'",
        "@loud\ndef hello(x):\n    'Greets.'\n    return x\n"
        "assert (hello.__name__, hello.__doc__) == ('hello', 'Greets.')",
    ),
    "an error that a manager is told of": (
        "class Quiet:\n    def __init__(self, *kinds): self.kinds = kinds\n    def __enter__(self): return self\n"
        "    def __exit__(self, kind, error, trace): return kind is not None and issubclass(kind, self.kinds)\n"
        "def check(n):\n    if n < 0: raise ValueError('negative')\n    return n",
        "with Quiet(ValueError): check(-1)\nassert check(1) == 1",
        "try:\n    with Quiet(KeyError): check(-1)\nexcept ValueError: pass\nelse: assert False",
    ),
    "a module's function taken away": (
        "import numpy as np\ndef solved(a, b): return np.linalg.solve(a, b)",
        "import numpy as np\nkept = np.linalg.solve\nnp.linalg.solve = None\n"
        "try:\n    solved(np.eye(2), np.ones(2))\nexcept TypeError:\n    pass\nelse:\n    raise AssertionError\n"
        "finally:\n    np.linalg.solve = kept",
        "assert (solved(np.eye(2), np.ones(2)) == 1).all()",
    ),
    "a large number": (
        "def factorial(n): return n * factorial(n - 1) if n else 1",
        "import math\nassert factorial(900) == math.factorial(900)",
        "assert factorial(5) == 120",
    ),
}
GIVEN_THERE = {
    "a given class": "class Node:\n    def __init__(self, value, next=None): self.value, self.next = value, next",
    "a given base": "class Shape:\n    def area(self): raise NotImplementedError\n"
    "    def twice(self): return 2 * self.area()",
    "a given class that no answer names": """
class Tree:
    def __init__(self, value, left=None, right=None): self.value, self.left, self.right = value, left, right
def grown(values):
    tree = None
    for value in values: tree = put(tree, value)
    return tree
def put(tree, value):
    if tree is None: return Tree(value)
    if value < tree.value: tree.left = put(tree.left, value)
    else: tree.right = put(tree.right, value)
    return tree
empty = Tree(0)""",
    "a given error": "class Broke(Exception): pass",
    "a given enumeration": "import enum\nclass Colour(enum.Enum):\n    RED = 1\n    BLUE = 2",
    "a given data class": "from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: float\n    y: float",
}


@pytest.fixture(scope="module")
def stock() -> dict[str, list[float]]:
    """All in one stock notebook, one after the other: a kernel start costs seconds."""
    cells = [content for name in ONE_PROCESS for content in (cell("%reset -f"), *shared(name))]
    points = iter(stock_points(cells))
    return {name: [next(points), next(points)] for name in ONE_PROCESS}


def shared(name: str) -> list[dict[str, Any]]:
    source, first, second = ONE_PROCESS[name]
    given = cell(GIVEN_THERE.get(name, "data = [1, 2]"))
    return [given, answer(source), check(first, "a"), check(second, "b")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_PROCESS)
def test_as_in_one_process(name: str, zygote: Zygote, stock: dict[str, list[float]]) -> None:
    outcomes = run(zygote, *shared(name)).outcomes
    assert [outcome.points for outcome in outcomes] == stock[name], outcomes
    assert any(stock[name])


# ---------------------------------------------------------------------- read from the source


def of(*cells: str | Written) -> Naming:
    """`a: …` is an answer, `t: …` a test, anything else is given."""
    made = []
    for number, one in enumerate(cells):
        role, _, source = str(one).partition(": ")
        known = {"a": "answer", "t": "test"}.get(role)
        made.append(Written(known or "given", (source if known else str(one),), f"q{number}"))
    return naming(made)


def test_a_statement_of_the_release_that_uses_an_answer_is_the_answer_s_and_the_next_one_isn_t() -> None:
    found = of("a: def f(x): return x", "n = 3\ny = f(n)\nz = y + 1\nk = n + 1", "t: assert (y, z, k) == (3, 4, 4)")
    assert found.asked == ("f", "y", "z")
    assert found.setup == (("q2", ("n = 3", "k = n + 1")),)


def test_only_what_tests_need_is_run_twice() -> None:
    given = "import math, random\nrandom.seed(0)\nbig = [random.random() for _ in range(9)]\nplot(big)\nr = math.pi"
    assert of(given, "t: assert f(r) == 1").setup == (("q1", ("import math, random", "r = math.pi")),)
    assert "random.seed(0)" in of(given, "t: assert f(big) == 1").setup[0][1]


def test_a_constant_that_an_answer_changes_is_asked() -> None:
    assert of("x = [1]\ny = [1]", "a: x.append(2)\nx[0] = 3", "t: assert x == y").asked == ("x",)
    assert of("import torch", "a: torch.manual_seed(0)", "t: torch.ones(2)").asked == ()


def test_a_magic_s_body_is_python() -> None:
    assert of("a: %%time\nx = 3", "%%capture out\nf(x)", "t: assert x == 3").asked == ("out", "x")


def test_a_name_that_nobody_gives_a_value_is_known_with_its_line() -> None:
    found = of("import math", "a: f = 1", "t: helper = 2", "t: x = 1\nassert f == x\nassert helper == wanted(math.pi)")
    assert found.unknown == (("q3", "wanted", 3),)


def test_such_a_name_is_the_author_s_mistake(zygote: Zygote) -> None:
    outcome = judged(
        zygote, answer("def f(x): return x\nwanted = 9"), check("assert f(9) == wanted"), reference="def f(x): return x"
    )
    assert (outcome.kind, outcome.points) == (Ending.GRADER_FAILURE, None)
    assert "'wanted'" in outcome.message


def test_a_helper_of_the_release_may_pass_on_a_tensor_with_a_hook_of_the_answer_s(zygote: Zygote) -> None:
    """Nobody holds the answer's tensor any more when the graph calls its hook."""
    given = cell("import torch\ndef beside(x):\n    (limited(x) + 1).sum().backward()\n    return x.grad")
    source = "def limited(x):\n    y = x * 3\n    y.register_hook(lambda grad: grad * 2)\n    return y"
    test = "x = torch.ones(2, requires_grad=True)\nassert beside(x).tolist() == [6, 6]"
    assert judged(zygote, given, answer(source), check(test)).kind is Ending.PASSED


# ---------------------------------------------------------------------- imports, as one kernel would share them


def test_what_only_a_test_imports_is_there_for_the_answers_too(zygote: Zygote) -> None:
    """The solution calls a function that nobody but the test has imported: in one kernel that works."""
    right = "class Log:\n    def keep(self, row): return deepcopy(row)\n    def size(self, row): return floor(row)"
    test = "from copy import deepcopy\nfrom math import floor\nrow = [[1]]\nassert Log().keep(row) == row"
    later = "assert Log().size(2.5) == 2"
    cells = (answer(right), check(test, "q1"), check(later, "q2"))
    assert [one.kind for one in run(zygote, *cells).outcomes] == [Ending.PASSED] * 2
    assert stock_points(list(cells)) == [1, 1]


def test_an_import_of_a_test_s_own_stays_with_the_test() -> None:
    found = naming([Written("answer", ("def f(x): return x",)), Written("test", ("import math\nassert f(1)",), "q")])
    assert found.brought == ()


def test_all_imports_of_a_package_come_with_one_of_them(zygote: Zygote) -> None:
    """`import xml` alone gives no `xml.dom`; the release's other import of that package does."""
    given = cell("import xml.dom.minidom as dom\nimport json as unused")
    test = check("import xml\nassert xml.dom.minidom.parseString(f()).documentElement.tagName == 'a'")
    cells = (given, answer("def f(): return '<a/>'"), test)
    assert judged(zygote, *cells).kind is Ending.PASSED


def test_the_course_s_own_module_beside_the_notebook_can_be_imported(zygote: Zygote) -> None:
    own = {"checks_of_ours.py": b"def demand_nine(value):\n    assert value == 9, 'not nine'\n"}
    test = check("from checks_of_ours import demand_nine\ndemand_nine(f(3))")
    for right, kind in (("def f(x): return x * x", Ending.PASSED), ("def f(x): return x", Ending.FAILED)):
        book = notebook(answer(right), test)
        ran = run_notebook(zygote, book, dict(own), Assignment("", (), 5, LIMITS, files=own))
        assert only(ran).kind is kind, only(ran)


def test_a_module_of_the_student_s_is_none_of_the_test_s(zygote: Zygote) -> None:
    theirs = {"checks_of_ours.py": b"def demand_nine(value): pass\n"}
    test = check("from checks_of_ours import demand_nine\ndemand_nine(f(3))")
    ran = run(zygote, answer("def f(x): return x"), test, files=theirs)
    assert only(ran).kind is Ending.GRADER_FAILURE


def test_a_course_s_module_that_an_answer_imports_keeps_its_state_where_the_answer_is(zygote: Zygote) -> None:
    own = {"counting.py": b"seen = set()\ndef mark(n): seen.add(n)\ndef is_marked(n): return n in seen\n"}
    test = check("assert is_marked(3) and not is_marked(4)")
    for right, kind in (("mark(3)", Ending.PASSED), ("mark(4)", Ending.FAILED)):
        book = notebook(answer(f"from counting import is_marked, mark\n{right}"), test)
        ran = run_notebook(zygote, book, dict(own), Assignment("", (), 5, LIMITS, files=own))
        assert only(ran).kind is kind, only(ran)


def test_a_name_that_is_missing_only_where_an_answer_is_wrong_is_a_failed_test(zygote: Zygote) -> None:
    """The reference was through: who raises an exception that nobody has defined has found something wrong."""
    test = check("if f(3) != 9:\n    raise WrongAnswer(f(3))")
    right = "def f(x): return x * x"
    wrong = judged(zygote, answer("def f(x): return x"), test, beside=right)
    assert (wrong.kind, wrong.message) == (Ending.FAILED, "NameError: name 'WrongAnswer' is not defined")
    unknown = judged(zygote, answer("def f(x): return x"), test)
    assert (unknown.kind, unknown.points) == (Ending.GRADER_FAILURE, None)


def test_a_module_that_an_answer_imports_is_no_answer_when_the_release_calls_it() -> None:
    """`plt.plot(xs)` of the release changes no `plt`: a test that looks at the module has the judge's own."""
    answers = [Written("answer", ("import math as m",)), Written("answer", ("xs = [1, 2]",))]
    found = naming([*answers, Written("given", ("m.fsum(xs)",)), Written("test", ("assert m.pi > xs[0]",), "q")])
    assert (found.asked, found.imported) == (("xs",), (("m", "import math as m"),))


def test_what_only_a_test_binds_and_its_history_are_the_test_s_own(zygote: Zygote) -> None:
    cells = (answer("secret_answer = 3\ndef f(): return WANT"), check("WANT = 3\nassert f() == 3", "q1"))
    first, second = run(zygote, *cells, check("assert 'secret_' + 'answer' not in repr(In)", "q2")).outcomes
    assert (first.kind, first.message) == (Ending.FAILED, "NameError: name 'WANT' is not defined")
    assert second.kind is Ending.PASSED


READY = "EPS = 1e-6\ndef close(a, b): return abs(a - b) < EPS\n"
TODO = "def root(x): raise NotImplementedError"


@pytest.mark.parametrize(
    ("released", "solved", "asked"),
    [
        (READY + TODO, READY + "def root(x): return x**0.5", ("root",)),
        ("n = 3", "n = 3", ("n",)),  # without a place to fill in the cell as a whole is the answer
        ("n = 3\n" + TODO, "n = 3\nn = 4\ndef root(x): return x", ("n", "root")),
        ("n = 3\n" + TODO, "n = 3\ndef root(x):\n    global n\n    n = x", ("n", "root")),
        ("xs = [3]\n" + TODO, "xs = [3]\ndef root(x): return x", ("root",)),
        ("xs = [3]\n" + TODO, "xs = [3]\ndef root(x): xs.append(x)", ("root", "xs")),
        ("import functools\n@functools.cache\ndef g(x): return x\n" + TODO,) * 2 + (("g", "root"),),
        (
            "import functools\n@functools.cache\ndef g(x): return x\n" + TODO,
            "import functools\n@functools.cache\ndef g(x): return x\ndef root(x): return x",
            ("root",),
        ),
        ("def g(x): return root(x)\n" + TODO, "def g(x): return root(x)\ndef root(x): return x", ("g", "root")),
        ("class A: pass\n" + TODO, "class A: pass\ndef root(x): return A()", ("A", "root")),
    ],
)
def test_what_stands_ready_in_an_answer_cell_is_given(released: str, solved: str, asked: tuple[str, ...]) -> None:
    test = Written("test", ("assert close(root(4), 2)",), "q")
    assert naming([Written("answer", (released, solved)), test]).asked == asked


@pytest.mark.parametrize("cheat", ["def close(a, b): return True", "EPS = 1e9\ndef close(a, b): return a - b < EPS"])
def test_an_answer_cannot_replace_a_helper_that_its_cell_was_given_with(cheat: str, zygote: Zygote) -> None:
    rows = [Written("answer", (READY + TODO, READY + "def root(x): return x**0.5"))]
    test = check("assert close(root(4), 2)")
    book = notebook(answer(cheat + "\ndef root(x): return x"), test)
    book["metadata"]["naming"] = asdict(naming([*rows, Written("test", (test["source"],), "q")]))
    assert only(run_notebook(zygote, book, {}, Assignment("", (), 5, LIMITS))).kind is Ending.FAILED


def test_of_what_a_test_has_read_nothing_is_asked_when_the_next_one_begins(zygote: Zygote) -> None:
    source = """
class Heard:
    x = 3
    asked = []
    def __getattr__(self, name):
        Heard.asked.append(name)
        raise AttributeError(name)
it, told = Heard(), Heard.asked
"""
    cells = (check("assert it.x == 3", "a"), check("assert it.x == 3 and not told", "b"))
    assert {one.kind for one in run(zygote, answer(source), *cells).outcomes} == {Ending.PASSED}


def test_an_object_where_data_belongs_fails_one_question_after_the_other(zygote: Zygote) -> None:
    source = "class Mine: pass\ndata = Mine()"
    tests = [check("assert data[0] == 1", name) for name in ("a", "b", "c")]
    outcomes = run(zygote, answer(source), *tests, beside="data = [1]").outcomes
    assert {(one.kind, one.points) for one in outcomes} == {(Ending.FAILED, 0.0)}, outcomes


def test_a_given_class_whose_objects_stay_with_the_test_is_the_test_s(zygote: Zygote) -> None:
    given = "class Near:\n    def __init__(self, x): self.x = x\n    def __eq__(self, x): return abs(self.x - x) < 0.1"
    cheat = "class Near:\n    def __init__(self, x): pass\n    def __eq__(self, x): return True\ndef f(x): return 0"
    cells = (locked(given), answer(cheat), check("assert Near(9) == f(3)"))
    found = judged(zygote, *cells, reference="def f(x): return x * x")
    assert (found.kind, found.claims) == (Ending.FAILED, ())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("torch.set_grad_enabled(False)", "a call that leaves the recording of gradients switched"),
        ("torch.set_default_dtype(torch.float64)", "a call that leaves another default dtype"),
    ],
)
def test_what_a_call_leaves_of_torch_s_modes_is_not_passed_over(line: str, said: str, zygote: Zygote) -> None:
    """In one process the test goes on with it; here it would never learn of it."""
    right = "import torch\ndef f(x): return x * 2"
    test = check("import torch\nfor n in (2.0, 3.0):\n    assert torch.equal(f(torch.tensor(n)), torch.tensor(2 * n))")
    left = judged(zygote, answer(right.replace("return", f"{line}; return")), test, reference=right)
    assert (left.kind, left.points) == (Ending.GRADER_FAILURE, None)
    assert said in left.message
    assert judged(zygote, answer(right), test).kind is Ending.PASSED


@pytest.mark.parametrize("given", [False, True], ids=["by an answer", "by the release"])
@pytest.mark.parametrize(
    ("line", "ours", "asserted", "said"),
    [
        (
            "torch.set_grad_enabled(False)",
            "torch.set_grad_enabled(True)",
            "not f(x).requires_grad",
            "a cell that leaves the recording of gradients switched off",
        ),
        (
            "torch.set_default_dtype(torch.float64)",
            "torch.set_default_dtype(torch.float16)",
            "(f(x) + torch.ones(2)).dtype == torch.float64",
            "a cell that leaves another default dtype",
        ),
    ],
    ids=["gradients", "dtype"],
)
def test_what_a_cell_leaves_of_torch_s_modes_is_not_passed_over(
    line: str, ours: str, asserted: str, said: str, given: bool, zygote: Zygote
) -> None:
    """What the test itself sets is the test's, here and there."""
    right = "import torch\ndef f(x): return x * 2"
    asked = f"import torch\nx = torch.ones(2, requires_grad=True)\nassert {asserted}\n"
    test = check(f"{asked}{ours}\nassert f(torch.ones(1)).item() == 2.0\n{line}")
    off = f"import torch\n{line}\n"
    cells = (locked(off), answer(right)) if given else (answer(off + right),)
    found = judged(zygote, *cells, test, reference=right)
    if given:  # both processes run it
        assert found.kind is Ending.PASSED, found
    else:
        assert found.kind is Ending.GRADER_FAILURE, found
        assert said in found.message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("torch.set_grad_enabled(False)", "a cell that leaves the recording of gradients switched off"),
        ("torch.set_default_dtype(torch.float64)", "a cell that leaves another default dtype"),
    ],
)
def test_where_no_tensor_is_exchanged_nobody_minds_a_mode(line: str, said: str, zygote: Zygote) -> None:
    right = """import torch
def double(n): return 2 * n
def third(): return (torch.ones(1) / 3).item()
def made(): return torch.ones(2)
def inside(xs): return len(xs)
def called(f): return f(torch.ones(1))
class Net(torch.nn.Module):
    def size(self): return 3"""
    tests = {
        "numbers": "assert double(3) == 6 and abs(third() - 1 / 3) < 1e-6 and Net().size() == 3",
        "lists": "xs = [1, 2]\nassert double(xs) == [1, 2, 1, 2]",
        "given": "import torch\nassert double(torch.ones(1)).item() == 2",
        "given back": "assert made().shape == (2,)",
        "inside": "import torch\nassert inside([torch.ones(1)]) == 1",
        "to a test's function": "assert called(lambda x: len(x)) == 1",
    }
    right = right.replace("return 2 * n", "return n * 2")
    cells = [check(test, name) for name, test in tests.items()]
    ended = run(zygote, answer(f"import torch\n{line}\n{right}"), *cells, reference=right).outcomes
    assert [one.kind for one in ended[:2]] == [Ending.PASSED] * 2, ended
    assert [one.kind for one in ended[2:]] == [Ending.GRADER_FAILURE] * 4, ended
    assert all(said in one.message for one in ended[2:]), ended


def test_its_own_numbers_are_those_of_its_own_mode_then(zygote: Zygote) -> None:
    right = "import torch\ndef third(): return (torch.ones(1) / 3).item()"
    exact = check("assert third() == 1 / 3")
    double = f"import torch\ntorch.set_default_dtype(torch.float64)\n{right}"
    assert judged(zygote, answer(double), exact, reference=right).kind is Ending.PASSED
    assert judged(zygote, answer(right), exact, reference=right).kind is Ending.FAILED


def test_a_step_of_a_generator_may_leave_a_mode_that_its_next_one_puts_back(zygote: Zygote) -> None:
    right = "import torch\ndef f(x):\n    with torch.no_grad():\n        for one in x:\n            yield one * 2"
    test = check("import torch\nassert [one.item() for one in f(torch.ones(3, requires_grad=True))] == [2.0, 2.0, 2.0]")
    assert judged(zygote, answer(right), test).kind is Ending.PASSED


# ---------------------------------------------------------------------- a process that answers by no rules

F = "def f(x): return x"
ROLE = "import sys\nrole = sys.modules['nbjudge.roles.student']\nrole.{name} = lambda *a, **k: {{}}[1]"


def test_a_builtin_that_an_answer_has_patched_is_asked_for_no_names(zygote: Zygote) -> None:
    cells = (answer(f"{F}\nimport builtins\nbuiltins.sorted = lambda *a, **k: [1]"), check("assert f(2) == 2"))
    assert judged(zygote, *cells, reference=F).kind is Ending.PASSED


def test_an_error_in_place_of_names_is_the_student_s_process_and_no_failure_of_ours(zygote: Zygote) -> None:
    cells = (
        answer(f"{F}\n{ROLE.format(name='home_of')}\nclass C: pass"),
        check("assert C() and f(2) == 2", "first"),
        check("assert 1 + 1 == 2", "second"),
        answer("role.home_of = lambda kind: None"),
        check("assert C() and f(2) == 2", "third"),
    )
    first, second, third = run(zygote, *cells, reference=f"{F}\nclass C: pass").outcomes
    said = "the student's process broke the rules of the conversation: asked for its names, it raised KeyError: 1"
    assert (first.kind, first.points, first.message) == (Ending.FAILED, 0.0, said)
    assert [second.kind, third.kind] == [Ending.PASSED, Ending.PASSED]
