"""`python -m rowmill` is the command `rowmill`."""

import sys

from rowmill.cli import main

if __name__ == "__main__":
    sys.exit(main())
