"""The stories that a ledger knows, by place, in the order in which they began.

Most stories never get a second member. What the ledger knows of those stands in columns, a chunk of stories at a time,
32 bytes each. The others are plain tuples, of which the collector of garbage keeps no list: there are a million. So are
the last stories of a chunk of which few are left: it ends.
"""

from __future__ import annotations

from array import array
from itertools import islice

import numpy as np
import numpy.typing as npt

from neardup.stories.sources.reports import Reports, hour_of

# The first of a story by arrival, and the time of its first by date so far.
STORY = ("source", "hour", "arrival", "date", "by_date", "by_date_hour", "by_date_date", "is_shared")
Story = tuple[str, int, int, int, str, int, int, bool]
_CHUNK_BITS = 12
_MASK = (1 << _CHUNK_BITS) - 1
_LEFT_MIN = (_MASK + 1) // 8


class _Chunk:
    def __init__(self) -> None:
        self.sources: list[str] = []
        self.places, self.arrivals, self.dates = array("q"), array("q"), array("q")
        self.left = 0  # stories that have neither ended nor a tuple


class KnownStories:
    """Stories by place."""

    def __init__(self) -> None:
        self._stories: dict[int, Story | int] = {}  # a number is that of a story in columns
        self._chunks: dict[int, _Chunk] = {}
        self._end = 0  # of the numbers

    def __len__(self) -> int:
        """Return how many stories are known."""
        return len(self._stories)

    def __contains__(self, place: int) -> bool:
        """Whether a story is known."""
        return place in self._stories

    def begin(self, reports: Reports, begun: npt.NDArray[np.int64]) -> None:
        """Know the stories that some of the reports begin."""
        clusters = reports.clusters[begun]
        places = clusters.tolist()
        for place in filter(self._stories.__contains__, places):
            self._leave(self._stories[place])
        first, at, rows = self._end, 0, begun.tolist()
        while at < len(rows):
            if not self._end & _MASK:
                self._chunks[self._end >> _CHUNK_BITS] = _Chunk()
            chunk = self._chunks[self._end >> _CHUNK_BITS]
            part = slice(at, min(len(rows), at + _MASK + 1 - (self._end & _MASK)))
            chunk.sources += map(reports.sources.__getitem__, rows[part])
            chunk.places.frombytes(clusters[part].tobytes())
            for column, values in ((chunk.arrivals, reports.arrivals), (chunk.dates, reports.dates)):
                column.frombytes(values[begun[part]].tobytes())
            chunk.left += part.stop - at
            self._end += part.stop - at
            at = part.stop
        self._stories.update(zip(places, range(first, self._end), strict=True))

    def get(self, place: int) -> Story | None:
        """Return a story, if it is known."""
        story = self._stories.get(place)
        if not isinstance(story, int):
            return story
        chunk, at = self._chunks[story >> _CHUNK_BITS], story & _MASK
        source, arrival, date = chunk.sources[at], chunk.arrivals[at], chunk.dates[at]
        hour = hour_of(arrival, date)
        return source, hour, arrival, date, source, hour, date, False

    def put(self, place: int, story: Story) -> None:
        """Know a story, or replace it where it stands."""
        before = self._stories.get(place)
        self._stories[place] = story
        self._leave(before)

    def end(self, place: int) -> None:
        """Forget a story, if it is known."""
        self._leave(self._stories.pop(place, None))

    def oldest(self, number: int) -> list[int]:
        """Return the places of the stories that stand first."""
        return list(islice(self._stories, number))

    def sort(self) -> None:
        """Put the stories in order of arrival, those of equal time in order of place."""
        order = sorted((story[2], place) for place in self._stories if (story := self.get(place)) is not None)
        self._stories = {place: self._stories[place] for _, place in order}

    def _leave(self, story: Story | int | None) -> None:
        """Count a story that no longer stands in columns."""
        if not isinstance(story, int):
            return
        number, chunk = story >> _CHUNK_BITS, self._chunks[story >> _CHUNK_BITS]
        chunk.left -= 1
        if chunk.left < _LEFT_MIN and story | _MASK < self._end:
            for at, place in enumerate(chunk.places):
                if self._stories.get(place) == (number << _CHUNK_BITS | at) and (left := self.get(place)) is not None:
                    self._stories[place] = left
            del self._chunks[number]
