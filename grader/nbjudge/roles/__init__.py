"""What each of the two processes of a submission does: the student's runs cells and answers, the judge's tests.

They are started by name. Where torch is installed, tensors are a part of what the two say to each other.
"""

import importlib.util

if importlib.util.find_spec("torch") is not None:
    importlib.import_module("nbjudge.bridge.torch")
