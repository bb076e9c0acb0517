"""The chains of a band table: probe, then add, item by item, as kernels over the table's arrays.

Theory of operation. A **posting** is one number; its **link** is the distance to the next older posting of its bucket;
``heads`` maps a key to the newest posting. So a bucket is a chain, strictly newest first. Most keys have one holder, so
a posting that was the first of its bucket has no link: bits say which have one, and links are in the order of their
postings. A link that leads nowhere any more is 0. One to a posting below the oldest live one ends the chain, so expiry
changes no link. With payloads each posting has a link: their keys are common, and each chain is read to its end.

A **slot** holds one item. Its postings are consecutive: first its *content*, then its *id*, then its bucket keys. So
one structure finds identical contents, earlier versions and candidates.

Flags of a slot. ``SUPERSEDED``: a newer copy of the same content is in the buckets instead, and the bucket postings of
the slot are unlinked; a later walk unlinks a posting that is far down its chain. ``REMOVED``: its id was removed; the
slot is never reported, but it still represents older copies of its content. ``UNTIMED``: it has no event time.
``MARK``: it stands for an item that another shard holds. ``BARE``: its fixed evidence is not stored.

The table of a **shard** reads the whole stream and holds a part of it. A row of another shard probes the buckets,
unless it is known to be a copy (``COPIED``): the shard that holds the content links it. If a shard holds a content
that goes elsewhere now, a later copy leaves a mark, a slot with all postings and without evidence. It takes the place
of the content in the buckets, and hides it from what may pair with the marked one.

``run`` returns early if an array must grow, before it touches the next item. Before it overwrites data of an older item
(the head of a bucket, a link, flags), it writes them to the journal, from which ``undo`` restores them. To forget
appended data, the caller of ``undo`` sets the counters back.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.machine.bits import bit_count
from neardup.machine.compile import inlined
from neardup.window.counters import CUTS, FIRST_TIME, LINK_END, OLDEST, POSTING_END, SLOT_END, STREAM_TIME
from neardup.window.heads import NONE, Heads, read_back
from neardup.window.pages import index_at

SUPERSEDED, REMOVED, UNTIMED, MARK, BARE = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8), np.uint8(16)
# What a row of ``Items`` is: an item to hold, an item of another shard, the removal of an id; added to the kind of an
# item: some shard holds an eligible copy of it for certain; its fixed evidence follows from the ragged part.
OWN, FOREIGN, REMOVAL, COPIED, DERIVED = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)
# The stored time of an untimed item that arrived before the first event time.
NO_TIME = np.int64(np.iinfo(np.int64).min)
# More than there can be, and small enough for additions without overflow.
NO_LIMIT, NO_WINDOW = 1 << 62, np.int64(np.iinfo(np.int64).max)
# Postings of a slot before its bucket keys.
CONTENT, ID, KEYS = 0, 1, 2

SLOT_PAGE_BITS, POSTING_PAGE_BITS, BYTE_PAGE_BITS, LINK_PAGE_BITS = 10, 15, 16, 12
# Of every group of 32 postings a row is stored: the slot of the first one, from which a short scan finds the slot of a
# posting; a bit for each that has a link; and the number of the first of these links, modulo 2**32.
GROUP_BITS, GROUP_SLOT, GROUP_LINKED, GROUP_LINK = 5, 0, 1, 2
_IN_GROUP, _ONE, _LOW32 = (1 << GROUP_BITS) - 1, np.uint64(1), np.uint64(0xFFFFFFFF)

# If a bucket or a probe reaches its limit, one candidate in ``OLD_PART`` is among the oldest, at most ``OLDEST_MAX`` of
# a bucket. To find them, a probe reads ``FURTHER`` times as many further postings as a bucket has candidates at most.
OLD_PART, OLDEST_MAX, FURTHER = 4, 64, 64
# A walk keeps so many of them, and a few numbers, for so many buckets of each of the first keys (``find_oldest``).
KEPT_OLDEST, KEPT_HEAD, KEPT_WAYS, KEPT_KEYS = 256, 5, 4, 64
# A truncated probe counts so many documents that it did not compare at most, and reads so many postings for that. Of
# the last ones, it leaves a bucket after a row of which it met 15 in 16: buckets of a flood hold the same documents.
UNCOMPARED_MAX, UNCOMPARED_READ, UNCOMPARED_LAST, UNCOMPARED_ROW = 1_024, 4_096, 3_072, 64

# It keeps the rests of so many buckets: so many postings of each, with their slots, and a few numbers.
RESTS, REST_MAX, REST_HEAD = 32, 1_024, 4
# The three lists of the journal, how often flags have changed or were restored, and how many steps were undone.
HEADS, LINKS, FLAGS, CHANGES, UNDONE = range(5)
# Why ``run`` returned.
FINISHED, HEADS_FULL, JOURNAL_FULL, CANDIDATES_FULL, BUDGET_REACHED, NO_ROOM = range(6)


class Store(NamedTuple):
    """The arrays of a table. Slots, postings, bytes and links are indexed through their page maps."""

    heads: Heads
    slot_map: npt.NDArray[np.int32]
    posting_map: npt.NDArray[np.int32]
    byte_map: npt.NDArray[np.int32]
    link_map: npt.NDArray[np.int32]
    times: npt.NDArray[np.int64]  # event time of a slot, microseconds
    starts: npt.NDArray[np.uint32]  # first posting of a slot, modulo 2**32
    contents: npt.NDArray[np.uint64]  # second half of its content hash (the first half is a key)
    id_starts: npt.NDArray[np.int64]
    id_lengths: npt.NDArray[np.uint16]
    flags: npt.NDArray[np.uint8]
    seen: npt.NDArray[np.uint32]  # the number of the last probe that found this slot
    ragged_lengths: npt.NDArray[np.uint32]  # bytes of the ragged part of the evidence; empty if there is none
    noted: npt.NDArray[np.uint32]  # where the last probe noted this slot in its buffer; empty if there are no payloads
    before: Annotated[npt.NDArray[np.int64], "[,]"]  # [slot, 2], items and bytes of the stream before; of a shard
    links: npt.NDArray[np.uint32]
    payloads: npt.NDArray[np.uint64]  # one for each posting; empty if postings have none
    groups: Annotated[npt.NDArray[np.uint32], "[,]"]  # [group, 3], see ``GROUP_BITS``
    bytes: npt.NDArray[np.uint8]  # of each slot: its id, the fixed part of its evidence unless bare, the ragged part
    state: npt.NDArray[np.int64]


class Items(NamedTuple):
    """A batch as the table reads it. Item i probes ``keys[key_starts[i]:key_starts[i+1]]``, content and id first, and
    adds the first ``added[i]`` of them. ``kinds`` are ``REMOVAL``, or ``OWN`` or ``FOREIGN`` with or without
    ``COPIED`` and ``DERIVED``. ``payloads`` are empty or of keys."""

    kinds: npt.NDArray[np.uint8]
    keys: npt.NDArray[np.uint64]
    key_starts: npt.NDArray[np.int64]
    added: npt.NDArray[np.int64]
    payloads: npt.NDArray[np.uint64]
    contents: npt.NDArray[np.uint64]
    times: npt.NDArray[np.int64]  # NO_TIME where an item has none
    ids: npt.NDArray[np.uint8]
    id_starts: npt.NDArray[np.int64]
    fixed: Annotated[npt.NDArray[np.uint8], "[,]"]
    ragged: npt.NDArray[np.uint8]
    ragged_starts: npt.NDArray[np.int64]

    def until(self, end: int) -> Items:
        """Return the items before item ``end``."""
        return self._replace(
            kinds=self.kinds[:end], key_starts=self.key_starts[: end + 1], added=self.added[:end],
            contents=self.contents[:end], times=self.times[:end], id_starts=self.id_starts[: end + 1],
            fixed=self.fixed[:end], ragged_starts=self.ragged_starts[: end + 1],
        )  # fmt: skip


class Journal(NamedTuple):
    """The values that a step overwrote, oldest first; ``counts``: the lengths of the three lists, and two more."""

    head_keys: npt.NDArray[np.uint64]
    head_postings: npt.NDArray[np.int64]
    link_postings: npt.NDArray[np.int64]
    link_values: npt.NDArray[np.uint32]
    flag_slots: npt.NDArray[np.int64]
    flag_values: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]


class CandidateBuffer(NamedTuple):
    """The candidates of a run: position of an item in the batch, slot, whether the contents are equal, what is left: in
    a walk that counts, missing common keys; after one within limits, at the first candidate, documents not compared."""

    items: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int64]
    identical: npt.NDArray[np.bool_]
    left: npt.NDArray[np.int32]
    length: npt.NDArray[np.int64]


class Scratch(NamedTuple):
    """For each key of the current item: the head of its bucket, its index, the target of a new posting. Of a walk in
    rounds the buckets that it has not walked to the end, the posting of the next round and the newer one that links to
    it. Of a walk bucket by bucket where it stopped (``current``), its oldest; ``kept``, ``rests`` of those before."""

    heads: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    chains: npt.NDArray[np.int64]
    current: npt.NDArray[np.int64]
    newer: npt.NDArray[np.int64]
    oldest: npt.NDArray[np.int64]
    kept: Annotated[npt.NDArray[np.int64], "[,]"]
    rests: Annotated[npt.NDArray[np.int64], "[,]"]


class StepOptions(NamedTuple):
    """What ``run`` does with each item: whether it probes and adds, and where it stops. ``epoch`` is the number of the
    first probe; ``base`` the posting from which 32-bit numbers are read (see ``heads``). The contents of slots before
    ``settled`` may go to another shard now. There is room for slots, postings, bytes and links below the four ends."""

    probe: bool
    add: bool
    epoch: np.uint32
    base: int
    candidates_max: int
    settled: int = 0
    is_shard: bool = False
    slots_end: int = 0
    postings_end: int = 0
    bytes_end: int = 0
    links_end: int = 0


class Work(NamedTuple):
    """The arrays that ``run`` writes in addition to the store."""

    journal: Journal
    found: CandidateBuffer
    scratch: Scratch


class Incoming(NamedTuple):
    """The current item: its position in the batch, its number of keys and how many it adds, its time, whether it is
    untimed, the oldest live posting, and whether the window may hold its id."""

    position: int
    keys: int
    added: int
    time: int
    untimed: bool
    live: int
    named: bool


def new_journal(size: int) -> Journal:
    """An empty journal with room for ``size`` entries in each list."""
    return Journal(
        np.empty(size, np.uint64), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint32),
        np.empty(size, np.int64), np.empty(size, np.uint8), np.zeros(5, np.int64),
    )  # fmt: skip


def grown_journal(old: Journal, keys: int) -> Journal:
    """Return a journal of at least twice the size with the same entries, with room for an item of ``keys`` keys."""
    journal = new_journal(2 * (len(old.flag_slots) + keys + 64))
    arrays: tuple[tuple[npt.NDArray[Any], ...], ...] = (old, journal)
    for was, now in zip(*arrays, strict=True):
        now[: len(was)] = was
    return journal


def new_buffer(size: int) -> CandidateBuffer:
    """Return an empty buffer with room for ``size`` candidates."""
    return CandidateBuffer(
        np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.bool_), np.empty(size, np.int32),
        np.zeros(1, np.int64),
    )  # fmt: skip


def new_scratch(keys: int) -> Scratch:
    """Room for an item with ``keys`` keys."""
    kept = np.full((KEPT_WAYS * min(keys, KEPT_KEYS) + 1, KEPT_HEAD + KEPT_OLDEST), NONE)
    arrays = (np.empty(keys, np.int64) for _ in Scratch._fields[:-3])
    rests = np.zeros((RESTS, REST_HEAD + 2 * REST_MAX), np.int64)
    return Scratch._make([*arrays, np.empty(OLDEST_MAX, np.int64), kept, rests])


@inlined
def slot_index(store, slot):
    """The index of a slot in the slot arrays."""
    return index_at(store.slot_map, SLOT_PAGE_BITS, slot)


@inlined
def posting_index(store, posting):
    """The index of a posting in ``payloads``, and of its group times 32."""
    return index_at(store.posting_map, POSTING_PAGE_BITS, posting)


@inlined
def byte_index(store, number):
    """The index of a byte in ``bytes``; an id lies within one page, ragged evidence takes as many pages as it needs."""
    return index_at(store.byte_map, BYTE_PAGE_BITS, number)


@inlined
def first_posting(store, slot, base):
    """The number of a slot's first posting; for the slot after the last one, the number of the next posting."""
    if slot == store.state[SLOT_END]:
        return store.state[POSTING_END]
    return read_back(store.starts[slot_index(store, slot)], base)


