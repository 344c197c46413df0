"""Watch torch: what a program did, gathered in tables while it runs and frozen into a Recording."""

from importlib.util import find_spec

from seegrad.words.languages import _

if find_spec("torch") is None:
    raise ModuleNotFoundError(
        _(
            "seegrad records torch, and torch isn't installed here: install the build that fits this machine "
            "(https://pytorch.org/get-started/locally), or any with `pip install torch`."
        ),
        name="torch",
    )
