"""Schemes on a real broker: texts, records, vectors and quotes give the pairs that one process finds.

Evidence of each kind passes a broker here; ``test_scheme_workers.py`` has every scheme, with topics in memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import orjson
import pytest
from cases import CASES
from kafka_world import World
from scheme_streams import brought, usable

from neardup_workers.outside.topics.names import MATCH, SIGN


@pytest.mark.parametrize("case", ["grouped, exact", "records shingled", "vectors cosine", "parts"])
def test_a_scheme_finds_on_a_broker_what_it_finds_in_one_process(worlds: Callable[..., World], case: str) -> None:
    """A signer, a matcher and two shards emit every pair once, including copies and refusals; of a document with a copy
    more pairs, but no pair of contents that one process does not find."""
    world = worlds(**CASES[case].settings, documents_partitions=1)
    documents = usable(CASES[case].stream(random.Random(1), 40, copies=0.1), world.settings)
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
