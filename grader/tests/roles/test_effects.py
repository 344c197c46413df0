"""A test sees what an answer does to its arguments; points that are there only because of it are not kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from nbjudge.grading.questions import effects, held
from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment, Ending, Graded, Outcome, Result
from nbjudge.process.zygote import Zygote
from nbjudge_tests.trials import LIMITS, answer, check, locked, notebook


@dataclass(frozen=True)
class Case:
    """A question: the reference, another answer, the test; the imports and data are a locked cell."""

    reference: str
    answer: str
    test: str
    given: str = "import numpy as np\nimport torch"


DOUBLE = "def f(x):\n    return [2 * i for i in x]"
SCALE = "def f(x):\n    return 2 * x"
SAME = "y = f(x)\nassert torch.equal(y, 2 * x)"
STEP = "w = torch.tensor([1.0, 2.0], requires_grad=True)\nw.grad = torch.ones(2)\nbefore = w.detach().clone()\n"
MOVED = "f(w, 0.1)\nassert torch.allclose(w, before - 0.1 * w.grad)"

CHEATS = {
    "a list": Case(
        DOUBLE, "def f(x):\n    x[:] = [0]\n    return [0]", "x = [3, 1]\nassert f(x) == [2 * i for i in x]"
    ),
    "by keyword": Case(
        DOUBLE, "def f(x):\n    x.clear()\n    return x", "x = [3]\nassert f(x=x) == [2 * i for i in x]"
    ),
    "the instructor's data": Case(
        DOUBLE, "def f(x):\n    x[:] = [0]\n    return [0]", "assert f(data) == [2 * i for i in data]", "data = [4, 5]"
    ),
    "what a container holds": Case(
        "def f(d):\n    return sum(map(sum, d['a']))",
        "def f(d):\n    [row.clear() for row in d['a']]\n    return 0",
        "d = {'a': [[1, 2], [3]]}\nassert f(d) == sum(map(sum, d['a']))",
    ),
    "a set": Case(
        "def f(x):\n    return len(x)", "def f(x):\n    x.clear()\n    return 0", "x = {1}\nassert f(x) == len(x)"
    ),
    "an array": Case(
        SCALE, "def f(x):\n    x[:] = 0\n    return x + 0", "x = np.ones(2)\nassert (f(x) == 2 * x).all()"
    ),
    "a file in memory, which is read": Case(
        "def f(x):\n    return sum(map(int, x))",
        "def f(x):\n    x.truncate(0)\n    return 0",
        "x = io.StringIO('1\\n2')\nassert f(x) == sum(map(int, x.getvalue().split()))",
        "import io",
    ),
    "a picture": Case(
        "def f(x):\n    return x.copy()",
        "def f(x):\n    x.paste(0, (0, 0, 2, 1))\n    return x",
        "x = Image.new('L', (2, 1), 7)\ny = f(x)\nassert y.tobytes() == x.tobytes()",
        "from PIL import Image",
    ),
    "a tensor": Case(SCALE, "def f(x):\n    return x.zero_()", f"x = torch.ones(2)\n{SAME}"),
    "a tensor, by a library's function": Case(SCALE, "f = torch.zero_", f"x = torch.ones(2)\n{SAME}"),
    "a deque": Case(
        "def f(x):\n    return sum(x)",
        "def f(x):\n    x.clear()\n    return 0",
        "x = deque([1, 2])\nassert f(x) == sum(x)",
        "from collections import deque",
    ),
    "a counter": Case(
        "def f(x):\n    return sum(x.values())",
        "def f(x):\n    x.clear()\n    return 0",
        "x = Counter('abc')\nassert f(x) == sum(x.values())",
        "from collections import Counter",
    ),
    "a leaf": Case(
        SCALE, "def f(x):\n    x.data.zero_()\n    return x * 1", f"x = torch.ones(2, requires_grad=True)\n{SAME}"
    ),
    "a leaf's data": Case(
        SCALE,
        "def f(x):\n    x.data = torch.zeros(2)\n    return x * 1",
        f"x = torch.ones(2, requires_grad=True)\n{SAME}",
    ),
    "a gradient": Case("def f(w, lr):\n    w.data -= lr * w.grad", "def f(w, lr):\n    w.grad.zero_()", STEP + MOVED),
    "a gradient, by an object's method": Case(
        "class SGD:\n    def __init__(self, ws): self.ws = ws\n    def step(self):\n"
        "        for w in self.ws: w.data -= 0.1 * w.grad",
        "class SGD:\n    def __init__(self, ws): self.ws = ws\n    def step(self):\n"
        "        for w in self.ws: w.grad = torch.zeros(2)",
        STEP.replace("before", "sgd = SGD([w])\nbefore")
        + "sgd.step()\nassert torch.allclose(w, before - 0.1 * w.grad)",
    ),
    "what it gave back, once it was told": Case(
        "def f(x):\n    return (x > 1).astype(int)\ndef share(y, z):\n    return np.mean(y == z)",
        "def f(x):\n    global given\n    given = np.zeros(len(x), int)\n    return given\n"
        "def share(y, z):\n    given[:] = y\n    return 1.0",
        "x = np.arange(4)\ny = (x > 1).astype(int)\nz = f(x)\nassert share(y, z) == np.mean(y == z) and (z == y).all()",
    ),
    "a tensor that it gave back": Case(
        "def f(x):\n    return x.sum(1)\ndef loss(y, z):\n    return ((y - z) ** 2).mean()",
        "def f(x):\n    global given\n    given = torch.zeros(len(x))\n    return given\n"
        "def loss(y, z):\n    given.copy_(y)\n    return torch.tensor(0.0)",
        "x = torch.ones(3, 2)\ny = x.sum(1)\nz = f(x)\nassert loss(y, z) == 0 and torch.equal(y, z)",
    ),
    "another gradient": Case(
        "def f(w, lr):\n    w.data -= lr * w.grad", "def f(w, lr):\n    w.grad = torch.zeros(2)", STEP + MOVED
    ),
    "beside the one that is meant": Case(
        "def f(out, x):\n    out[:] = [2 * i for i in x]",
        "def f(out, x):\n    out[:] = x[:] = [0] * len(x)",
        "x = [1, 2]\nout = [0, 0]\nf(out, x)\nassert out == [2 * i for i in x]",
    ),
    "beside a list in a dict of defaults": Case(
        "def f(out, x):\n    out['a'].append(sum(x))",
        "def f(out, x):\n    x.clear()\n    out['a'].append(0)",
        "out, x = defaultdict(list, a=[]), [1, 2]\nf(out, x)\nassert out['a'] == [sum(x)]",
        "from collections import defaultdict",
    ),
    "beside a list in a data class": Case(
        "def f(out, x):\n    out.found.append(sum(x))",
        "def f(out, x):\n    x.clear()\n    out.found.append(0)",
        "@dataclass\nclass Out:\n    found: list\nout, x = Out([]), [1, 2]\nf(out, x)\nassert out.found == [sum(x)]",
        "from dataclasses import dataclass",
    ),
    "beside a list that a callback gives": Case(
        "def f(out, x):\n    out().append(sum(x))",
        "def f(out, x):\n    x.clear()\n    out().append(0)",
        "out, x = [], [1, 2]\nf(lambda: out, x)\nassert out == [sum(x)]",
    ),
    "a list in an array of objects": Case(
        "def f(x):\n    return sum(map(sum, x))",
        "def f(x):\n    [part.clear() for part in x]\n    return 0",
        "x = np.empty(1, dtype=object)\nx[0] = [1, 2]\nassert f(x) == sum(x[0])",
    ),
    "a file": Case(
        "def f(name):\n    return sorted(open(name).read().split())",
        "def f(name):\n    open(name, 'w').write('x')\n    return ['x']",
        "with open('a.txt', 'w') as file: file.write('b a')\nassert f('a.txt') == sorted(open('a.txt').read().split())",
    ),
    "a file beside the one that is meant": Case(
        "def f(old, new):\n    open(new, 'w').write(open(old).read().upper())",
        "def f(old, new):\n    for name in (new, 'want.txt'): open(name, 'w').write('x')",
        "import pathlib\nfor name, text in (('a.txt', 'b'), ('want.txt', 'B')): pathlib.Path(name).write_text(text)\n"
        "f('a.txt', 'b.txt')\nassert pathlib.Path('b.txt').read_text() == pathlib.Path('want.txt').read_text()",
    ),
    "while the result is read": Case(
        "def f(x):\n    yield from [2 * i for i in x]",
        "def f(x):\n    n = len(x)\n    x[:] = [0] * n\n    yield from x",
        "x = [1, 2]\nassert list(f(x)) == [2 * i for i in x]",
    ),
    "in a hook": Case(
        "def f(x):\n    return (x * x).sum()",
        "def f(x):\n    y = (x * 0).sum()\n    y.register_hook(lambda grad: grad + x.data.zero_().sum())\n    return y",
        "x = torch.ones(2, requires_grad=True)\nf(x).backward()\nassert torch.equal(x.grad, 2 * x)",
    ),
    "the gradient that a backward starts with": Case(
        SCALE,
        "def f(x):\n    y = 2 * x\n    y.register_hook(lambda grad: grad.zero_())\n    return y",
        "x, w = torch.ones(2, requires_grad=True), torch.ones(2)\nf(x).backward(w)\nassert torch.equal(x.grad, 2 * w)",
    ),
    "a gradient that the test's own part is given too": Case(
        SCALE,
        "def f(x):\n    y = 2 * x\n    y.register_hook(lambda grad: grad.data.zero_().clone())\n    return y",
        "x, z, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), torch.ones(2)\n"
        "(2 * z + f(x)).backward(w)\nassert torch.equal(x.grad, z.grad)",
    ),
    "a method's": Case(
        "class A:\n    def f(self, x):\n        return [2 * i for i in x]",
        "class A:\n    def f(self, x):\n        x.clear()\n        return []",
        "x = [1, 2]\nassert A().f(x) == [2 * i for i in x]",
    ),
}
HONEST = {
    "an object in a function's place": Case(
        "def f(x):\n    x.append(1)",
        "class F:\n    def __call__(self, x): x += [1]\nf = F()",
        "x = []\nf(x)\nassert x == [1]",
    ),
    "a function in a class's place": Case(
        "class f:\n    def __init__(self, x): x.append(1)",
        "def f(x): x += [1]",
        "x = []\nf(x)\nassert x == [1]",
    ),
    "a list that lives on in its object": Case(
        "class Stack:\n    def __init__(self): self._held = []\n    def push(self, x): self._held.append(x)\n"
        "    items = property(lambda self: list(self._held))",
        "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)",
        "s = Stack()\ns.push(1)\nassert s.items == [1]\ns.push(2)\nassert s.items == [1, 2]",
    ),
    "sorts in place": Case(
        "def f(x):\n    return sorted(x)",
        "def f(x):\n    x.sort()\n    return x",
        "x = [3, 1, 2]\nassert f(x) == sorted(x)\nassert f([2, 1]) == [1, 2]",
    ),
    "writes into an array": Case(
        "def f(x):\n    return np.maximum(x, 0)",
        "def f(x):\n    x[x < 0] = 0\n    return x",
        "x = np.array([1.0, -2.0])\nassert (f(x) == np.maximum(x, 0)).all()",
    ),
    "writes into a tensor": Case(
        "def f(x):\n    return x.relu()",
        "def f(x):\n    x[x < 0] = 0\n    return x",
        "x = torch.tensor([1.0, -2.0])\nassert torch.equal(f(x), x.relu())",
    ),
    "is asked to add to a file": Case(
        "def f(name):\n    with open(name, 'a') as file: file.write('b')",
        "def f(name):\n    text = open(name).read()\n    open(name, 'w').write(text + 'b')",
        "with open('a.txt', 'w') as file: file.write('a')\nf('a.txt')\nassert open('a.txt').read() == 'ab'",
    ),
    "writes the gradient that its hook is given": Case(
        "def f(x):\n    y = 2 * x\n    y.register_hook(lambda grad: grad.clamp(-1, 1))\n    return y",
        "def f(x):\n    y = 2 * x\n    y.register_hook(lambda grad: grad.clamp_(-1, 1))\n    return y",
        "x = torch.ones(2, requires_grad=True)\n(f(x) * 3).sum().backward()\nassert x.grad.tolist() == [2.0, 2.0]",
    ),
    "is asked to append": Case(
        "def f(x):\n    x.append(1)", "def f(x):\n    x += [1]", "x = [1]\nf(x)\nassert x == [1, 1]"
    ),
    "uses one argument up and fills another": Case(
        "def f(out, x):\n    out['a'].append(sum(x))",
        "def f(out, x):\n    n = 0\n    while x:\n        n += x.pop()\n    out['a'].append(n)",
        "out, x = defaultdict(list, a=[]), [1, 2]\nf(out, x)\nassert out['a'] == [3]",
        "from collections import defaultdict",
    ),
    "is asked to move a leaf": Case(
        "def f(w, lr):\n    w.data -= lr * w.grad",
        "def f(w, lr):\n    with torch.no_grad():\n        w -= lr * w.grad",
        STEP + MOVED,
    ),
    "counts on two arrays that overlap": Case(
        "def f(a, b):\n    return float(a[1] + b[0])",
        "def f(a, b):\n    kept, a[1], a[3] = float(a[1]), 9, 9\n    assert b[0] == 9\n    return kept * 2",
        "a = np.arange(4.0)\nb = a[1:3]\nassert f(a, b) == 2",
    ),
    "counts on two tensors that overlap": Case(
        "def f(a, b):\n    return float(a[1] + b[0])",
        "def f(a, b):\n    kept, a[1], a[3] = float(a[1]), 9, 9\n    assert b[0] == 9\n    return kept * 2",
        "a = torch.arange(4.0)\nb = a[1:3]\nassert f(a, b) == 2",
    ),
    "counts on an array and a tensor that overlap": Case(
        "def f(a, b):\n    return float(a[1] + b[0])",
        "def f(a, b):\n    kept, a[1], a[3] = float(a[1]), 9, 9\n    assert b[0] == 9\n    return kept * 2",
        "a = np.arange(4.0)\nb = torch.from_numpy(a)[1:3]\nassert f(a, b) == 2",
    ),
    "uses its argument up": Case(
        "def f(x):\n    return len(x)",
        "def f(x):\n    n = 0\n    while x:\n        x.pop()\n        n += 1\n    return n",
        "assert f([1, 2]) == 2\nx = [5]\nassert f(x) == 1",
    ),
}


def outcome(zygote: Zygote, case: Case) -> Outcome:
    """Of the answer, once the reference is known."""
    reference = one(zygote, case, case.reference, None)
    assert reference.kind is Ending.PASSED, reference
    known = effects(Result("", "", "", None, (Graded("nb", "", (reference,)),)))
    (graded,) = held([Graded("nb", "", (one(zygote, case, case.answer, known),))])
    return graded.outcomes[0]


def one(zygote: Zygote, case: Case, source: str, known: object) -> Outcome:
    made = notebook(locked(case.given), answer(source), check(case.test), reference=case.reference)
    made["metadata"] |= {"effects": known["nb"]} if isinstance(known, dict) else {}
    return run_notebook(zygote, made, {}, Assignment("", (), 5, LIMITS)).outcomes[0]


@pytest.mark.parametrize("name", CHEATS)
def test_an_expectation_doesn_t_follow_what_the_answer_did_to_it(name: str, zygote: Zygote) -> None:
    found = outcome(zygote, CHEATS[name])
    assert (found.kind, found.points) == (Ending.BY_HAND, None)
    assert found.changed
    assert "changes what the test passes to it" in found.message


@pytest.mark.parametrize("name", HONEST)
def test_an_answer_that_writes_in_place_keeps_its_points(name: str, zygote: Zygote) -> None:
    found = outcome(zygote, HONEST[name])
    assert (found.kind, found.points) == (Ending.PASSED, 1.0), found.message


def test_the_test_still_sees_what_was_changed(zygote: Zygote) -> None:
    """An argument that has to keep its values, and doesn't, is an ordinary failure."""
    source = "def f(x):\n    y = 2 * x\n    x.zero_()\n    return y"
    test = "x = torch.ones(2)\nbefore = x.clone()\nassert torch.equal(f(x), 2 * before)\nassert torch.equal(x, before)"
    assert outcome(zygote, Case(SCALE, source, test)).kind is Ending.FAILED


