"""The judge's process: the instructor's cells and the test cells run here, beside the student's process, not in it.

Its verdicts go to its owner over a descriptor that no other process has.
"""

from __future__ import annotations

import builtins
import hashlib
import os
import sys
import types
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nbjudge.bridge.around.replaced import Announced
from nbjudge.bridge.standing import Refused
from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import StudentGone
from nbjudge.names import Names, is_unchanged, names_in, packages, read_by_functions
from nbjudge.process.kernel import Kernel
from nbjudge.roles import failing_case, verdict
from nbjudge.roles.places import Known
from nbjudge.roles.reached import Marked
from nbjudge.roles.student import call_it, place, see_own_modules, seed
from nbjudge.roles.verdict import Ruling
from nbjudge.roles.witness import Witness, readable
from nbjudge.wire import Pipe, PipeEnd, listed, text, whole

LOST = "the process that ran it took too long or died"
NOT_PYTHON = "The test cell isn't valid Python; its author has to repair it."
BROKEN = "The instructor's cell that makes {name!r} fails where the tests run: {why}"
UNKNOWN = (
    "The test needs the name {name!r}, which neither the release nor an answer gives a value; its author has to define "
    "it in a cell that students are given, or in the test"
)


def live(kernel: Kernel, control_fd: int, peer_fd: int) -> None:
    """Serve the owner's requests until it goes."""
    control = Pipe(control_fd)
    kernel.wire(None)  # nothing that a test prints is shown, and nothing of it scores
    kernel.shell.displayhook.compute_format_data = lambda _value: ({}, {})  # a last expression isn't shown either
    see_own_modules(sys.path)  # the course's: no file of a student's lies here
    judge = Judge(kernel, Witness(Pipe(peer_fd)))
    kernel.shell.showtraceback = kernel.shell.showsyntaxerror = judge.note_error
    judge.witness.watch()
    control.send({"msg_type": "hello"})
    while True:
        try:
            packet = control.receive()
        except PipeEnd:
            os._exit(0)
        except KeyboardInterrupt:
            continue
        if text(packet.header, "op") == "naming":
            place(packet)
            call_it(packet)
            judge.witness.files.own()
            judge.expect(packet.header["naming"])
            continue
        source = text(packet.header, "code", 1 << 24)
        if text(packet.header, "op") == "instructor":
            judge.instruct(source)
            control.send({"msg_type": "done"})
        elif text(packet.header, "op") == "lost":
            judge.lose(source)
            control.send({"msg_type": "done"})
        else:
            grade_id, number = text(packet.header, "grade_id", 1 << 16), whole(packet.header, "seed", 0, 1 << 256)
            kept = listed(packet.header, "kept") if "kept" in packet.header else None
            judge.read(source, packet.header.get("reading"))
            judge.renew(listed(packet.header, "renewed"))
            judge.points = float(packet.header["points"])
            judge.witness.hold(_known(packet.header.get("places")), recording=packet.header.get("record") is True)
            control.send(judge.test(source, seed_for(number, grade_id), kept))


def _known(said: Any) -> Known | None:
    """What the reference answer showed at each place of a question."""
    return None if said is None else {place: frozenset(roles) for place, roles in said.items()}


def seed_for(number: int, grade_id: str) -> int:
    """The seed of one test cell: the same for every student, unknown to all of them.

    >>> seed_for(1, "q1") == seed_for(1, "q1") != seed_for(1, "q2")
    True
    """
    return int.from_bytes(hashlib.sha256(f"judge {number} {grade_id}".encode()).digest()[:6])


