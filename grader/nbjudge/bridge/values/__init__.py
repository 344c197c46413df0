"""The values that cross by value, each kind in a file of this folder or of `packages`, found by itself.

>>> from nbjudge.bridge.values.shared import Containers, Copies
>>> crossing = Crossing(Containers(0), Copies())
>>> encode((1, (2.5, None)), crossing)
{'t': 'tuple', 'v': [1, {'t': 'tuple', 'v': [2.5, None]}]}
>>> decode({"t": "tuple", "v": [1, {"t": "float", "v": "nan"}]}, crossing)
(1, nan)
"""

from __future__ import annotations

import importlib
import pkgutil

from nbjudge.bridge.values.table import (
    Body,
    Crossing,
    Decoder,
    Encoder,
    UnsupportedError,
    decode,
    encode,
    is_value,
)

__all__ = ["Body", "Crossing", "Decoder", "Encoder", "UnsupportedError", "decode", "encode", "is_value"]

for _found in pkgutil.walk_packages(__path__, f"{__name__}."):  # a new kind is a new file: nobody else has to name it
    importlib.import_module(_found.name)
