"""Who switches gradients off and on: for all that follows, for single tensors, or by a word that torch doesn't know.

`with torch.no_grad():` is no switch: it ends where it stands. What stays is of interest, and what nobody hears: an
attribute that was set on a Module, or one that is misspelt.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from seegrad.capture.probes.places import Source, is_users, user_frame
from seegrad.capture.probes.source_text import Text, assigned, texts, with_around
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import SwitchDraft
from seegrad.capture.training.carried.averaged import AveragedWeights
from seegrad.capture.training.carried.states import CarriedStates
from seegrad.capture.training.guards import GuardedSwitches
from seegrad.capture.training.leaving.taken import TakenNumbers
from seegrad.capture.training.settings.alike import AlikeRows
from seegrad.capture.training.settings.axes import Axes
from seegrad.capture.training.settings.batches import FirstBatches
from seegrad.capture.training.settings.built import BuiltModules
from seegrad.capture.training.settings.closures import ClosureRuns
from seegrad.capture.training.settings.fitted import FittedTargets
from seegrad.capture.training.settings.modes import Modes
from seegrad.capture.training.settings.rates import Rates
from seegrad.model.recording import Place

GRAD_MODE = "_set_grad_enabled"
"""The call by which all of torch's ways to switch gradients off end."""

SWITCHES = frozenset({"requires_grad_", "set requires_grad"})
"""Calls that switch one tensor's gradient."""

GRAD_MODES = torch.set_grad_enabled.__init__.__code__.co_filename
"""The file of torch's that has them."""

DECORATES = "decorate_context"
"""The function of torch's that stands in for one of the user's that is decorated."""

GRADIENTLESS = torch.no_grad, torch.inference_mode
"""What torch's decorators stand for that switch gradients off."""

INFERENCE = "inference_mode"
"""Torch tells nobody that this begins or ends."""

UNHEARD = "requires_grad", "requires_grad_", "require_grad", "requires_grads"
"""Attributes of a Module that torch never reads."""

MOST_COUNTED = 32
"""So many optimisers have their steps counted each by itself: a loop may make one a turn."""

NOW_AND_THEN = 64
"""Each so many steps it's asked what nobody hears, which costs little: a freeze may come in the midst of a training."""

MISSPELT = re.compile(r"requ(?:i?re|ier|rie)[ds]?_?(?:grads?|gards?|gradients?)_?")
"""What is meant to be `requires_grad` on a Parameter."""

BY_A_FLAG = re.compile(r"\brequires_grad(?: *= *|_\()([A-Za-z_]\w*)\)? *(?:#|;|$)")
"""Code in which a variable says whether the gradient is to be on."""


