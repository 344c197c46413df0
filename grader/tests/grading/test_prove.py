"""Each adversary passes the weak test that is open to it, and is named; a strong test catches them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from nbjudge.course.naming import naming, written
from nbjudge.errors import CourseError
from nbjudge.grading import engine, questions
from nbjudge.grading.batch import RunOptions, autograde, proof, rehearse
from nbjudge.grading.farm import grade_all
from nbjudge.grading.prove import KINDS, Proof, prove, table
from nbjudge.grading.trial import judge_for, run_notebook
from nbjudge.model import Assignment, Limits, Notebook, Result, Submission
from nbjudge.plugin import SandboxedAutograde
from nbjudge.process.zygote import Zygote
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader, python
from nbjudge_tests.sample import NOTE, cell, handed_in, row
from nbjudge_tests.session import ALL

KERNEL = '{"name": "python3", "display_name": "Python 3", "language": "python"}'
STUB = "def f(x, y=0):\n    raise NotImplementedError()"


@dataclass(frozen=True)
class Question:
    """The reference, its test, and the stub that is released."""

    reference: str
    test: str
    stub: str = STUB


DOUBLE = "def f(x):\n    return [2 * item for item in x]"
HALF = "def f(x, y=2):\n    return x / y"
POSITIVE = "def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x"
VALUE = """class A:
    def __init__(self, x):
        self.x = x
    def more(self, n):
        return A(self.x + n)
    def __eq__(self, other):
        return self.x == other.x"""
BOTH = "def f(x):\n    return x * x\ndef g(x):\n    return 2 * x"
TWICE = "assert f([1, 2]) == [2, 4]\nassert f([3]) == [6]"
WEAK = {
    "stub": Question("n = 2", "assert isinstance(n, int)", "n = 0"),
    "zeroed": Question(
        "def f(x):\n    x[:] = [2 * item for item in x]\n    return x",
        "x = [1, 2]\ny = f(x)\nassert y == x == sorted(x)",
    ),
    "ones": Question(
        "def f(x):\n    x[:] = [item**2 for item in x]", "x = [0, 1]\nf(x)\nassert x == [item**2 for item in x]"
    ),
    "first": Question("def f(x):\n    return x * x", "assert f(1) == 1"),
    "none": Question("def f(x):\n    return print(x) if x else 0", "assert not f(0)"),
    "nan": Question(HALF, "assert isinstance(f(3.0), float)"),
    "zeros": Question(DOUBLE, "assert isinstance(f([1]), list)"),
    "constant": Question("def f(x):\n    return x * x", "assert f(3) == 9"),
    "swapped": Question("def f(x, y):\n    return x - y", "assert f(2, 2) == 0\nassert isinstance(f(1, 2), int)"),
    "short": Question(DOUBLE, "for found, want in zip(f([1, 2]), [2, 4]):\n    assert found == want"),
    "raises": Question(POSITIVE, "try:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError"),
    "silent": Question(POSITIVE, "assert f(2) == 2 and f(3) == 3\ntry:\n    f(-1)\nexcept ValueError:\n    pass"),
    "claims": Question(VALUE, "for n in (1, 2):\n    assert A(n).x == n and A(n).more(2) == A(n + 2)", "class A: ..."),
    "odd": Question(BOTH, "f(2)\nassert g(3) == 6 and g(1) == 2", "def f(x): ...\ndef g(x): ..."),
    "even": Question(BOTH, "g(2)\nassert f(3) == 9 and f(2) == 4", "def f(x): ...\ndef g(x): ..."),
    "rounded": Question(HALF, "assert f(4.0) == 2.0\nassert abs(f(5.0) - 2.5) < 1"),
}
STRONG = {
    "a_function": Question(
        HALF,
        "import random\nassert f(4) == 2\nfor n in range(3):\n    x, y = random.random() + 3 * n, random.random() + 1\n"
        "    want = x / y\n    assert abs(f(x, y) - want) < 1e-9",
    ),
    "a_list": Question(
        DOUBLE, "for x in ([1, 2], [5], [3, 0, 1]):\n    want = [2 * n for n in x]\n    assert f(x) == want"
    ),
    "in_place": Question(
        "def f(x):\n    x.reverse()",
        "for n in (2, 3):\n    x = list(range(n))\n    f(x)\n    assert x == list(range(n))[::-1]",
    ),
    "a_class": Question(
        "class A:\n    x = 3\n    def more(self, n):\n        return self.x + n",
        "for n in (1, 2):\n    assert A().more(n) == 3 + n",
        "class A:\n    pass",
    ),
    "an_error": Question(
        POSITIVE,
        "for n in (1, 2, 5.5):\n    assert f(n) == n\n    try:\n        f(-n)\n    except ValueError:\n        pass\n"
        "    else:\n        raise AssertionError",
    ),
    "a_class_that_compares": Question(VALUE, "for n in (1, 2):\n    assert A(n).more(2).x == n + 2", "class A: ..."),
    "two_functions": Question(
        BOTH, "for n in (3, 4):\n    assert f(n) == n * n and g(n) == 2 * n", "def f(x): ...\ndef g(x): ..."
    ),
    "an_iterator": Question(
        "def f(x):\n    return map(abs, x)",
        "for x in ([3], [-1, 2], [5, -6, 7]):\n    want = [abs(n) for n in x]\n    assert list(f(x)) == want",
    ),
    "a_value": Question("found = {'line': 4}", "assert found['line'] == 4", "found = None"),
    "what_it_is": Question(
        "def f(x):\n    return x", "assert f(1) == 1\nassert f('ab') == 'ab'\nassert f([2, 3]) == [2, 3]"
    ),
}

# Each question meets every adversary: where not everything is tested some stand for the others. None of these
# rests on what objects of the student say, since where only a few are graded that would be over a tenth of the points.
ROLL = Question(
    "import random\ndef f(n):\n    return [random.randint(1, 6) for _ in range(n)]",
    "import random\nr = f(1000)\nassert len(r) == 1000 and set(r) == {1, 2, 3, 4, 5, 6}\n"
    "random.seed(3)\nassert f(5) == [2, 5, 5, 2, 3]",
)
OTHERWISE = Question(  # by a chance that nobody can put back
    "import secrets\ndef f(x):\n    return x + [secrets.token_hex()]",
    "x = f(['a'])\nassert x[0] == 'a' and len(x[1]) == 64",
)
COUNTDOWN = Question(
    "def f(n):\n    for i in range(n, 0, -1):\n        print(i)",
    "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as said:\n    f(3)\n"
    "assert said.getvalue() == '3\\n2\\n1\\n'",
)
DIVIDED = Question(
    "def f(x, by):\n    x[:] = [item // by for item in x]\n    return x",
    "x = [4, 6]\ny = f(x, 2)\nassert y == x == sorted(x)",
)
CART = Question(  # a method asks another one of its class
    "class Cart:\n    def __init__(self, prices):\n        self.prices = prices\n    def total(self):\n"
    "        return sum(self.prices)\n    def over(self, limit):\n        return self.total() - limit",
    "c = Cart([2, 3])\nassert c.total() == 5\nassert c.over(4) == 1 and c.over(6) == -1",
    "class Cart: ...",
)
LINKED = Question(  # a procedure, whose result nobody looks at
    "class Node:\n    def __init__(self, value):\n        self.value, self.next = value, None\n"
    "class LinkedList:\n    def __init__(self):\n        self.head = None\n    def append(self, x):\n"
    "        if self.head is None:\n            self.head = Node(x)\n            return\n        n = self.head\n"
    "        while n.next:\n            n = n.next\n        n.next = Node(x)",
    "l = LinkedList()\nl.append(3)\nassert l.head.value == 3\nl.append(4)\nassert l.head.next.value == 4",
    "class LinkedList: ...",
)
REVERSED = Question(  # a method that changes what it is passed
    "class Turner:\n    def turn(self, x):\n        x.reverse()",
    "x = [1, 2]\nTurner().turn(x)\nassert sorted(x) == [1, 2]",
    "class Turner: ...",
)
FOUND = Question(  # None is one of its answers
    "class Shelf:\n    def find(self, x):\n        if x in (1, 2):\n            return x + 1",
    "s = Shelf()\nassert s.find(1) == 2\nnone = s.find(3)",
    "class Shelf: ...",
)
CLOSED = Question(  # Python itself looks at what it gives
    "class Entered:\n    def __enter__(self):\n        return self\n"
    "class Door(Entered):\n    def __exit__(self, kind, error, where):\n        self.closed = True",
    "d = Door()\nwith d:\n    pass\nassert d.closed",
    "class Door: ...",
)
WEAK_ONES = [name for name in WEAK if ALL or name in {"zeroed", "none", "constant", "raises", "odd"}]
STRONG_ONES = [name for name in STRONG if ALL or name in {"a_list", "what_it_is"}]


@pytest.fixture(scope="module")
def proofs(zygote: Zygote) -> Proof:
    """All of them are one assignment."""
    return proved(
        zygote, {**{f"weak_{name}": WEAK[name] for name in WEAK_ONES}, **{name: STRONG[name] for name in STRONG_ONES}}
    )


def proved(zygote: Zygote, asked: dict[str, Question]) -> Proof:
    """Each question is a notebook, so that they have nothing to do with one another."""
    return proved_together(zygote, {name: [(name, question)] for name, question in asked.items()})


def proved_together(zygote: Zygote, asked: dict[str, list[tuple[str, Question]]]) -> Proof:
    """Each list of questions is a notebook."""
    books, texts = [], {}
    for book, questions_of in asked.items():
        cells, solved = [NOTE], [cell("import math", "setup")]
        for number, (name, question) in enumerate(questions_of):
            cells.append(row(f"a{number}", question.stub, solution=True))
            cells.append(row(name, question.test, points=2, grade=True, locked=True))
            solved += [cell(question.reference, f"a{number}"), cell("pass", name)]
        books.append(Notebook(book, KERNEL, tuple(cells), naming(written(tuple(cells), None), complete=False)))
        texts[book] = handed_in(*solved).notebooks["ps1"]
    assignment, reference = Assignment("ps1", tuple(books), 7), handed_in(student=questions.REFERENCE, notebooks=texts)

    def run(submissions: Iterable[Submission]) -> Iterator[tuple[Submission, Result]]:
        for submission in submissions:
            yield submission, engine.grade(submission, assignment, partial(run_notebook, zygote), give_up=False)

    ((_, result),) = run([reference])
    assert result.score == result.max_score
    assignment = Assignment("ps1", tuple(books), 7, effects=questions.effects(result), places=result.places)
    return prove(reference, assignment, run)


@pytest.mark.parametrize("kind", WEAK_ONES)
def test_a_weak_test_is_named_with_the_adversary_that_passes_it(kind: str, proofs: Proof) -> None:
    assert kind in {one.kind for one in proofs.open if one.question == f"weak_{kind}"}
    assert any(f"weak_{kind}" in sentence and repr(kind) in sentence for sentence in proofs.sentences())


@pytest.mark.parametrize("name", STRONG_ONES)
def test_a_strong_test_catches_them_all(name: str, proofs: Proof) -> None:
    tried = [one for one in proofs.tried if one.question == name]
    assert [one.kind for one in tried] == list(KINDS)
    assert not [one for one in tried if one.open]
    assert sum(one.differed for one in tried) >= 4


def test_an_adversary_that_behaves_as_the_reference_isn_t_counted(proofs: Proof) -> None:
    (first,) = [one for one in proofs.tried if (one.question, one.kind) == ("what_it_is", "first")]
    assert (first.points, first.differed, first.open) == (2.0, False, False)


def word(found: Proof, question: str) -> dict[str, str]:
    head, *lines = table(found)
    return next(dict(zip(head, line, strict=True)) for line in lines if line[0] == question)


def test_chance_and_what_is_printed_are_part_of_what_an_adversary_does(zygote: Zygote) -> None:
    asked = {"roll": ROLL, "otherwise": OTHERWISE, "countdown": COUNTDOWN, "divided": DIVIDED}
    found = proved(zygote, asked)
    rolled = word(found, "roll")
    assert {rolled[kind] for kind in ("nan", "infinite", "swapped", "rounded", "silent", "claims")} == {"same"}
    assert {rolled[kind] for kind in ("zeroed", "ones", "constant", "zeros", "short", "first", "none")} == {"caught"}
    other = word(found, "otherwise")
    assert {other[kind] for kind in ("nan", "infinite", "swapped", "rounded", "silent")} == {"same"}
    assert {other[kind] for kind in ("zeros", "short", "first", "none")} == {"caught"}
    printed = word(found, "countdown")
    assert {printed[kind] for kind in ("zeroed", "ones")} == {"caught"}
    assert {printed[kind] for kind in ("none", "nan", "zeros", "silent", "rounded")} == {"same"}
    assert word(found, "divided")["zeroed"] == "PASSED", "what can be changed in place is, and then no number besides"


def test_what_calls_another_answer_differs_only_where_it_does_itself(zygote: Zygote) -> None:
    said = word(proved(zygote, {"cart": CART}), "cart")
    assert {said[kind] for kind in ("nan", "infinite", "swapped", "rounded", "short", "silent")} == {"same"}
    assert {said[kind] for kind in ("zeroed", "ones", "first", "none", "zeros", "constant")} == {"caught"}


def test_what_a_procedure_gives_back_is_nothing_that_an_adversary_has_done(zygote: Zygote) -> None:
    asked = {"linked": LINKED, "reversed": REVERSED, "found": FOUND, "closed": CLOSED}
    found = proved(zygote, asked)
    linked = word(found, "linked")
    assert {linked[kind] for kind in ("first", "agrees", "none", "nan")} == {"same"}
    assert {linked[kind] for kind in ("stub", "zeroed", "ones")} == {"caught"}
    turned = word(found, "reversed")
    assert {turned[kind] for kind in ("first", "agrees", "none")} == {"PASSED"}, "its list is as it was"
    assert word(found, "found")["constant"] == "PASSED"
    assert word(found, "closed")["agrees"] == "PASSED", "it would swallow errors"


def test_one_that_spoils_what_later_questions_compare_with_is_named_where_it_is_paid(zygote: Zygote) -> None:
    """Where the reference leaves an argument alone it isn't; where it changes it too, the test has to make it anew."""
    first = Question("def f(x):\n    return x[0]", "data = [3, 1, 2]\nassert f(data) == 3", "def f(x): ...")
    in_place = Question(
        "def f(x):\n    x.sort()\n    return x", "data = [3, 1, 2]\nassert f(data) == [1, 2, 3]", "def f(x): ..."
    )
    total = Question("def g(x):\n    return sum(x)", "assert g(data) == sum(data)", "def g(x): ...")
    filled = Question("def g(x):\n    x.append(1)", "x = []\ng(x)\nassert x == [1]", "def g(x): ...")
    said = proved_together(
        zygote,
        {
            "alone": [("alone_first", first), ("alone_total", total)],
            "changed": [("changed_first", in_place), ("changed_total", total)],
            "filled": [("filled_first", in_place), ("filled_total", filled)],
        },
    )
    found = {question: word(said, question)["empties"] for question in {one.question for one in said.tried}}
    assert found == {
        "alone_first": "same",
        "alone_total": "same",
        "changed_first": "same",
        "changed_total": "PASSED",
        "filled_first": "same",
        "filled_total": "same",
    }
    assert any("changed_total" in sentence and "'empties'" in sentence for sentence in said.sentences())


