"""Grade notebooks of untrusted code: student cells run in a process that knows nothing, tests out of their reach."""

from __future__ import annotations
