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
    from grader.nbgrader_plugin import install
except ImportError as error:
    # nbgrader's own autograder would run the tests inside the students' processes, where any of them can win;
    # so grading stops here, while JupyterLab and everything else goes on.
    logging.getLogger("nbgrader").warning("the grader can't be imported (%s): pip install -e '.[grade]'", error)
    c.Autograde.sanitize_preprocessors = ["grader.nbgrader_plugin.HideTests"]
else:
    install(c)
