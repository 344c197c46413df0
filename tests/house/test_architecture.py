"""The house rules that a machine can check: rooms and who imports whom, sizes, names, private torch in one file.

ARCHITECTURE.md says in words what the tables here say. Every import counts, wherever it stands: at the top, inside a
function, under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MAY_IMPORT = {  # a room, or a file at a package's top: the rooms that it may import; its own files in any acyclic way
    "seegrad.words": (),
    "seegrad.model": ("words",),
    "seegrad.capture": ("model", "words"),
    "seegrad.diagnose": ("model", "words"),
    "seegrad.picture": ("model", "words"),
    "seegrad.quiz": ("picture", "model", "words"),
    "seegrad.learn": ("quiz", "picture", "model", "words"),
    "seegrad.recorder": ("capture", "diagnose", "model", "words"),
    "seegrad.display": ("recorder", "diagnose", "learn", "quiz", "picture", "capture", "model", "words"),
    "seegrad.telling": ("capture", "words"),
    "seegrad.check": ("telling", "capture", "words"),
    "seegrad.arguments": ("telling", "capture", "words"),
    "seegrad.engine": ("capture", "model", "words"),
    "seegrad.promise": ("check", "telling", "arguments", "capture", "words"),
    "seegrad.offline": ("display",),
    "seegrad.auto": ("display",),
    "seegrad.variants": ("words",),
    "seegrad.__main__": ("recorder", "display", "picture", "capture", "model", "words"),
    "nbjudge.errors": (),
    "nbjudge.model": ("errors",),
    "nbjudge.wire": ("errors",),
    "nbjudge.names": (),
    "nbjudge.shown": (),
    "nbjudge.course": ("shown", "model", "names", "errors"),
    "nbjudge.sandbox": ("model", "errors"),
    "nbjudge.bridge": ("wire", "errors"),
    "nbjudge.process": ("sandbox", "wire", "model", "errors"),
    "nbjudge.roles": ("bridge", "process", "shown", "wire", "names", "errors"),  # started by name: nobody imports them
    "nbjudge.grading": ("course", "process", "shown", "wire", "names", "model", "errors"),
    "nbjudge.pages": ("grading", "course", "process", "shown", "model", "errors"),
    "nbjudge.plugin": ("pages", "grading", "process", "course", "shown", "model", "errors"),
    "nbjudge.single": ("grading", "course", "model", "errors"),
    "nbjudge.__main__": (
        "plugin",
        "single",
        "pages",
        "grading",
        "process",
        "sandbox",
        "course",
        "shown",
        "model",
        "errors",
    ),
}
INSIDE = {  # the same for rooms within a room; its own files, beside them, may import all of them
    "seegrad.capture": {"probes": (), "tables": ("probes",), "training": ("tables", "probes")},
    "seegrad.picture": {"layout": (), "sketch": (), "svg": ("sketch", "layout")},
    "nbjudge.bridge": {"values": (), "around": ("values",), "torch": ("values", "around")},
    "nbjudge.pages": {"similar": ()},
}
ONLY_THESE = {  # of another room: the files that a room may import, where it may not have all
    ("seegrad.display", "capture"): ("seegrad.capture.mode", "seegrad.capture.probes"),
    ("seegrad.telling", "capture"): ("seegrad.capture.probes",),
    ("seegrad.check", "capture"): ("seegrad.capture.probes",),
    ("seegrad.arguments", "capture"): ("seegrad.capture.probes",),
    ("seegrad.engine", "capture"): ("seegrad.capture.tables.frames",),
    ("seegrad.promise", "capture"): ("seegrad.capture.probes",),
    ("seegrad.__main__", "capture"): ("seegrad.capture.mode", "seegrad.capture.probes"),
}
PURE = (
    *(f"seegrad.{room}" for room in ("words", "model", "diagnose", "picture", "quiz")),
    "nbjudge.pages.similar",
)
"""Loading any of these loads neither torch nor Jupyter."""
USES_TORCH = (
    *(f"seegrad.{room}" for room in ("capture", "recorder", "telling", "check", "arguments", "engine")),
    *("seegrad.promise", "seegrad.learn.device"),
    "nbjudge.bridge.torch",
)
USES_NBGRADER = ("nbjudge.course", "nbjudge.plugin", "nbjudge.pages")
JUPYTER = {
    *("IPython", "ipykernel", "ipywidgets", "anywidget", "traitlets", "jupyter_client"),
    *("nbclient", "nbconvert", "nbformat", "nbgrader"),
}
PRIVATE_TORCH = ("seegrad.capture.probes.torch_private", "nbjudge.bridge.torch.torch_private")
WALKS_GRAPHS = ("seegrad.capture", "seegrad.diagnose", "seegrad.picture", "nbjudge.bridge")

MOST_FILES, MOST_ROOMS, MOST_FLOORS = 10, 8, 8
MOST_LINES, FEWEST_LINES, MOST_FUNCTION_LINES, MEDIAN_FUNCTION_LINES = 500, 30, 60, 10
NOT_ROOMS = {"static", "locale", "peers", "goldens", "data", "answers", "attacks", "__pycache__"}


@dataclass(frozen=True)
class Module:
    """A file, parsed once."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_face(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def is_alias(self) -> bool:
        """An old path that only says where the thing is now."""
        return "DeprecationWarning" in self.text and len(self.text.splitlines()) < FEWEST_LINES

    @property
    def room(self) -> str:
        """The package's part that it belongs to: a folder, or a file at the top."""
        return ".".join(self.name.split(".")[:2])

    @property
    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def modules() -> dict[str, Module]:
    """All that is ours and no test, by name."""
    found = {}
    for base, package in ((ROOT, "seegrad"), (ROOT / "grader", "nbjudge"), (ROOT, "tools"), (ROOT, "benchmarks")):
        for path in sorted((base / package).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            found[name] = Module(name, path, text, ast.parse(text))
    return found


@cache
def imports(name: str) -> frozenset[str]:
    """Absolute names of what a module imports, anywhere in it: `from a import b` is `a.b` where that is a module."""
    found: set[str] = set()
    for node in ast.walk(modules()[name].tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name} imports relatively"
            full = {alias: f"{node.module}.{alias}" for alias in (each.name for each in node.names)}
            found.update(whole if whole in modules() else str(node.module) for whole in full.values())
    return frozenset(found)


def ours(package: str) -> dict[str, Module]:
    return {name: module for name, module in modules().items() if name.split(".")[0] == package}


def within(name: str, rooms: Iterable[str]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def without_circle(needs: dict[str, set[str]]) -> list[set[str]]:
    """The floors from the ground up (Kahn's algorithm); fails with the names that import each other."""
    left, floors = dict(needs), []
    while left:
        free = {name for name, wanted in left.items() if not wanted & left.keys()}
        assert free, f"these import each other: {sorted(left)}"
        floors.append(free)
        left = {name: wanted for name, wanted in left.items() if name not in free}
    return floors


# -- who imports whom


@pytest.mark.parametrize("package", ["seegrad", "nbjudge"])
def test_rooms_import_the_rooms_below_them_only(package: str) -> None:
    guilty = []
    for name, module in ours(package).items():
        if name == package:
            continue  # the face gathers public names on purpose
        allowed = {f"{package}.{room}" for room in MAY_IMPORT[module.room]}
        for other in imports(name):
            if other not in modules() or other.split(".")[0] != package:
                continue
            room = modules()[other].room
            files = ONLY_THESE.get((module.room, room.split(".")[-1]))
            if room != module.room and (room not in allowed or (files and not within(other, files))):
                guilty.append(f"{name} imports {other}")
    assert not guilty


@pytest.mark.parametrize("room", INSIDE)
def test_rooms_within_a_room_import_downwards_too(room: str) -> None:
    guilty = []
    for name in modules():
        inner = name.removeprefix(f"{room}.").split(".")[0]
        if not name.startswith(f"{room}.") or inner not in INSIDE[room]:
            continue
        allowed = {f"{room}.{each}" for each in (*INSIDE[room][inner], inner)}
        guilty += [
            f"{name} imports {other}" for other in imports(name) if within(other, [room]) and not within(other, allowed)
        ]
    assert not guilty


@pytest.mark.parametrize("package", ["seegrad", "nbjudge", "tools", "benchmarks"])
def test_no_circle_among_files(package: str) -> None:
    known = ours(package)
    faces = {name for name, module in known.items() if module.is_face and name == package}
    without_circle({name: (imports(name) & known.keys()) - {name} for name in known.keys() - faces})


@pytest.mark.parametrize("package", ["seegrad", "nbjudge"])
def test_rooms_stand_on_few_floors_and_in_no_circle(package: str) -> None:
    needs: dict[str, set[str]] = defaultdict(set)
    for name, module in ours(package).items():
        if name != package:
            others = {modules()[other].room for other in imports(name) if other in ours(package) and other != package}
            needs[module.room] |= others - {module.room}
    assert len(without_circle(needs)) <= MOST_FLOORS


def test_nobody_imports_the_roles() -> None:
    """They are started by name in a process of their own."""
    outside = [name for name in ours("nbjudge") if not within(name, ["nbjudge.roles"])]
    assert not [name for name in outside if any(within(other, ["nbjudge.roles"]) for other in imports(name))]


def test_library_and_grader_know_nothing_of_each_other() -> None:
    for package, forbidden in (("seegrad", {"nbjudge", "grader", "nbgrader"}), ("nbjudge", {"seegrad", "grader"})):
        assert not [name for name in ours(package) if forbidden & {other.split(".")[0] for other in imports(name)}]


@pytest.mark.parametrize(("library", "rooms"), [("torch", USES_TORCH), ("nbgrader", USES_NBGRADER)])
def test_only_the_named_rooms_import(library: str, rooms: tuple[str, ...]) -> None:
    users = {name for package in ("seegrad", "nbjudge") for name in ours(package) if within_library(name, library)}
    assert not {name for name in users if not within(name, rooms)}


def within_library(name: str, library: str) -> bool:
    return any(other.split(".")[0] == library for other in imports(name))


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_load_neither_torch_nor_jupyter(room: str) -> None:
    names = sorted(name for name in modules() if within(name, [room]))
    code = f"import sys, {', '.join(names)}; print(sorted({JUPYTER | {'torch'}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_seegrad_needs_no_jupyter() -> None:
    code = (
        "import sys, seegrad; seegrad.record; print(sorted({'IPython', 'anywidget', 'ipykernel'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- torch's private parts, recursion


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and names of what `x._name` or `getattr(x, "_name")` reaches where `x` isn't self, cls, sys or os."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls" | "sys" | "os")):
                pass
            case (
                ast.Attribute(attr=name)
                | ast.Call(
                    func=ast.Name(id="getattr" | "setattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]
                )
            ):
                if name.startswith("_") and not name.endswith("_"):  # __dunder__ and _repr_html_ are protocols
                    yield node.lineno, name


@cache
def own_names(package: str) -> frozenset[str]:
    """Private names that a package itself gives to functions, attributes and fields."""
    found: set[str] = set()
    for module in ours(package).values():
        for node in ast.walk(module.tree):
            match node:
                case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                    found.add(node.name)
                case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                    found.add(node.attr)
                case ast.Name(ctx=ast.Store()):
                    found.add(node.id)
    return frozenset(found)


TORCH_S = re.compile(
    r"_(C|version|base|is_view|backward_hooks|post_accumulate_grad_hooks|forward_cls|(raw_)?saved_.*)$"
)


@pytest.mark.parametrize("package", ["seegrad", "nbjudge"])
def test_private_torch_is_touched_in_one_file_only(package: str) -> None:
    guilty = []
    for name, module in ours(package).items():
        if name in PRIVATE_TORCH or not (within(name, USES_TORCH) or within(name, ["nbjudge.roles"])):
            continue
        guilty += [
            f"{name}:{line} {private}"
            for line, private in private_names(module.tree)
            if private not in own_names(package) or TORCH_S.match(private)
        ]
        guilty += [f"{name} imports {other}" for other in imports(name) if re.match(r"torch(\.\w+)*\._", other)]
    assert not guilty


def calls_itself(function: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool) -> bool:
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name == function.name and not method:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)) if (
                name == function.name and method
            ):
                return True
    return False


def test_no_function_calls_itself_where_graphs_are_walked() -> None:
    """Recursion over a graph fails at some thousand Nodes, so whoever may be handed a Node goes on by a loop."""
    guilty = []
    for name, module in modules().items():
        if within(name, WALKS_GRAPHS):
            methods = {each for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef) for each in node.body}
            found = (each for each in module.functions if calls_itself(each, method=each in methods))
            guilty += [f"{name}.{each.name}" for each in found]
    assert not guilty


# -- sizes and names


def folders() -> Iterator[Path]:
    for base in ("seegrad", "grader/nbjudge", "tools", "benchmarks", "tests", "grader/tests"):
        for folder in (ROOT / base, *(path for path in (ROOT / base).rglob("*") if path.is_dir())):
            if not NOT_ROOMS & set(folder.relative_to(ROOT).parts):
                yield folder


def test_a_folder_holds_few_files_and_few_rooms() -> None:
    crowded = {}
    for folder in folders():
        files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        rooms = [
            path
            for path in folder.iterdir()
            if path.is_dir() and path.name not in NOT_ROOMS and any(path.rglob("*.py"))
        ]
        if len(files) > MOST_FILES or len(rooms) > MOST_ROOMS:
            crowded[str(folder.relative_to(ROOT))] = (len(files), len(rooms))
    assert not crowded


def test_a_folder_of_the_front_end_holds_few_files() -> None:
    for folder in ((ROOT / "frontend" / "src"), *(p for p in (ROOT / "frontend" / "src").rglob("*") if p.is_dir())):
        assert len([path for path in folder.iterdir() if path.is_file()]) <= MOST_FILES, folder


def test_files_and_functions_have_a_readable_size() -> None:
    lengths = []
    for name, module in modules().items():
        lines = len(module.text.splitlines())
        assert lines <= MOST_LINES, f"{name} has {lines} lines"
        assert lines >= FEWEST_LINES or module.is_face or module.is_alias, f"{name} has {lines} lines: whose is it?"
        for function in module.functions:
            lengths.append((function.end_lineno or function.lineno) - function.lineno + 1)
            assert lengths[-1] <= MOST_FUNCTION_LINES, f"{name}.{function.name} has {lengths[-1]} lines"
    assert statistics.median(lengths) <= MEDIAN_FUNCTION_LINES


def test_names_are_the_glossary_s() -> None:
    for name, module in modules().items():
        assert not re.search(r"util|helper|manager|misc(?!onception)|common", module.path.stem), name
        classes = [node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
        assert not [each for each in classes if re.search(r"Util|Helper|Manager|Misc|Layers?$", each)], name


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for name, module in modules().items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not module.is_alias:
                places[node.name].append(name)
    assert not {each: where for each, where in places.items() if len(where) > 1}


def test_both_packages_tell_their_types() -> None:
    assert (ROOT / "seegrad" / "py.typed").exists()
    assert (ROOT / "grader" / "nbjudge" / "py.typed").exists()


def test_public_names_are_sorted_and_exist() -> None:
    import seegrad

    assert list(seegrad.__all__) == sorted(seegrad.__all__)
    assert {"record", "show", "Recording", "Diagnosis", "Place", "SeegradError", "load_ipython_extension"} <= set(
        seegrad.__all__
    )
    for name in seegrad.__all__:
        assert getattr(seegrad, name).__doc__, f"{name} has no docstring"


def test_the_required_top_level_is_there() -> None:
    required = ("notebooks", "source", "release", "grader", "tests", "environment.yml", "README.md", "seegrad", "tools")
    assert not [name for name in (*required, "ARCHITECTURE.md") if not (ROOT / name).exists()]


def test_every_lint_exception_has_its_sentence() -> None:
    """`# noqa: X` and `# type: ignore[x]` are followed by a reason on the same line."""
    pattern = re.compile(r"#\s*(noqa(: ?[A-Z0-9, ]+)?|type: ignore(\[[\w, -]+\])?)\s*$")
    files = [module.path for module in modules().values()]
    for path in [*files, *(ROOT / "tests").rglob("*.py"), *(ROOT / "grader" / "tests").rglob("*.py")]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not pattern.search(line), f"{path.relative_to(ROOT)}:{number} gives no reason"


def test_a_kind_of_clue_is_one_probe_s_word() -> None:
    """Two that say the same word would be told by each other's finders."""
    made = defaultdict(set)
    for name, module in modules().items():
        for node in ast.walk(module.tree):
            match node:
                case ast.Call(func=ast.Name(id="Clue"), args=[ast.Constant(value=kind), *_]):
                    made[kind].add(name)
    assert len(made) > 30
    assert not {kind: files for kind, files in made.items() if len(files) > 1}