# --- what one question leaves to the next ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Later:
    """A value that two questions pass, how an answer spoils it in the first one, and what the second one compares."""

    made: str
    spoil: str
    total: str  # of `x`, as the reference computes it, and the test
    zero: str = "0"  # what that is of a spoilt one
    given: str = "import numpy as np\nimport torch"


SPOILT = {
    "a list": Later("[3, 1, 2]", "x.clear()", "sum(x)"),
    "a dict": Later("{'a': 3, 'b': 4}", "x.clear()", "sum(x.values())"),
    "a set": Later("{3, 4}", "x.clear()", "sum(x)"),
    "a list in a tuple": Later("([3, 1], 2)", "x[0].clear()", "sum(x[0])"),
    "a list in a dict": Later("{'a': [3, 1]}", "x['a'].clear()", "sum(x['a'])"),
    "an array": Later("np.arange(4.0)", "x[:] = 0", "x.sum()", "np.float64(0)"),
    "a table": Later(
        "pd.DataFrame({'a': [3, 4]})", "x['a'] = 0", "int(x['a'].sum())", given="import pandas as pd"
    ),
    "rows of a table": Later(
        "pd.DataFrame({'a': [3, 4]})", "x.drop(x.index, inplace=True)", "int(x['a'].sum())", given="import pandas as pd"
    ),
    "a tensor": Later("torch.ones(3)", "x.zero_()", "x.sum()", "torch.tensor(0.0)"),
    "a leaf": Later(
        "torch.ones(3, requires_grad=True)", "x.data.zero_()", "x.sum().item()", "0.0", "import torch"
    ),
    "another leaf's data": Later(
        "torch.ones(3, requires_grad=True)", "x.data = torch.zeros(3)", "x.sum().item()", "0.0", "import torch"
    ),
    "a gradient": Later(
        "torch.ones(3, requires_grad=True)\nx.grad = torch.ones(3)", "x.grad.zero_()", "x.grad.sum().item()", "0.0",
        "import torch",
    ),
    "an attribute": Later("Tree(3)", "x.key = 0", "x.key", given="from shapes import *"),
    "a list in an object": Later("Tree([3, 4])", "x.key.clear()", "sum(x.key)", given="from shapes import *"),
    "a deque": Later("deque([3, 4])", "x.clear()", "sum(x)", given="from collections import deque"),
    "a file in memory": Later(
        "io.StringIO('3 4')", "x.truncate(0)", "sum(map(int, x.getvalue().split()))", given="import io"
    ),
}  # fmt: skip
SHAPES = {"shapes.py": (Path(__file__).parents[1] / "data" / "classes" / "shapes.py").read_bytes()}
ENDINGS = {
    "returns nothing": "return None",
    "raises": "raise ValueError('no')",
    "exits": "raise SystemExit",
    "gives what can't be carried": "import threading\n    return threading.Lock()",
    "can't be graded": "return bytearray(1), memoryview(b'1')",
    "passes": "return 3",
}


