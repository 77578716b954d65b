"""Where older programs look for `Shuffle`."""

from rowmill.sinks.files import Shuffle

__all__ = ["Shuffle"]
