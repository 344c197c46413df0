"""Grade notebooks of untrusted code: the student's cells run in a process that knows nothing, the tests in one that they can't touch."""

from __future__ import annotations
