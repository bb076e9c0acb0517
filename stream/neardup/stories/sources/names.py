"""The source of a document: who tells it. One function decides it, for every command and the service."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

from neardup.documents.document import Document

SOURCE_BYTES_MAX = 255
# Source, URL and title of a document.
Shown = tuple[str | None, str | None, str | None]
_SCHEMES = ("http://", "https://")
# Hosts and names that are remembered; a stream repeats a few thousand.
_REMEMBERED = 1 << 14


def source_of(document: Document) -> str | None:
    """Return the source of a document: its field ``source``, else the host of its URL, else of an id that is a URL.

    >>> source_of(Document("a", url="https://www.Example.com/story"))
    'example.com'
    >>> source_of(Document("https://example.com/story", source="The Wire"))
    'the wire'
    """
    return source_named(document.id, document.source, document.url)


def shown_by(document: Document) -> Shown:
    """Return who tells a document, where and how; a lone surrogate, which no file can hold, is a question mark."""
    url, title = document.url, document.title
    url, title = url and url.encode(errors="replace").decode(), title and title.encode(errors="replace").decode()
    return source_of(document), url, title


def source_named(id_: str, source: str | None, url: str | None) -> str | None:
    """Return the source of a document with this id, field ``source`` and URL."""
    return (source and name_of(source)) or (url and host_of(url)) or host_of(id_)


def host_of(address: str) -> str | None:
    """Return the host of an HTTP address as a source: lower case, without port and ``www.``, in IDNA; ``None`` if the
    string is no such address.

    >>> host_of("https://user@www.Bücher.example:8080/a"), host_of("urn:a")
    ('xn--bcher-kva.example', None)
    """
    if address[:4] not in ("http", "HTTP", "Http"):
        return None
    parts = address.split("/", 3)
    if len(parts) < 3 or parts[1] or (parts[0] + "//").lower() not in _SCHEMES:
        return None
    return _host(parts[2])


@lru_cache(_REMEMBERED)
def _host(authority: str) -> str | None:
    host = authority.partition("?")[0].partition("#")[0].rpartition("@")[2]
    host = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    return name_of(host)


@lru_cache(_REMEMBERED)
def name_of(name: str) -> str | None:
    """Return a name as a source: lower case, without ``www.``, a host in IDNA, at most ``SOURCE_BYTES_MAX`` bytes;
    ``None`` if nothing is left."""
    name = " ".join(name.lower().split()).rstrip(".").removeprefix("www.")
    if "." in name and " " not in name and not name.isascii():
        with suppress(UnicodeError):  # no host: the name stays as it is
            name = name.encode("idna").decode()
    return name.encode(errors="replace")[:SOURCE_BYTES_MAX].decode(errors="ignore") or None
