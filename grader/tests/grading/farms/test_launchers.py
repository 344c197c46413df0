"""What the launchers of docs/scaling.md would start on a cluster is started here, by its recipes as they stand."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import ENVIRONMENT, python
from nbjudge_tests.classroom.gradebook import Rows, rows
from nbjudge_tests.crashes import until, workers

pytestmark = [pytest.mark.slow, pytest.mark.whole]
pytest.importorskip("dask_jobqueue", reason="`make tools` installs the launchers")
pytest.importorskip("dask_kubernetes", reason="`make tools` installs the launchers")

ROOT = Path(__file__).parents[4]
THREADS = "2"  # of a worker, on a machine with two cores

# A queue with one node, which is free after a while: the first job starts then, the others wait.
SBATCH = f"""#!/bin/sh
if mkdir "$0.taken" 2>/dev/null; then
  sed 's/--nthreads [0-9]*/--nthreads {THREADS}/' "$1" > "$0.job"
  setsid sh -c 'sleep 15; exec sh "$0"' "$0.job" > "$0.log" 2>&1 &
  echo $! > "$0.pid"
fi
echo "Submitted batch job 17"
"""
RENDERED = """
import json, sys, yaml
from importlib.resources import files
import dask_kubernetes.operator
from dask_kubernetes.operator.controller import controller

asked = []

def keep(custom_cluster_spec):
    asked.append(custom_cluster_spec)
    sys.exit()

dask_kubernetes.operator.KubeCluster = keep
try:
    exec(sys.argv[1], {})
except SystemExit:
    pass
said = json.dumps(asked[0])
cluster = json.loads(said, object_hook=lambda part: {key: value for key, value in part.items() if value is not None})
pods = {kind: cluster["spec"][kind]["spec"] for kind in ("scheduler", "worker")}
worker = controller.build_worker_deployment_spec("grading-default", "classes", "grading", "1", pods["worker"], {}, {})
scheduler = controller.build_scheduler_deployment_spec("grading", pods["scheduler"], {}, {})
chart = files("dask_kubernetes") / "operator/deployment/helm/dask-kubernetes-operator"
definition = yaml.safe_load((chart / "crds/daskcluster.yaml").read_text())
print(json.dumps([cluster, scheduler, worker, definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]]))
"""


def recipe(title: str) -> str:
    """The program that the section hands to python."""
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    section = page.split(f"\n### {title}\n", 1)[1].split("\n### ", 1)[0]
    found = re.search(r"python - <<'END'\n(.*?)\nEND\n", section, re.DOTALL)
    assert found is not None
    return found[1]


def test_slurm_s_jobs_grade_the_class(course: Path, alone: Rows, tmp_path: Path) -> None:
    queue = tmp_path / "bin"
    queue.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", "#!/bin/sh\n")):
        (queue / name).write_text(text)
        (queue / name).chmod(0o755)
    environment = ENVIRONMENT | {"PATH": f"{queue}{os.pathsep}{ENVIRONMENT['PATH']}"}
    program = recipe("SLURM").replace('"NAME"', repr(small.NAME))
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=course, env=environment, capture_output=True, text=True, timeout=300
        )
        log = (queue / "sbatch.log").read_text()
    finally:
        with suppress(FileNotFoundError, ProcessLookupError):
            os.killpg(int((queue / "sbatch.pid").read_text()), signal.SIGKILL)
    assert done.returncode == 0, done.stderr + log
    assert "16/16 " in done.stderr
    job = (queue / "sbatch.job").read_text()
    assert re.findall(r"^#SBATCH (-p compute|--cpus-per-task=16|--mem=15G|-t 01:00:00)$", job, re.MULTILINE) == [
        "-p compute", "--cpus-per-task=16", "--mem=15G", "-t 01:00:00"
    ]  # fmt: skip
    assert rows(course) == alone


@pytest.fixture(scope="module")
def rendered() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The cluster as the recipe asks for it, the two Deployments that the operator makes of it, and what it may be.

    Kubernetes drops fields that are null before the operator sees them.
    """
    command = [sys.executable, "-c", RENDERED, recipe("Kubernetes")]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    cluster, scheduler, worker, definition = json.loads(told.stdout)
    return cluster, scheduler, worker, definition


def container(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return found  # type: ignore[no-any-return]  # JSON


def run_by(image: Path, asked: Mapping[str, Any]) -> list[str]:
    """What a container runs: `command` takes the place of the image's ENTRYPOINT, `args` that of its CMD."""
    said = dict(re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", image.read_text(), re.MULTILINE))
    entry = asked.get("command") or json.loads(said.get("ENTRYPOINT", "[]"))
    words = [*entry, *(asked.get("args") or json.loads(said["CMD"]))]
    known = {variable["name"]: variable["value"] for variable in asked.get("env") or []}
    return [re.sub(r"\$\((\w+)\)", lambda name: known[name[1]], word) for word in words]


def test_kubernetes_takes_the_cluster_and_its_pods_have_what_they_ask_for(rendered: Any) -> None:
    import jsonschema

    cluster, scheduler, worker, definition = rendered
    jsonschema.validate(cluster, definition)
    for deployment in (scheduler, worker):
        assert container(deployment)["image"] == "registry.example.org/seegrad"
        assert container(deployment)["resources"]["limits"] == {"cpu": "8", "memory": "8Gi"}


@contextmanager
def pods(folder: Path, scheduler: Mapping[str, Any], worker: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The pods' own commands, on ports that are free; the scheduler's address, and its page's."""
    place = folder / "scheduler.json"
    started = []

    def start(deployment: Mapping[str, Any], *more: str, **variables: str) -> None:
        words = [*run_by(ROOT / "Dockerfile", container(deployment)), *more]
        with (folder / f"{len(started)}.log").open("wb") as log:
            started.append(subprocess.Popen(words, cwd=folder, env=ENVIRONMENT | variables, stdout=log, stderr=log))

    try:
        start(scheduler, "--port", "0", "--dashboard-address", ":0", "--scheduler-file", str(place))
        told = until(lambda: json.loads(place.read_text()) if place.exists() and place.read_text() else None)
        port = told["address"].rpartition(":")[2]
        start(worker, "--nthreads", THREADS, DASK_SCHEDULER_ADDRESS=f"tcp://127.0.0.1:{port}")
        yield f"tcp://127.0.0.1:{port}", f"http://127.0.0.1:{told['services']['dashboard']}"
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=60)


def test_the_commands_of_kubernetes_pods_grade_the_class_in_the_image(
    rendered: Any, course: Path, alone: Rows, tmp_path: Path
) -> None:
    _, scheduler, worker, _ = rendered
    with pods(tmp_path, scheduler, worker) as (address, page):
        probe = container(scheduler)["livenessProbe"]["httpGet"]["path"]
        with urllib.request.urlopen(page + probe, timeout=60) as answered:  # noqa: S310 -- our own scheduler
            assert answered.status == 200
        until(lambda: True if workers(address) == 1 else None)
        said = python(course, "-m", "nbjudge", "autograde", small.NAME, "--dask", address)
    assert "16/16 " in said
    assert rows(course) == alone
