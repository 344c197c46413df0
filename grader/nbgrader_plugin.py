"""The old name of `nbjudge.plugin`, for configurations that were written before the grader was a project of its own."""

import warnings

from nbjudge.plugin import HideTests, SandboxedAutograde, install

__all__ = ["HideTests", "SandboxedAutograde", "install"]

warnings.warn("grader.nbgrader_plugin is now nbjudge.plugin", DeprecationWarning, stacklevel=2)
