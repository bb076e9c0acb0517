"""Every codec of Kafka decompresses within its limit."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from neardup_workers.outside.transport.kafka.records import DamagedError, TooLargeToUnpackError, unpack

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def blocks(data: bytes, order: str = ">", block_bytes: int = 32 << 10) -> bytes:
    """Snappy blocks of the Java client; some producers write the version in the other byte order."""
    parts = [bytes(cramjam.snappy.compress_raw(data[i : i + block_bytes])) for i in range(0, len(data), block_bytes)]
    header = b"\x82SNAPPY\x00" + struct.pack(f"{order}ii", 1, 1)
    return header + b"".join(struct.pack(">i", len(part)) + part for part in parts)


PACKERS = {
    "gzip": (GZIP, gzip.compress),
    "gzip in members": (GZIP, lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    "snappy in one block": (SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "snappy in blocks": (SNAPPY, blocks),
    "snappy in blocks, little end first": (SNAPPY, lambda data: blocks(data, "<")),
    "lz4": (LZ4, lambda data: lz4.frame.compress(data, block_linked=False)),
    "lz4 without a length": (LZ4, lambda data: lz4.frame.compress(data, block_linked=False, store_size=False)),
    "zstd": (ZSTD, lambda data: zstandard.ZstdCompressor().compress(data)),
    "zstd without a length": (ZSTD, lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data)),
}


@pytest.mark.parametrize("name", PACKERS)
@given(content=st.binary(max_size=300), times=st.sampled_from([1, 2, 20_000]))
def test_what_a_codec_packs_is_unpacked_up_to_the_limit_and_no_byte_beyond(name, content, times):
    """Content of exactly the limit is unpacked; with a limit one lower it is refused."""
    codec, pack = PACKERS[name]
    data = content * times
    packed = pack(data)
    assert unpack(codec, packed, len(data)) == data
    if data:
        with pytest.raises(TooLargeToUnpackError):
            unpack(codec, packed, len(data) - 1)


@pytest.mark.long
@pytest.mark.parametrize("name", PACKERS)
def test_a_bomb_takes_no_more_memory_than_its_limit(name):
    """Some kilobytes hold a hundred megabytes; the limit is one megabyte."""
    codec, pack = PACKERS[name]
    packed = pack(bytes(100 << 20))
    tracemalloc.start()
    with pytest.raises(TooLargeToUnpackError):
        unpack(codec, packed, 1 << 20)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("name", PACKERS)
@given(data=st.data())
def test_damage_is_reported_or_harmless(name, data):
    """No bytes raise another error, or hang."""
    codec, pack = PACKERS[name]
    packed = bytearray(pack(b"a text that is packed" * 20))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))
    try:
        assert len(unpack(codec, bytes(packed[:cut]), 1 << 16)) <= 1 << 16
    except (DamagedError, TooLargeToUnpackError):
        return
