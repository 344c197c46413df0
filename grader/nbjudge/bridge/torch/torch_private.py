"""What torch has no public name for: version counters, tables of hooks, what a Node holds, tensors' descriptors.

The only file of the package that touches it; each function says what torch would have to offer instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import Node

Given = ParamSpec("Given")
Result = TypeVar("Result")


def unseen() -> AbstractContextManager[None]:
    """Meanwhile no function mode and no subclass sees what is asked of tensors."""
    hidden: AbstractContextManager[None] = torch._C.DisableTorchFunction()
    return hidden


def descriptor(name: str) -> Any:
    """A tensor's attribute as torch itself reads and writes it."""
    return getattr(torch._C.TensorBase, name)


# What a tensor says of itself, past whoever watches a test read it: the bridge asks it of each tensor in each packet.
version: Callable[[Tensor], int] = descriptor("_version").__get__
is_leaf: Callable[[Tensor], bool] = descriptor("is_leaf").__get__
requires_grad: Callable[[Tensor], bool] = descriptor("requires_grad").__get__
retains_grad: Callable[[Tensor], bool] = descriptor("retains_grad").__get__
grad_fn: Callable[[Tensor], Node | None] = descriptor("grad_fn").__get__


def innermost_mode() -> Any:
    """The function mode that sees first what is asked of tensors, or None."""
    depth = torch._C._len_torch_function_stack()
    return torch._C._get_function_stack_at(depth - 1) if depth else None


def set_version(tensor: Tensor, number: int) -> None:
    """Set a tensor's version counter, and so that of everything that shares it."""
    torch._C._autograd._unsafe_set_version_counter((tensor,), (number,))


def hooks_of(tensor: Tensor) -> Any:
    """The table of a tensor's hooks, or None."""
    return tensor._backward_hooks


def hooks_after(leaf: Any) -> Any:
    """The table of the hooks that wait for a leaf's `.grad`, or None."""
    return leaf._post_accumulate_grad_hooks


@functools.lru_cache(maxsize=1024)
def may_save(kind: type) -> bool:
    """Do Nodes of this class of torch's own hold saved tensors?"""
    return any(name.startswith("_raw_saved_") for name in dir(kind))


def holds_saved(node: Node) -> bool:
    """Does a Node hold saved tensors, or did it before it was freed?"""
    if hasattr(type(node), "saved_tensors"):
        try:
            return bool(node.saved_tensors)  # type: ignore[attr-defined]  # only Nodes of Python Functions have it
        except RuntimeError:
            return True  # freed already
    return may_save(type(node))


def name_nodes(function: Any, name: str) -> None:
    """Give the Nodes of a Function of ours the name of the one over there."""
    function._backward_cls.__name__ = name


def hidden(work: Callable[Given, Result]) -> Callable[Given, Result]:
    """`work`, during which nobody sees what is asked of tensors."""

    @functools.wraps(work)
    def quiet(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        with unseen():
            return work(*args, **kwargs)

    return quiet
