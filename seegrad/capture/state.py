"""What happens between two calls of torch: names are given, bytes change unseen, Nodes appear that no call made."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Sequence
from itertools import chain, pairwise
from types import FrameType
from typing import Any

import torch

from seegrad.capture.extremes import Aftermath, ExtremesWatch, Stillness
from seegrad.capture.functions import FunctionChecks, Unpassed, returned_on, unread_check
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, is_users, user_frame, user_frames
from seegrad.capture.probes.refusals import SAID_ELSEWHERE, said_of_refused
from seegrad.capture.probes.source_text import called_at
from seegrad.capture.probes.stores import Bound, bound, stored_at
from seegrad.capture.probes.suspects import Trail, likeliest
from seegrad.capture.probes.variables import (
    Named,
    Reach,
    VariableNames,
    attributes,
    held_tensors,
    module_tensors,
    modules,
    variables,
)
from seegrad.capture.tables import Tables
from seegrad.capture.tables.forget import Forgetting
from seegrad.capture.tables.frames import FrameDraft, Hit
from seegrad.capture.tables.nodes import Birth
from seegrad.capture.tables.saved import NOWHERE, Line, Saved, Unseen
from seegrad.capture.tables.tensors import Tensors
from seegrad.capture.training.assigned import AssignedParameters
from seegrad.capture.training.collected import Collections
from seegrad.capture.training.idle import IdleOptimisers
from seegrad.capture.training.made import MadeOptimisers
from seegrad.capture.training.shared import SharedThings
from seegrad.capture.training.steps.anew import WrittenResults
from seegrad.capture.training.steps.let_go import LetGo
from seegrad.capture.training.steps.rounded import RoundedSteps
from seegrad.capture.training.steps.run_out import RunOut
from seegrad.capture.training.steps.unheard import UnheardBackwards
from seegrad.capture.training.steps.untied import TiedParameters
from seegrad.capture.training.steps.vain import StepsInVain
from seegrad.capture.training.switches import SWITCHES, Switches
from seegrad.capture.training.uses import GradientUses
from seegrad.model.recording import GRADIENT_READ, Clue, Place, RaisedError
from seegrad.words.errors import text_of

LOOKS_AT_HOOKS = frozenset({1, 4})
"""Backward calls at which those of modules are looked at."""

MOST_WAYS = 1_000
"""Backward calls of which it's remembered how they came about: what an older one has freed, hardly anybody holds."""


