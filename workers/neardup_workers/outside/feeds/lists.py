"""Lists of feeds: OPML, as readers of feeds export it, or an address a line.

A list is read again while feeds are followed. A list that cannot be read then is as it was before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from neardup_workers.outside.process.exits import Exit, Failure

# Feeds of one process at most.
FEEDS_MAX = 10_000
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


class FeedLists:
    """Addresses of feeds, and of files that list more of them. Raises ``Failure`` for a file that cannot be read, or is
    no list."""

    def __init__(self, given: Sequence[str]) -> None:
        self._given = given
        self._read = {name: _read(name) for name in given if not _ADDRESS.match(name)}
        self.has_files = bool(self._read)  # so the addresses may change

    def addresses(self) -> list[str]:
        """Return all addresses, each once, in order. Raises ``Failure`` if there are more than ``FEEDS_MAX``."""
        lists = (self._read.get(name, [name]) for name in self._given)
        addresses = list(dict.fromkeys(address for listed in lists for address in listed))
        if len(addresses) > FEEDS_MAX:
            raise Failure(
                Exit.USAGE, f"{len(addresses):,} feeds are named, {FEEDS_MAX:,} at most: divide them among processes"
            )
        return addresses

    def refresh(self) -> list[str]:
        """Read the files again; returns the names of those that cannot be read."""
        failed = []
        for name in self._read:
            try:
                self._read[name] = _read(name)
            except Failure:
                failed.append(name)
        return failed


def _read(name: str) -> list[str]:
    try:
        content = Path(name).read_bytes()
    except OSError as error:
        raise Failure(
            Exit.INPUT,
            f"cannot read the list of feeds {name}: {error.strerror or error}; an address of a feed begins with "
            "https:// or http://",
        ) from None
    addresses = (
        _of_opml(content, name) if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") else _of_lines(content)
    )
    for address in addresses:
        if not _ADDRESS.match(address):
            raise Failure(
                Exit.INPUT,
                f"the list of feeds {name} names {address[:100]!r}: an address begins with http:// or https://; "
                "correct or delete it",
            )
    return addresses


def _of_opml(content: bytes, name: str) -> list[str]:
    try:
        root = ElementTree.fromstring(content)  # of the user; the parser bounds what entities expand to
    except (ElementTree.ParseError, ValueError) as error:
        raise Failure(Exit.INPUT, f"the list of feeds {name} is no OPML: {error}") from None
    return [address for outline in root.iter("outline") if (address := outline.get("xmlUrl", "").strip())]


def _of_lines(content: bytes) -> list[str]:
    lines = (line.strip() for line in content.decode("utf-8-sig", "replace").splitlines())
    return [line for line in lines if line and not line.startswith("#")]
