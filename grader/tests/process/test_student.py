"""The student's cells put out what they put out in a stock kernel: nbgrader's own Execute is the oracle."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.preprocessors import Execute

from nbjudge.grading.outputs import joined
from nbjudge.grading.questions import raised
from nbjudge.model import Limits
from nbjudge.process.kernel import plain
from nbjudge.process.zygote import Zygote
from nbjudge.shown.text import printable
from nbjudge_tests.trials import cell, notebook, printed, run

CELLS = (
    "print('one'); print('two', end='')",
    "import sys; print('to stderr', file=sys.stderr); print('to stdout')",
    "1 + 1",
    "{'a': [1, 2.5, float('nan')], 'b': None}",
    "None",
    "   ",
    "from IPython.display import HTML, Markdown, display, clear_output\nHTML('<b>bold</b>')",
    "display({'text/plain': 'raw', 'application/json': {'x': [1, None]}}, raw=True); 'last'",
    "handle = display('first', display_id='an-id'); handle.update('second'); print('after')",
    "print('gone'); clear_output(); print('stays')",
    "print('gone'); clear_output(wait=True); print('stays')",
    "1 / 0",
    "def inner():\n    raise ValueError('mine')\n"
    "try:\n    inner()\nexcept ValueError as error:\n    raise KeyError('other') from error",
    "this is not Python",
    "undefined_name",
    "class Own(Exception):\n    def _render_traceback_(self):\n        return ['shown', 'as told']\nraise Own()",
    "input('question?')",
    # a moment, for a stock kernel reads what a shell wrote in a thread of its own, and loses what comes after the cell
    "import os, time; os.system('echo from a shell'); time.sleep(1)",
    "!echo from IPython",
    "import warnings; warnings.warn('careful')",
    "await __import__('asyncio').sleep(0, result=3)",
    "for i in range(3): print(f'{i}%', end='\\r')\nprint('done')",
    "raise SystemExit(2)",
    "%%capture caught\nprint('hidden')",
    "caught.stdout",
    "_, __, In[3], Out[3]",
    "class Shy:\n    def __repr__(self): raise RuntimeError('no')\nShy()",
    "import ipywidgets; ipywidgets.IntSlider(value=3, max=9)",
    "%matplotlib inline",
    "import torch; torch.ones(2, requires_grad=True) * 2",
    "torch.ones(2) @ torch.ones(3)",
    "help(len)",
    "open('made', 'w').write('x'); open('made').read()",
)
MASKS = (
    (re.compile(r"0x[0-9a-f]{6,}"), "0x"),
    (re.compile(r"[0-9a-f]{32}"), "id"),
    (re.compile(r"/tmp/ipykernel_\d+/\d+"), "/tmp/ipykernel"),
)


def masked(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, mask in MASKS:
            value = pattern.sub(mask, value)
        return value
    if isinstance(value, list):
        return [masked(item) for item in value]
    if isinstance(value, dict):
        return {key: masked(item) for key, item in value.items() if key not in ("execution", "widgets")}
    return value


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_outputs_equal_those_of_a_stock_kernel(zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # with it a kernel doesn't look at its descriptors
    given = notebook(*(cell(source) for source in CELLS))
    stock = nbformat.from_dict(given)
    Execute().preprocess(stock, {"metadata": {"path": str(tmp_path)}})
    ours = run(zygote, *(cell(source) for source in CELLS)).notebook
    for source, expected, found in zip(CELLS, stock.cells, ours["cells"], strict=True):
        assert masked(found["outputs"]) == masked(joined(expected["outputs"])), source
        assert found["execution_count"] == expected["execution_count"], source


def test_a_cell_has_one_number_though_tests_run_elsewhere(zygote: Zygote) -> None:
    """In its traceback, beside it, and in `In`, `Out` and the sentence on a process that has ended."""
    test = cell("assert x == 1", grade=True, solution=False, locked=True, grade_id="q", points=1)
    answer = cell("x = 1", grade=False, solution=True, locked=False, grade_id="x")
    result = run(
        zygote, answer, test, cell("1 / 0"), cell("2"), cell("(len(In), Out[4])"), cell("import os; os._exit(0)")
    )
    cells = result.notebook["cells"]
    assert [one["execution_count"] for one in cells] == [1, 2, 3, 4, 5, 6]
    assert "Cell In[3], line 1" in printable("\n".join(cells[2]["outputs"][0]["traceback"]))
    assert cells[4]["outputs"][0]["data"]["text/plain"] == "(6, 2)"
    assert "was over in code cell 6: " in str(result.died)


def test_an_interrupt_ends_a_cell_and_the_next_one_runs(zygote: Zygote) -> None:
    result = run(zygote, cell("x = 1\nwhile True: pass"), cell("print(x)"), limits=Limits(cell_s=3, notebook_s=40))
    (error,) = result.notebook["cells"][0]["outputs"][-1:]
    assert (error["ename"], printed(result, 1)) == ("CellTimeoutError", "1\n")
    assert error["evalue"] in "\n".join(error["traceback"])
    assert raised(result.notebook["cells"][0]) == ", line 2: this cell took longer than 3 s, and was stopped"


def test_the_time_of_a_notebook_is_bounded(zygote: Zygote) -> None:
    slow = cell("import time; time.sleep(1.5); print('ran')")
    result = run(zygote, *[slow] * 9, limits=Limits(cell_s=20, notebook_s=5))
    assert result.died is not None
    assert "the notebook took longer than 5 s" in result.died
    assert 1 <= sum("ran" in printed(result, index) for index in range(9)) <= 3


def test_many_cells_together_put_out_as_much_as_two(zygote: Zygote) -> None:
    flood = cell("for _ in range(20000): print('x' * 99)")
    result = run(zygote, *[flood] * 6, limits=Limits(output_bytes=100_000))
    assert 190_000 < sum(len(printed(result, index)) for index in range(6)) < 202_000
    assert printed(result, 5) == "\n[The output is longer than 97 kB and was cut here.]\n"


def test_output_is_cut_with_a_sentence(zygote: Zygote) -> None:
    flood = cell("for _ in range(20000): print('x' * 99)")
    result = run(zygote, flood, cell("print('next')"), limits=Limits(output_bytes=100_000))
    assert 90_000 < len(printed(result, 0)) < 101_000
    assert printed(result, 0).endswith("\n[The output is longer than 97 kB and was cut here.]\n")
    assert printed(result, 1) == "next\n"


def test_messages_that_are_none_are_dropped(zygote: Zygote) -> None:
    forged = """
