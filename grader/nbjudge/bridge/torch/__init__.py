"""Tensors that two processes share, and all that the package asks of torch.

Importing this room enters its kinds of values and its part of each packet into the tables of `values`.
"""

from __future__ import annotations

from nbjudge.bridge.torch.exchange import Exchange
from nbjudge.bridge.torch.kinds import Bare
from nbjudge.bridge.torch.reads import FACTS

__all__ = ["FACTS", "Bare", "Exchange"]
