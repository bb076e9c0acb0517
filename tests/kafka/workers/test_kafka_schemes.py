"""Every scheme on a real broker: vectors, records, sets and texts give the pairs that one process finds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import orjson
import pytest
from cases import long_stream
from kafka_world import World
from scheme_streams import ROWS, brought, usable

from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.topics.names import MATCH, SIGN

# One row for each scheme; the default and minhash compare texts as permutation does.
STREAMS = {
    **{scheme: (long_stream, {"scheme": scheme}) for scheme in ("one_permutation", "minhash")},
    **{
        settings["scheme"].partition(":")[0]: (stream, settings)
        for stream, settings in ROWS.values()
        if "scheme" in settings
    },
}


def test_every_scheme_is_among_them() -> None:
    """A new scheme needs a row in ``scheme_streams``."""
    assert set(STREAMS) == set(SCHEMES)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_finds_on_a_broker_what_it_finds_in_one_process(worlds: Callable[..., World], scheme: str) -> None:
    """A signer, a matcher and two shards emit every pair once, including copies and refusals; of a document with a copy
    more pairs, but no pair of contents that one process does not find."""
    stream, settings = STREAMS[scheme]
    world = worlds(**settings, documents_partitions=1)
    documents = usable(stream(random.Random(1), 40, copies=0.1), world.settings)
    world.place(SIGN)
    world.place(MATCH)
    rows = [{"id": d.id, "text": d.text, "timestamp": d.timestamp, **brought(d)} for d in documents]
    world.send([(str(row["id"]).encode(), orjson.dumps(row)) for row in rows])
    world.settle()
    expected, found = world.expected(documents), world.pairs()
    assert len(expected) > 5
    contents = {d.id: str((d.text, brought(d))) for d in documents}
    copied = {text for text, count in Counter(contents.values()).items() if count > 1}
    more = Counter(found) - Counter(expected)
    assert not Counter(expected) - Counter(found)
    assert all(count == 1 and {contents[id_] for id_ in pair} & copied for pair, count in more.items()), more
    known = {frozenset(contents[id_] for id_ in pair) for pair in expected}
    assert {frozenset(contents[id_] for id_ in pair) for pair in found} == known
