"""Watch torch: what a program did, gathered in tables while it runs and frozen into a Recording."""

from importlib.util import find_spec

from seegrad.words.languages import _


def _ask_for_torch() -> None:
    """Raises: ModuleNotFoundError where torch isn't installed: which build fits is the user's choice."""
    if find_spec("torch") is None:
        said = _(
            "seegrad records torch, and torch isn't installed here: install the build that fits this machine "
            "(https://pytorch.org/get-started/locally), or any with `pip install torch`."
        )
        raise ModuleNotFoundError(said, name="torch")


_ask_for_torch()
