"""What goes on when a hub is ended by a signal, as docs/hub.md says: the deployed settings, on a hub of the test's own.

No account is made: its one student is a folder, and a process that does nothing is started as the grader's server is.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.browser.hub.harness import ENVIRONMENT, PROXY, RunningHub, descendants
from tests.browser.lab.harness import ROOT, free_port

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(os.getuid() != 0 or not PROXY.exists(), reason="its packages aren't there, or it isn't root"),
]
OPTION = "--JupyterHub.cleanup_servers=True"
TIMEOUT_S = 120
PEOPLE = 'course = "cs1"\ngrader = "nobody"\ninstructors = []\nstudents = ["ada"]\nexchange = "/nowhere"\n'
CONFIG = """
exec(compile(open({deployed!r}).read(), {deployed!r}, "exec"))
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = {home!r}
c.Spawner.args = ["--allow-root"]
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api_port}"
command = [*c.JupyterHub.services[0]["command"][:3], "sleep", "1000"]
c.JupyterHub.services = [{{"name": course, "api_token": {token!r}, "command": command, "cwd": {folder!r}}}]
c.JupyterHub.load_roles = [{{"name": "test", "services": [course], "scopes": ["admin:users", "admin:servers"]}}]
"""


def asked(hub: RunningHub, path: str, method: str = "GET") -> Any:
    headers = {"Authorization": f"token {hub.password}"}
    request = urllib.request.Request(f"{hub.url}/hub/api/{path}", method=method, headers=headers)  # noqa: S310  # ours
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # the same
        return json.loads(answer.read() or "null")


def serves(hub: RunningHub) -> None:
    """Waits until the hub says that ada's server is there."""
    deadline = time.monotonic() + TIMEOUT_S
    while not asked(hub, "users/ada").get("servers", {}).get("", {}).get("ready"):
        assert time.monotonic() < deadline, (hub.root / "hub.log").read_text()[-3000:]
        time.sleep(0.5)


def processes(of: int, said: str) -> list[int]:
    """Those of its processes whose command line says so."""
    return [pid for pid in descendants(of) if said in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")]


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def a_hub(folder: Path) -> RunningHub:
    port, hub_port, api_port = (free_port() for _ in range(3))
    hub = RunningHub(folder, f"http://127.0.0.1:{port}", secrets.token_hex(16), {})
    (folder / "hub.toml").write_text(PEOPLE)
    deployed = str(ROOT / "deploy/hub/jupyterhub_config.py")
    home = str(folder / "homes/{username}")
    said = CONFIG.format(
        deployed=deployed,
        home=home,
        port=port,
        hub_port=hub_port,
        api_port=api_port,
        token=hub.password,
        folder=str(folder),
    )
    (folder / "config.py").write_text(said)
    return hub


@pytest.mark.parametrize(
    ("by", "options"), [(signal.SIGTERM, ()), (signal.SIGINT, ()), (signal.SIGTERM, (OPTION,))], ids=str
)
def test_students_servers_outlive_the_hub_unless_it_is_told_to_take_them_along(
    by: signal.Signals, options: tuple[str, ...], tmp_path: Path
) -> None:
    page = " ".join((ROOT / "docs/hub.md").read_text(encoding="utf-8").split())
    assert f"A hub that was started with `{OPTION}` takes them along." in page
    hub = a_hub(tmp_path)
    hub.start(*options)
    assert hub.process is not None
    asked(hub, "users/ada/server", "POST")
    serves(hub)
    (server,) = processes(hub.process.pid, str(ENVIRONMENT / "bin/jupyterhub-singleuser"))
    others = [*processes(hub.process.pid, "configurable-http-proxy"), *processes(hub.process.pid, "sleep 1000")]
    try:
        assert len(others) >= 2
        hub.end(by)
        assert not any(alive(pid) for pid in others), "the proxy, the grader's server"
        assert alive(server) is not bool(options)
        if not options:
            hub.start()
            serves(hub)
            assert alive(server), "the next hub knows it, and starts no other"
            assert not processes(hub.process.pid, str(ENVIRONMENT / "bin/jupyterhub-singleuser"))
            hub.end()
    finally:
        if alive(server):
            os.kill(server, signal.SIGKILL)
        hub.kill()


def started(hub: RunningHub) -> int:
    """Waits until there is the process that is, or stands in for, the grader's server."""
    assert hub.process is not None
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := processes(hub.process.pid, "sleep 1000")):
        assert time.monotonic() < deadline, (hub.root / "hub.log").read_text()[-3000:]
        time.sleep(0.2)
    return found[0]


@pytest.mark.parametrize("killed", [1, 2])
def test_a_killed_hub_s_grader_s_server_is_the_next_one_s_until_that_is_ended(killed: int, tmp_path: Path) -> None:
    page = " ".join((ROOT / "docs/hub.md").read_text(encoding="utf-8").split())
    assert "and takes over, with what it is grading; a SIGTERM to that hub ends it as its own" in page
    hub = a_hub(tmp_path)
    hub.start()
    server = started(hub)
    strays = [server]
    try:
        for _ in range(killed):
            assert hub.process is not None
            strays += processes(hub.process.pid, "configurable-http-proxy")
            hub.kill_alone()
            hub.start()
            assert started(hub) != server, "one that stands in"
            strays.append(started(hub))
        time.sleep(3)  # one that can't start would have ended by now
        assert alive(server)
        hub.end()
        assert int((tmp_path / ".grader_server").read_text().split()[0]) == server
        assert not alive(server)
        assert "exited with status" not in (tmp_path / "hub.log").read_text()
    finally:
        for pid in filter(alive, strays):
            os.kill(pid, signal.SIGKILL)
        hub.kill()