@inlined
def slot_of(store, posting, base):
    """The slot of a live posting."""
    group = np.uint64(store.groups[posting_index(store, posting) >> GROUP_BITS, GROUP_SLOT])
    end = np.uint64(store.state[SLOT_END])
    slot = max(np.int64(end - ((end - group) & _LOW32)), store.state[OLDEST])
    while first_posting(store, slot + 1, base) <= posting:
        slot += 1
    return slot


@inlined
def links_before(store, posting):
    """The number, modulo 2**32, of the first link of a posting or one after it; and whether it is its own."""
    group, bit = posting_index(store, posting) >> GROUP_BITS, np.uint64(posting & _IN_GROUP)
    linked = np.uint64(store.groups[group, GROUP_LINKED])
    before = bit_count(linked & ((_ONE << bit) - _ONE))
    return np.int64(store.groups[group, GROUP_LINK]) + np.int64(before), linked >> bit & _ONE != np.uint64(0)


@inlined
def link_at(store, posting):
    """The index in ``links`` of the link of a posting, or ``NONE`` if it has none."""
    if len(store.payloads):
        return posting_index(store, posting)
    link, has_link = links_before(store, posting)
    return index_at(store.link_map, LINK_PAGE_BITS, link) if has_link else NONE


@inlined
def put_link(store, posting, slot, target):
    """Link the next posting, of a slot, to ``target``; ``NONE``: it is the first of its bucket and has no link."""
    state, at, bit = store.state, posting_index(store, posting), np.uint64(posting & _IN_GROUP)
    group = at >> GROUP_BITS
    if bit == np.uint64(0):
        store.groups[group, GROUP_SLOT] = np.uint32(slot & 0xFFFFFFFF)
        store.groups[group, GROUP_LINK] = np.uint32(state[LINK_END] & 0xFFFFFFFF)
    # Bits of later postings are of a step that was undone, or of an older group.
    linked = np.uint64(store.groups[group, GROUP_LINKED]) & ((_ONE << bit) - _ONE)
    if len(store.payloads):
        store.links[at] = np.uint32(0 if target == NONE else posting - target)
    elif target != NONE:
        linked |= _ONE << bit
        store.links[index_at(store.link_map, LINK_PAGE_BITS, state[LINK_END])] = np.uint32(posting - target)
        state[LINK_END] += 1
    store.groups[group, GROUP_LINKED] = np.uint32(linked)