def asked(zygote: Zygote, later: Later, source: str, known: Result | None, test: str = "") -> tuple[Outcome, ...]:
    """Two questions of one value: `first` doesn't change it."""
    reference = f"def first(x):\n    return 3\ndef total(x):\n    return {later.total}"
    test = test or f"x = {later.made}\nassert first(x) == 3"
    tests = check(test, "a"), check(f"assert total(x) == {later.total}", "b")
    made = notebook(locked(later.given), answer(source or reference), *tests, reference=reference)
    if known is None:
        made["metadata"]["record"] = True
    else:
        made["metadata"] |= {"effects": effects(known)["nb"], "places": known.places["nb"]}
    return run_notebook(zygote, made, dict(SHAPES), Assignment("", (), 5, LIMITS, files=SHAPES)).outcomes


def after(zygote: Zygote, later: Later, source: str, test: str = "") -> tuple[Outcome, ...]:
    """How both questions end for this answer."""
    reference = asked(zygote, later, "", None, test)
    assert [one.kind for one in reference] == [Ending.PASSED] * 2, reference
    known = Result("", "", "", None, (Graded("nb", "", reference),))
    (graded,) = held([Graded("nb", "", asked(zygote, later, source, known, test))])
    return graded.outcomes


@pytest.mark.parametrize("name", SPOILT)
def test_what_a_failed_question_spoils_isn_t_what_the_next_one_compares_with(name: str, zygote: Zygote) -> None:
    later = SPOILT[name]
    first = f"def first(x):\n    {later.spoil}\n"
    failed, cheat = after(zygote, later, f"{later.given}\n{first}def total(x):\n    return {later.zero}")
    assert (failed.points, bool(cheat.points)) == (0, False), (failed, cheat)
    failed, honest = after(zygote, later, f"{later.given}\n{first}def total(x):\n    return {later.total}")
    assert (failed.points, honest.kind) == (0, Ending.PASSED), (failed, honest)