class Judge:
    """Runs cells in its own namespace; a name that the assignment asks for is asked of the student's process."""

    def __init__(self, kernel: Kernel, witness: Witness) -> None:
        self.kernel = kernel
        self.witness = witness
        self.points = 1.0  # of the question
        self._held: set[str] = set()  # asked names that a test has bound since an answer did
        self._broken: dict[str, str] = {}  # names that an instructor's cell should have bound → why it didn't
        self._borrowed: set[str] = set()
        self._asked: frozenset[str] = frozenset()
        self._imports: dict[str, str] = {}
        self._told: frozenset[str] = frozenset()
        self._rebound: frozenset[str] = frozenset()
        self._shown: BaseException | None = None  # of a cell within a cell, as `%%capture` runs one
        self._plain: dict[str, str] = {}
        self._names: dict[str, Names] = {}
        self._passes_on: dict[str, bool] = {}
        self._ways = self._syntax()
        self._transform, kernel.shell.transform_cell = kernel.shell.transform_cell, self._transformed
        kernel.shell.ast_transformers += [Marked(witness.places), Announced(witness.peer.replaced.note)]

    def read(self, source: str, found: Mapping[str, Any] | None) -> None:
        """Take over what the owner has found in a test cell, once for a class."""
        if found is not None:
            self._plain[source] = found["plain"]
            parts: dict[str, Any] = {
                name: tuple(part) if isinstance(part, list) else part for name, part in found["names"].items()
            }
            self._names[source] = Names(**parts)
            self._passes_on[source] = found["passes_on"]

    def _syntax(self) -> list[Any]:
        """What makes Python of a cell; an extension may add to it."""
        shell = self.kernel.shell
        ways = shell.input_transformer_manager
        return [
            *ways.cleanup_transforms,
            *ways.line_transforms,
            *ways.token_transformers,
            *shell.input_transformers_post,
        ]

    def _transformed(self, source: str) -> str:
        """A cell without IPython's own syntax: asked for again and again while a test runs."""
        if self._syntax() != self._ways:
            self._plain, self._names, self._passes_on, self._ways = {}, {}, {}, self._syntax()
        if source not in self._plain:
            self._plain[source] = str(self._transform(source))
        return self._plain[source]

    def _names_of(self, source: str) -> Names:
        plain = self._transformed(source)
        return self._names.get(source) or names_in(plain, self._asked)

    def note_error(self, *_args: Any, **_kwargs: Any) -> None:
        """Show no traceback: a verdict says what is to be said."""
        self._shown = sys.exc_info()[1] or self._shown

    def expect(self, naming: Mapping[str, Any]) -> None:
        """Whose each name is, as the owner has read it from the assignment."""
        self._imports = dict(naming["imported"])
        self._asked = frozenset(naming["asked"])
        self._told, self._rebound = frozenset(naming["told"]), frozenset(naming["rebound"])
        self.witness.places.asked = self._asked

    def instruct(self, source: str) -> None:
        """Run a statement of the release that needs no answer."""
        error = self._run(source)[1]
        if error is not None:
            bound = names_in(self._transformed(source)).bound
            why = verdict.clipped(f"{type(error).__name__}: {error}")
            self._broken |= dict.fromkeys(set(bound) - set(self.kernel.namespace), why)

    def renew(self, names: list[str]) -> None:
        """Answers have bound these since the last test: they are the student's again."""
        self._held -= set(names)
        self._broken = {name: why for name, why in self._broken.items() if name not in names}

    def lose(self, source: str) -> None:
        """A cell that a judge before this one has run, which took too long or died: what it bound isn't known here."""
        try:
            bound = names_in(self._transformed(source)).bound
        except SyntaxError:
            return
        self._broken |= dict.fromkeys(set(bound) - set(self.kernel.namespace), LOST)

    def test(self, source: str, number: int, kept: list[str] | None = None) -> dict[str, Any]:
        """Run a test cell: its verdict, and what it rests on, as plain data.

        `kept` are the places whose arguments the reference changes too. Where the answer has changed others, the test
        may have computed what it expects from them: it is asked once more with clones, and has to say the same. What
        it says of a later question may rest on them, too: however this one ends, they are left as they were.
        """
        before = set(self._held)
        said = self._verdict(source, number)
        if kept is not None and not said["fraction"]:
            self.witness.look_at_files()
        changed = sorted(self.witness.peer.effects.places)
        said |= {"changed": changed, "held": True}
        if kept is None or set(changed) <= {*kept}:
            return said
        if not said["fraction"]:
            self.witness.peer.effects.undo(kept)
            return said
        self.witness.peer.effects.undo()
        self._held = before
        again = self._verdict(source, number, kept)
        held = (again["fraction"] or 0.0) >= said["fraction"]
        claims = sorted({*said["claims"], *again["claims"]})
        return {**said, "held": held, "claims": claims, "alone": said["alone"] or again["alone"]}

    def _verdict(self, source: str, number: int, kept: list[str] | None = None) -> dict[str, Any]:
        self.witness.begin(kept)
        secret = bool(verdict.hidden_lines(source))  # what an answer has to do with may say what it was asked
        try:
            said = self._judged(source, number)
        except StudentGone as error:
            said = Ruling(0.0, str(error), hidden=secret)
        except UnsupportedError as error:
            said = Ruling(None, verdict.unsupported(str(error)), hidden=secret)
        except Refused as error:  # beside the test: what the test itself uses is remembered
            said = Ruling(0.0, str(error), hidden=secret)
        except KeyboardInterrupt:
            said = Ruling(0.0, "interrupted", hidden=secret)
        except (Exception, SystemExit) as error:  # ours: this question isn't graded, the next one may be
            message = verdict.clipped(f"The judge itself failed: {type(error).__name__}: {error}")
            said = Ruling(None, message, hidden=secret)
        self.witness.files.end()
        secret = secret and (said.hidden or bool(said.fraction))  # else a line that anybody sees has failed before
        if self.witness.unsupported is not None:
            said = Ruling(None, verdict.unsupported(self.witness.unsupported), hidden=secret)
        places = self.witness.places
        if said.fraction is not None and places.refused is not None:
            said = replace(verdict.of_stranger(places.refused), hidden=secret)
        seen = {place: sorted(roles) for place, roles in places.seen.items()}
        rest = {"claims": places.claims, "alone": places.alone, "gone": self.witness.gone, "places": seen}
        return {"msg_type": "verdict", **asdict(said), **rest}

    def _judged(self, source: str, number: int) -> Ruling:
        try:
            found = self._names_of(source)
        except SyntaxError:
            return Ruling(None, NOT_PYTHON)
        broken = sorted(set(found.read) & self._broken.keys() - set(found.bound))
        if broken:
            return Ruling(None, BROKEN.format(name=broken[0], why=self._broken[broken[0]]))
        self._borrow(found)
        seed(number)
        self.witness.peer.surroundings.begin()
        with self.witness.reading():
            value, error = self._run(source)
        self._held |= set(found.bound) & self._asked - self._told
        self.witness.finish()
        if error is None:
            self.witness.places.end()
            shown = verdict.number(value)
            if shown and self._is_passed_on(source):
                self.witness.places.vouch("the number that is the score")
            scores = self.witness.places.is_score(shown=shown is not None)
            said = verdict.of_value(value, self.points, scores=scores)
            return replace(said, hidden=failing_case.of_score(source))
        if type(error) is NameError and error.name not in self._students and not self.witness.places.is_known:
            return Ruling(None, UNKNOWN.format(name=error.name))
        name = self._filename(source)
        line, hidden, code = failing_case.of_error(error, source, name, self.kernel.namespace, self._borrowed)
        return replace(verdict.of_exception(error, source, name), hidden=hidden, reproduce=code, line=line)

    def _is_passed_on(self, source: str) -> bool:
        plain = self._transformed(source)
        return self._passes_on[source] if source in self._passes_on else is_unchanged(plain, self._students)

    @property
    def _students(self) -> set[str]:
        return {*self._asked, *self._imports}

    def _borrow(self, found: Names) -> None:
        """Fetch the student's names anew; what can't be carried matters only where the cell reads it."""
        read = {*found.read, *read_by_functions(found.read, self.kernel.namespace, self._asked)}
        mentioned = set(self._students if found.inspects else ())
        needed = ((read | mentioned) & self._students) - self._held
        bound = set(found.bound)
        for name in (self._borrowed | needed) - self._held:
            self.kernel.namespace.pop(name, None)
        given = {name for name in bound if type(self.kernel.namespace.get(name)) is types.FunctionType}
        told = self._told & ((self._students & (needed | bound)) | (bound & vars(builtins).keys()) | given)
        told -= set(found.imported)  # each process imports for itself
        heard = (needed - bound) | (needed & self._rebound)
        values = self.witness.names(sorted(needed), sorted(told), sorted(heard)) if needed or told else {}
        for name, value in values.items():
            if isinstance(value, UnsupportedError) and name in read - bound - self._imports.keys():
                raise value
        self.witness.places.found({name: value for name, value in readable(values.items()).items() if name in read})
        self._borrowed = set(values)
        self.kernel.namespace.update(readable(values.items()))
        for name in self._imports.keys() & values.keys():
            self._import(name, values[name])
        self.witness.peer.names.watch(self.kernel.namespace, told, heard)

    def _import(self, name: str, value: Any) -> None:
        """What an answer imports has to be there; of a library the test uses its own.

        A module of the course's that lies beside the notebook runs where it is imported, and may have a state there.
        """
        if any(Path(package + end).exists() for package in packages(self._imports[name]) for end in ("", ".py")):
            if isinstance(value, UnsupportedError):
                raise value
            return
        if self._run(self._imports[name])[1] is not None and isinstance(value, UnsupportedError):
            raise value

    def _run(self, source: str) -> tuple[Any, BaseException | None]:
        self.kernel.announce()
        self._shown = None
        result = self.kernel.shell.run_cell(source, store_history=True, silent=False)
        return result.result, result.error_before_exec or result.error_in_exec or self._shown

    def _filename(self, source: str) -> str:
        """The file name under which IPython compiled the cell."""
        shell = self.kernel.shell
        return str(shell.compile.get_code_name(source, shell.transform_cell(source), shell.execution_count - 1))