@inlined
def older(store, posting, live):
    """The next older live posting of the same bucket, or ``NONE``."""
    at = link_at(store, posting)
    distance = np.int64(store.links[at]) if at != NONE else np.int64(0)
    return NONE if distance == 0 or posting - distance < live else posting - distance


@inlined
def same_id(store, index, items, i):
    """Whether a slot has the id of item ``i``."""
    first, end = items.id_starts[i], items.id_starts[i + 1]
    if np.int64(store.id_lengths[index]) != end - first:
        return False
    at = byte_index(store, store.id_starts[index])
    for j in range(end - first):  # noqa: SIM110 - compiled code has no generators
        if store.bytes[at + j] != items.ids[first + j]:
            return False
    return True


@inlined
def event_time(store, time):
    """Return the time of an item; the first event time for items that arrived before it."""
    return store.state[FIRST_TIME] if time == NO_TIME else time


@inlined
def in_window(store, limits, index, item):
    """Whether the slot at an index and an item lie in one window, which the slot's own time has not left.

    Slots leave in order of arrival, so a slot dated in the future keeps expired ones in the table. A late item must not
    find these: whether it does would depend on what came before them.
    """
    other = event_time(store, store.times[index])
    if other == NO_TIME or limits.window == NO_WINDOW:
        return True
    if other < store.state[STREAM_TIME] - limits.window - limits.lateness:
        return False
    return -limits.window <= item.time - other <= limits.window


