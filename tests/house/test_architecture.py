"""The house rules that a machine can check: direction of imports, sizes, names, private torch in one file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("seegrad", "grader")
MODULES = sorted(path for package in (*PACKAGES, "tools") for path in (ROOT / package).rglob("*.py"))

PURE = {  # imports neither torch nor Jupyter
    "seegrad": (
        "model",
        "errors",
        "scene",
        "layout",
        "cards",
        "draw",
        "svg",
        "narrate",
        "messages",
        "languages",
        "widths",
        "quiz",
        "questions",
        "diagnose",
        "collapse",
    ),
    "grader": ("model", "errors", "intake", "wire", "feedback"),
}
WIRING = {
    "seegrad",
    "seegrad.recorder",
    "seegrad.show.widget",
    "seegrad.show.magic",
    "seegrad.show.page",
    "seegrad.__main__",
}
JUPYTER = {
    "IPython",
    "ipykernel",
    "ipywidgets",
    "anywidget",
    "traitlets",
    "jupyter_client",
    "nbclient",
    "nbconvert",
    "nbformat",
    "nbgrader",
}
NBGRADER_ALLOWED = {
    *("nbjudge.course.gradebook", "nbjudge.grading.engine", "nbjudge.plugin", "nbjudge.__main__"),
    *("nbjudge.course.standings", "nbjudge.course.exporters"),
}
MAX_MODULE_LINES = 300
MAX_FUNCTION_LINES = 60


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    """Absolute names of what a module imports; relative imports are resolved against its package."""
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = parse(path)
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_pure(path: Path) -> bool:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return len(parts) > 1 and parts[1] in PURE.get(parts[0], ())


@pytest.mark.parametrize("path", [path for path in MODULES if is_pure(path)], ids=module_name)
def test_pure_modules_import_neither_torch_nor_jupyter(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported(path)}
    forbidden = JUPYTER | {"torch"}
    if module_name(path).startswith("grader"):
        forbidden -= {"nbformat", "nbconvert"}  # formats of files, not the running system
    assert not roots & forbidden


def test_the_grader_never_imports_the_library() -> None:
    guilty = [
        module_name(path)
        for path in MODULES
        if module_name(path).startswith("grader")
        for name in imported(path)
        if name.split(".")[0] == "seegrad"
    ]
    assert not guilty


def test_the_library_knows_no_grader_and_no_nbgrader() -> None:
    guilty = [
        module_name(path)
        for path in MODULES
        if module_name(path).startswith("seegrad")
        for name in imported(path)
        if name.split(".")[0] in {"grader", "nbgrader"}
    ]
    assert not guilty


def test_only_the_named_rooms_of_the_grader_import_nbgrader() -> None:
    users = {
        module_name(path)
        for path in MODULES
        if module_name(path).startswith("grader")
        for name in imported(path)
        if name.split(".")[0] == "nbgrader"
    }
    assert users <= NBGRADER_ALLOWED


def test_capture_imports_only_what_is_below_it() -> None:
    for path in (ROOT / "seegrad").glob("capture*.py"):
        ours = {name.split(".")[1] for name in imported(path) if name.startswith("seegrad.")}
        above = {
            "diagnose",
            "draw",
            "layout",
            "widget",
            "magic",
            "page",
            "quiz",
            "narrate",
            "messages",
            "recorder",
            "check",
        }
        assert not ours & above, module_name(path)


def test_imports_have_no_cycle() -> None:
    """Kahn's algorithm over the import statements that run when a module is loaded."""
    names = {module_name(path): path for path in MODULES}
    needs = {
        name: {
            needed
            for needed in imported(path, top_level_only=True)
            if needed in names and needed != name and not name.startswith(needed + ".")
        }
        for name, path in names.items()
        if name not in PACKAGES  # a package's __init__ gathers public names on purpose
    }
    while free := [name for name, wanted in needs.items() if not wanted & needs.keys()]:
        for name in free:
            del needs[name]
    assert not needs, f"these import each other: {sorted(needs)}"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_modules_and_functions_are_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_names_are_the_glossary_s(path: Path) -> None:
    assert not re.search(r"util|helper|manager|misc|common", path.stem)
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ClassDef):
            assert not re.search(r"(Util|Helper|Misc)", node.name), node.name


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if module_name(path).startswith("seegrad") and path.stem != "_torch"],
    ids=module_name,
)
def test_private_torch_is_touched_in_one_file_only(path: Path) -> None:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            private = node.attr.startswith("_") and not node.attr.endswith("__")
            assert not private, (
                f"line {node.lineno}: torch.{node.attr} belongs into seegrad/capture/probes/torch_private.py"
            )
    assert not [name for name in imported(path) if re.match(r"torch(\.\w+)*\._", name)]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_function_calls_itself_in_the_graph_walking_rooms(package: str) -> None:
    """Recursion over a graph fails at some thousand Nodes, so a function that takes Nodes must not call itself."""
    rooms = {"layout", "capture", "diagnose", "draw", "cards", "collapse"}
    for path in (ROOT / package).rglob("*.py"):
        if not rooms & set(path.relative_to(ROOT).with_suffix("").parts):
            continue
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef):
                calls = {
                    call.func.id
                    for call in ast.walk(node)
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
                }
                assert node.name not in calls, f"{module_name(path)}.{node.name} calls itself"


def test_public_names_are_sorted_and_exist() -> None:
    import seegrad

    assert list(seegrad.__all__) == sorted(seegrad.__all__)
    assert {"record", "show", "Recording", "Diagnosis", "Place", "SeegradError", "load_ipython_extension"} <= set(
        seegrad.__all__
    )
    for name in seegrad.__all__:
        assert getattr(seegrad, name).__doc__, f"{name} has no docstring"


def test_importing_seegrad_needs_no_jupyter() -> None:
    code = "import sys, seegrad; print(sorted({'IPython', 'anywidget', 'ipykernel'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_required_top_level_is_there() -> None:
    for name in (
        "notebooks",
        "source",
        "release",
        "grader",
        "tests",
        "environment.yml",
        "README.md",
        "seegrad",
        "tools",
    ):
        assert (ROOT / name).exists(), name


def test_every_lint_exception_has_its_sentence() -> None:
    """`# noqa: X` and `# type: ignore[x]` are followed by a reason on the same line."""
    pattern = re.compile(r"#\s*(noqa(: ?[A-Z0-9, ]+)?|type: ignore(\[[\w, -]+\])?)\s*$")
    for path in [*MODULES, *(ROOT / "tests").rglob("*.py")]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not pattern.search(line), f"{path.relative_to(ROOT)}:{number} gives no reason"
