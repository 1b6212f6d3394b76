"""`python -m elmo`: the command `elmo`."""

import sys

from elmo.cli import main

if __name__ == "__main__":
    sys.exit(main())
