"""The Frames in the making, one an event."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from .model import Frame, Gradient, Phase, Place, Preview


@dataclass(slots=True)
class FrameDraft:
    """A Frame that may still grow; its fields are the Frame's."""

    index: int
    phase: Phase
    place: Place | None
    op: str
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    values: dict[int, Preview | None] = field(default_factory=dict)
    versions: dict[int, int | None] = field(default_factory=dict)
    running: int | None = None
    gradients: list[Gradient] = field(default_factory=list)
    backward: int | None = None
    grad_enabled: bool = True
    corrupted: tuple[int, ...] = ()

    def freeze(self) -> Frame:
        """The Frame as the model has it."""
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        state["values"], state["versions"] = tuple(self.values.items()), tuple(self.versions.items())
        state["gradients"] = tuple(self.gradients)
        return Frame(**state)
