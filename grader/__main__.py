"""python -m grader, the old name of the command `nbjudge`; in a clone only."""

import sys
import warnings

from nbjudge.__main__ import main

warnings.warn("python -m grader is now nbjudge", DeprecationWarning, stacklevel=2)
sys.exit(main())
