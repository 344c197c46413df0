"""The judge's process: the instructor's cells and the test cells run here, beside the student's process, not in it.

Its verdicts go to its owner over a descriptor that no other process has.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import asdict
from typing import Any

from nbjudge.bridge.effects import LATER
from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import StudentGone
from nbjudge.process.kernel import Kernel
from nbjudge.roles import verdict
from nbjudge.roles.cell_names import Names, definitions, names_in, read_by_functions
from nbjudge.roles.student import seed
from nbjudge.roles.verdict import Ruling
from nbjudge.roles.witness import Witness, readable
from nbjudge.wire import Pipe, listed, text, whole

NOT_PYTHON = "The test cell isn't valid Python; its author has to repair it."
BROKEN = "The instructor's cell that makes {name!r} fails where the tests run: {why}"
TWICE = (
    "The name {name!r} was given a value by an earlier test cell, and then by the answer. The tests have to be renamed."
)


def live(kernel: Kernel, control_fd: int, peer_fd: int) -> None:
    """Serve the owner's requests until it goes."""
    control = Pipe(control_fd)
    kernel.wire(None)  # nothing that a test prints is shown, and nothing of it scores
    kernel.shell.showtraceback = kernel.shell.showsyntaxerror = _nothing
    kernel.shell.displayhook.compute_format_data = lambda _value: ({}, {})  # a last expression isn't shown either
    sys.path[:] = [path for path in sys.path if path]  # nothing is imported from where it happens to stand
    judge = Judge(kernel, Witness(Pipe(peer_fd)))
    judge.witness.watch()
    control.send({"msg_type": "hello"})
    while True:
        try:
            packet = control.receive()
        except EOFError:
            os._exit(0)
        except KeyboardInterrupt:
            continue
        if text(packet.header, "op") == "asked":
            judge.expect(listed(packet.header, "names"), listed(packet.header, "classes"))
            continue
        source, cell = text(packet.header, "code", 1 << 24), whole(packet.header, "cell")
        if text(packet.header, "op") == "instructor":
            judge.instruct(source)
            control.send({"msg_type": "done"})
        else:
            grade_id, number = text(packet.header, "grade_id", 1 << 16), whole(packet.header, "seed", 0, 1 << 256)
            kept = listed(packet.header, "kept") if "kept" in packet.header else None
            control.send(judge.test(source, cell, seed_for(number, grade_id), kept))


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Show no traceback: a verdict says what is to be said."""


def seed_for(number: int, grade_id: str) -> int:
    """The seed of one test cell: the same for every student, unknown to all of them.

    >>> seed_for(1, "q1") == seed_for(1, "q1") != seed_for(1, "q2")
    True
    """
    return int.from_bytes(hashlib.sha256(f"judge {number} {grade_id}".encode()).digest()[:6])


class Judge:
    """Runs cells in its own namespace; a name that isn't ours is asked of the student's process."""

    def __init__(self, kernel: Kernel, witness: Witness) -> None:
        self.kernel = kernel
        self.witness = witness
        self._ours = set(kernel.namespace)  # names that instructor's and test cells have bound: never asked over there
        self._variables: dict[str, int] = {}  # names that a test cell has given a value → that cell
        self._broken: dict[str, str] = {}  # names that an instructor's cell should have bound → why it didn't
        self._borrowed: set[str] = set()
        self._asked: frozenset[str] = frozenset()  # names that the released answers give a value

    def expect(self, names: list[str], classes: list[str]) -> None:
        """What the assignment asks for: such a name is the student's, also where Python has one like it."""
        self._asked = frozenset(names)
        self.witness.words.classes = frozenset(classes)

    def instruct(self, source: str) -> None:
        """Run an instructor's cell that isn't a test: all of it, or what it imports and defines where it needs more.

        A cell that also uses what a student defined runs in the student's process alone; what it computes is theirs.
        """
        try:
            plain = self.kernel.shell.transform_cell(source)
            found = names_in(plain, self._asked)
        except SyntaxError:
            return
        whole_cell = not self._needed(found) - set(found.bound)
        bound = set(found.bound if whole_cell else found.defined)
        result = self._run(source if whole_cell else definitions(plain))
        self._ours |= bound
        if (error := result.error_before_exec or result.error_in_exec) is not None:
            why = verdict.clipped(f"{type(error).__name__}: {error}")
            self._broken |= dict.fromkeys(bound - set(self.kernel.namespace), why)

    def test(self, source: str, cell: int, number: int, kept: list[str] | None = None) -> dict[str, Any]:
        """Run a test cell: its verdict, and what it rests on, as plain data.

        `kept` are the places whose arguments the reference changes too. Where the answer has changed others, the test
        may have computed what it expects from them: it is asked once more with clones, and has to say the same.
        """
        said = self._verdict(source, cell, number)
        changed = sorted(self.witness.peer.effects.places)
        said |= {"changed": changed, "held": True}
        if kept is None or not said["fraction"] or set(changed) <= {*kept} or LATER in kept:
            return said
        self.witness.peer.effects.undo()
        again = self._verdict(source, cell, number, kept)
        held = (again["fraction"] or 0.0) >= said["fraction"]
        claims = sorted({*said["claims"], *again["claims"]})
        return {**said, "held": held, "claims": claims, "alone": said["alone"] or again["alone"]}

    def _verdict(self, source: str, cell: int, number: int, kept: list[str] | None = None) -> dict[str, Any]:
        self.witness.begin(kept)
        try:
            said = self._judged(source, cell, number)
        except StudentGone as error:
            said = Ruling(0.0, str(error))
        except UnsupportedError as error:
            said = Ruling(None, verdict.unsupported(str(error)))
        except KeyboardInterrupt:
            said = Ruling(0.0, "interrupted")
        except Exception as error:  # ours: this question isn't graded, the next one may be
            said = Ruling(None, verdict.clipped(f"The judge itself failed: {type(error).__name__}: {error}"))
        if self.witness.unsupported is not None:
            said = Ruling(None, verdict.unsupported(self.witness.unsupported))
        words = self.witness.words
        rest = {"claims": words.claims, "alone": words.alone, "gone": self.witness.gone}
        return {"msg_type": "verdict", **asdict(said), **rest}

    def _judged(self, source: str, cell: int, number: int) -> Ruling:
        try:
            found = names_in(self.kernel.shell.transform_cell(source), self._asked)
        except SyntaxError:
            return Ruling(None, NOT_PYTHON)
        if (problem := self._problem(found)) is not None:
            return Ruling(None, problem)
        self._borrow(self._needed(found), set(found.bound))
        seed(number)
        self.witness.peer.surroundings.begin()
        with self.witness.reading():
            result = self._run(source)
        self._ours |= set(found.bound)
        self._variables |= dict.fromkeys(set(found.bound) - set(found.defined), cell)
        self.witness.finish()
        if (error := result.error_before_exec or result.error_in_exec) is not None:
            return verdict.of_exception(error, source, self._filename(source))
        return verdict.of_value(result.result)

    def _problem(self, found: Names) -> str | None:
        """What is wrong with the course's own cells, so that this one can't be judged."""
        broken = sorted(set(found.read) & self._broken.keys() - set(found.bound))
        if broken:
            return BROKEN.format(name=broken[0], why=self._broken[broken[0]])
        shared = sorted(set(found.read) & self._variables.keys() - set(found.bound))
        later = self.witness.bound_at(shared) if shared else {}
        for name in shared:
            if later.get(name, 0) > self._variables[name]:
                return TWICE.format(name=name)
        return None

    def _needed(self, found: Names) -> set[str]:
        """What a cell reads that isn't ours, also through our own functions."""
        through = read_by_functions(found.read, self.kernel.namespace, self._asked)
        return {name for name in {*found.read, *through} if name not in self._ours}

    def _borrow(self, names: set[str], bound: set[str]) -> None:
        """Fetch the student's names anew; what can't be carried matters only where the cell doesn't bind it itself."""
        for name in self._borrowed - self._ours:
            self.kernel.namespace.pop(name, None)
        found = self.witness.names(sorted(names)) if names else {}
        for name, value in found.items():
            if isinstance(value, UnsupportedError) and name not in bound:
                raise value
        self.witness.words.expect(found, self._asked)
        self._borrowed = set(found)
        self.kernel.namespace.update(readable(found.items()))

    def _run(self, source: str) -> Any:
        self.kernel.announce()
        return self.kernel.shell.run_cell(source, store_history=True, silent=False)

    def _filename(self, source: str) -> str:
        """The file name under which IPython compiled the cell."""
        shell = self.kernel.shell
        return str(shell.compile.get_code_name(source, shell.transform_cell(source), shell.execution_count - 1))