class Switches:
    """All that was switched, in order. `meet` gives a tensor's number."""

    def __init__(self, tables: Tables, source: Source, meet: Callable[[torch.Tensor], int]) -> None:
        self._tables, self._source, self._meet = tables, source, meet
        self._steps = 0
        self._counts = weakref.WeakKeyDictionary[torch.optim.Optimizer, int]()
        self._counted = 0
        self._told: set[str] = set()
        self._open: list[Place | None] = []  # the `with` lines of the user's that are under way
        self.guards, self.modes = GuardedSwitches(tables, source), Modes(tables, source)
        self.rates, self._first_batches = Rates(tables, source), FirstBatches(tables, source)
        self.fitted, self.alike, self.built = FittedTargets(tables, source), AlikeRows(tables), BuiltModules(source)
        self.averaged, self.states = AveragedWeights(tables, source), CarriedStates(tables)
        self.closures, self.axes = ClosureRuns(tables), Axes(tables, source)
        self.taken = TakenNumbers(tables, source)
        self._around: dict[tuple[CodeType, int], Place | None] = {}  # line → the `with torch.inference_mode():` around

    def mode(self, on: bool, frame: FrameType, user: FrameType | None) -> None:
        """Gradients are about to be switched by `frame`, for all that follows if no `with` or function ends it."""
        step, place, switches = frame, self._source.place(user), self._tables.switches
        while step.f_back is not None and step.f_back.f_code.co_filename == GRAD_MODES and step is not user:
            step = step.f_back
        decorated = self._decorated(step.f_back)
        if step is not user and step.f_back is not user and decorated is None:
            return  # an optimiser's, which ends it too
        by = step.f_code.co_name
        if by == "__enter__":
            self._open.append(decorated or place)
        elif by == "__exit__" and self._open:
            self._open.pop()
        if decorated is not None:
            return
        if step is user or by == "__init__" or (by in ("__enter__", "__exit__") and place and by in place.code):
            self._add(SwitchDraft("mode", on, self._tables.frames.now, place, []))
        elif by in ("__enter__", "__call__") and type(step.f_locals.get("self")) is torch.set_grad_enabled:
            made = bool(switches) and (switches[-1].kind, switches[-1].frame) == ("mode", self._tables.frames.now)
            del switches[len(switches) - made :]  # `with torch.set_grad_enabled(False):` has switched when it was made

    def _decorated(self, frame: FrameType | None) -> Place | None:
        """The line `@torch.no_grad()` of the user's function that such a frame of torch's calls."""
        held = frame.f_locals if frame is not None and frame.f_code.co_name == DECORATES else {}
        code = getattr(held.get("func"), "__code__", None)
        return self._source.at(code.co_filename, code.co_firstlineno) if code and is_users(code.co_filename) else None

    def off(self, user: FrameType | None) -> Place | None:
        """The innermost `with`, or decorator, of the user's that is under way."""
        inference = self._inference(user) if torch.is_inference_mode_enabled() else None
        return inference or (self._open[-1] if self._open else None)

    def _inference(self, frame: FrameType | None) -> Place | None:
        """The innermost function that is decorated so, or `with` that says so."""
        while frame is not None:
            found = self._says_inference(frame) if is_users(frame.f_code.co_filename) else None
            if found is None and frame.f_code.co_name == DECORATES:
                by = getattr(frame.f_locals.get("ctx_factory"), "__self__", None)
                found = self._decorated(frame) if isinstance(by, GRADIENTLESS) else None
            if found is not None:
                return found
            frame = frame.f_back
        return None

    def _says_inference(self, frame: FrameType) -> Place | None:
        at = frame.f_code, frame.f_lineno
        if at not in self._around:
            self._around[at] = with_around(self._source, frame, INFERENCE)
        return self._around[at]

    def backward_begins(self) -> None:
        """A backward call is made; with gradients off, the `with` that is under way reaches too far."""
        self.closures.arrives()
        if self._open and not torch.is_grad_enabled():
            self._add(SwitchDraft("scope", False, self._tables.frames.now, self._open[-1], []))

    def tell(self) -> None:
        """The block is over."""
        self.fitted.tell()
        self.axes.tell()
        self.taken.tell()
        self.closures.tell()

    def tensor(self, args: tuple[Any, ...], kwargs: dict[str, Any], user: FrameType | None) -> None:
        """A tensor's gradient is about to be switched."""
        tensor, *rest = args
        on = bool(rest[0] if rest else kwargs.get("requires_grad", True))
        number, place = self._meet(tensor), self._source.place(user)
        self._add(SwitchDraft("tensors", on, self._tables.frames.now, self._said_by(place, user), [number]))
        if not on:
            self.guards.switched_off(number, place, user)

    def _said_by(self, place: Place | None, user: FrameType | None) -> Place | None:
        """The line itself; of `p.requires_grad = flag` in a function that is given the flag, the one that calls it."""
        flag = BY_A_FLAG.search(place.code) if place is not None else None
        if flag is None or user is None or flag[1] not in user.f_code.co_varnames[: user.f_code.co_argcount]:
            return place
        caller = user_frame(user.f_back)
        return place if caller is None else self._source.place(caller)

    def _add(self, draft: SwitchDraft) -> None:
        """Those that one line switches one after the other are one."""
        last = self._tables.switches[-1:]
        if last and draft.tensors and _same(last[0]) == _same(draft) and draft.frame <= last[0].frame + 1:
            last[0].tensors += draft.tensors
            last[0].frame = draft.frame
        else:
            self._tables.switches.append(draft)

    # -- what nobody hears

    def is_time(self, optimiser: torch.optim.Optimizer) -> bool:
        """True at the first step of an optimiser, the second, the fourth, …; and at those of all together."""
        self._steps += 1
        self.rates.stepped(optimiser)
        self._counted += optimiser not in self._counts
        own = 0
        if self._counted <= MOST_COUNTED or optimiser in self._counts:
            own = self._counts[optimiser] = self._counts.get(optimiser, 0) + 1
        return self._steps & (self._steps - 1) == 0 or (own > 0 and own & (own - 1) == 0)

    def is_time_to_ask(self) -> bool:
        """True at each so many steps."""
        return self._steps % NOW_AND_THEN == 0

    def look(
        self,
        modules: Iterable[tuple[str, torch.nn.Module]],
        optimiser: torch.optim.Optimizer,
        frames: Sequence[FrameType],
    ) -> None:
        """Find the attributes that were set in vain on these modules, on the optimiser, and on what it holds."""
        self.rates.look(optimiser, frames)
        self._first_batches.look(frames)
        modules = list(modules)
        for path, module in modules:
            for name in (each for each in UNHEARD if vars(module).get(each) is False):
                learning = [leaf for leaf in torch.nn.Module.parameters(module) if leaf.requires_grad]
                if learning:
                    self._unheard(f"{path}.{name}", learning, texts(self._source, frames, module, name))
        held = {id(leaf): leaf for group in optimiser.param_groups for leaf in group["params"]}
        own = (leaf for _, module in modules for leaf in vars(module)["_parameters"].values() if leaf is not None)
        self._misspelt({**{id(leaf): leaf for leaf in own}, **held}.values(), modules, frames)

    def _misspelt(
        self,
        leaves: Iterable[torch.Tensor],
        modules: Sequence[tuple[str, torch.nn.Module]],
        frames: Sequence[FrameType],
    ) -> None:
        """Those that such an attribute was to switch, and that are what they were."""
        found: dict[tuple[str, bool], list[torch.Tensor]] = {}
        for leaf in leaves:
            for name, on in vars(leaf).items():
                if MISSPELT.fullmatch(name) and type(on) is bool and on is not leaf.requires_grad:
                    found.setdefault((name, on), []).append(leaf)
        for (name, on), those in found.items():
            kinds = {type(module): module for _, module in modules} if name not in self._told else {}
            around = (text for each in (None, *kinds.values()) for text in texts(self._source, frames, each, name))
            self._unheard(name, those, list(around), on=on)

    def _unheard(self, name: str, leaves: Sequence[torch.Tensor], texts: Iterable[Text], *, on: bool = False) -> None:
        if name in self._told:
            return
        self._told.add(name)
        *owner, attribute = name.split(".")
        place = assigned(self._source, texts, attribute, owner[-1] if owner else "", on=on)
        if place is not None and not owner and _is_read(self._source.text(place.file), attribute):
            return  # a mark of the user's own
        numbers = {number for leaf in leaves if (number := self._tables.tensors.find(leaf)) is not None}
        draft = SwitchDraft("unheard", on, self._tables.frames.now, place, sorted(numbers), name)
        last = self._tables.switches[-1:]
        if last and _same(last[0]) == _same(draft) and last[0].frame == draft.frame:  # a loop's, module by module
            last[0].tensors = sorted(numbers.union(last[0].tensors))
        else:
            self._tables.switches.append(draft)


def _is_read(text: str, attribute: str) -> bool:
    """Does a program look at that attribute?

    >>> _is_read("p.require_grad = True", "require_grad"), _is_read("if p.require_grad == True:", "require_grad")
    (False, True)
    """
    return re.search(rf"\.{attribute}\b(?! *=(?!=))|getattr\([^()]*{attribute}", text) is not None


def _same(draft: SwitchDraft) -> tuple[str, bool, Place | None]:
    return draft.kind, draft.on, draft.place
