"""PyPI's torchvision is built for CUDA: its compiled ops, and what imports it, don't load beside torch's CPU build."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch

LENT = torch.library.Library("torchvision", "FRAGMENT")
"""Ops that stand in for the compiled ones; they live as long as this."""
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def make_torchvision_load() -> None:
    """Where its ops don't load, stand in for the two that it names when it is imported; of the rest it has Python."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    try:
        torch.ops.load_library(str(Path(spec.origin).with_name("_C.so")))
    except OSError:
        for name in ("nms", "qnms"):
            LENT.define(f"{name}{SIGNATURE}")
        LENT.impl("nms", best_boxes, "CPU")
        from torchvision.ops import boxes

        boxes._assert_has_ops = lambda: None


def best_boxes(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """The boxes that overlap none of a better score by more than the threshold, best first."""
    order = scores.argsort(descending=True)
    low = torch.maximum(boxes[order, None, :2], boxes[order][None, :, :2])
    high = torch.minimum(boxes[order, None, 2:], boxes[order][None, :, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    area = (boxes[order, 2:] - boxes[order, :2]).prod(-1)
    near = both / (area[:, None] + area - both) > threshold
    kept: list[int] = []
    for each in range(len(order)):
        if not near[each, kept].any():
            kept.append(each)
    return order[kept]
