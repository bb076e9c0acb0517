"""Addresses -> the store that has them and the name there: ``s3://``, ``gs://``, ``az://``, ``https://``, ``hf://``.

Requests, signatures and repetitions of a request are those of obstore, which is loaded when an address is used. Its
settings are the usual variables of the environment: ``AWS_...``, ``GOOGLE_...``, ``AZURE_...``; ``HF_TOKEN``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from neardup.errors import install_command
from neardup_workers.outside.process.exits import Exit, Failure

# How often a request is repeated, and for how long: a restart of a server passes meanwhile.
_RETRIES: dict[str, Any] = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
# What precedes the owner in an address of Hugging Face, and in the address of its server.
_HF_KINDS = ("datasets", "spaces")


class Located(NamedTuple):
    """A store (``base`` names it in addresses), and the name of an object in it."""

    store: Any
    base: str
    name: str


class Scheme(NamedTuple):
    """Divides an address into the base of its store and a name, and makes the store; what can be done there."""

    divide: Callable[[str], tuple[str, str]]
    make: Callable[[Any, str], Any]
    lists: bool
    writes: bool


def _of_bucket(address: str) -> tuple[str, str]:
    scheme, _, rest = address.partition("://")
    bucket, _, name = rest.partition("/")
    return f"{scheme}://{bucket}/", name


def _of_server(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    folder, _, name = parts.path.rpartition("/")
    return urlunsplit((parts.scheme, parts.netloc, folder + "/", parts.query, "")), unquote(name)


def _of_hugging_face(address: str) -> tuple[str, str]:
    parts = address.partition("://")[2].split("/")
    kind = [parts.pop(0)] if parts[0] in _HF_KINDS else []
    if len(parts) < 3:
        raise Failure(Exit.USAGE, f"{address} names no file: write hf://datasets/OWNER/NAME/FILE")
    owner, named, *name = parts
    named, _, revision = named.partition("@")
    return "/".join(["hf:/", *kind, owner, f"{named}@{revision or 'main'}", ""]), "/".join(name)


def _store_of_server(obstore: Any, base: str, **more: Any) -> Any:
    parts = urlsplit(base)
    url = urlunsplit((*parts[:2], parts.path.rstrip("/"), *parts[3:]))
    options = {"allow_http": parts.scheme == "http", **more}
    return obstore.store.HTTPStore.from_url(url, client_options=options, retry_config=_RETRIES)


def _store_of_hugging_face(obstore: Any, base: str) -> Any:
    path, _, revision = base.partition("://")[2].strip("/").partition("@")
    server = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = os.environ.get("HF_TOKEN")
    headers = {"default_headers": {"Authorization": f"Bearer {token}"}} if token else {}
    return _store_of_server(obstore, f"{server}/{path}/resolve/{revision}/", **headers)


_BUCKET = Scheme(
    _of_bucket, lambda obstore, base: obstore.store.from_url(base, retry_config=_RETRIES), lists=True, writes=True
)
_SERVER = Scheme(_of_server, _store_of_server, lists=False, writes=True)
SCHEMES = {
    "s3": _BUCKET,
    "gs": _BUCKET,
    "az": _BUCKET,
    "https": _SERVER,
    "http": _SERVER,
    "hf": Scheme(_of_hugging_face, _store_of_hugging_face, lists=False, writes=False),
}


def is_address(path: str) -> bool:
    """Whether a path is an address of a scheme that is known."""
    scheme, mark, _ = path.partition("://")
    return bool(mark) and scheme in SCHEMES


def is_folder(path: str) -> bool:
    """Whether an address ends as a folder does, of a store that can list one."""
    return is_address(path) and path.endswith("/") and SCHEMES[path.partition("://")[0]].lists


def located(address: str) -> Located:
    """Return the store and the name of an address. Raises ``Failure`` without obstore, or for an impossible address."""
    scheme = SCHEMES[address.partition("://")[0]]
    base, name = scheme.divide(address)
    return Located(_store(scheme, base, address), base, name)


def checked_to_write(address: str) -> None:
    """Raise ``Failure`` if nothing can be written to an address, ``OSError`` if its store refuses to look there."""
    scheme = SCHEMES[address.partition("://")[0]]
    if not scheme.writes:
        raise Failure(Exit.USAGE, f"{address} can be read only: name a file, or an address of another kind")
    store, _, name = located(address)
    if scheme.lists:
        with suppress(FileNotFoundError), failing(address):
            store.head(name)


def names_in(folder: str) -> Iterator[str]:
    """Yield the addresses in a folder of a store, in order. Raises ``OSError``."""
    store, base, prefix = located(folder)
    with failing(folder):
        names = sorted(meta["path"] for part in store.list(prefix or None) for meta in part)
    yield from (base + name for name in names)


@contextmanager
def failing(address: str) -> Iterator[None]:
    """Errors of a store as ``OSError``, with a message of one line."""
    obstore = _obstore(address)
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address) from None
    except obstore.exceptions.BaseError as error:
        said = " ".join(str(error).partition("\n\nDebug source")[0].split())
        raise OSError(errno.EIO, said[:300], address) from None


@lru_cache(64)
def _store(scheme: Scheme, base: str, address: str) -> Any:
    obstore = _obstore(address)
    try:
        return scheme.make(obstore, base)
    except (ValueError, obstore.exceptions.BaseError) as error:
        raise Failure(Exit.USAGE, f"{address} cannot be used: {' '.join(str(error).split())[:300]}") from None


def _obstore(address: str) -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise Failure(
            Exit.USAGE, f"{address} is read and written by obstore; it is not installed: {install_command('remote')}"
        ) from None
    return obstore
