"""Deep graphs are freed as they are unrecorded: in a thread's small stack, and each object at the same statement."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PROGRAM = '''
import contextlib, json, sys, threading, weakref
import torch
import seegrad

LEVELS = 2_000  # unless they are freed bit by bit, a stack of 256 KiB holds some 900 of them


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        watched["ctx"] = weakref.ref(ctx)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def leaf():
    return torch.ones(2, requires_grad=True)


def chain(y, levels=LEVELS):
    for level in range(levels):
        if level == levels // 2:
            watched["saved"] = weakref.ref(y)
            y = Twice.apply(y)
            watched["made"] = weakref.ref(y)
        y = y * 1.0
    return y


def forward_only():
    y = chain(leaf())
    yield [y]
    del y
    yield ()


def backward():
    x = leaf()
    y = chain(x)
    y.sum().backward()
    yield [x.grad]
    del y
    yield ()


def backward_twice():
    x = leaf()
    loss = chain(x).sum()
    loss.backward(retain_graph=True)
    yield [x.grad]
    loss.backward()
    yield [x.grad]
    del loss
    yield ()


def residuals():
    y = leaf()
    for _ in range(LEVELS):
        y = (y * 1e-9).exp() + y
    yield [y]
    y = Twice.apply(y)
    del y
    yield ()


def custom():
    y = leaf()
    for _ in range(LEVELS // 2):
        y = Twice.apply(y)
    yield [y]
    del y
    yield ()


def two_losses():
    trunk = chain(leaf())
    first, second = chain(trunk, 30), chain(trunk, LEVELS)
    yield [first, second]
    del trunk, second
    yield ()
    del first
    yield ()


def held_in_the_middle():
    middle = chain(leaf(), LEVELS // 2)
    y = chain(middle)
    yield [y]
    del y
    yield [middle]
    del middle
    yield ()


def states_of_a_loop():
    states = [leaf()]
    for _ in range(LEVELS // 2):
        states.append(states[-1] * 1.0)
    for state in reversed(states):
        states[0] = Twice.apply(states[0]) + state
    stacked = torch.stack(states)
    yield [stacked[-1]]
    del states, state
    yield ()
    del stacked
    yield ()


def made_before():
    yield [before.pop()]
    yield ()


def run(program, recorded):
    """What each statement made, and what is dead after it."""
    watched.clear()
    before[:] = [chain(leaf())] if program is made_before else []
    found = []
    with (seegrad.record if recorded else contextlib.nullcontext)():
        for made in program():
            found.append([each.detach().tolist() for each in made])
            del made
            found.append({name: ref() is None for name, ref in watched.items()})
    return found


def run_all():
    for program in PROGRAMS:
        print(program.__name__, file=sys.stderr, flush=True)
        said[program.__name__] = [run(program, recorded) for recorded in (False, True)]


watched, before, said = {}, [], {}
PROGRAMS = (
    forward_only,
    backward,
    backward_twice,
    residuals,
    custom,
    two_losses,
    held_in_the_middle,
    states_of_a_loop,
    made_before,
)
threading.stack_size(256 * 1024)
thread = threading.Thread(target=run_all)
thread.start()
thread.join()
print(json.dumps(said))
'''


@pytest.mark.whole
def test_a_deep_graph_dies_as_it_does_unrecorded(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{done.stderr}\nended with {done.returncode} in the last of these"
    for name, (plain, recorded) in json.loads(done.stdout).items():
        assert recorded == plain, name
        assert all(plain[-1].values()), name
