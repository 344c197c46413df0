"""Where the data came from, whether or not autograd followed it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from seegrad.model.recording import Frame, Recording

LEAVING = frozenset({"detach", "data", "numpy", "__array__", "tolist", "item"})
"""Ops whose result may go on outside torch, as an array, a list or a number."""

ENTERING = frozenset({"tensor", "as_tensor"})
"""Ops that make a tensor of what came from outside torch."""


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
        self._taken: set[int] = set()
        self._left: list[Frame] = []
        self._results: list[tuple[Frame, int]] = []
        self._walked: set[int] = set()
        self._walked_to_leaves: set[int] = set()
        self._entered: list[Frame] = []

    def remember(self, frame: Frame) -> None:
        """Note what a Frame made, wrote and took."""
        if frame.phase not in ("forward", "inplace") and frame.op != "grad":
            return
        tensors = self._recording.tensors
        fresh = [number for number in frame.outputs if number not in frame.inputs]
        self._made.update(dict.fromkeys(fresh, frame))
        self._born.update(dict.fromkeys(fresh, frame))
        self._made.update(dict.fromkeys((self._recording.writes[write].tensor for write in frame.writes), frame))
        if frame.op in ENTERING and not frame.inputs:
            self._entered.append(frame)
        if frame.op in LEAVING and any(tensors[number].requires_grad for number in frame.inputs):
            self._left.append(frame)
        else:
            self._taken.update(frame.inputs)
            results = [number for number in fresh if tensors[number].requires_grad and not tensors[number].is_leaf]
            self._results += [(frame, number) for number in results]

    def cuts(self, roots: Iterable[int]) -> list[Cut]:
        """Nearest to `roots` first: where something with a history went in and nothing with one came out."""
        behind = self.behind(roots, self._walked)
        found = [cut for tensor in behind if (cut := self._cut_at(tensor)) is not None]
        return found + [cut for tensor in behind if (cut := self._came_back(tensor)) is not None]

    def rebuilt(self) -> list[Cut]:
        """Where the last tensor was made of plain numbers, of a single one that nothing else took up (`y.item()`)."""
        found = [cut for frame in reversed(self._entered) if (cut := self._made_of_numbers(frame)) is not None]
        return [replace(cut, why="numbers") for cut in found[:1] if not self._recording.tensors[cut.given[0]].shape]

    def leaves(self, tensors: Iterable[int]) -> list[int]:
        """The leaves that require grad and lead to these tensors; one that was returned before isn't again."""
        behind = self.behind(tensors, self._walked_to_leaves)
        return sorted(number for number in behind if is_trained(self._recording, number))

    def behind(self, tensors: Iterable[int], walked: set[int]) -> list[int]:
        """These tensors and all that led to them, nearest first, without those `walked`, to which they're added.

        The way ends at a leaf that requires grad, unless it was computed and made one afterwards.
        """
        waiting = [number for number in dict.fromkeys(tensors) if number not in walked]
        walked.update(waiting)
        for tensor in waiting:  # grows while it's read
            trained = is_trained(self._recording, tensor)
            frame = (self._born if trained else self._made).get(tensor)
            if frame is None or (trained and self._with_history(frame)):
                continue
            fresh = [number for number in dict.fromkeys(frame.inputs) if number not in walked]
            walked.update(fresh)
            waiting.extend(fresh)
        return waiting

    def _cut_at(self, tensor: int) -> Cut | None:
        """The Frame that made the tensor, if it dropped a history."""
        trained = is_trained(self._recording, tensor)
        frame = (self._born if trained else self._made).get(tensor)
        if trained and frame is not None and not frame.inputs and frame.op in ENTERING:
            return self._made_of_numbers(frame)
        if frame is None or (self._recording.tensors[tensor].requires_grad and not trained):
            return None
        given = self._with_history(frame)
        return Cut(frame, given, "leaf" if trained and frame.op not in LEAVING else "") if given else None

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
        for left in reversed(self._left):
            if left.index <= ref.frame and not set(left.outputs) & self._taken:
                given = self._with_history(left)
                return Cut(left, given, "left") if given else None
        return None

    def _with_history(self, frame: Frame) -> tuple[int, ...]:
        return tuple(number for number in frame.inputs if self._recording.tensors[number].requires_grad)


def is_trained(recording: Recording, tensor: int) -> bool:
    """True for a leaf that requires grad."""
    ref = recording.tensors[tensor]
    return ref.is_leaf and ref.requires_grad and ref.route != "view"