send = get_ipython().kernel.session.pipe.send
kinds = ("stream", "error", "display_data", "execute_result", "comm_open", "comm_msg", "nonsense", 3, None)
for kind in kinds:
    for content in ({}, [], 3, None, {"data": 3}, {"data": {}}, {"text": 3, "name": "stdout"}, {"x": 1}):
        send({"msg_type": kind, "content": content})
send({})
print("after")
"""
    result = run(zygote, cell(forged), cell("print('next')"))
    assert printed(result, 0) == "after\n"
    assert printed(result, 1) == "next\n"
    nbformat.validate(nbformat.from_dict(result.notebook))


def test_files_are_placed_and_a_module_among_them_can_be_imported(zygote: Zygote) -> None:
    files = {"own.py": b"value = 3", "data/table.csv": b"1,2", "torch.py": b"raise SystemExit", "x.ipynb": b"{}"}
    source = "import own, os, torch\n"
    source += "print(own.value, open('data/table.csv').read(), os.path.exists('x.ipynb'), torch.ones(1).item())"
    result = run(zygote, cell(source), files=files)
    assert printed(result, 0) == "3 1,2 False 1.0\n"


def test_what_json_cannot_say_is_said_otherwise() -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    assert plain({1: float("nan"), "x": {3}, "y": object}) == {"1": "nan", "x": [3], "y": "<class 'object'>"}
    assert "…" in repr(plain(deep))
