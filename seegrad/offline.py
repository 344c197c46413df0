"""The old name of `seegrad.show.offline`, which nbconvert's configurations may hold."""

import warnings

from seegrad.show.offline import OfflineExporter

__all__ = ["OfflineExporter"]

warnings.warn("seegrad.offline is now seegrad.show.offline", DeprecationWarning, stacklevel=2)
