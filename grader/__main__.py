"""python -m grader, the old name of the command `nbjudge`; in a clone only."""

import sys
import warnings

from nbjudge.__main__ import main

if __name__ == "__main__":
    # Said of __main__ it is shown: who called is the person at the terminal.
    warnings.warn("python -m grader is now nbjudge", DeprecationWarning, stacklevel=1)
    sys.exit(main())
