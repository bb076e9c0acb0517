"""The window of a matcher as messages, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise

import numpy as np

from neardup.features.tokens.rarity import RARITY_MAGIC
from neardup.pairs.batches import id_columns, make_batch
from neardup.pairs.pipeline import Matcher
from neardup.pairs.signing import Signed
from neardup.pairs.window_message import WindowMessage, decode_window, encode_window
from neardup.stories.verdicts.decider import Decider
from neardup.stories.windows.constant_texts import signature_of
from neardup.window import NO_TIME, window
from neardup.window.steps import step

# Documents in a message of a window.
_MESSAGE_ROWS = 512


def window_of(matcher: Matcher) -> tuple[int, Iterator[WindowMessage]]:
    """The window of a matcher: the stream time just before its first document, and its documents in order of arrival.

    A table that is filled with them (``fill``) finds what this one finds. Removed documents are among them, for they
    count in the limits; each id is removed again after the last of its removed versions.
    """
    table = matcher.table
    slots, contents, counted, removed = window.window_of(table)
    times, ids = table.times(slots), table.ids(slots)
    untimed = np.flatnonzero(times == NO_TIME)
    # Documents without a time have that of the stream when they came, so the time before the first must lead to it.
    first = int(untimed[0]) if len(untimed) else len(slots)
    known = int(counted[first]) if len(untimed) else table.stream_time
    passed = int(times[:first].max(initial=NO_TIME))
    removals = {ids[row]: row for row in np.flatnonzero(removed).tolist()}
    ends = sorted({*range(_MESSAGE_ROWS, len(slots), _MESSAGE_ROWS), len(slots), *(r + 1 for r in removals.values())})

    def messages() -> Iterator[WindowMessage]:
        for begin, end in pairwise([0, *ends]):
            rows = slots[begin:end]
            evidence = matcher.evidence(rows)
            columns = id_columns([id_.encode() for id_ in ids[begin:end]])
            batch = make_batch(*columns, times[begin:end], contents[begin:end], evidence)
            gone = begin < end and removals.get(ids[end - 1]) == end - 1
            yield WindowMessage(batch, [ids[end - 1].encode()] if gone else [])

    return known if known > passed else int(NO_TIME), messages()


def saved(matcher: Matcher, decisions: Iterable[bytes]) -> Iterator[bytes]:
    """The window of a matcher, with what was decided, as parts of bytes (``encode_window``)."""
    time, messages = window_of(matcher)
    counts = () if matcher.rarity is None else (matcher.rarity.save(),)
    return encode_window(messages, time, matcher.config, chain(counts, decisions), signature_of(matcher.config))


def fill(
    matcher: Matcher,
    read: Callable[[int], bytes],
    decider: Decider | None = None,
    *,
    decide: bool = False,
    salvage: bool = False,
) -> None:
    """Add the documents of a window to an empty matcher, without looking for pairs among them.

    ``read`` returns the next bytes of what ``encode_window`` wrote. A decider continues from the decisions of the
    window; with ``decide``, it decides the documents of a window that has none. With ``salvage``, damaged parts of the
    window are left out. Raises ``WireError``.
    """
    decisions: list[bytes] = []
    counts: bytes | None = None
    for part in decode_window(read, matcher.config, salvage=salvage, signature=signature_of(matcher.config)):
        if isinstance(part, int):
            if part != NO_TIME:
                matcher.table.set_stream_time(part)
        elif isinstance(part, bytes) and part.startswith(RARITY_MAGIC):
            counts = part
        elif isinstance(part, bytes):
            decisions.append(part)
        elif decide and decider is not None and not decisions:
            decider.decide_columns(np.ones(part.batch.size, np.bool_), Signed(part.batch, [], 0, 0))
            for id_ in part.removed:
                decider.remove(id_)
        else:
            with step(matcher.table):
                matcher.match(part.batch, probe=False)
                for id_ in part.removed:
                    matcher.remove(id_)
    if counts is not None and matcher.rarity is not None:
        matcher.rarity.resume(counts)
    if decisions and decider is not None:
        decider.resume(decisions)