class RecordingState:
    """A Recording that grows: the tables, and what is known of the moment."""

    def __init__(
        self,
        source: Source,
        *,
        every_byte: bool,
        extremes: bool = False,
        functions: bool = False,
        values: bool = False,
    ) -> None:
        self.source = source
        self.tables = Tables(every_byte=every_byte, values=values)
        self.lock = threading.RLock()  # the engine has a thread for each device
        self.uses = GradientUses(self.tables, source)
        self.extremes = ExtremesWatch(self.tables) if extremes else None
        self.aftermath = None if extremes else Aftermath(self.tables)
        self.stillness = Stillness(self.tables)
        self.functions = FunctionChecks(self.tables, source) if functions else None
        self.switches = Switches(self.tables, source, self.meet)
        self._collections = Collections(self.tables, source)
        self._tied, self._let_go = TiedParameters(self.tables), LetGo(self.tables, source)
        self.made = MadeOptimisers(source)
        self.assigned = AssignedParameters(self.tables, source, self._tied, self._let_go, self.made)
        self._shared = SharedThings(self.tables, source, self.made)
        self.rounded, self._run_out = RoundedSteps(self.tables), RunOut(self.tables, source)
        self._anew, self._unpassed = WrittenResults(self.tables), Unpassed(self.tables, source)
        self._vain, self._unheard = StepsInVain(self.tables), UnheardBackwards(self.tables, source)
        self._idle = IdleOptimisers(self.tables, source, self.uses.has_stepped)
        self._names, self._forgetting = VariableNames(), Forgetting(self.tables)
        self._backwards = self._began = 0
        self._ways: dict[int, tuple[Place, ...]] = {}  # of the newest backward calls, the lines under way
        self._block: FrameType | None = None
        self._module: dict[str, Any] = {}  # variables of the last line that ran outside any function
        self._last_line: Line | None = None
        self._trail = Trail()
        # The line that called the custom Function which was running at the last event; and one event before.
        self.applying: Place | None = None
        self._applied: Place | None = None
        self._functions = weakref.WeakSet[Any]()  # those whose backward was read
        self._inside: tuple[int, ...] = ()  # Writes that the forward of a custom Function has made

    # -- begin and end

    def start(self, frame: FrameType | None, place: Place | None) -> None:
        """The block begins."""
        self._block = frame
        self.tables.frames.new("start", "start", place)
        self.uses.start(frame)

    def finish(self, block: FrameType | None) -> None:
        """The block ends: a last look at what has no name yet. Given code has its names in a module of its own."""
        block = None if self.source.given else block
        self.new_event(block, deep=True)
        self._name(*self._names.afresh([*self._frames(block), self._module]))
        self._collections.look([*self._frames(block), self._module])
        self.assigned.look()
        self.uses.windows.settle()
        self.switches.tell()
        self._block, self._module = None, {}

    def last_look(self, user: FrameType | None) -> None:
        """A call of torch has failed: the last moment at which the variables of these functions can be read."""
        frames = self._frames(user)
        self._name(*self._names.afresh(frames))
        held = [dict(variables(each)) for each in frames]
        spaces = [space for each in held for space in (each, attributes(each))]
        found = self.tables.tensors.aliases(list(map(list, map(held_tensors, spaces))))
        drafts, known = self.tables.tensors.drafts, {name for each in held for name in each}
        self._rename({number: name for number, name in found.items() if drafts[number].name not in known})

    def _rename(self, names: dict[int, str]) -> None:
        """Call these so, and with them what their lines have made under the same names, where that is one new name."""
        drafts, frames = self.tables.tensors.drafts, self.tables.frames.drafts
        made = {
            number: (frame.place, each.name) for number, each in drafts.items() if (frame := frames.get(each.frame))
        }
        new: dict[tuple[Place | None, str | None], set[str]] = {}
        for number in names.keys() & made.keys():
            new.setdefault(made[number], set()).add(names[number])
        for number, key in made.items():
            if number in names or len(new.get(key, ())) == 1:
                drafts[number].name = names.get(number) or next(iter(new[key]))

    def left_by(
        self, error: BaseException, place: Place | None, frames: Sequence[FrameType], refused: torch.Tensor | None
    ) -> RaisedError:
        """The error that leaves the block: the one seen in a call of torch, or one of the user's own.

        `refused` is the tensor that it's about, `frames` are the user's, which it has left.
        """
        if refused is not None:
            self._name(*self._names.afresh(frames))
        kind, text, errors = type(error).__name__, text_of(error), self.tables.errors
        if errors and (errors[-1].kind, errors[-1].text) == (kind, text):
            return errors[-1]
        frame = self.tables.frames.new("error", kind, place)
        frame.inputs = () if refused is None else (self.meet(refused),)
        return RaisedError(kind, text, place, frame.index)

    # -- between two calls

    def new_event(
        self,
        user: FrameType | None,
        *,
        frames: list[FrameType] | None = None,
        direct: bool = True,
        deep: bool = False,
    ) -> None:
        """What happened since the last event: names were given, bytes may have changed behind torch's back.

        `frames` are the user's, where they are known.
        """
        frames, tables = self._frames(user) if frames is None else self._without_block(frames), self.tables
        if not self._last_line:  # nothing has run yet: what these frames hold existed before
            self._foresee(self._names.start(frames), existed=True)
        if user is not None and user.f_code.co_name == "<module>" and user.f_globals is not self._module:
            self._module = user.f_globals if self._lasts(user) else {}
        variables = self._names.event(frames, direct=direct)
        unseen = tables.tensors.name_from(variables) if variables else []
        self._applied, self.applying = self.applying, None if torch.is_grad_enabled() else self._applying_line(frames)
        tables.tensors.applied = self._applied is not None
        if self._applied is None:
            self._inside = ()
        if self.functions is not None and self.applying is None:
            self.functions.over()
        strangers = [*unseen, *self._name(*self._names.everything(frames))] if deep else unseen
        if strangers:
            self.meet_wrapped(strangers, user)
            self.meet_late(strangers)
        line = self.source.line_of(user)
        if tables.saved.every:
            tables.saved.event, tables.saved.line = self._trail.goes_on(frames), line or NOWHERE
        if tables.saved.watching:
            self._look_behind(line)
        self._last_line = line or self._last_line
        if len(self.tables.frames) >= self._forgetting.look_at:
            self._forget()

    def _forget(self) -> None:
        if self.extremes is not None:
            self.extremes.settle()
        self._forgetting.look()
        if self.extremes is not None:
            self.extremes.forgotten(self.tables.frames.drafts)

    def _frames(self, user: FrameType | None) -> list[FrameType]:
        """The user's functions under way. Of given code the block is held by whoever runs it, who isn't the user."""
        return self._without_block(user_frames(user, self._block))

    def _without_block(self, frames: list[FrameType]) -> list[FrameType]:
        return [frame for frame in frames if frame is not self._block] if self.source.given else frames

    def _lasts(self, frame: FrameType) -> bool:
        """True where the variables are a module's, or the given code's: those of another `exec` may die meanwhile."""
        module = sys.modules.get(frame.f_globals.get("__name__", ""))
        return getattr(module, "__dict__", None) is frame.f_globals or self.source.is_given(frame.f_code.co_filename)

    def _name(self, variables: Named, in_modules: Named) -> list[torch.Tensor]:
        """Give these names; the variables among them that no recorded call made although they have a graph."""
        unseen = self.tables.tensors.name_from(variables)
        self._foresee(in_modules)
        return unseen

    def _foresee(self, named: Named, *, existed: bool = False) -> None:
        for name, tensor in named:
            self.tables.tensors.foresee(tensor, name, existed=existed)

    def _applying_line(self, frames: Sequence[FrameType]) -> Place | None:
        """The user's line that called the custom Function whose forward runs now: without gradients, always."""
        if not _torch.may_apply():
            return None
        for outer, frame in pairwise(frames):
            step: FrameType | None = frame
            while step is not None and step is not outer:
                if _torch.applied(step):
                    line = self.source.place(outer)
                    self._unpassed.inside(frames, outer, line)
                    if self.functions is not None and line is not None:
                        self.functions.met(step, line)
                    return line
                step = step.f_back
        return None

    def applies(self, user: FrameType | None) -> None:
        """A custom Function's forward has returned; the line that called it."""
        self.applying = self.source.place(user)

    def _look_behind(self, line: Line | None) -> None:
        for each in self.tables.saved.changed_behind():
            first, last = each.stretch
            beside = last - first <= 1
            self._written_behind(each, self.source.between(self._last_line, line) if beside else self._place_of(each))

    def look_before_backward(self, nodes: Sequence[int], *, sure: bool) -> None:
        """Compare what these Nodes keep, where every byte is compared. `sure`: nothing will write before its use."""
        for each in self.tables.saved.look(nodes, sure=sure):
            self._written_behind(each, self._place_of(each))

    def _place_of(self, unseen: Unseen) -> Place | None:
        """The line that most likely made the write."""
        if unseen.place is not None:
            return unseen.place
        first, last = unseen.stretch
        if last - first == 1:
            return self.source.between(self._trail.line(first), self._trail.line(last))
        tensors, saved = self.tables.tensors, unseen.saved
        names = {tensors.drafts[each].name for each in (saved.tensor, *tensors.on_storage(saved.storage))}
        return likeliest(self.source, self._trail.between(first, last), {name for name in names if name})

    def _written_behind(self, unseen: Unseen, place: Place | None) -> FrameDraft:
        frame, saved = self.tables.frames.new("inplace", unseen.op, place), unseen.saved
        self.write(frame, Hit(saved.tensor, saved.storage, saved.span, unseen.op, (saved.version, saved.version)))
        return frame

    def write(self, frame: FrameDraft, hit: Hit) -> int:
        """A Write was made: its number."""
        number = self.tables.write(frame, hit)
        self._anew.wrote(frame, hit.tensor)
        if self.applying is not None:
            self._inside += (number,)
        return number

    # -- what no call has shown

    def meet(self, tensor: torch.Tensor) -> int:
        """A tensor that's first seen as an input was there already: in the Frame before, or from the start."""
        tensors, frames = self.tables.tensors, self.tables.frames
        draft = tensors.draft(tensor)
        if draft is None:
            frame = frames.first if tensors.existed_at_start(tensor) else frames.last
            draft = tensors.describe(tensor, frame.index)
            tensors.show(frame, draft.id, tensor)
        return draft.id

    def meet_wrapped(self, tensors: Sequence[torch.Tensor], user: FrameType | None) -> None:
        """Leaves that were made on the bytes of a result (`nn.Parameter(y)`): each gets a Frame for the unseen call."""
        tables = self.tables
        for tensor in tensors:
            source = wraps(tables.tensors, tensor)
            if source is not None:
                place = bound_at(self.source, tensor, self._frames(user)) or self.source.place(user)
                frame = tables.frames.new("forward", type(tensor).__name__, place)
                frame.inputs = (source,)
                frame.outputs = (tables.tensors.see(tensor, frame.index, frame.inputs, "detach"),)
                tables.tensors.show(frame, frame.outputs[0], tensor)

    def meet_late(self, tensors: Sequence[torch.Tensor]) -> None:
        """Nodes that were made where no call was seen: in C++, before the block, by a custom Function."""
        if not tensors or not torch.is_grad_enabled():
            return
        known = self.tables.tensors
        unknown = [t for t in tensors if known.grad_fn(t) is not None and not self.tables.source(t)]
        if not unknown:
            return
        if self._applied is not None and any(_torch.is_custom(known.grad_fn(tensor)) for tensor in unknown):
            self._was_applied(self._applied, unknown)
        else:
            self._meet_nodes(self.tables.frames.last, unknown)

    def _meet_nodes(self, frame: FrameDraft, made: Sequence[torch.Tensor]) -> None:
        frame.nodes += self.tables.nodes.walk(made, Birth(frame.index, frame.op, (), late=True))
        self._unpassed.over(frame, made)

    def _was_applied(self, line: Place, made: Sequence[torch.Tensor]) -> None:
        """A custom Function was called on that line, and is over: a Frame for the call."""
        node: Any = self.tables.tensors.grad_fn(made[0])
        function = _torch.function_of(node)
        name = str(getattr(function, "__name__", node.name()))
        frame = self.tables.frames.new("forward", name, line)
        self._meet_nodes(frame, made)
        frame.inputs = tuple(dict.fromkeys(self.tables.nodes.given(frame.nodes)))
        frame.outputs = tuple(self.meet(tensor) for tensor in made)
        for number, tensor in zip(frame.outputs, made, strict=True):
            self.tables.tensors.show(frame, number, tensor)
        frame.writes, self._inside = self._inside, ()
        if function is not None and function not in self._functions:
            self._functions.add(function)
            check = unread_check(self.source, function, frame.index, line)
            self.tables.checks += [] if check is None else [check]
            place = returned_on(self.source, function.backward)
            if place is not None and is_users(place.file):
                self.tables.clues.append(Clue("function", frame.index, place, (), (("name", name),)))

    # -- calls that are no ops

    def gradient_read(self, tensor: torch.Tensor, frame: FrameType) -> None:
        """`.grad` was read: a Frame where it's None because backward keeps gradients in leaves alone."""
        if not self._backwards:
            return
        if tensor.retains_grad or self.tables.tensors.is_leaf(tensor):
            self.uses.read(tensor, frame)
            return
        user = user_frame(frame)
        self.new_event(user)
        read = self.tables.frames.new("forward", GRADIENT_READ, self.source.place(user))
        read.inputs = (self.meet(tensor),)

    def steps(self, optimiser: torch.optim.Optimizer, user: FrameType | None) -> None:
        """An optimiser is about to step: a moment to look for what no call of torch shows."""
        self._vain.stepped(optimiser)
        self._anew.stepped()
        if self._run_out.steps(optimiser):
            self._run_out.tell(optimiser, Reach(self._frames(user)))
        first, is_time = not self.uses.has_stepped(optimiser), self.switches.is_time(optimiser)
        is_time_to_ask = is_time or self.switches.is_time_to_ask()
        if self.uses.has_met(optimiser) and not is_time_to_ask:
            return
        frames = self._frames(user)
        reach = Reach(frames)
        self.uses.schedules(optimiser, reach)
        if first or is_time:
            self.switches.guards.look(frames)
        if is_time_to_ask:
            self.switches.look(self._names.met(), optimiser, frames)
        if is_time:
            self._shared.look(optimiser, reach)
            self._tied.look(optimiser)
            self.switches.alike.look(optimiser, self.source.place(user))
            self._unheard.look(optimiser, reach)
            self.assigned.look()
            self._let_go.look(frames)

    def escaped(self, tensors: Sequence[torch.Tensor]) -> None:
        """Someone outside torch was given these tensors' bytes."""
        for tensor in tensors:
            self.tables.saved.watch(self.tables.tensors.storage_number(tensor))

    def hooked(self, method: str, args: tuple[Any, ...], user: FrameType | None, handle: Any) -> None:
        """The user has put a hook on a tensor, and got a handle for it."""
        self.new_event(user)
        tables, tensor = self.tables, args[0]
        if method == "retain_grad" and tables.hooks.keeps(tables.tensors.find(tensor)):
            return  # torch does nothing the second time, and has asked a view for no Node
        frame, place = tables.frames.now, self.source.place(user)
        tables.tensors.settle(tensor)  # torch has put the hook on the Node that made it
        at = tables.source(tensor) if tensor.requires_grad and not _torch.is_leaf(tensor) else None
        number = self.meet(tensor)
        tables.hooks.add(method, args[1:], frame, place, number, at, handle)
        if method == "register_hook":
            self._let_go.hooked(args[1:], number)

    def bound(self, user: FrameType | None) -> Bound:
        """Which lines gave the variables what they hold, of the functions under way."""
        return bound(self.source, self._frames(user))

    def refused(self, error: BaseException, user: FrameType | None) -> None:
        """Torch has refused something for a reason that stands in the user's text."""
        if any(core in text_of(error) for core in SAID_ELSEWHERE):
            self.tables.clues += said_of_refused(self.source, error, self._frames(user), self.tables.frames.now)

    def remade(self, wanted: Sequence[int], user: FrameType | None) -> tuple[tuple[Place, Place], ...]:
        """Of these tensors, the line that made it → the line under way that calls the function in which that stands."""
        drafts, frames = self.tables.tensors.drafts, self.tables.frames.drafts
        made = [frames[drafts[each].frame].place for each in wanted if drafts[each].frame in frames]
        lines = {each: called_at(self.source, self._frames(user), each) for each in made if each is not None}
        return tuple((each, line) for each, line in lines.items() if line is not None)

    # -- for whoever watches one call

    def module(self, call: FrameType | None) -> str:
        """Path of the module that is called in that frame; empty for none."""
        return self._names.module(call, self._block)

    def told(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], user: FrameType | None) -> None:
        """A call is about to be made of which more is told than what it does."""
        if op in SWITCHES:
            self.switches.tensor(args, kwargs, user)
        else:
            self._collections.joined(args, self._frames(user))

    def begin_backward(self, user: FrameType | None) -> int:
        """A backward call begins: its number."""
        self._backwards += 1
        frames = self._frames(user)
        self._began = self.tables.frames.next
        self._ways[self._backwards - 1] = self.source.way(frames)
        self._ways.pop(self._backwards - 1 - MOST_WAYS, None)
        self._collections.lap(frames)
        self._idle.lap(frames)
        if self._backwards in LOOKS_AT_HOOKS:
            self._let_go.of_modules(Reach(frames))
        self.switches.backward_begins()
        return self._backwards - 1

    def ways(self, node: int | None) -> tuple[tuple[Place, ...], ...]:
        """By which lines the newest backward call came about, and the one before that ran a Node which has failed."""
        newest, calls = self._backwards - 1, self.tables.frames.calls_of(node) if node is not None else ()
        before = max((call for call in calls if call != newest), default=newest)
        return (self._ways[newest], self._ways[before]) if before != newest and before in self._ways else ()

    def ask_after(self, op: str, inputs: Sequence[torch.Tensor], user: FrameType | None) -> None:
        """An op that isn't torch's own was given these: where a device may not be waited for, ask what it wrote."""
        place = self.source.place(user)
        for storage in {self.tables.tensors.storage_number(tensor) for tensor in inputs}:
            self.tables.saved.ask(storage, op, place)

    def hear(self, backward: int) -> list[Saved]:
        """Read what the devices were asked while a backward ran: Frames for the writes; what its Nodes used wrongly."""
        answers, told = self.tables.saved.answers(), set()
        for unseen in (each.write for each in answers if each.write is not None):
            place = self._place_of(unseen)
            if (unseen.saved.storage, place) not in told:
                told.add((unseen.saved.storage, place))
                self._written_behind(unseen, place).backward = backward
        return [each.saved for each in answers if each.used]

    def end_backward(self, ran: Sequence[int], place: Place | None, *, ends_lap: bool) -> None:
        """A call has returned or raised, after these Nodes; `autograd.grad`, or one that raised, ends no lap."""
        if place is not None and ends_lap:
            self.uses.windows.came(ran, self._began, place)
            self.switches.closures.came(place)
        self._forgetting.lap(self._ways.get(self._backwards - 1), self._began, ends=ends_lap)


# -- `nn.Parameter(y)`: a new leaf on the bytes of a result. Nobody sees that call: it is told at the first use


def wraps(tensors: Tensors, tensor: torch.Tensor) -> int | None:
    """The tensor with a graph on whose bytes this leaf was made; None for other tensors and for one that's known."""
    if not tensor.requires_grad or tensors.existed_at_start(tensor) or not tensors.is_leaf(tensor):
        return None
    results = tensors.results_beside(tensor) if tensors.draft(tensor) is None else ()
    return results[-1] if results else None


def bound_at(source: Source, tensor: torch.Tensor, frames: list[FrameType]) -> Place | None:
    """The line that gave the tensor to a variable, an attribute or a collection; None where nothing holds it."""
    for frame in reversed(frames):
        in_modules = chain.from_iterable(module_tensors(name, module) for name, module in modules(frame))
        for name, value in chain(held_tensors(frame), in_modules):
            if value is tensor:
                line = stored_at(frame.f_code, name, frame.f_lasti)
                if line is not None:
                    return source.place_at(frame, line)
    return None
