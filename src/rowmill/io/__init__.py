"""Where older programs look for `Dataset` and `Shuffle`."""

from rowmill.dataset import Dataset
from rowmill.sinks.files import Shuffle

__all__ = ["Dataset", "Shuffle"]