@inlined
def eligible_copy(store, limits, slot, items, item, base):
    """Return the newest copy of a slot's content that may pair with ``item``, usually the slot itself, or ``NONE``.

    A slot may not pair if it is removed, has the item's own id, or lies outside the window of a late item; then an
    older copy may.
    """
    index = slot_index(store, slot)
    content = store.contents[index]
    posting = first_posting(store, slot, base) + CONTENT
    for _ in range(limits.copies):
        represents = store.contents[index] == content and not store.flags[index] & REMOVED
        fits = represents and in_window(store, limits, index, item)
        if fits and not (item.named and same_id(store, index, items, item.position)):
            return slot
        if not limits.by_content:
            return NONE
        posting = older(store, posting, item.live)
        if posting == NONE:
            return NONE
        slot = slot_of(store, posting, base)
        index = slot_index(store, slot)
    store.state[CUTS] += 1
    return NONE


@inlined
def relink(store, posting, following, journal):
    """Unlink the postings between two postings; if the journal is full, a later walk does it."""
    n = journal.counts[LINKS]
    if n == len(journal.link_postings):
        return
    at = link_at(store, posting)  # it has one: a walk came from here to the postings between
    journal.link_postings[n] = posting
    journal.link_values[n] = store.links[at]
    journal.counts[LINKS] = n + 1
    store.links[at] = np.uint32(0) if following == NONE else np.uint32(posting - following)


@inlined
def note(found, i, slot, identical):
    """Note one candidate; ``run`` has made sure that there is room."""
    n = found.length[0]
    found.items[n] = np.int32(i)
    found.slots[n] = slot
    found.identical[n] = identical
    found.left[n] = 0
    found.length[0] = n + 1
