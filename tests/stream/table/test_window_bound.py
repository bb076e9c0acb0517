"""A window that is bounded by bytes of memory."""

from __future__ import annotations

from itertools import pairwise

from neardup import Config, Document, Matcher, Signer
from neardup.pairs.pipeline import match_step
from neardup.window import window

CHUNK = 64
CONFIG = Config(window_documents=1 << 30)


def filled(bytes_max: int, chunks: int, words: int = 3) -> tuple[Matcher, list[int]]:
    """A matcher after chunks of documents that differ, and the bytes of its window after each."""
    matcher, signer, used = Matcher(CONFIG), Signer(CONFIG), []
    for chunk in range(chunks):
        numbers = range(chunk * CHUNK, (chunk + 1) * CHUNK)
        documents = [Document(str(n), " ".join(str((n + 1) * 7919**k) for k in range(1, 1 + words))) for n in numbers]
        match_step(matcher, signer.sign(documents).batch)
        window.bound(matcher.table, bytes_max, 1 << 30)
        used.append(matcher.table.memory_bytes()[0])
    return matcher, used


def test_a_window_grows_to_its_bytes_and_stays_there() -> None:
    """The oldest documents leave, and as many stay as the bytes allow."""
    free, used = filled(1 << 40, 40)
    assert free.table.counts()["evicted"] == 0
    bytes_max = used[15]
    bounded, held = filled(bytes_max, 40)
    assert held[:15] == used[:15]
    assert max(held) <= bytes_max + 2 * max(b - a for a, b in pairwise(used))
    assert 0 < bounded.table.counts()["evicted"] == 40 * CHUNK - bounded.table.documents
    assert bounded.table.documents > 10 * CHUNK


def test_a_bound_that_is_lifted_lets_the_window_grow_again() -> None:
    """The limit of documents follows the bytes in both directions."""
    matcher, _ = filled(1 << 20, 40)
    small = matcher.table.documents
    assert matcher.table.limits.items < 1 << 30
    window.bound(matcher.table, 1 << 40, 5 * small)
    assert matcher.table.limits.items == 5 * small
    window.bound(matcher.table, 1, 1 << 30)
    assert matcher.table.limits.items == 1
    match_step(matcher, Signer(CONFIG).sign([Document("last", "the last one")]).batch)
    assert matcher.table.documents == 1
