"""A JupyterHub for one course: every student a server, the instructors one more that they share, the grader's.

Run it as root in the folder where hub.toml is: `jupyterhub -f jupyterhub_config.py`. HUB_TOML names another file.
How people log in is the site's own to say, below: by default with the machine's own accounts and passwords (PAM).
"""

import os
import pwd
import secrets
import sys
import tomllib
from pathlib import Path

c = get_config()  # noqa: F821 -- traitlets puts it here

said = tomllib.loads(Path(os.environ.get("HUB_TOML", "hub.toml")).read_text(encoding="utf-8"))
course, group = said["course"], f"formgrade-{said['course']}"
try:
    home = pwd.getpwnam(said["grader"]).pw_dir
except KeyError:
    sys.exit(f"no account {said['grader']} on this machine: useradd --create-home {said['grader']}")
programs = Path(sys.executable).parent
singleuser = str(programs / "jupyterhub-singleuser")
path = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}  # nbgrader looks for its own commands there
proxy = programs.parent / "proxy/node_modules/.bin/configurable-http-proxy"  # where `make hub` puts it
if proxy.exists():
    c.ConfigurableHTTPProxy.command = [str(proxy)]

c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # passwords go over it: others come by a web server with a certificate
c.Authenticator.allowed_users = {*said["students"], *said["instructors"]}
c.Spawner.cmd = [singleuser]
c.Spawner.environment = path
# Jupyter's terminals are login shells, which on Debian begin with another PATH: this is the account's shell as it is.
terminals = """--ServerApp.terminado_settings=shell_command=sh -c 'exec "${SHELL:-sh}"'"""
c.Spawner.args = [terminals]
c.Spawner.default_url = "/lab"


def kept(name):
    """A secret of the hub's own that outlives it, in a file beside it."""
    path = Path(name)
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32), encoding="utf-8")
    return path.read_text(encoding="utf-8")


STANDS_IN = '''
"""Becomes the grader's server. Where a killed hub's goes on, stands in for it: ends it when told to, ends with it."""

import os
import select
import signal
import sys
from pathlib import Path


def began(pid):
    """When this process began; empty where it doesn't run. A number may be another process's by now."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if said[0] == "Z" else said[19]


note = Path(".grader_server")
pid, _, when = note.read_text().partition(" ") if note.exists() else ("", "", "")
if not when or began(pid) != when:
    note.write_text(f"{os.getpid()} {began(os.getpid())}")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a hub started by `… &` in a script ignores, and hands on
    os.execvp(sys.argv[1], sys.argv[1:])
there = os.pidfd_open(int(pid))
ways = iter([signal.SIGTERM])
for one in (signal.SIGINT, signal.SIGTERM):  # a hub sends the one, and the other where that took too long
    signal.signal(one, lambda *_: signal.pidfd_send_signal(there, next(ways, signal.SIGKILL)))
select.select([there], [], [])  # until it has ended
'''

# The grader's server runs as the grader's account and begins with formgrader. Instructors find it under Services.
# Formgrader is opened as a page of its own: inside JupyterLab it would be a frame, which a hub forbids.
c.JupyterHub.services = [
    {
        "name": course,
        "url": f"http://127.0.0.1:{said.get('port', 9999)}",
        "user": said["grader"],
        "api_token": kept("grader_token"),
        "cwd": home,
        "oauth_no_confirm": True,
        "environment": path,
        "command": [
            sys.executable,
            "-c",
            STANDS_IN,
            singleuser,
            terminals,
            f"--ServerApp.root_dir={home}",
            "--ServerApp.default_url=/formgrader",
            "--ServerApp.answer_yes=True",  # a hub ends it by Ctrl+C, which else asks a terminal, for half a minute
        ],
    }
]
c.JupyterHub.load_groups = {group: {"users": list(said["instructors"])}}
c.JupyterHub.load_roles = [
    {"name": group, "groups": [group], "scopes": [f"access:services!service={course}"]},
]

# The hub may be stopped, killed and started again while students work and a class is graded: their servers go on, a
# killed hub's grader's too, for which the next hub's stands in (by `.grader_server` in its home). They find their way
# back by what is kept in these files, and the grader's token above. Without the second of them every login ends with
# the hub; without the token the grader's server, which goes on, is nobody the next hub knows.
c.JupyterHub.cleanup_servers = False
c.JupyterHub.db_url = "sqlite:///jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = "jupyterhub_cookie_secret"  # noqa: S105 -- a file's name
