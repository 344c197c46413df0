"""Watch a block of torch code and write down what it did. Watching changes nothing: see `Capture`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any, Literal, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from seegrad.capture.backward import BackwardRun
from seegrad.capture.op import COPY, Call, Op, call_of
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.copying import Holder, among, holder, unreached
from seegrad.capture.probes.places import (
    Code,
    Source,
    call_as,
    caller,
    is_signalled,
    is_users,
    outside_packages,
    step_behind,
    user_frame,
    way_in,
    without_us,
)
from seegrad.capture.probes.refusals import computed_off, number_from, refused
from seegrad.capture.probes.swaps import on_swap
from seegrad.capture.probes.variables import tensors_in
from seegrad.capture.recomputed import Recomputations
from seegrad.capture.state import RecordingState
from seegrad.capture.step import Step, is_torchs
from seegrad.capture.tables.frames import PLAIN
from seegrad.capture.training.leaving.taken import TAKING
from seegrad.capture.training.lost import (
    tell_kept,
    tell_lost,
    tell_numbers,
    tell_overwritten,
    tell_renewed,
    tell_unread,
)
from seegrad.capture.training.shared import unregistered
from seegrad.capture.training.steps.rescaled import SCALES
from seegrad.capture.training.steps.rounded import ADDS, RoundedSums
from seegrad.capture.training.uses import CLIPPING, UNSCALING, ZEROING, on_step
from seegrad.model.recording import Clue, RaisedError, Recording
from seegrad.words.errors import text_of

Detail = Literal["default", "content"]
Result = TypeVar("Result")

logger = logging.getLogger("seegrad")

RAISE_OWN_ERRORS = "SEEGRAD_RAISE_OWN_ERRORS"
"""Environment variable for tests: an error in the recorder's own bookkeeping is raised instead of logged."""


IN_STEPS = frozenset({"op", "gradient", "told"})
"""Kinds of calls by which torch's own code steps an optimiser."""

HANDING_OUT = frozenset({"copy", "escape"})
REFUSING = frozenset({COPY, "numpy", "__array__"})
"""Kinds of calls that give a tensor to someone outside torch; those that refuse one with a graph."""

_SAID: set[str] = set()
"""What could not be recorded, as it was said."""


def quietly(work: Callable[..., Result], *args: Any) -> Result | None:
    """Own bookkeeping: nobody's mode or subclass sees it; its errors go to the log and not into the user's program."""
    try:
        with _torch.unseen():
            return work(*args)
    except RecursionError:  # the program is at Python's limit: no room to record, and none to say so
        return None
    except Exception as error:
        if os.environ.get(RAISE_OWN_ERRORS) or is_signalled(error):
            raise
        _say(error)
        return None


