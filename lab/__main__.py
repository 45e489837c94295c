"""`python -m lab`: the command line of the lab."""

import sys

from lab.command import main

if __name__ == "__main__":
    sys.exit(main())
