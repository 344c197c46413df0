"""A course on a hub: what its settings may say, what is laid, and what each kind of account can then reach."""

from __future__ import annotations

import configparser
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from traitlets.config import Config, PyFileConfigLoader

from nbjudge.__main__ import main
from nbjudge.course.office import hub as hubs
from nbjudge.errors import CourseError
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import ENVIRONMENT

GOOD = """
course = "cs1"
grader = "{grader}"
instructors = ["ines"]
students = ["ada", "kofi"]
exchange = "{exchange}"
"""
DEPLOYED = Path(__file__).parents[3] / "deploy/hub/jupyterhub_config.py"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="other accounts' files are laid by root")


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "hub.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('grader = "g"\nexchange = "/e"', "course is missing"),
        ('course = "cs1"\ngrader = "g"\nexchange = "e"', "has to begin with /"),
        ('course = "../x"\ngrader = "g"\nexchange = "/e"', "can't be the name"),
        ('course = "cs1"\ngrader = "g"\nexchange = "/e"\nstudents = "ada"', "list of accounts"),
        ('course = "cs1"\ngrader = "g"\nexchange = "/e"\nstudents = ["g"]', "g can't be more than one of"),
        ('course = "cs1"\ngrader = "g"\nexchange = "/e"\nstudents = ["i"]\ninstructors = ["i"]', "more than one of"),
        ('course = "cs1"\ngrader = "g"\nexchange = "/e"\nport = "80"', "not a number from 1"),
        ('course = "cs1"\ngrader = "g"\nexchange = "/e"\ngarder = 1', "garder is not a setting"),
        ("course = ", "hub.toml"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CourseError, match=said):
        hubs.read_hub(written(tmp_path, text))


def test_an_account_that_lacks_is_named_with_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, GOOD.format(grader="grader-nowhere", exchange=tmp_path / "exchange"))
    assert main(["hub", str(path), "--check"]) == 2
    told = capsys.readouterr().err
    assert "useradd --create-home grader-nowhere" in told
    assert "first login: ines, ada, kofi" in told, "all that lack, so that they are made in one go"


@pytest.fixture
def grader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An account of this machine that isn't root, with a home of its own for a while."""
    name = "nobody"
    home = tmp_path / "home"
    home.mkdir()
    for folder in (tmp_path, *tmp_path.parents):  # as /home is: others come through
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    monkeypatch.setattr(hubs, "home", lambda _: home)
    return name


@as_root
def test_what_is_laid_is_as_it_has_to_be(tmp_path: Path, grader: str, capsys: pytest.CaptureFixture[str]) -> None:
    prefix, home = tmp_path / "env", tmp_path / "home"
    path = written(tmp_path, GOOD.format(grader=grader, exchange=tmp_path / "exchange"))
    command = ["hub", str(path), f"--prefix={prefix}"]
    assert main([*command, "--check"]) == 1
    assert "first login: ines, ada, kofi" in capsys.readouterr().out
    (home / "course").mkdir()
    (home / "course/gradebook.db").write_text("points")
    (home / "course/gradebook.db").chmod(0o666)
    capsys.readouterr()
    assert main(command) == 0
    told = capsys.readouterr().out
    assert f"{tmp_path / 'exchange'}: made\n" in told
    assert f"{home / 'course'}: 1 file or folder given to {grader} alone\n" in told
    for again in (command, [*command, "--check"]):
        assert main(again) == 0
        assert capsys.readouterr().out.splitlines()[1:] == ["All is as it has to be."]
    (home / "course").chmod(0o755)
    assert main([*command, "--check"]) == 1
    assert "course has mode 0755, not 0700" in capsys.readouterr().out
    found = (home / "course/gradebook.db").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (pwd.getpwnam(grader).pw_uid, 0o600)
    settings = PyFileConfigLoader(str(prefix / "etc/jupyter/nbgrader_config.py")).load_config()
    assert (settings.CourseDirectory.course_id, settings.Exchange.root) == ("cs1", str(tmp_path / "exchange"))
    mine = PyFileConfigLoader(str(home / ".jupyter/nbgrader_config.py")).load_config()
    assert settings.CourseDirectory.root != mine.CourseDirectory.root == str(home / "course")


