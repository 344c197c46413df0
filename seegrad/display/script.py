"""A script or a module to be run as `__main__`, as Python itself would run it."""

from __future__ import annotations

import builtins
import io
import sys
import tokenize
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType

from seegrad.words.languages import _


@dataclass(frozen=True, slots=True)
class Program:
    """What to run."""

    file: str
    """As Python names what it runs: absolute, links unresolved."""
    text: str
    code: CodeType
    name: str
    """`sys.argv[0]`."""
    folder: str
    """`sys.path[0]`."""
    spec: ModuleSpec | None = None
    """For a module of a package."""


def script(name: str) -> Program:
    """A script by its path, or a folder with a `__main__.py`.

    Raises: OSError, UnicodeDecodeError where it can't be read; SyntaxError; ImportError for a notebook.
    """
    file = Path(name).absolute()
    if file.suffix == ".ipynb" and file.exists():
        raise ImportError(_("it is a notebook, not a script: put `%%see` first in its cells (`%load_ext seegrad`)"))
    if file.is_dir() and (main := file / "__main__.py").exists():
        return Program(str(main), *_read(main), name, str(file))
    return Program(str(file), *_read(file), name, str(file.parent))


def module(name: str) -> Program:
    """A module by its dotted name, a package by its `__main__`; found from the working folder, as with `python -m`.

    Raises: ImportError where there's none with a source file; OSError, UnicodeDecodeError, SyntaxError.
    """
    if name.endswith(".py"):
        raise ImportError(_("after `-m` a module is named as an import names it; for a file, leave `-m` out"))
    here = str(Path.cwd())
    sys.path[:1] = [here]
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ImportError(_("from {here}, no source file of a module of that name is found").format(here=here))
    return Program(spec.origin, *_read(Path(spec.origin)), spec.origin, here, spec)


def _read(file: Path) -> tuple[str, CodeType]:
    """A file's text, in the encoding that it declares, and its code."""
    data = file.read_bytes()
    code = compile(data, str(file), "exec", dont_inherit=True)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return io.TextIOWrapper(io.BytesIO(data), encoding).read(), code


class acting_as:  # noqa: N801  # a context manager that is used like a function
    """`sys.argv`, `sys.path[0]` and `__main__` as the program would find them alone."""

    def __init__(self, program: Program, arguments: list[str]) -> None:
        self._argv = [program.name, *arguments]
        self._folder = program.folder
        self._module = ModuleType("__main__")
        self._module.__dict__.update(__file__=program.file, __builtins__=builtins)
        if program.spec is not None:
            self._module.__dict__.update(__spec__=program.spec, __package__=program.spec.parent)

    def __enter__(self) -> None:
        self._before = sys.argv, sys.path[:], sys.modules["__main__"]
        sys.argv, sys.modules["__main__"] = self._argv, self._module
        sys.path[:1] = [self._folder]

    def __exit__(self, *exception: object) -> None:
        # The program's module stays: what it leaves running at exit still looks for it there.
        sys.argv, sys.path[:], _ = self._before
