"""The old name of `seegrad.display.offline`, which nbconvert's configurations may hold."""

import warnings

from seegrad.display.offline import OfflineExporter

__all__ = ["OfflineExporter"]

warnings.warn("seegrad.offline is now seegrad.display.offline", DeprecationWarning, stacklevel=2)