def _say(error: Exception) -> None:
    """Each thing once, in one line; its traceback is for those who turn debugging on."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    where = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}" if step is not None else ""
    what = f"{type(error).__name__} at {where}"
    if what not in _SAID:
        _SAID.add(what)
        logger.warning(
            "seegrad could not record an event; the program itself is not affected (%s: %s)", what, text_of(error)
        )
        logger.debug("what was raised there", exc_info=error)


def _nothing() -> None:
    """What ends where nothing has begun."""


Listener = Callable[[BaseException | None], None]
"""Is told of each backward call that has returned, with None, and of each error that torch raises."""


EMPTY = "empty parameter list"

OF_TENSORS = frozenset({"backward", "detach", "grad_fn", "requires_grad", "requires_grad_", "retain_grad"})
"""What tensors alone have."""


class Capture(TorchFunctionMode):
    """Sees each call of torch in one thread, from `start` to `stop`.

    What makes it transparent: a function mode doesn't change what torch computes; saved tensors are read without
    unpacking and held weakly; hooks are on Nodes only while a backward runs; an error in the recorder's own
    bookkeeping never reaches the user's program.
    """

    def __init__(
        self,
        detail: Detail = "default",
        code: Code | None = None,
        *,
        check_nan: bool = False,
        check_functions: bool = False,
        values: bool = False,
        listener: Listener | None = None,
    ) -> None:
        super().__init__()
        self._listener = listener
        self._source = Source(code)
        self._state = RecordingState(
            self._source,
            every_byte=detail == "content",
            extremes=check_nan,
            functions=check_functions,
            values=values,
        )
        self._sums = RoundedSums(self._state.tables)
        self._recomputed = Recomputations(self._state.tables, self._state.source, quietly)
        self._calls: dict[Callable[..., Any], Call] = {}
        self._block: FrameType | None = None
        self._steps: dict[int | None, Step] = {}  # under way
        self._told_step: tuple[int, CodeType, Step | None] | None = None  # for which caller, by its address and code
        self._code: tuple[tuple[int, str], ...] = ()
        self._file = ""
        self._end: Callable[[], None] = _nothing
        self._unhooked: Callable[[], None] = _nothing
        self._over = False

    # -- begin and end

    def start(self, frame: FrameType | None, *, below: bool = False) -> None:
        """Begin; `frame` holds the block. `below`: under the modes that are on, which end before this one."""
        self._block = frame
        quietly(self._read_block, frame)
        with ExitStack() as ends:
            ends.callback(on_swap(self._state.tables.exchanged))
            self._unhooked = on_step(self._step_begins, self._step_ends)
            ends.callback(self._state.assigned.watch(quietly))
            self._end = ends.pop_all().close
        if below:
            _torch.enter_below(self)
        else:
            self.__enter__()  # type: ignore[no-untyped-call]  # torch gives it no types

    def _read_block(self, frame: FrameType | None) -> None:
        self._code, self._file = self._source.block(frame), self._source.file(frame)
        self._state.start(frame, self._source.start(frame))

    def leave(self) -> None:
        """Nothing is told of what this thread does any more: not while it's told of something."""
        _torch.leave(self)
        self._unhooked()

    def stop(self, error: BaseException | None) -> RaisedError | None:
        """End, whether or not the block raised; the error that left the block. What is told after it isn't looked at.

        Torch goes through its hooks while one of them ends this, and puts a mode back that it has told of a call: both
        go when `leave` is called.
        """
        self._over = True
        _torch.leave(self)
        self._settle()
        self._steps.clear()
        block, self._block = self._block, None
        quietly(self._state.finish, block)
        left = quietly(self._left_by, error) if error is not None else None
        self._end()
        quietly(self._recomputed.end)
        if self._state.functions is not None:
            quietly(self._state.functions.compare)
        quietly(tell_lost, self._state.tables, self._source)
        quietly(tell_unread, self._state.tables, self._source)
        quietly(tell_overwritten, self._state.tables, self._source)
        quietly(tell_numbers, self._state.tables, self._source)
        quietly(tell_renewed, self._state.tables, self._source)
        quietly(tell_kept, self._state.tables, self._source)
        quietly(self._state.tables.let_go)
        return left

    def _step_begins(self, optimiser: torch.optim.Optimizer, frame: FrameType) -> None:
        if self._over:
            return
        user, self._told_step = user_frame(frame), None
        self._steps.pop(id(frame), None)  # of one that raised, whose place in memory this one has got
        quietly(self._state.steps, optimiser, user)
        quietly(self._state.uses.stepped, optimiser, user)
        quietly(self._state.switches.closures.begins, optimiser, self._state.source.place(user))
        if is_torchs(optimiser):
            quietly(self._state.rounded.begins, optimiser, self._state.source.place(user))
        else:
            quietly(self._state.switches.states.begins, optimiser)
        if self._state.extremes is None and is_torchs(optimiser) and _torch.is_on(self):
            step = quietly(Step, self._state, optimiser, user)
            if step is not None:
                self._steps[id(frame)] = step

    def _step_of(self, frame: FrameType) -> Step | None:
        """The step that makes a call from that frame by torch's own code alone: as a rule the one before it, too."""
        told = self._told_step
        if told is None or told[0] != id(frame) or told[1] is not frame.f_code:
            step = None if _torch.bypassed() else self._steps.get(step_behind(frame))
            self._told_step = told = id(frame), frame.f_code, step
        return told[2]

    def _step_ends(self, optimiser: torch.optim.Optimizer, frame: FrameType) -> None:
        if self._over:
            return
        self._told_step = None
        quietly(self._state.rounded.ends, optimiser)
        quietly(self._state.switches.closures.ends)
        quietly(self._state.switches.states.ends, optimiser)
        step = self._steps.pop(id(frame), None)
        if step is not None:
            quietly(step.settle)

    def _within(
        self,
        step: Step,
        call: Call,
        frame: FrameType,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Torch's own code of a step makes this call: nobody else sees what it does, unless it fails."""
        if step.waits:
            quietly(step.look)
        try:
            result = call_as(frame, func, args, kwargs)
        except Exception as error:
            quietly(step.settle)
            self._failed(call, frame, args, kwargs, error)
            raise
        if call.fused:
            step.fused(call.name, args[0])
        return result

    def recording(self, error: RaisedError | None = None) -> Recording:
        """What was seen so far."""
        versions = (("python", ".".join(map(str, sys.version_info[:3]))), ("torch", str(torch.__version__)))
        if self._state.extremes is not None:
            self._state.extremes.settle()
        return self._state.tables.freeze(self._code, self._file, versions, error)

    def _left_by(self, error: BaseException) -> RaisedError | None:
        if isinstance(error, SystemExit | GeneratorExit):
            return None
        frames = _users(error)
        said = self._state.left_by(error, self._source.raised_on(error), frames, refused(error))
        missing = unreached(self._source, error, frames)
        self._state.tables.clues += [
            Clue("unreached", said.frame, place, (), (("module", path),)) for path, place in missing
        ]
        if EMPTY in text_of(error):
            unseen = unregistered(self._source, frames)
            self._state.tables.clues += [
                Clue("unregistered", said.frame, place, (), (("how", how), ("name", path)))
                for how, path, place in unseen
            ]
        if isinstance(error, AttributeError) and frames and error.name in OF_TENSORS:
            made = number_from(self._source, frames[-1], error.name)
            clues = [] if made is None else [Clue("plain", said.frame, made[1], (), (("how", made[0]),))]
            self._state.tables.clues += clues
        return said

    # -- each call

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.compiler.is_compiling() or self._over:  # the compiler reads this very function: it finds but the call
            return func(*args, **(kwargs or {}))
        try:
            call, kwargs = self._call_of(func), kwargs or {}
            if call.silent and (not types or (len(types) == 1 and types[0] in PLAIN)):
                return func(*args, **kwargs)
            frame, kind = caller(sys._getframe(1)), call.kind
            if self._steps and kind in IN_STEPS:
                step = self._step_of(frame)
                if step is not None:
                    return self._within(step, call, frame, func, args, kwargs)
            if kind == "read" or _torch.bypassed():
                if call.name in TAKING:
                    quietly(self._state.switches.taken.met, args[0], frame)
                return call_as(frame, func, args, kwargs)
            if kind in HANDING_OUT:
                return self._hands_out(call, frame, func, args, kwargs)
            if call.name == "view_as" and _torch.is_of_apply(frame, args):
                quietly(self._state.applies, user_frame(frame))
                return call_as(frame, func, args, kwargs)
            if kind in ("gradient", "leaf"):
                asked = self._state.gradient_read if kind == "gradient" else self._state.made.asked
                quietly(asked, args[0], frame)
                return call_as(frame, func, args, kwargs)
            if kind == "clear":
                if args[1] is None:
                    quietly(self._state.uses.cleared, args[0], user_frame(frame))
                    return call_as(frame, func, args, kwargs)
                quietly(self._state.uses.replaced, args[0], args[1])
            way = way_in(frame, self._block)
            user = way[0][-1] if way[0] else None
            if kind != "op":
                if kind == "backward":  # called from here: what an error's traceback is mended by
                    return self._backward(call.name, frame, user, func, args, kwargs)
                if kind == "hook":
                    handle = call_as(frame, func, args, kwargs)
                    quietly(self._state.hooked, call.name, args, user, handle)
                    return handle
                if self._passed(call, frame, user, args, kwargs):
                    return call_as(frame, func, args, kwargs)
            self._settle()
            if call.inplace or frame.f_code.co_filename == CLIPPING:
                self._writes(call, frame, user, args)
            op = quietly(Op, self._state, call, args, kwargs, frame, way)
            try:
                result = call_as(frame, func, args, kwargs)
            except Exception as error:
                if op is not None:
                    quietly(op.failed, error)
                    self._tell(error)
                raise
            if op is not None:
                self._ran(op, call, result)
            return result  # noqa: TRY300  # an `else` would split what belongs together
        except BaseException as error:
            quietly(without_us, error)
            raise

    def _hands_out(
        self, call: Call, frame: FrameType, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """`copy.deepcopy` or numpy has come to a tensor: of interest, too, where torch refuses it for its graph."""
        if call.kind == "escape":
            quietly(self._state.escaped, tensors_in(args))
        try:
            return call_as(frame, func, args, kwargs)
        except RuntimeError as error:
            if call.name in REFUSING:
                self._failed(call, frame, args, kwargs, error, quietly(self._held, call, frame, args))
            raise

    def _held(self, call: Call, frame: FrameType, args: tuple[Any, ...]) -> Holder | None:
        """Who holds what was refused."""
        if call.kind == "escape":
            return among(args[0], outside_packages(way_in(frame, self._block)[0]))
        user = user_frame(frame)
        return holder(self._source, frame, [] if user is None else [user])

    def _failed(
        self,
        call: Call,
        frame: FrameType,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        error: Exception,
        held: Holder | None = None,
    ) -> None:
        """A call has raised at which nobody had looked. Who hands a tensor to numpy's own code hands it to numpy."""
        way = way_in(frame, self._block)
        way = outside_packages(way[0]) if call.kind == "escape" else way[0], way[1]
        op = quietly(Op, self._state, call, args, kwargs, frame, way)
        if op is not None:
            quietly(op.failed, error, held)
            self._tell(error)

    def _tell_off(self, error: BaseException) -> None:
        tables, line = self._state.tables, computed_off(self._source, error)
        if line is not None and tables.errors:
            tables.clues.append(Clue("computed off", tables.errors[-1].frame, line, ()))

    def _settle(self) -> None:
        """Code of the user's runs: what steps under way, or left by an error, have written comes before it."""
        self._told_step = None
        for step in self._steps.values():
            quietly(step.settle)

    def _passed(
        self, call: Call, frame: FrameType, user: FrameType | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        """Note what is told by the call alone; True where there's no more to it."""
        if call.kind == "mode":
            quietly(self._state.switches.mode, args[0], frame, user)
        elif call.kind == "told":
            quietly(self._state.told, call.name, args, kwargs, user)
            return False
        else:
            return False
        return True

    def _writes(self, call: Call, frame: FrameType, user: FrameType | None, args: tuple[Any, ...]) -> None:
        """What a write does to gradients, as far as its name and its caller tell; and a clip that finds none."""
        if call.name in ZEROING:
            quietly(self._state.uses.zeroed, tensors_in(args), user)
        elif frame.f_code.co_filename == CLIPPING:
            if call.inplace:
                quietly(self._state.uses.clipped, tensors_in(args[:1]), frame, user)
            elif call.name == "tensor":
                quietly(self._state.uses.clipped_nothing, frame, user)
        elif call.name == UNSCALING:
            quietly(self._state.uses.unscaled, tensors_in(args[:1]), user)
        elif call.name in SCALES:
            quietly(self._state.uses.scaled, call.name, args, user)

        if call.name in ADDS:
            quietly(self._sums.begins, call.name, args)

    def _ran(self, op: Op, call: Call, result: Any) -> None:
        """What an op has made, what its sum left as it was, what a checkpoint makes once more."""
        quietly(op.done, result)
        if call.name in ADDS:
            quietly(self._sums.ends, result)
        if _torch.packs() is not None:
            quietly(self._recomputed.ran, call.name, self._state.tables.frames.now, result)

    def _call_of(self, function: Callable[..., Any]) -> Call:
        try:
            call = self._calls.get(function)
            if call is None:
                call = call_of(function)
                if not is_users(getattr(getattr(function, "__code__", None), "co_filename", torch.__file__)):
                    self._calls[function] = call  # the user's own isn't kept: it may be made anew and be gone
        except TypeError:  # a function of the user's that can't be hashed
            return call_of(function)
        return call

    def _backward(
        self,
        name: str,
        frame: FrameType,
        user: FrameType | None,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        self._settle()
        run = quietly(BackwardRun, self._state, name, args, kwargs, user)
        try:
            if run is not None:
                quietly(run.attach, quietly)
            result = call_as(frame, func, args, kwargs)
        except Exception as error:
            if run is not None:
                quietly(self._state.last_look, user)
                quietly(run.failed, error, user)
                quietly(self._tell_off, error)
                quietly(self._state.refused, error, user)
                self._tell(error)
            raise
        finally:
            if run is not None:
                quietly(run.detach)
        if run is not None:
            quietly(run.done, result)
            self._tell(None)
        return result

    def _tell(self, error: Exception | None) -> None:
        if self._listener is not None:
            quietly(self._listener, error)


def _users(error: BaseException) -> list[FrameType]:
    """The frames of the user's code in the error's traceback, the outermost first."""
    found, step = [], error.__traceback__
    while step is not None:
        found += [step.tb_frame] if user_frame(step.tb_frame) is step.tb_frame else []
        step = step.tb_next
    return found
