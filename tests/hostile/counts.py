"""How often hostile tests try: a few times by default, as often as in the reports with ROWMILL_HOSTILE=full."""

import os


def count(small: int, full: int) -> int:
    return full if os.environ.get("ROWMILL_HOSTILE") == "full" else small