@as_root
def test_a_course_with_two_names_is_refused(tmp_path: Path, grader: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the course's own file says is read last: released under the one name, nobody finds it under the other."""
    path = written(tmp_path, GOOD.format(grader=grader, exchange=tmp_path / "exchange"))
    own = tmp_path / "home/course/nbgrader_config.py"
    own.parent.mkdir()
    for said, status in (("cs1", 0), ("another", 2)):
        own.write_text(f'c.CourseDirectory.course_id = "{said}"\n')
        assert main(["hub", str(path), f"--prefix={tmp_path / 'env'}"]) == status
    assert "course_id = 'another', and 'cs1'" in capsys.readouterr().err


@as_root
def test_students_read_neither_each_other_s_work_nor_the_clone(
    tmp_path: Path, grader: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, GOOD.format(grader=grader, exchange=tmp_path / "exchange").replace('"kofi"', '"daemon"'))
    own = tmp_path / "daemon"
    own.mkdir(mode=0o755)
    known = pwd.getpwnam

    def getpwnam(name: str) -> pwd.struct_passwd:
        found = known(name)
        return pwd.struct_passwd((*found[:5], str(own), found[6])) if name == "daemon" else found

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    assert main(["hub", str(path), f"--prefix={tmp_path / 'env'}"]) == 0
    assert (own.stat().st_uid, own.stat().st_mode & 0o777) == (known("daemon").pw_uid, 0o700)
    (tmp_path / "clone/source").mkdir(parents=True)
    (tmp_path / "clone/nbgrader_config.py").touch()
    assert main(["hub", str(path), f"--prefix={tmp_path / 'clone/build/hub'}", "--check"]) == 2
    assert f"{tmp_path / 'clone'} has the solutions and hidden tests" in capsys.readouterr().err


@as_root
def test_what_an_account_has_made_itself_is_not_taken_over(
    tmp_path: Path, grader: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may hold such a folder open, and list it whatever its mode is then."""
    path = written(tmp_path, GOOD.format(grader=grader, exchange=tmp_path / "exchange"))
    made = tmp_path / "exchange/cs1/inbound"
    made.mkdir(parents=True)
    os.chown(made, pwd.getpwnam("daemon").pw_uid, -1)
    assert main(["hub", str(path), f"--prefix={tmp_path / 'env'}"]) == 2
    assert f"{made} belongs to daemon: move it away" in capsys.readouterr().err
    assert made.stat().st_uid == pwd.getpwnam("daemon").pw_uid


@as_root
def test_a_student_drops_what_nobody_else_can_read_or_remove(tmp_path: Path, grader: str) -> None:
    path = written(tmp_path, GOOD.format(grader=grader, exchange=tmp_path / "exchange"))
    assert main(["hub", str(path), f"--prefix={tmp_path / 'env'}"]) == 0
    inbound = tmp_path / "exchange/cs1/inbound"
    tried = {
        f"touch {inbound}/mine": 0,
        f"ls {inbound}": 2,
        f"rm -rf {tmp_path}/exchange/cs1": 1,
        f"mv {tmp_path}/exchange/cs1 {tmp_path}/exchange/cs2": 1,
        f"cat {tmp_path}/home/.jupyter/nbgrader_config.py": 1,
        f"ls {tmp_path}/home": 2,
    }
    student = pwd.getpwnam("daemon")
    for line, status in tried.items():
        done = subprocess.run(
            line.split(), user=student.pw_uid, group=student.pw_gid, extra_groups=[], capture_output=True, check=False
        )
        assert done.returncode == status, (line, done.stderr)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Others come through, also while another pytest on this machine closes the folder that all of them share."""
    with tempfile.TemporaryDirectory(prefix="hub-", dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@as_root
def test_who_may_not_look_hears_who_may(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = open_folder / "home"
    home.mkdir()
    monkeypatch.setattr(hubs, "home", lambda _: home)
    path = written(open_folder, GOOD.format(grader="nobody", exchange=open_folder / "exchange"))
    path.chmod(0o644)
    command = ["hub", str(path), f"--prefix={open_folder / 'env'}"]
    assert main(command) == 0
    os.seteuid(pwd.getpwnam("daemon").pw_uid)
    try:
        assert main([*command, "--check"]) == 2
    finally:
        os.seteuid(0)
    assert f"{home}/course" in (said := capsys.readouterr().err)
    assert "is closed to you: sudo nbjudge hub FILE" in said


@as_root
def test_the_grader_s_account_takes_the_class_s_names(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/hub.md says, from what a platform exports; a student can neither do that nor read what came of it."""
    grader, home = "nobody", open_folder / "home"
    home.mkdir()
    monkeypatch.setattr(hubs, "home", lambda _: home)
    page = " ".join((DEPLOYED.parents[2] / "docs" / "hub.md").read_text(encoding="utf-8").split())
    assert "Once an assignment is generated, `nbjudge roster PARTICIPANTS.csv`, in the course's folder" in page
    settings = GOOD.replace("cs1", "autograd101")  # as the course's own file calls it
    path = written(open_folder, settings.format(grader=grader, exchange=open_folder / "exchange"))
    course = small.make(home / "course")
    (course / "participants.csv").write_text("First name,Last name,Username\nAda,Lovelace,ada\n", encoding="utf-8")
    environment = ENVIRONMENT | {"HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[1])}
    command = ["python", "-B", "-m", "nbjudge_tests.other_user", "become", "command", str(open_folder)]
    command += ["nbjudge", "roster", "participants.csv"]

    def taken_over() -> subprocess.CompletedProcess[str]:
        assert main(["hub", str(path), f"--prefix={open_folder / 'env'}"]) == 0
        return subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, check=False)

    early = taken_over()
    assert (early.returncode, "run `nbjudge generate NAME` first" in early.stderr) == (2, True), early.stderr
    monkeypatch.setenv("PATH", ENVIRONMENT["PATH"])  # nbgrader makes a gradebook by alembic
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "autograd101") as book:
        book.add_student("ada")
    book.engine.dispose()
    done = taken_over()
    assert "1 student, 0 new, 1 changed" in done.stdout, done.stderr
    assert (course / "gradebook.db").stat().st_uid == pwd.getpwnam(grader).pw_uid
    student = pwd.getpwnam("daemon")
    for tried in (["cat", "gradebook.db"], ["touch", "gradebook.db"], ["cat", "participants.csv"]):
        attempt = [tried[0], str(course / tried[1])]
        refused = subprocess.run(
            attempt, user=student.pw_uid, group=student.pw_gid, extra_groups=[], capture_output=True, check=False
        )
        assert refused.returncode == 1


@as_root
def test_the_graders_tools_are_off_but_for_the_grader(tmp_path: Path, grader: str) -> None:
    """Asked of JupyterLab and jupyter-server themselves: as a student's account and as the grader's would."""
    path = written(tmp_path, GOOD.format(grader=grader, exchange=tmp_path / "exchange"))
    assert main(["hub", str(path), f"--prefix={tmp_path / 'env'}"]) == 0
    asked = (
        "import json, sys, jupyter_core.paths as paths; paths.ENV_CONFIG_PATH[:] = sys.argv[1:]; "
        "from jupyter_server.extension.config import ExtensionConfigManager as Servers; "
        "from jupyterlab_server.config import get_page_config; "
        "on = Servers(read_config_path=paths.jupyter_config_path()).get_jpserver_extensions(); "
        "off = get_page_config([])['disabledExtensions']; "
        "print(json.dumps([on['nbgrader.server_extensions.formgrader'], '@jupyter/nbgrader:formgrader' in off]))"
    )
    for own, expected in ((tmp_path / "student", [False, True]), (tmp_path / "home/.jupyter", [True, False])):
        environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(own), "JUPYTER_PREFER_ENV_PATH": "0"}
        command = [sys.executable, "-c", asked, str(tmp_path / "env/etc/jupyter")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == expected


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The hub's settings, with an account that every machine has."""
    monkeypatch.setenv("HUB_TOML", str(written(tmp_path, GOOD.format(grader="nobody", exchange="/exchange"))))
    monkeypatch.chdir(tmp_path)
    return PyFileConfigLoader(str(DEPLOYED)).load_config()


@pytest.mark.parametrize("whose", ["student", "grader"])
def test_a_terminal_finds_the_commands_that_its_server_finds(deployed: Config, tmp_path: Path, whose: str) -> None:
    """A login shell, as Jupyter's own choice is, doesn't: /etc/profile sets PATH anew."""
    given = deployed.Spawner.args if whose == "student" else deployed.JupyterHub.services[0]["command"][3:]
    asked = (
        "import json, sys; from jupyter_server.serverapp import ServerApp; app = ServerApp(); "
        "app.initialize(['--allow-root', *sys.argv[1:]]); "
        "print(json.dumps(app.web_app.settings['terminal_manager'].shell_command))"
    )
    environment = {**ENVIRONMENT, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    told = subprocess.run(
        [sys.executable, "-c", asked, *(one for one in given if "terminado" in one)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    shell = json.loads(told.stdout.splitlines()[-1])
    shown = subprocess.run(shell, env=environment, input="echo $PATH\n", capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == environment["PATH"]


def test_the_grader_s_server_ends_by_ctrl_c_however_its_hub_was_started(deployed: Config, tmp_path: Path) -> None:
    """In a script `jupyterhub &` ignores SIGINT, and so does all that it starts."""
    command = deployed.JupyterHub.services[0]["command"][:3]
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command, "sleep", "60"]
    running = subprocess.Popen(ignoring, cwd=tmp_path)
    try:
        while not Path(f"/proc/{running.pid}/cmdline").read_bytes().startswith(b"sleep"):
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.wait(10) == -signal.SIGINT
    finally:
        running.kill()
        running.wait()


def test_the_unit_is_one_that_systemd_takes_and_starts_the_hub_where_its_settings_lie(tmp_path: Path) -> None:
    page = (DEPLOYED.parents[2] / "docs/hub.md").read_text(encoding="utf-8")
    said = (DEPLOYED.parent / "seegrad-hub.service").read_text(encoding="utf-8")
    unit = configparser.ConfigParser()
    unit.read_string(said)
    folder, program = unit["Service"]["WorkingDirectory"], unit["Service"]["ExecStart"]
    assert f"cd {folder} && {program}  " in page
    assert "install -m 644 deploy/hub/seegrad-hub.service /etc/systemd/system" in page
    assert unit["Service"]["KillMode"] == "process", "a restart of the hub costs no student a kernel"
    if analyze := shutil.which("systemd-analyze"):
        there = tmp_path / "seegrad-hub.service"
        there.write_text(said.replace(program, sys.executable), encoding="utf-8")
        done = subprocess.run([analyze, "verify", str(there)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_hub_that_is_deployed_names_the_accounts_that_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, GOOD.format(grader="grader-nowhere", exchange=tmp_path / "exchange"))
    monkeypatch.setenv("HUB_TOML", str(path))
    with pytest.raises(SystemExit, match="no account grader-nowhere on this machine: useradd --create-home"):
        PyFileConfigLoader(str(DEPLOYED)).load_config()


def test_the_hub_that_is_deployed_listens_on_its_own_machine() -> None:
    """Passwords go over it without encryption: docs/hub.md says what stands before it."""
    deployed = DEPLOYED.read_text(encoding="utf-8")
    assert 'c.JupyterHub.bind_url = "http://127.0.0.1:8000"' in deployed
