"""The rule of verdicts over lists, slow and plain: the kernel must give the same verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Event(NamedTuple):
    """An arrival: ``time`` is None for a removal. ``pairs`` are (place of a decided document, similarity)."""

    id: int
    content: int
    time: int | None
    pairs: tuple[tuple[int, float], ...] = ()
    size: int = 0


class Decision(NamedTuple):
    """A verdict: places, or None; ``original`` is the newest version by the id that began the story."""

    status: str
    cluster: int
    original: int | None = None
    similarity: float = 0.0
    related: int | None = None
    previous: int | None = None
    matched: int | None = None
    equal: bool = False
    late: bool = False
    against: int | None = None
    said: float = 0.0
    new_numbers: int = 0
    signal: int = 0


class Compared(NamedTuple):
    """What a comparison says: the similarity, of a pair that says something new less 4 if it tells the same story and
    less 8 if not; how much was said; new numbers; the signal that says so."""

    similarity: float
    said: float = 0.0
    new_numbers: int = 0
    signal: int = 0


@dataclass(eq=False)
class _Row:
    place: int
    id: int
    content: int
    time: int
    size: int
    cluster: int
    story: _Story | None = None
    similarity: float = 1.0
    matched: int = -1  # the place of the kept version that its content was compared with
    kept: bool = False  # its content is that of the version ``matched``
    number: int = 0  # of the documents
    removed: bool = False


@dataclass(eq=False)
class _Story:
    place: int
    id: int
    begin: int
    oldest: int
    newest: int
    own: _Row
    contents: list[_Row]
    members: int = 1
    ended: bool = False
    handed_over: bool = False


# A content that is similar, as similarity, place and story, and what the comparison says.
_Found = tuple[float, int, _Story, Compared]
# Decided rows by similarity, the stories that lead, contents that a pair names, kept members to compare.
_Met = tuple[list[tuple[int, int, _Row]], dict[_Story, int], list[_Found], dict[_Row, int]]
# Contents that a document is compared with at most; stories of its id that lead; contents of a story; kept members.
COMPARED_MAX, OWN_MAX, CONTENTS_MAX, PAIRED_MAX = 64, 8, 8, 64
_FOREVER = 1 << 62


def _steps(similarity: float) -> int:
    return round(similarity * 10_000)


@dataclass
class VerdictModel:
    """Every document of the stream."""

    window: int
    lateness: int
    by_content: bool = True
    # Compares two contents: a similarity below 0 if they are no pair; without it only pairs count.
    compare: Callable[[int, int], Compared] | None = None
    story: int = _FOREVER
    bytes_max: int = _FOREVER
    story_bytes: int = 0
    # Whether only comparisons say that a document repeats a content.
    novel: bool = False
    # Whether the first contents of a story never leave it.
    lasting: bool = False
    # By what the earlier of two contents is found that are equally similar; a linker knows documents by place.
    tie: Callable[[int], int] = int
    rows_max: int = _FOREVER
    # The most bytes of the documents that count, each without ``width``; the newest one always counts.
    window_bytes: int = _FOREVER
    width: int = 0
    ignored: int = 0
    stream: int = 0
    newest: int = 0  # the number of the document that is decided
    taken: list[int] = field(default_factory=list)  # the bytes of the documents up to each
    rows: dict[int, _Row] = field(default_factory=dict)
    stories: list[_Story] = field(default_factory=list)
    latest: dict[tuple[str, int], _Row] = field(default_factory=dict)

    def decide(self, place: int, event: Event) -> Decision:
        if event.time is None:
            self._remove(event.id)
            return Decision("removed", place)
        row = _Row(place, event.id, event.content, event.time, event.size, place, number=len(self.rows))
        self.stream = max(self.stream, row.time) if self.rows else row.time
        self.newest = row.number
        self.taken.append(row.size - self.width + (self.taken[-1] if self.taken else 0))
        late = not self._is_in_time(row.time)
        decision = self._decide(row, event, late)
        self.rows[place] = row
        if not late:
            self.latest["id", row.id] = self.latest["content", row.content] = row
            if self.bytes_max < _FOREVER:
                self._end_oldest()
        return decision

    def _remove(self, id_: int) -> None:
        """Stories of others go on without what the id has added; those that it began with their next member."""
        for row in self.rows.values():
            row.removed |= row.id == id_
            is_update = row.id == id_ and row.story is not None and row.matched == row.place and row.story.id != id_
            if is_update and self.is_live(row) and row.story is not None:
                row.story.handed_over = True
        for story in self.stories:
            if story.id != id_ and any(content.id == id_ for content in story.contents):
                story.contents = [content for content in story.contents if content.id != id_]
                story.handed_over = True
            if story.id == id_:
                members = [row for row in self.rows.values() if row.story is story and not row.removed]
                heir = next(filter(self.is_live, members), None) if self._lives(story) else None
                if heir is None:
                    story.ended = True
                else:
                    self._hand_over(story, heir, members)

    def _hand_over(self, story: _Story, heir: _Row, members: list[_Row]) -> None:
        later = [one for one in story.contents if not one.removed and one.number > heir.number]
        story.contents = [heir, *(one for one in later if not (self.by_content and one.content == heir.content))]
        story.id, story.own = heir.id, [one for one in members if one.id == heir.id][-1]
        story.handed_over = True

    def _repeated(self, row: _Row, version: _Row | None) -> tuple[_Row | None, bool]:
        """The decided row of the same content whose story is open, and whether it is the version before."""
        copy = self._latest("content", row.content) if self.by_content else None
        for one, is_version in ((version, True), (copy, False)):
            is_open = one is not None and one.content == row.content and self._open(one.story, row)
            if is_open and self._standing(one) is not None:
                return one, is_version
        return None, False

    def _standing(self, row: _Row) -> tuple[float, int, bool] | None:
        """What was decided of a row: similarity, the place of the content, and whether it is equal; ``None`` if that
        content has left its story with its first document."""
        assert row.story is not None
        if row.story.handed_over:
            for one in row.story.contents:
                if one is row or (self.by_content and one.content == row.content):
                    return 1.0, one.place, True
            if row.matched not in [one.place for one in row.story.contents]:
                return None
        return row.similarity, row.matched, row.kept

    def _decide(self, row: _Row, event: Event, late: bool) -> Decision:
        version = self._latest("id", row.id)
        if version is not None and version.removed:
            version = None
        out = Decision("original", row.place, previous=None if version is None else version.place, late=late)
        found, is_repeated = self._repeated(row, version)
        if found is not None and is_repeated:
            own, (similarity, matched, kept) = found.story.own.place, self._standing(found)
            story = found.story
            if not late:
                self._join(row, story, similarity, matched, kept)
            out = out._replace(status="unchanged", cluster=story.place, matched=matched, equal=kept)
            return out if story.id == row.id else out._replace(original=own, similarity=similarity)
        copy = self._latest("content", row.content) if self.by_content else None
        if found is not None:
            return self._joined(row, found.story, *self._standing(found), late, out)
        near, leads, direct, paired = self._met(row, event, copy)
        if version is not None and self._open(version.story, row):
            assert version.story is not None
            leads.setdefault(version.story, 0)
        self._lead_to_own(row, leads)
        if self.compare is not None:
            direct += list(self._compared(row, leads, {place for _, place, *_ in direct}))
            direct += self._repeated_members(row, paired)
        if direct:
            joins = [one for one in direct if one[3].similarity >= 0 or one[2].id == row.id]
            joins = joins or [one for one in direct if one[3].similarity >= -4]
            best = max(joins or direct, key=lambda one: (one[2].id == row.id, _steps(one[0]), -self.tie(one[1])))
            _, said, new_numbers, signal = best[3]
            out = out._replace(
                said=said, new_numbers=new_numbers, signal=max(0, signal), against=None if joins else best[1]
            )
            if joins:
                return self._joined(row, best[2], best[0], best[1], False, late, out, is_new=best[3].similarity < -2)
        related = max(near, key=lambda one: one[:2])[2] if near else version
        out = out._replace(related=None if related is None else related.cluster)
        if not late:
            row.matched, row.kept = row.place, True
            row.story = _Story(row.place, row.id, row.time, row.time, row.time, row, [row])
            self.stories.append(row.story)
        return out

    def _met(self, row: _Row, event: Event, copy: _Row | None) -> _Met:
        """What the pairs of a row name."""
        near = [(10_000, -copy.place, copy)] if copy is not None and not copy.removed else []
        leads: dict[_Story, int] = {}
        direct: list[_Found] = []
        paired: dict[_Row, int] = {}
        for other, similarity in event.pairs:
            met = self.rows.get(other)
            if met is None or not self.is_live(met):
                self.ignored += 1
                continue
            newest = self._latest("content", met.content) if self.by_content else None
            met = newest if newest is not None and not newest.removed else met
            if not met.removed:
                near.append((_steps(similarity), -met.place, met))
                if met.story is not None and self._open(met.story, row):
                    leads[met.story] = max(leads.get(met.story, 0), _steps(similarity))
                    standing = self._standing(met)
                    if standing is None or not standing[2]:
                        continue
                    if not self.novel:
                        direct.append((similarity, standing[1], met.story, Compared(similarity)))
                    if self.lasting:
                        paired[met] = max(paired.get(met, 0), _steps(similarity))
        return near, leads, direct, paired

    def _compared(self, row: _Row, leads: dict[_Story, int], known: set[int]) -> Iterator[_Found]:
        """The contents of the leading stories that are similar, as similarity, place and story."""
        assert self.compare is not None
        compared = 0
        for story in sorted(leads, key=lambda one: (-leads[one], self.tie(one.place)))[:COMPARED_MAX]:
            near: list[_Found] = []
            unknown = [content for content in story.contents if content.place not in known]
            left = COMPARED_MAX - compared
            vectors = int(len(unknown) > left)  # those that are left out may have some
            for content in unknown[:left]:
                compared += 1
                found = self.compare(row.content, content.content)
                vectors += abs(found.signal) == 2
                if found.signal == 2:
                    near.append((found.similarity + 4, content.place, story, found))
                elif found.similarity >= 0:
                    yield found.similarity, content.place, story, found
                elif found.similarity < -2:
                    yield found.similarity + (4 if found.similarity >= -4 else 8), content.place, story, found
            near.sort(key=lambda one: (-_steps(one[0]), self.tie(one[1])))
            # Two vectors tell a story, if others than one of its own id can be compared.
            deciding = 0 if story.id == row.id or vectors == 1 else 1
            yield from near[deciding : deciding + 1]

    def _lead_to_own(self, row: _Row, leads: dict[_Story, int]) -> None:
        """Add the newest stories that the id of a row began."""
        own = [story for story in self.stories if story.id == row.id and self._lives(story)]
        for story in sorted(own, key=lambda one: -one.place)[:OWN_MAX]:
            if self._open(story, row):
                leads.setdefault(story, 0)

    def _repeated_members(self, row: _Row, paired: dict[_Row, int]) -> Iterator[_Found]:
        """The kept members of pairs that a row repeats, of the most similar ones."""
        assert self.compare is not None
        for met in sorted(paired, key=lambda one: (-paired[one], one.number))[:PAIRED_MAX]:
            found, standing = self.compare(row.content, met.content), self._standing(met)
            if found.similarity >= 0 and standing is not None and met.story is not None:
                yield found.similarity, standing[1], met.story, found

    def _joined(
        self, row: _Row, story: _Story, similarity: float, matched: int, kept: bool, late: bool, out: Decision,
        *, is_new: bool = False,
    ) -> Decision:  # fmt: skip
        """A duplicate, or an update if its id began the story, or if it says something new."""
        is_update = story.id == row.id or is_new
        out = out._replace(
            status="update" if is_update else "duplicate", cluster=story.place, similarity=similarity, matched=matched,
            equal=kept,
        )  # fmt: skip
        if not is_update:
            out = out._replace(original=story.own.place)
        if late:
            return out
        if not is_update:
            self._join(row, story, similarity, matched, kept)
            return out
        self._join(row, story, 1.0, row.place, True)
        lasting, rest = story.contents[:1], story.contents[1:]
        if self.lasting:
            lasting, rest = story.contents, []
        if len(lasting) < CONTENTS_MAX and not (self.by_content and row.content in [one.content for one in lasting]):
            rest = [one for one in rest if not self.by_content or one.content != row.content]
            story.contents = [*lasting, *rest[-(CONTENTS_MAX - 2) :], row]
        return out

    def _join(self, row: _Row, story: _Story, similarity: float, matched: int, kept: bool) -> None:
        row.story, row.cluster, row.similarity, row.matched, row.kept = story, story.place, similarity, matched, kept
        story.oldest, story.newest = min(story.oldest, row.time), max(story.newest, row.time)
        story.members += 1
        if story.id == row.id:
            story.own = row

    def _open(self, story: _Story | None, row: _Row) -> bool:
        """Whether a story lives, and the time of a row lies within its window."""
        if story is None or not self._lives(story):
            return False
        return story.oldest - self.window <= row.time <= story.newest + self.window

    def _lives(self, story: _Story) -> bool:
        if story.ended:
            return False
        if story.members == 1 and not self.is_live(story.own):
            return False
        return self._is_in_time(story.newest) and self.stream - story.begin <= self.story

    def _by_age(self) -> list[_Story]:
        """Stories with records that have not ended, the one whose newest member is oldest first."""
        held = [one for one in self.stories if not one.ended and one.members > 1 and self._is_in_time(one.newest)]
        return sorted(held, key=lambda one: (one.newest, self.tie(one.place)))

    def _end_oldest(self) -> None:
        """End stories until the records of the others fit."""
        held = self._by_age()
        total = sum(map(self._bytes, held))
        for story in held:
            if total <= self.bytes_max:
                return
            total -= self._bytes(story)
            story.ended = True

    def _bytes(self, story: _Story) -> int:
        return 0 if story.ended else self.story_bytes + sum(one.size for one in story.contents)

    def _is_in_time(self, time: int) -> bool:
        return time >= self.stream - self.window - self.lateness

    def is_live(self, row: _Row) -> bool:
        """Whether a row counts, with the document that is decided or was decided last as the newest one."""
        since = self.taken[self.newest] - self.taken[row.number] + row.size - self.width
        has_room = since <= self.window_bytes or row.number == self.newest
        return self._is_in_time(row.time) and self.newest - row.number < self.rows_max and has_room

    def _latest(self, name: str, value: int) -> _Row | None:
        found = self.latest.get((name, value))
        return found if found is not None and self.is_live(found) else None
