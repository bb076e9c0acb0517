"""The stories that grew last as an Atom feed (RFC 4287).

An entry is a story. Its id follows from the name of the store and the number of the story, so it stays the same while
the story grows; ``updated`` is the time of its newest member.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from xml.etree import ElementTree as ET

from neardup.pairs.batches import MICROSECONDS
from neardup_workers.outside.store.extra.newest import Story, StoryMember

TYPE = "application/atom+xml"
_NAMESPACE = "http://www.w3.org/2005/Atom"
# What no document of XML 1.0 may hold.
_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ADDRESS = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_TITLE_CHARACTERS = 120


def feed_of(stories: Sequence[Story], store: str, address: str, collection: str | None = None) -> bytes:
    """Return the feed at an address, of which a relative one holds behind a proxy, too. A feed of the stories of one
    collection has an id of its own."""
    feed = ET.Element(f"{{{_NAMESPACE}}}feed")
    own = store if collection is None else uuid.uuid5(uuid.UUID(store), f"collection {collection}")
    _add(feed, "id", f"urn:uuid:{own}")
    _add(feed, "title", f"Stories of {collection}" if collection else "Stories")
    _add(feed, "updated", _time(max((story.last_time for story in stories), default=0)))
    _add(_add(feed, "author"), "name", "neardup")
    _add(feed, "link", rel="self", type=TYPE, href=address)
    for story in stories:
        entry = _add(feed, "entry")
        _add(entry, "id", f"urn:uuid:{uuid.uuid5(uuid.UUID(store), str(story.cluster))}")
        first = story.members[0] if story.members else None
        _add(entry, "title", "A story" if first is None else _title(first))
        _add(entry, "published", _time(story.first_time))
        _add(entry, "updated", _time(story.last_time))
        # The address of a member is its field ``url``, or an id that is one.
        named = (one for member in story.members for one in (member.url, member.id) if one)
        addresses = dict.fromkeys(filter(_ADDRESS.fullmatch, named))
        for n, url in enumerate(islice(addresses, len(story.members) + 1)):
            _add(entry, "link", rel="related" if n else "alternate", href=url)
        for source in dict.fromkeys(member.source for member in story.members if member.source):
            _add(entry, "category", term=source)
        tellers = f" of {story.sources:,} source{'s' * (story.sources > 1)}" if story.sources else ""
        _add(entry, "summary", f"{story.size:,} documents{tellers}")
        if first is not None and first.preview:
            _add(entry, "content", first.preview, type="text")
    ET.register_namespace("", _NAMESPACE)
    content: bytes = ET.tostring(feed, "utf-8", xml_declaration=True)
    return content


def _title(member: StoryMember) -> str:
    """Return the headline of a document, or else the first words of its text, or else its id."""
    title = member.title or member.preview or member.id
    words = " ".join(title.split())
    return words if len(words) <= _TITLE_CHARACTERS else f"{words[: _TITLE_CHARACTERS - 1]}…"


def _time(microseconds: int) -> str:
    try:
        return datetime.fromtimestamp(microseconds / MICROSECONDS, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # no calendar has it
        return "1970-01-01T00:00:00Z"


def _add(parent: ET.Element, name: str, text: str = "", **attributes: str) -> ET.Element:
    values = {key: _INVALID.sub("\ufffd", value) for key, value in attributes.items()}
    child = ET.SubElement(parent, f"{{{_NAMESPACE}}}{name}", values)
    child.text = _INVALID.sub("\ufffd", text) or None
    return child
