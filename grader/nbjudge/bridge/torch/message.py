"""What one frame says about tensors, while it is put together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from nbjudge.bridge.torch.ledger import Gone
from nbjudge.bridge.torch.records import StoredBytes, TensorRecord
from nbjudge.bridge.values import UnsupportedError


@dataclass(slots=True)
class Message:
    """The tensors' part of a frame."""

    gone: Gone = field(default_factory=Gone)
    body: bytearray = field(default_factory=bytearray)
    storages: list[StoredBytes] = field(default_factory=list)
    tensors: list[TensorRecord] = field(default_factory=list)
    grads: list[tuple[int, int | None]] = field(default_factory=list)
    problem: UnsupportedError | None = None  # something that has changed and can't be said

    def check(self) -> None:
        """Raises UnsupportedError where something couldn't be said."""
        if self.problem is not None:
            raise self.problem

    def put(self, data: bytes) -> int:
        """Append bytes to the body; returns where they start."""
        start = len(self.body)
        self.body += data
        return start

    def to_json(self) -> dict[str, Any]:
        """The part of the header that is about tensors."""
        return {
            "gone": asdict(self.gone),
            "storages": [asdict(part) for part in self.storages],
            "tensors": [asdict(record) for record in self.tensors],
            "grads": [list(pair) for pair in self.grads],
        }