def test_a_word_that_is_no_adversary_gets_a_sentence(zygote: Zygote) -> None:
    weak = WEAK["stub"]
    marked = Question(weak.reference, f"# prove: stub zeros, liar\n# prove: nought\n{weak.test}", weak.stub)
    found = proved(zygote, {"q": marked})
    assert not found.open
    (sentence,) = found.sentences()
    assert sentence.startswith("q says `# prove: nought`, which is no adversary; they are stub, zeroed, ones, ")


def test_a_question_may_let_an_adversary_pass(zygote: Zygote) -> None:
    weak = WEAK["stub"]
    found = proved(zygote, {"q": Question(weak.reference, f"# prove: stub, zeros, liar\n{weak.test}", weak.stub)})
    assert not found.open
    head, line = table(found)
    assert dict(zip(head, line, strict=True)) | {"question": "q", "stub": "allowed", "none": "caught"} == dict(
        zip(head, line, strict=True)
    )


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small course, one question of which is open."""
    root = small.make(tmp_path_factory.mktemp("prove") / "course")
    path = root / "source" / small.NAME / "coding.ipynb"
    path.write_text(path.read_text(encoding="utf-8").replace("assert double(secret_number) == ", "assert True or "))
    nbgrader(root, "generate_assignment", small.NAME)
    small.hand_in(root, "ada", small.RIGHT)
    return root


@pytest.mark.whole
def test_a_course_may_refuse_what_isn_t_proved_or_be_warned(course: Path) -> None:
    from nbjudge.course.layout import Course

    plain = Course(course, f"sqlite:///{course / 'gradebook.db'}")
    farm = partial(grade_all, open_judge=partial(judge_for, limits=Limits(), trust_students=False), workers=1)
    with pytest.raises(CourseError, match="double_test gives 2 of 2 points to 'constant'"):
        autograde(plain, small.NAME, RunOptions(prove="refuse"), farm)
    assert not (course / "autograded").exists()
    warnings: list[str] = []
    (entry,) = autograde(plain, small.NAME, RunOptions(prove="warn"), farm, warn=warnings.append)
    assert entry.problem is None
    assert [sentence for sentence in warnings if "'constant'" in sentence]
    assert proof(plain, small.NAME, RunOptions(), farm).sentences() == warnings
    again: list[str] = []
    autograde(plain, small.NAME, RunOptions(prove="warn"), farm, warn=again.append)
    assert not again, "it has been said"
    rehearse(plain, small.NAME, RunOptions(prove="warn"), farm, None, again.append)
    assert again == warnings, "who generates anew is told again"


@pytest.mark.whole
def test_the_command_prints_the_table(course: Path) -> None:
    said = python(course, "-m", "nbjudge", "prove", small.NAME, status=1)
    head, _, double, area, *_ = said.splitlines()
    assert head.split() == ["question", *KINDS]
    cells = dict(zip(head.split(), double.split(), strict=True))
    assert (cells["question"], cells["stub"], cells["constant"]) == ("double_test", "caught", "PASSED")
    assert "PASSED" not in area
    assert "# prove: constant" in said


def test_elsewhere_it_warns() -> None:
    assert SandboxedAutograde().prove == "warn"


def test_what_is_asked_for_once_is_said_to_be_open_to_what_is_written_down(zygote: Zygote) -> None:
    """A table that is printed once; of a name's value nothing is said, nor of what is called with two arguments."""
    printed = "import io\nfrom contextlib import redirect_stdout\nout = io.StringIO()\n"
    printed += "with redirect_stdout(out):\n    f(7)\n"
    table_of = "def f(n):\n    for k in (1, 2):\n        print(k, 'x', n, '=', k * n)"
    once = Question(table_of, f"{printed}assert out.getvalue().split() == '1 x 7 = 7 2 x 7 = 14'.split()")
    asked = {"once": once, "name": Question("n = 2", "assert n == 2", "n = 0"), "twice": Question(DOUBLE, TWICE)}
    found = proved(zygote, asked)
    assert found.single == ("once",)
    assert found.closing()[-1].startswith("Results that are written down beforehand pass once: ")
