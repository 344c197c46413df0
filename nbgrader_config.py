"""The course's configuration: read by every nbgrader command here and by nbgrader's extensions in JupyterLab."""

import logging
from pathlib import Path

c = get_config()  # noqa: F821 -- traitlets puts it here

ROOT = Path(__file__).resolve().parent

c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.course_id = "autograd101"
c.CourseDirectory.source_directory = "source"
c.CourseDirectory.release_directory = "release/en"

try:
    from nbjudge.plugin import install
except ImportError as error:
    # nbgrader's own autograder would run the tests inside the students' processes, where any of them can win;
    # so grading stops here, while JupyterLab and everything else goes on.
    logging.getLogger("nbgrader").warning("the grader can't be imported (%s): pip install -e ./grader", error)
    c.Autograde.sanitize_preprocessors = ["nbjudge.plugin.HideTests"]
else:
    install(c)

# Nothing is recorded while a wrong answer that deserves nothing gets points: `nbjudge prove NAME` shows the table.
c.SandboxedAutograde.prove = "refuse"

# How the class is graded; `nbjudge settings` says more. These are the defaults:
# c.SandboxedAutograde.workers = 0                         # submissions at once; 0: one per core
# c.SandboxedAutograde.dask = ""                           # or a scheduler: "tcp://10.0.0.1:8786"
# c.SandboxedAutograde.preload = ["pandas"]                # what notebooks import besides torch, numpy and seegrad
# c.SandboxedAutograde.check_reference = True              # the source's own answers have to pass first
# What one submission may use:
# c.SandboxedAutograde.max_cell_s = 30.0                   # wall clock of one cell
# c.SandboxedAutograde.max_notebook_s = 120.0              # wall clock of one notebook
# c.SandboxedAutograde.max_cpu_s = 120                     # CPU seconds of all its processes
# c.SandboxedAutograde.max_memory_bytes = 4 << 30          # of all its processes
# c.SandboxedAutograde.max_processes = 64
# c.SandboxedAutograde.max_files = 256                     # open at a time
# c.SandboxedAutograde.max_file_bytes = 64 << 20           # of a file that it writes
# c.SandboxedAutograde.max_output_bytes = 8 << 20          # of one cell
# c.SandboxedAutograde.max_notebook_bytes = 16 << 20       # of a notebook that is handed in
# c.SandboxedAutograde.max_submission_bytes = 64 << 20     # of all other files that are handed in
