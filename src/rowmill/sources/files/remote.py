"""Object stores: URLs and `storage_options` in, file names and a PyArrow file system out.

Both common spellings of the options are understood: fsspec's (`key`, `secret`, `client_kwargs`) and the
object-store one that Polars takes (`aws_access_key_id`, `aws_endpoint_url`, ...).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from rowmill.errors import ArgumentError, DataFileError, NoFilesError
from rowmill.sources.files.paths import Found, choose, fixed_prefix, hidden

_S3 = {"s3", "s3a", "s3n"}
_MAGIC = re.compile(r"[*?\[]")


def find_remote(
    urls: Sequence[str], options: Mapping[str, Any], engine: str | None
) -> tuple[list[Found], fs.FileSystem]:
    """The files of all URLs, and the file system they are on."""
    system = file_system(urls[0], options)
    found: list[Found] = []
    for url in urls:
        try:
            found.extend(_find(url, path_in(url, system), system, engine))
        except (NoFilesError, ArgumentError):
            raise
        except FileNotFoundError as error:
            raise NoFilesError(f"no such file or folder: {url}; wanted data files; check the URL") from error
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise DataFileError(
                f"cannot list {url}: {reason}; wanted a readable place; check storage_options"
            ) from error
    return found, system


def file_system(url: str, options: Mapping[str, Any]) -> fs.FileSystem:
    """The PyArrow file system that a URL lives on; schemes it does not know go through fsspec."""
    scheme = urlsplit(url).scheme
    if scheme in _S3:
        return s3_file_system(options)
    try:
        if not options:
            return fs.FileSystem.from_uri(url)[0]
        if scheme in ("gs", "gcs"):
            return fs.GcsFileSystem(**{k: v for k, v in options.items() if k != "token"})
    except (pa.ArrowInvalid, TypeError, AttributeError):
        pass  # an unknown scheme, or fsspec's spelling of its options
    try:
        import fsspec  # type: ignore[import-untyped]

        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme, **options)))
    except (ImportError, ValueError) as error:
        raise ArgumentError(
            f"cannot open {url}: no file system for {scheme!r} ({error}); wanted s3://, gs://, file:// or one that "
            f"fsspec knows; install the fsspec package for it"
        ) from error


def s3_file_system(options: Mapping[str, Any]) -> fs.S3FileSystem:
    """An S3 file system from either spelling of the options."""
    left = dict(options)
    client = dict(left.pop("client_kwargs", None) or {})
    left.update({k: v for k, v in client.items() if k in ("endpoint_url", "region_name")})

    def take(*names: str) -> Any:
        values = [left.pop(n) for n in names if n in left]
        return next((v for v in values if v is not None), None)

    endpoint = take("endpoint_url", "aws_endpoint_url", "aws_endpoint", "endpoint", "endpoint_override")
    allow_http = str(take("aws_allow_http", "allow_http") or "").lower() == "true" or left.get("use_ssl") is False
    given: dict[str, Any] = {
        "access_key": take("key", "aws_access_key_id", "access_key_id", "access_key"),
        "secret_key": take("secret", "aws_secret_access_key", "secret_access_key", "secret_key"),
        "session_token": take("token", "aws_session_token", "session_token"),
        "region": take("aws_region", "region", "region_name", "aws_default_region"),
    }
    anonymous = str(take("anon", "anonymous", "aws_skip_signature", "skip_signature") or "").lower() == "true"
    take("use_ssl"), take("config_kwargs"), take("s3_additional_kwargs")
    if left:
        raise ArgumentError(
            f"unknown storage option {next(iter(left))!r} for s3://; wanted key, secret, token, endpoint_url, anon, or "
            f"aws_access_key_id, aws_secret_access_key, aws_endpoint_url, aws_region; remove it"
        )
    if endpoint:
        parts = urlsplit(endpoint if "://" in endpoint else f"{'http' if allow_http else 'https'}://{endpoint}")
        given |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
        given["region"] = given["region"] or "us-east-1"
    try:
        return fs.S3FileSystem(anonymous=anonymous, **{k: v for k, v in given.items() if v is not None})
    except (ValueError, OSError) as error:
        raise ArgumentError(f"storage_options do not make an S3 file system: {error}; check key and secret") from error


def path_in(url: str, system: fs.FileSystem) -> str:
    """A URL as the file system names it: bucket and key, without the scheme."""
    return url.split("://", 1)[1].rstrip("/")


def _find(url: str, path: str, system: fs.FileSystem, engine: str | None) -> list[Found]:
    wild = _MAGIC.search(path)
    if wild:
        root = fixed_prefix(path)
        matches = re.compile(_pattern(path)).fullmatch
        listed = [f for f in _below(root, system) if matches(f)]
        if not listed:
            raise NoFilesError(f"no file matches {url!r}; wanted at least one; check the pattern")
        return [Found(f, root, f.rpartition("/")[0]) for f in choose(listed, engine, url)]
    kind = system.get_file_info(path).type
    if kind == fs.FileType.File:
        return [Found(path, None, path.rpartition("/")[0])]
    if kind == fs.FileType.Directory:
        return [Found(f, path, path) for f in choose(_below(path, system), engine, url)]
    raise NoFilesError(f"no such file or folder: {url}; wanted data files; check the URL")


def _below(root: str, system: fs.FileSystem) -> list[str]:
    infos = system.get_file_info(fs.FileSelector(root, recursive=True))
    files = [i.path for i in infos if i.type == fs.FileType.File]
    return [f for f in files if not hidden(f[len(root) :].lstrip("/"))]


def _pattern(path: str) -> str:
    """A glob pattern as a regular expression: `*` and `?` stay within a folder, `**/` spans any number of them."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])", path)
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        spelled.get(p) or (p.replace("[!", "[^") if p.startswith("[") and p.endswith("]") else re.escape(p))
        for p in parts
    )
