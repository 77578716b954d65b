"""The Dask client of everything that is given none of its own: `set_dask_client`, as programs for NVTabular call it."""

from __future__ import annotations

from typing import Any

from rowmill.errors import ArgumentError

__all__ = ["global_dask_client", "set_dask_client"]

_client: Any = None


def set_dask_client(client: Any = "auto") -> Any:
    """Let workflows and datasets without a client of their own use this one from now on; returns it.

    "auto" is Dask's own default client, if there is one. With None everything runs in this process.
    """
    global _client
    if isinstance(client, str) and client == "auto":
        client = _default_client()
    elif client is not None and not _is_running(client):
        raise ArgumentError(f"client={client!r}; wanted a running dask.distributed.Client, 'auto' or None")
    _client = client
    return client


def global_dask_client() -> Any:
    """The client that was set; None if there is none, or if it has been closed."""
    return _client if _is_running(_client) else None


def _is_running(client: Any) -> bool:
    return getattr(client, "status", None) == "running"


def _default_client() -> Any:
    try:
        from dask.distributed import default_client

        return default_client()
    except (ImportError, ValueError):  # Dask is not installed, or has no client
        return None
