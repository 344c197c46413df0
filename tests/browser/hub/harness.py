"""A real JupyterHub with accounts of its own: laid by `nbjudge hub`, its proxy beside it, killed as a machine would."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.browser.lab.harness import ROOT, free_port, settle

ENVIRONMENT = Path(os.environ.get("HUB", "/opt/seegrad-hub"))  # `make hub` installs it
PROXY = ENVIRONMENT / "proxy/node_modules/.bin/configurable-http-proxy"
START_TIMEOUT_S = 120
CONFIG = """
exec(compile(open({deployed!r}).read(), {deployed!r}, "exec"))
c.JupyterHub.authenticator_class = "dummy"  # a password of the test's: nobody's account has one
c.DummyAuthenticator.password = {password!r}
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api_port}"
"""


@dataclass
class RunningHub:
    """A hub on this machine: where it is, who its people are, and the process that can be killed."""

    root: Path
    url: str
    password: str
    accounts: dict[str, str]  # role → the account's name
    process: subprocess.Popen[bytes] | None = field(default=None)

    def home(self, role: str) -> Path:
        return Path(pwd.getpwnam(self.accounts[role]).pw_dir)

    def start(self, *options: str) -> None:
        """The hub and all it starts; returns once it answers."""
        environment = {**os.environ, "HUB_TOML": str(self.root / "hub.toml")}
        command = [str(ENVIRONMENT / "bin/jupyterhub"), "-f", str(self.root / "config.py"), *options]
        with (self.root / "hub.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/hub/health", timeout=2).close()  # noqa: S310  # on this machine
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
            else:
                return
        pytest.fail(f"JupyterHub didn't start:\n{(self.root / 'hub.log').read_text(errors='replace')[-4000:]}")

    def kill(self) -> None:
        """As a machine that loses its power: the hub, its proxy, every server and all that they have started."""
        assert self.process is not None
        doomed = [self.process.pid, *descendants(self.process.pid)]
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(20)

    def kill_alone(self) -> None:
        """The hub itself: every server goes on, the grader's too."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(20)

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        """As an administrator ends it: by `kill` or Ctrl+C."""
        assert self.process is not None
        self.process.send_signal(by)
        self.process.wait(60)

    def as_grader(self, *command: str) -> str:
        """A command in the course's folder, as the grader's account has it; returns what it printed."""
        account = pwd.getpwnam(self.accounts["grader"])
        environment = {
            "HOME": account.pw_dir,
            "USER": account.pw_name,
            "PATH": f"{ENVIRONMENT / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        done = subprocess.run(
            [str(ENVIRONMENT / "bin" / command[0]), *command[1:]],
            cwd=Path(account.pw_dir) / "course",
            env=environment,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def descendants(of: int) -> list[int]:
    """All processes that this one has started, and those that these have."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(after_name[1]), []).append(int(folder.name))
    found, queue = [], [of]
    while queue:
        children = parents.get(queue.pop(), [])
        found += children
        queue += children
    return found


def missing() -> str:
    """Why no hub can be started here; empty where one can."""
    if os.getuid() != 0:
        return "accounts are made and servers started in them by root"
    if not (ENVIRONMENT / "bin/jupyterhub").exists() or not PROXY.exists():
        return "its packages aren't there: make hub"
    python = (ENVIRONMENT / "bin/python").resolve()
    closed = [folder for folder in (*ROOT.parents, *python.parents) if not folder.stat().st_mode & 0o001]
    return f"other accounts can't come into {closed[-1]}" if closed else ""


@contextmanager
def accounts(base: Path) -> Iterator[dict[str, str]]:
    """Four accounts that exist for the test alone, each with a home under `base`."""
    mark = secrets.token_hex(3)
    named = {role: f"t{mark}-{role}" for role in ("grader", "ines", "ada", "kofi")}
    try:
        for name in named.values():
            subprocess.run(["useradd", "--create-home", "--base-dir", str(base), name], check=True)
        yield named
    finally:
        for name in named.values():
            subprocess.run(["pkill", "-KILL", "-u", name], check=False)
            subprocess.run(["userdel", "--force", name], check=False, capture_output=True)


@contextmanager
def running_hub(assignment: str) -> Iterator[RunningHub]:
    """The course on a hub: one assignment's source in the grader's home, nothing generated yet."""
    base = Path(tempfile.mkdtemp(prefix="hub-", dir="/var/tmp"))  # homes: others must come through
    base.chmod(0o755)
    try:
        with accounts(base) as named:
            port, hub_port, api_port, service_port = (free_port() for _ in range(4))
            hub = RunningHub(base / "hub", f"http://127.0.0.1:{port}", secrets.token_hex(8), named)
            hub.root.mkdir(mode=0o700)
            people = (ROOT / "deploy/hub/hub.toml").read_text()
            people = people.replace("grader-autograd101", named["grader"]).replace('"ines"', f'"{named["ines"]}"')
            people = people.replace('["ada", "kofi"]', f'["{named["ada"]}", "{named["kofi"]}"]')
            people = people.replace("/srv/nbgrader/exchange", str(base / "exchange")).replace("9999", str(service_port))
            (hub.root / "hub.toml").write_text(people)
            config = CONFIG.format(
                deployed=str(ROOT / "deploy/hub/jupyterhub_config.py"),
                password=hub.password,
                port=port,
                hub_port=hub_port,
                api_port=api_port,
            )
            (hub.root / "config.py").write_text(config)
            course = hub.home("grader") / "course"
            shutil.copytree(ROOT / "source" / assignment, course / "source" / assignment)
            shutil.copy(ROOT / "nbgrader_config.py", course)
            for role in ("ines", "ada", "kofi", "grader"):
                settle(hub.home(role) / ".jupyter/lab/user-settings")
                subprocess.run(["chown", "-R", f"{named[role]}:", str(hub.home(role))], check=True)
            lay = [str(ENVIRONMENT / "bin/nbjudge"), "hub", str(hub.root / "hub.toml")]
            subprocess.run(lay, check=True, capture_output=True)
            subprocess.run([*lay, "--check"], check=True, capture_output=True)
            hub.start()
            try:
                yield hub
            finally:
                hub.kill()
    finally:
        shutil.rmtree(ENVIRONMENT / "etc/jupyter/labconfig", ignore_errors=True)
        for name in ("nbgrader_config.py", "jupyter_server_config.d/zz_hub.json"):
            (ENVIRONMENT / "etc/jupyter" / name).unlink(missing_ok=True)
        shutil.rmtree(base, ignore_errors=True)
