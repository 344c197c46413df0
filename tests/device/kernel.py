"""A Jupyter kernel that has the second device: `python -m tests.device.kernel -f FILE`."""

from __future__ import annotations

from ipykernel.kernelapp import launch_new_instance

from tests.device import elsewhere

if __name__ == "__main__":
    elsewhere.register()
    launch_new_instance()
