"""Frozen data: the Recording, the Scene, and the facts about torch's Nodes."""

from seegrad.model.recording import (
    Diagnosis,
    Edge,
    Frame,
    Gradient,
    Hook,
    HookCall,
    Node,
    Place,
    RaisedError,
    Recording,
    SavedTensor,
    Summary,
    TensorRef,
    Write,
)

__all__ = [
    "Diagnosis",
    "Edge",
    "Frame",
    "Gradient",
    "Hook",
    "HookCall",
    "Node",
    "Place",
    "RaisedError",
    "Recording",
    "SavedTensor",
    "Summary",
    "TensorRef",
    "Write",
]
