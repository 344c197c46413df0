"""`pick`: the graph of an exercise, on which its answer is given and then written into the answer cell.

What a learner is to find out isn't in the picture, nor behind it: the program runs up to its first `backward()` only,
and of what was recorded all is forgotten but the graph.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from seegrad.display.widget import Picture
from seegrad.model.recording import Frame, Node, Phase, Recording, TensorRef
from seegrad.model.scene import Question, Scene
from seegrad.picture import draw
from seegrad.quiz.entries import Value, entries
from seegrad.recorder import record
from seegrad.words.languages import speaking

FILE = "<exercise>"
STOP = "__backward__"  # what stands in the program where it would call backward
DRAWN = 32  # pictures that a process remembers
Drawn = tuple[Scene, list[str]]  # and how it looks without an answer, once that has been asked


class BackwardReached(Exception):  # no error: the program goes no further
    """The program has come to its first `backward()`."""


class ExercisePicture(Picture):
    """An exercise's picture. Its question stays open: the answer goes into a cell, and is graded there."""

    def __init__(self, scene: Scene, still: list[str]) -> None:
        super().__init__(scene)
        self._unanswered = still

    def _html(self) -> str:
        """Made once of a drawing, as long as nothing is chosen."""
        if self.answer:
            return super()._html()
        self._unanswered[:] = self._unanswered or [super()._html()]
        return self._unanswered[0]

    def _keep(self, question: Question, answer: dict[str, Any]) -> None:
        """Nothing is kept, and nothing judged: no truth is here."""


def pick(
    answer: str,
    asked: Mapping[str, str | Iterable[Value]],
    program: str,
    setup: str = "",
    *,
    last: int | None = None,
    part: bool = False,
    lang: str | None = None,
) -> ExercisePicture:
    """The graph of a program up to its first `backward()`, on which an exercise is answered.

    `answer` is the variable that the exercise asks for: a dict. `asked` has for each of its entries the values that may
    be chosen, or `"line"`: the number of a line of `program` (`"line or none"`: or 0). A click on the tensor that an
    entry or a value is called after chooses it, a click on a line or on what that line made chooses the line. `setup`
    runs before, and is neither recorded nor shown. `last` is the last line to run, where what follows would tell too
    much. `part`: the answer has other entries, on other programs. `lang` is `en` or `zh_CN`; without it SEEGRAD_LANG or
    the notebook's folder says.

    JupyterLab and Notebook 7 write the answer into the cell that nbgrader calls after it; elsewhere it can be copied.

    Raises: QuestionError where nothing can be asked; whatever the program raises before its backward.

    >>> print(pick("found", {"victim": "line"}, "b = a * 2\\nb.sum().backward()", "a = torch.ones(2)").text())
     1  start     before the first line
     2  forward   b = a * 2
     3  forward   b.sum().backward()
    """
    with speaking(lang) as spoken:
        entered = {name: values if isinstance(values, str) else [*values] for name, values in asked.items()}
        return ExercisePicture(*_drawn(answer, json.dumps(entered), program, setup, last, part, spoken))


@functools.lru_cache(DRAWN)
def _drawn(answer: str, asked: str, program: str, setup: str, last: int | None, part: bool, spoken: str) -> Drawn:
    """Once for the same arguments, `asked` as JSON: a grader's processes are forked of one that has drawn it."""
    recording = _forgotten(_recorded(program.strip("\n"), setup, last))
    return _silent(draw(recording, entries(recording, answer, json.loads(asked), part=part), spoken)), []


def _recorded(program: str, setup: str, last: int | None) -> Recording:
    """What the program does before its first backward; the notebook's names and random numbers stay as they are."""
    names: dict[str, Any] = {STOP: BackwardReached}
    exec("import torch\nfrom torch import nn\nfrom torch.nn import functional as F", names)  # noqa: S102  # a course's usual imports
    with names["torch"].random.fork_rng(devices=()), contextlib.redirect_stdout(io.StringIO()):
        names["torch"].default_generator.manual_seed(0)
        exec(compile(setup, f"{FILE}.setup", "exec"), names)  # noqa: S102  # a cell of the assignment, as the program
        steps = compile(_stopping(program, last), FILE, "exec")
        with record(code=(FILE, 1, program)) as rec, contextlib.suppress(BackwardReached):
            exec(steps, names)  # noqa: S102  # the exercise's own program
    return rec.seen


def _stopping(program: str, last: int | None) -> ast.Module:
    """The program up to a line, with an end where it calls backward."""
    tree = ast.parse(program, FILE)
    tree.body = [one for one in tree.body if last is None or one.lineno <= last]
    for node in ast.walk(tree):
        for field, body in ast.iter_fields(node):
            if isinstance(body, list) and field in ("body", "orelse"):
                body[:] = [part for one in body for part in _stopped(one)]
    return tree


def _stopped(statement: ast.stmt) -> Iterator[ast.stmt]:
    """`(a * b).backward()` becomes `a * b`, and then the end."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(value, "backward"))):
            yield ast.copy_location(ast.Expr(value), statement)
            yield ast.fix_missing_locations(ast.copy_location(ast.Raise(ast.Name(STOP, ast.Load())), statement))
        case _:
            yield statement


def _forgotten(recording: Recording) -> Recording:
    """The graph and the lines alone: no leaf, write, version or shared bytes, nothing that was saved or found."""
    born = {ref.id: ref.frame for ref in recording.tensors}
    ends = {node.id for node in recording.nodes if node.leaf is not None}  # AccumulateGrad
    return replace(
        recording,
        frames=tuple(_plain(frame, born) for frame in recording.frames),
        tensors=tuple(_alone(ref) for ref in recording.tensors),
        nodes=tuple(_unlinked(node, ends) for node in recording.nodes if node.id not in ends),
        writes=(),
        hooks=(),
        diagnoses=(),
    )


def _plain(frame: Frame, born: Mapping[int, int]) -> Frame:
    """Each card has the numbers that it was made with, whatever became of them; a Function makes a card of its own."""
    made = frame.outputs if frame.nodes else ()
    values = tuple(each for each in frame.values if born.get(each[0]) == frame.index or each[0] in made)
    phase: Phase = "forward" if frame.phase == "inplace" else frame.phase
    return replace(frame, phase=phase, writes=(), versions=(), values=values, summaries=())


def _unlinked(node: Node, ends: Collection[int]) -> Node:
    edges = tuple(replace(edge, target=None) if edge.target in ends else edge for edge in node.edges)
    return replace(node, edges=edges, saved=(), inplace=False)


def _alone(ref: TensorRef) -> TensorRef:
    """A tensor like any other: whether it is a leaf, or shares its bytes, is for the learner to say."""
    return replace(
        ref,
        is_leaf=True,
        requires_grad=False,
        storage=ref.id,
        counter=None,
        alias_of=None,
        route="self",
        parameter=False,
    )


def _silent(scene: Scene) -> Scene:
    """Without what is told at each step and of each part."""
    return replace(
        scene,
        frames=tuple(replace(frame, text="") for frame in scene.frames),
        items=tuple(replace(item, rows=()) for item in scene.items),
        sheets=(),
    )
