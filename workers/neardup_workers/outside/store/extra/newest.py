"""The stories that grew last, with who tells them: what a feed of stories lists."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from neardup_workers.outside.store.listing import Filters, list_stories

# So many stories are looked at for those that enough sources tell, and so many members of a story are shown.
_LOOKS_MAX, _MEMBERS = 1_000, 10
_PREVIEW_CHARACTERS = 1_000


class StoryMember(NamedTuple):
    """A member of a story; ``preview`` is the beginning of its text, if texts are stored."""

    id: str
    source: str | None
    url: str | None
    title: str | None
    preview: str | None


class Story(NamedTuple):
    """A story, with its first members in order of arrival. Times are in microseconds."""

    cluster: int
    size: int
    sources: int
    first_time: int
    last_time: int
    members: tuple[StoryMember, ...]


def newest_stories(connection: sqlite3.Connection, filters: Filters, sources_min: int, limit: int) -> list[Story]:
    """Return the stories of enough sources that grew last, of the last thousand that the filters let through."""
    stories: list[Story] = []
    for row in list_stories(connection, "recent", _LOOKS_MAX, filters, None)[0]:
        if len(stories) == limit:
            break
        members_of = "FROM documents d WHERE cluster = ? AND status < 2 AND gone = 0"
        query = f"SELECT count(DISTINCT source) {members_of}"
        sources = connection.execute(query, (row["cluster"],)).fetchone()[0]
        if sources < sources_min:
            continue
        text = f"(SELECT substr(text, 1, {_PREVIEW_CHARACTERS}) FROM texts t WHERE t.place = d.place)"
        query = f"SELECT id, source, url, title, {text} {members_of} ORDER BY place LIMIT {_MEMBERS}"
        members = tuple(StoryMember(id_.decode(), *rest) for id_, *rest in connection.execute(query, (row["cluster"],)))
        times = row["first_time"], row["last_time"]
        stories.append(Story(row["cluster"], row["size"], sources, *times, members))
    return stories
