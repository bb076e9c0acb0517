"""The bytes of a step bound its memory, for any number of waiting records."""

import random
import tracemalloc

import pytest
from shell_harness import Bench

DOCUMENTS = 48
BYTES = 180_000  # of a document


@pytest.fixture(scope="module")
def texts():
    """Documents without common words."""
    chance = random.Random(7)
    return [chance.randbytes(BYTES // 2).hex() for _ in range(DOCUMENTS)]


@pytest.fixture(autouse=True)
def no_reserve(monkeypatch):
    """Without the block that a signer allocates, never writes to and frees at once."""
    monkeypatch.setattr("neardup.pairs.signing._FREED_BYTES", 0)


def peak_bytes(texts, **changes):
    """The peak memory of a signer that signs all of them, without the memory of the broker."""
    bench = Bench(sign_threads=1, **changes)
    bench.run("sign", lambda: bench.health["sign"].ready().holds)
    bench.add(*((f"d{i}", text) for i, text in enumerate(texts)))
    tracemalloc.start()
    try:
        bench.sign(len(texts))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_signer_holds_a_step_of_bytes_and_not_all_that_waits(texts):
    """Nine megabytes wait; with steps of one megabyte the signer needs a fraction of the memory."""
    whole, bounded = peak_bytes(texts), peak_bytes(texts, step_bytes_max=1 << 20)
    total = sum(map(len, texts))
    assert whole > total
    assert bounded < whole - total / 2