@pytest.mark.parametrize("ending", ENDINGS)
def test_however_that_question_ends(ending: str, zygote: Zygote) -> None:
    first = f"def first(x):\n    x.clear()\n    {ENDINGS[ending]}\n"
    _, cheat = after(zygote, SPOILT["a list"], f"{first}def total(x):\n    return 0")
    assert not cheat.points, cheat
    _, honest = after(zygote, SPOILT["a list"], f"{first}def total(x):\n    return sum(x)")
    assert honest.kind is Ending.PASSED, honest


def test_and_whenever_it_is_spoilt(zygote: Zygote) -> None:
    """By a call that comes later, on what an earlier one was passed."""
    source = "def first(x):\n    global kept\n    kept = x\ndef total(x):\n    kept.clear()\n    return 0"
    assert not after(zygote, SPOILT["a list"], source)[1].points
    test = "x = [3, 1, 2]\ntry: first(x)\nexcept ValueError: pass\nassert first([]) == 3"
    source = "kept = []\ndef first(x):\n    kept.append(x)\n    kept[0].clear()\ndef total(x):\n    return 0"
    assert not after(zygote, SPOILT["a list"], source, test)[1].points


def test_a_file_that_a_failed_question_rewrote_is_as_the_test_wrote_it(zygote: Zygote) -> None:
    total = "sum(map(int, open('x.txt').read().split()))"
    test = "with open('x.txt', 'w') as file: file.write('3 4')\nx = 'x.txt'\nassert first(x) == 3"
    source = "def first(x):\n    open(x, 'w').close()\ndef total(x):\n    return {}"
    later = Later("''", "", total)
    assert not after(zygote, later, source.format(0), test)[1].points
    assert after(zygote, later, source.format(total), test)[1].kind is Ending.PASSED


def test_what_the_reference_changes_too_stays_as_the_answer_left_it(zygote: Zygote) -> None:
    """A wrong answer to the first question is no reason that a later one finds less than it would in one process."""
    reference = "def first(x):\n    x.append(4)\n    return 3\ndef total(x):\n    return sum(x)"
    tests = check("x = [3]\nassert first(x) == 3", "a"), check("assert x[-1] == 4 and total(x) == 7", "b")
    made = notebook(answer(reference), *tests)
    outcomes = run_notebook(zygote, made, {}, Assignment("", (), 5, LIMITS)).outcomes
    known = effects(Result("", "", "", None, (Graded("nb", "", outcomes),)))["nb"]
    made = notebook(answer(reference.replace("return 3", "return 2")), *tests)
    made["metadata"]["effects"] = known
    failed, later = run_notebook(zygote, made, {}, Assignment("", (), 5, LIMITS)).outcomes
    assert (failed.points, later.kind) == (0, Ending.PASSED)
