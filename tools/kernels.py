"""The two kernels of the course: `seegrad-cpu`, and `seegrad-gpu` where there is a GPU.

A chapter reads its device from SEEGRAD_DEVICE, and this is the one place that sets it. JupyterLab is told to keep the
state of widgets in the notebook: without it, a notebook that is opened after its kernel has gone shows an error of
ipywidgets instead of a picture.

::

    python -m tools.kernels           install them into this environment (`make lab` does)
    python -m tools.kernels --gpu     the same, and exit 1 with a sentence where there's no GPU
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from jupyter_client.kernelspec import KernelSpecManager

CPU, GPU = "seegrad-cpu", "seegrad-gpu"
LAB_SETTINGS = Path("share", "jupyter", "lab", "settings", "overrides.d", "seegrad.json")
SETTINGS = {
    "@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True},  # as Settings → Save Widget State does
    "@jupyterlab/apputils-extension:notification": {  # its question lay upon the picture, and both ask the network
        "fetchNews": "false",
        "checkForUpdates": False,
    },
}
NO_GPU = "No GPU that torch can use is at hand, so nothing was tested on one: run this on a machine that has it."


def gpu() -> str | None:
    """What torch calls the GPU at hand: `cuda`, `mps`, `xpu`, or None where there is none."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return None if found is None else found.type


def kernel(device: str) -> dict[str, object]:
    """A kernelspec whose chapters make their tensors on `device`.

    >>> kernel("cpu")["display_name"], kernel("cuda")["env"]["SEEGRAD_DEVICE"]
    ('seegrad (CPU)', 'cuda')
    """
    return {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"seegrad ({'CPU' if device == 'cpu' else 'GPU'})",
        "language": "python",
        "metadata": {"debugger": True},
        "env": {
            "SEEGRAD_DEVICE": device,
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # sums on a GPU come in one order only
        },
    }


def install(prefix: Path, device: str | None) -> list[str]:
    """Install the kernels under `prefix`; returns their names. Without a GPU an old kernel for one is removed."""
    manager = KernelSpecManager()
    made = {CPU: "cpu", **({GPU: device} if device else {})}
    for name, where in made.items():
        with tempfile.TemporaryDirectory(prefix="kernel-") as folder:
            (Path(folder) / "kernel.json").write_text(json.dumps(kernel(where), indent=1), encoding="utf-8")
            Path(folder).chmod(0o755)  # it is copied with its mode, and a hub's students have to read it
            manager.install_kernel_spec(folder, name, prefix=str(prefix))
    if not device:
        shutil.rmtree(prefix / "share" / "jupyter" / "kernels" / GPU, ignore_errors=True)
    return list(made)


def keep_pictures(prefix: Path) -> None:
    """Pictures stay in the notebook, and nothing of JupyterLab's own asks to be read before them."""
    file = prefix / LAB_SETTINGS
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(SETTINGS, indent=1), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Install what fits this machine."""
    parser = argparse.ArgumentParser(prog="python -m tools.kernels", description="The kernels of the course.")
    parser.add_argument("--gpu", action="store_true", help="exit 1 where there's no GPU")
    needed = parser.parse_args(argv).gpu
    device = gpu()
    keep_pictures(Path(sys.prefix))
    print("kernels:", ", ".join(install(Path(sys.prefix), device)))
    if needed and device is None:
        print(NO_GPU, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
