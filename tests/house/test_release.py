"""What `make dist` makes: metadata fit for an index, and packages that work where nothing else of ours lies."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from textwrap import indent

import pytest
from trove_classifiers import classifiers

from tests.house.test_package import an_environment, only, without_python_variables
from tools import online, release

ROOT = Path(__file__).parents[2]
PROGRAM = """import torch

a = torch.ones(2, requires_grad=True)
b = a.exp()
b.data.zero_()
b.sum().backward()
"""
NOTEBOOK = """
import nbformat
cell = nbformat.v4.new_code_cell("1 + 1")
nbformat.write(nbformat.v4.new_notebook(cells=[cell]), "one.ipynb")
"""
pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By project: the folder of its wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    made = release.build_packages(ROOT, folder)
    for path in made:
        (folder / path.name.partition("-")[0]).mkdir(exist_ok=True)
        path.rename(folder / path.name.partition("-")[0] / path.name)
    return {name: folder / name for name in ("seegrad", "nbjudge")}


def metadata(folder: Path) -> Message:
    with zipfile.ZipFile(only(folder, "*.whl")) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("dist-info/METADATA")]
        return message_from_bytes(wheel.read(name))


@pytest.mark.parametrize("name", ["seegrad", "nbjudge"])
def test_an_index_can_show_it(packages: dict[str, Path], name: str) -> None:
    pytest.importorskip("twine", reason="`make test-all` installs twine")
    files = [str(path) for path in packages[name].iterdir()]
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2


@pytest.mark.parametrize("name", ["seegrad", "nbjudge"])
def test_what_it_says_of_itself_is_known_and_leads_somewhere(packages: dict[str, Path], name: str) -> None:
    said = metadata(packages[name])
    assert set(said.get_all("Classifier", [])) <= set(classifiers)
    urls = [url.partition(", ")[2] for url in said.get_all("Project-URL", [])]
    assert len(urls) == 4
    text = str(said.get_payload())
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    repository = "https://github.com/OWNER/NAME"
    for link in links:
        if link.startswith(repository):
            path = re.sub(r"#.*", "", link.removeprefix(repository)).replace("/raw/HEAD/", "/blob/HEAD/")
            assert (ROOT / path.removeprefix("/blob/HEAD/")).exists(), link


def test_torch_stays_the_user_s_and_where_it_lacks_a_sentence_says_what_to_do(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    required = metadata(packages["seegrad"]).get_all("Requires-Dist", [])
    assert [line for line in required if line.startswith("torch") and "extra ==" not in line] == []
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, only(packages["seegrad"], "*.whl")], check=True)
    for command in (
        ["-c", "import seegrad; seegrad.record"],
        ["-m", "seegrad", "x.py"],
    ):
        done = subprocess.run(
            [python, *command], cwd=tmp_path, env=without_python_variables(), capture_output=True, text=True
        )
        last = done.stderr.splitlines()[-1]
        assert last.startswith("ModuleNotFoundError: seegrad records torch, and torch isn't installed here: "), (
            done.stderr
        )


def test_the_commands_the_plug_in_and_the_exporter_are_found(packages: dict[str, Path], tmp_path: Path) -> None:
    python = an_environment(tmp_path / "env", packages["seegrad"])

    environment = without_python_variables() | {"JUPYTER_PATH": str(Path(sys.prefix) / "share" / "jupyter")}

    def run(*command: str, status: int = 0) -> str:
        path = python.with_name(command[0]) if command[0] == "seegrad" else python
        words = command[1:] if command[0] == "seegrad" else command
        done = subprocess.run(
            [path, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    (tmp_path / "program.py").write_text(PROGRAM)
    assert "program.py:5: WRONG GRADIENT" in run("seegrad", "program.py")
    head, _, body = PROGRAM.partition("\n\n")
    test = f"{head}\n\ndef test_it():\n{indent(body, '    ')}"
    (tmp_path / "test_it.py").write_text(test)
    assert "1 passed" in run("-m", "pytest", "-q", "test_it.py")
    assert "test_it.py:6: WRONG GRADIENT" in run("-m", "pytest", "-q", "--seegrad", "test_it.py", status=1)
    run("-c", NOTEBOOK)
    run("-m", "nbconvert", "--to", "seegrad", "--log-level=ERROR", "one.ipynb")
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert "<main>" in page
    assert not re.search("require(.min)?.js", page)  # which stock nbconvert asks of another server


def test_the_kit_is_one_file_without_an_answer(tmp_path: Path) -> None:
    with zipfile.ZipFile(release.build_kit(ROOT, tmp_path)) as kit:
        names = {name.partition("/")[2] for name in kit.namelist()}
    assert {"README.md", "README.zh_CN.md", "requirements.txt", "notebooks/en/00_start_here.ipynb"} <= names
    assert not [name for name in names if name.startswith(("source", "tests", "grader"))]


def test_both_packages_and_the_changelog_have_one_version() -> None:
    said = {re.search(r'^version = "(.*)"', (ROOT / name).read_text(), re.M)[1] for name in online.ADDRESSED[:2]}
    assert said == {re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)[1]}


def test_an_address_is_said_once(tmp_path: Path) -> None:
    for name in online.ADDRESSED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    for address in ("https://github.com/ada/autograd", "https://github.com/ada/autograd-2"):
        assert {path.relative_to(tmp_path).as_posix() for path in online.say_address(tmp_path, address)} == set(
            online.ADDRESSED
        )
        for name in online.ADDRESSED:
            text = (tmp_path / name).read_text(encoding="utf-8")
            assert "OWNER/NAME" not in text
            assert "<this repository>" not in text
            assert set(re.findall(r"https://github\.com/ada/[\w.-]+", text)) == {address}
