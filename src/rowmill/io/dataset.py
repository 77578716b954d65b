"""Where older programs look for `Dataset`."""

from rowmill.dataset import Dataset

__all__ = ["Dataset"]
