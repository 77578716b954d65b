"""The command `rowmill`: words in, an exit code out: 0 done, 1 trouble that one sentence explains, 2 wrong usage.

One function a command; each calls the public API and shows what it gives, as a table or (`--json`) for machines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rowmill.errors import RowmillError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. Errors of the user's making are one sentence on stderr."""
    try:
        from rowmill.cli.app import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        return _fail("the command line needs typer, which is not installed; pip install 'rowmill[cli]'")
    try:
        app(args=None if arguments is None else list(arguments), prog_name="rowmill")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (RowmillError, OSError) as error:
        return _fail(str(error) or type(error).__name__)
    return 0


def _fail(why: str) -> int:
    sys.stderr.write(f"rowmill: {' '.join(why.split())}\n")
    return 1
