"""What a course's notebooks import → what is imported once for it, before any process is forked.

torch takes seconds and hundreds of megabytes, so it is there for those alone who may bring a tensor: whoever imports
what isn't known to do without it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

TORCH = "torch"
# An optimizer's first step brings torch._dynamo, which takes seconds too, and `%load_ext seegrad` a quarter of one.
PRELOADS = {
    TORCH: (TORCH, "torch._dynamo"),
    "seegrad": ("seegrad", "seegrad.check", "seegrad.promise", "seegrad.display.magic"),
}
ALWAYS = ("numpy", "IPython")
DEFAULT_PRELOAD = (*ALWAYS, *PRELOADS[TORCH], *PRELOADS["seegrad"])
PLAIN = sys.stdlib_module_names | {"IPython", "matplotlib", "nbgrader", "numpy", "pandas", "scipy", "seaborn", "sympy"}
_FROM = re.compile(r"\bfrom\s+([\w.]+)\s+import\b")
_IMPORT = re.compile(r"\bimport\s+([\w. \t,]+)")
_OTHERWISE = re.compile(
    r"\b(?:torch|importlib|__import__|runpy|pkgutil|load_ext|get_ipython)\b|^\s*%+run\b", re.MULTILINE
)


def preloads(texts: Iterable[str], own: Iterable[str] = ()) -> list[str]:
    """What to import once for these cells, beside modules of their `own`.

    >>> preloads(["import numpy as np, torch", "print('seegrad')"])
    ['torch', 'torch._dynamo']
    >>> preloads(["import transformers"])
    ['torch']
    """
    texts = [*texts]
    imported = [line for text in texts for line in text.splitlines() if re.search(r"\b(import|load_ext)\b", line)]
    found = [
        module
        for name, modules in PRELOADS.items()
        if any(re.search(rf"\b{name}\b", line) for line in imported)
        for module in modules
    ]
    return found if TORCH in found or not may_bring_torch(texts, own) else [TORCH, *found]


def may_bring_torch(texts: Iterable[str], own: Iterable[str] = ()) -> bool:
    """Does any of these import torch, or what isn't known to do without it? Modules of their `own` are texts, too.

    >>> may_bring_torch(["import os.path, json as j\\nfrom numpy.linalg import norm", "import shapes"], own=["shapes"])
    False
    >>> [may_bring_torch([text]) for text in ("import timm", "from a import b", "x = __import__(name)", "%run it.py")]
    [True, True, True, True]
    """
    plain = PLAIN | {*own}
    return any(_OTHERWISE.search(text) or not plain.issuperset(_heads(text)) for text in texts)


def _heads(text: str) -> Iterable[str]:
    """The first names of what is imported, wherever the word stands: too many are no harm."""
    yield from (name.partition(".")[0] for name in _FROM.findall(text))
    for names in _IMPORT.findall(_FROM.sub("", text)):
        yield from (part.split()[0].partition(".")[0] for part in names.split(",") if part.strip())
