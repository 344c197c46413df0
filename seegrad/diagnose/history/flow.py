"""Which Frame made or wrote each tensor last, so that it can be gone back to where a graph ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from seegrad.diagnose.evidence import ENTERING, INTEGERS, RESETS, SHAPES, ancestors, is_trained
from seegrad.model.recording import Frame, Recording

LEAVING = frozenset({"detach", "data", "numpy", "__array__", "tolist", "item"})
"""Ops whose result may go on outside torch, as an array, a list or a number."""

MOVES = frozenset({"cpu", "to", "contiguous", "float", "double", "clone", "squeeze", "reshape", "view", "flatten"})
"""Ops between leaving a graph and leaving torch: `y.detach().cpu().numpy()`."""

WRITTEN = "written"
"""Why a graph ends where a history was written into a tensor and autograd didn't follow."""

MOST_WRITTEN = 256
"""So many such writes are looked at of one tensor: a loop makes them on one line."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A Frame at which the graph ends, the tensors with a history that went into it, and why, where that's known."""

    frame: Frame
    given: tuple[int, ...]
    why: str = ""


class Flow:
    """Which Frame made or wrote each tensor last, up to the Frame that was remembered last.

    Each tensor is walked over once in the life of a Flow: a long training loop takes linear time.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._made: dict[int, Frame] = {}
        self._born: dict[int, Frame] = {}
        self._at: dict[int, list[int]] = {}  # storage → the tensors that were made there
        self._taken: set[int] = set()
        self._left: list[Frame] = []
        self._moved: dict[int, int] = {}  # what became of a tensor that left → the one that it was moved from
        self._results: list[tuple[Frame, int]] = []
        self._walked: set[int] = set()
        self._walked_to_leaves: set[int] = set()
        self._walked_in_graphs: set[int] = set()
        self._entered: list[Frame] = []
        self._written: dict[int, list[tuple[Cut, int | None]]] = {}  # storage → what was written there, who hears of it
        self._read: dict[int, tuple[int, int]] = {}  # tensor → what it was computed of; so many writes were there then
        trained = (ref for ref in recording.tensors if is_trained(recording, ref.id))
        self._trained = {ref.storage for ref in trained}

    def remember(self, frame: Frame) -> None:
        """Note what a Frame made, wrote and took."""
        if frame.phase not in ("forward", "inplace") and frame.op != "grad":
            return
        if frame.op in SHAPES:
            self._taken.update(frame.inputs)
            return
        tensors = self._recording.tensors
        fresh = [number for number in frame.outputs if number not in frame.inputs]
        self._remember_unheard(frame, fresh)
        self._made.update(dict.fromkeys(fresh, frame))
        self._born.update(dict.fromkeys(fresh, frame))
        for number in fresh:
            self._at.setdefault(tensors[number].storage, []).append(number)
        self._made.update(dict.fromkeys((self._recording.writes[write].tensor for write in frame.writes), frame))
        if frame.op in ENTERING and not frame.inputs:
            self._entered.append(frame)
        if frame.op in LEAVING and any(tensors[number].requires_grad for number in frame.inputs):
            self._left.append(frame)
            self._moved.update({number: number for number in frame.outputs})
        elif frame.op in MOVES and frame.inputs and all(number in self._moved for number in frame.inputs):
            self._moved.update(dict.fromkeys(fresh, self._moved[frame.inputs[0]]))
        else:
            self._taken.update(frame.inputs)
            self._taken.update(self._moved[number] for number in frame.inputs if number in self._moved)
            results = [number for number in fresh if tensors[number].requires_grad and not tensors[number].is_leaf]
            self._results += [(frame, number) for number in results]

    def _remember_unheard(self, frame: Frame, fresh: list[int]) -> None:
        """Note what a Frame read of a storage to which something was written unheard, and what it writes so itself.

        Of a write through `.data` or a detached alias only that alias hears, of one under `no_grad` nobody.
        """
        tensors = self._recording.tensors
        for number in frame.inputs if self._written else ():
            before = self._written.get(tensors[number].storage)
            if before is not None:
                self._read.update(dict.fromkeys(fresh, (number, len(before))))
        for write in (self._recording.writes[number] for number in frame.writes):
            given = tuple(number for number in self._put(frame) if tensors[number].requires_grad)
            hears, storages = self._alias(write.tensor), {write.storage, tensors[write.tensor].storage}
            if hears is None and (not given or (frame.grad_enabled and write.op != "set data")):
                continue
            why = "set_data" if write.op == "set data" else WRITTEN
            if self._trained.isdisjoint(storages) or not all(is_trained(self._recording, each) for each in given):
                for found in (self._written.setdefault(storage, []) for storage in storages):
                    found += [(Cut(frame, given, why), hears)] if len(found) < MOST_WRITTEN else []

    def _alias(self, tensor: int) -> int | None:
        """The `.data` or `.detach()` that this is, or of which it's a view."""
        return next((each for each, route in ancestors(self._recording, tensor) if route in ("data", "detach")), None)

    def _put(self, frame: Frame) -> tuple[int, ...]:
        """What a Frame writes, without that to which it writes."""
        writes = [self._recording.writes[number] for number in frame.writes]
        into, storages = {write.tensor for write in writes}, {write.storage for write in writes}
        tensors = self._recording.tensors
        return tuple(each for each in frame.inputs if each not in into and tensors[each].storage not in storages)

    def cuts(self, roots: Iterable[int], walked: set[int] | None = None) -> list[Cut]:
        """In the order of `behind`: where something with a history went in and nothing with one came out.

        `walked`: what isn't gone over again; left out, all that this Flow was asked for before.

        Not in the forward of a custom Function whose result has one: its backward answers for what is in there.
        """
        behind = self.behind(roots, self._walked if walked is None else walked)
        tensors, made = self._recording.tensors, self._made
        results = (tensor for tensor in behind if tensor in made and not tensors[tensor].is_leaf)  # no view of a leaf
        whole = {made[tensor].applied for tensor in results if self._has_graph(tensor)}
        found = [cut for tensor in behind if (cut := self._cut_at(tensor)) is not None]
        found = [cut for cut in found if cut.frame.applied is None or cut.frame.applied not in whole]
        found += self._written_unheard(behind)
        return found + [cut for tensor in behind if (cut := self._came_back(tensor)) is not None]

    def _written_unheard(self, behind: Iterable[int]) -> list[Cut]:
        """What was written into what these were computed of, where that doesn't hear of it."""
        found = {cut.frame.index: cut for tensor in behind for cut in self._unheard_by(tensor) if cut.given}
        return [found[index] for index in sorted(found)]

    def _unheard_by(self, tensor: int) -> list[Cut]:
        number, count = self._read.get(tensor, (tensor, 0))
        whole = {each for each, _ in ancestors(self._recording, number)} if count else set[int]()
        before = self._written[self._recording.tensors[number].storage][:count] if count else ()
        return [cut for cut, hears in before if hears not in whole]

    def rebuilt(self) -> list[Cut]:
        """Where the last tensor was made of plain numbers, of a single one that nothing else took up (`y.item()`)."""
        found = [cut for frame in reversed(self._entered) if (cut := self._made_of_numbers(frame)) is not None]
        return [replace(cut, why="numbers") for cut in found[:1] if not self._recording.tensors[cut.given[0]].shape]

    def leaves(self, tensors: Iterable[int]) -> list[int]:
        """The leaves that require grad and lead to these tensors; one that was returned before isn't again.

        Behind one that was computed, and made a leaf (an inner step of MAML), stands what it was computed of.
        """
        behind = self.behind(tensors, self._walked_to_leaves)
        for tensor in behind:  # grows while it's read
            made = self._makers(tensor) if is_trained(self._recording, tensor) else ()
            given = [each for frame in made for each in self._with_history(frame)]
            behind += self.behind(given, self._walked_to_leaves) if given else ()
        return sorted(number for number in behind if is_trained(self._recording, number))

    def claims(self, roots: Iterable[int], fits: Callable[[Cut], bool]) -> list[tuple[Cut, list[int]]]:
        """Each cut that `fits` with the leaves that it keeps from these roots; what was returned before isn't again.

        A leaf is of the first cut into whose graph it goes: another, nearer to the loss, cuts the way of something else
        with which it was joined.
        """
        cuts, own = list(filter(fits, self.cuts(roots))), dict[int, int]()
        for at, cut in enumerate(cuts):
            own.update(dict.fromkeys(self._in_graph(cut.given) - own.keys(), at))
        found: list[list[int]] = [[] for _ in cuts]
        for at, cut in enumerate(cuts):
            for leaf in self.leaves(cut.given):
                found[own.get(leaf, at)].append(leaf)
        return list(zip(cuts, map(sorted, found), strict=True))

    def _in_graph(self, tensors: Iterable[int]) -> set[int]:
        """The leaves to which a gradient of these tensors would go, without those that were walked to before."""
        waiting = [number for number in tensors if number not in self._walked_in_graphs]
        self._walked_in_graphs.update(waiting)
        for tensor in waiting:  # grows while it's read
            frames = [] if is_trained(self._recording, tensor) else self._makers(tensor)
            inputs = dict.fromkeys(each for frame in frames for each in self._with_history(frame))
            fresh = [each for each in inputs if each not in self._walked_in_graphs]
            self._walked_in_graphs.update(fresh)
            waiting += fresh
        return {tensor for tensor in waiting if is_trained(self._recording, tensor)}

    def behind(self, tensors: Iterable[int], walked: set[int]) -> list[int]:
        """These tensors and all that led to them, nearest first, without those `walked`, to which they're added.

        Last come those that led to integers alone, which only choose. The way ends at a leaf that requires grad, unless
        it was computed and made one afterwards.
        """
        waiting, indices = [number for number in dict.fromkeys(tensors) if number not in walked], list[int]()
        walked.update(waiting)
        for queue in (waiting, indices):
            for tensor in queue:  # grows while it's read
                trained, frames = is_trained(self._recording, tensor), self._makers(tensor)
                if trained and any(map(self._with_history, frames)):
                    continue
                inputs = dict.fromkeys(number for frame in frames for number in frame.inputs)
                inputs |= dict.fromkeys(number for each in self._unheard_by(tensor) for number in self._put(each.frame))
                for number in [each for each in inputs if each not in walked]:
                    is_index = self._recording.tensors[number].dtype.startswith(INTEGERS)
                    (indices if is_index else queue).append(number)
                    walked.add(number)
        return waiting + indices

    def _cut_at(self, tensor: int) -> Cut | None:
        """The Frame that made the tensor, if it dropped a history."""
        trained, frames = is_trained(self._recording, tensor), self._makers(tensor)
        if trained and frames and not frames[0].inputs and frames[0].op in ENTERING:
            return self._made_of_numbers(frames[0])
        cuts = ((frame, self._with_history(frame)) for frame in (() if self._has_graph(tensor) else frames))
        found = (
            Cut(frame, given, "leaf" if trained and frame.op not in LEAVING else "") for frame, given in cuts if given
        )
        return next(found, None)

    def _makers(self, tensor: int) -> list[Frame]:
        """The Frame that made or wrote it last; and the one that made it, where what was written left some of that."""
        born, last = self._born.get(self._wrapped_in(tensor)), self._made.get(tensor)
        if last is None or is_trained(self._recording, tensor):
            return [] if born is None else [born]
        stays = born is not None and born is not last and tensor in last.inputs and last.op not in RESETS | {"copy_"}
        return [last, born] if stays and born is not None else [last]

    def _wrapped_in(self, tensor: int) -> int:
        """What a tensor has in it that no call has made: `Variable(x)` takes the storage of `x`, and no history.

        Of one that is to be trained only where it is a number, as a loss; else it's a leaf of its own.
        """
        ref, trained = self._recording.tensors[tensor], is_trained(self._recording, tensor)
        if tensor in self._born or ref.frame == 0 or ref.parameter or (trained and ref.shape):
            return tensor
        found = next((each for each in reversed(self._at.get(ref.storage, ())) if each < tensor), tensor)
        return found if trained or not self._recording.tensors[found].requires_grad else tensor

    def _made_of_numbers(self, frame: Frame) -> Cut | None:
        """`torch.tensor(y.tolist(), requires_grad=True)`: the last result that nothing else took up is what it's of."""
        earlier = (number for made, number in reversed(self._results) if made.index < frame.index)
        unused = (number for number in earlier if number not in self._taken)
        found = next(unused, None)
        return None if found is None else Cut(frame, (found,), "leaf")

    def _came_back(self, tensor: int) -> Cut | None:
        """The last Frame from which data may have left torch, for a tensor that came into the program from outside."""
        ref, frame = self._recording.tensors[tensor], self._made.get(tensor)
        if (frame is not None and (frame.inputs or frame.op not in ENTERING)) or ref.frame == 0 or ref.requires_grad:
            return None
        if self._wrapped_in(tensor) != tensor:
            return None
        for left in reversed(self._left):
            if left.index <= ref.frame and not set(left.outputs) & self._taken:
                given = self._with_history(left)
                return Cut(left, given, "left") if given else None
        return None

    def _has_graph(self, tensor: int) -> bool:
        return self._recording.tensors[tensor].requires_grad and not is_trained(self._recording, tensor)

    def _with_history(self, frame: Frame) -> tuple[int, ...]:
        return tuple(number for number in frame.inputs if self._recording.tensors[number].requires_grad)
