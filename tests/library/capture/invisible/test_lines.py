"""Whose line it is: a package's wrapper that passes on what it's given says nothing, the line that called it does."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typing_extensions import deprecated

import seegrad

PACKAGE = """
import functools


def passing(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        kwargs.pop("nothing", None)
        return function(*args, **kwargs)
    return wrapper


def knowing(function):
    def doubled(x, **kwargs):
        return function(x, **kwargs) * 2  # the package's
    return doubled


class Method:
    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def using(*args, **kwargs):
    return args[0].sigmoid()  # the package's
"""


@pytest.fixture
def package(tmp_path: Path) -> Any:
    """A module that lies where packages lie."""
    file = tmp_path / "site-packages" / "wrappers.py"
    file.parent.mkdir()
    file.write_text(PACKAGE)
    spec = importlib.util.spec_from_file_location("wrappers", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line_of(op: str, run: Callable[[], Any]) -> str:
    """The line that the recorder says has made the op."""
    with seegrad.record() as rec:
        run()
    return next(frame.place.code for frame in rec.frames if frame.op == op and frame.place)


@pytest.mark.filterwarnings("ignore:old:FutureWarning")
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda package: package.passing(torch.exp),
        lambda package: package.Method(torch.exp),
        lambda package: package.passing(package.Method(torch.exp)),
        lambda package: deprecated("old", category=FutureWarning)(package.Method(torch.exp)),
        lambda package: package.passing(deprecated("old", category=FutureWarning)(package.passing(torch.exp))),
    ],
)
def test_a_wrapper_that_passes_on_is_none_of_the_user_s_lines(package: Any, wrapped: Any) -> None:
    function = wrapped(package)

    def run() -> None:
        function(torch.ones(2))  # the user's

    assert line_of("exp", run) == "function(torch.ones(2))  # the user's"


def test_a_package_that_does_something_of_its_own_keeps_its_line(package: Any) -> None:
    ones = torch.ones(2)
    assert line_of("exp", lambda: package.knowing(torch.exp)(ones)).endswith("# the package's")
    assert line_of("mul", lambda: package.knowing(torch.exp)(ones)).endswith("# the package's")
    assert line_of("sigmoid", lambda: package.using(ones)).endswith("# the package's")


def test_a_wrapper_in_the_user_s_own_file_is_the_user_s() -> None:
    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    assert line_of("exp", lambda: timed(torch.exp)(torch.ones(2))) == "return function(*args, **kwargs)"


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_a_deprecated_function_of_torch_is_called_on_the_user_s_line() -> None:
    with seegrad.record() as rec:
        layer = nn.utils.weight_norm(nn.Linear(2, 2))
        layer(torch.ones(1, 2)).sum().backward()
    assert {frame.place.file for frame in rec.frames if frame.place} == {__file__}
