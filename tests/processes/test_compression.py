"""gzip and Zstandard decompress in blocks."""

import gzip
import os

import pytest
import zstandard

from workers.sources.compression import BLOCK_BYTES, Corrupt, decompressed


def zstd(data):
    return zstandard.ZstdCompressor().compress(data)


def in_blocks(data, size):
    return iter([data[at : at + size] for at in range(0, len(data), size)])


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("block", [1, 7, 100_000])
def test_content_comes_back_from_blocks_of_any_size(compress, block):
    """Blocks may have any size; several members or frames and empty content work too."""
    first, second = b"one line\n" * 500, os.urandom(5000)
    assert b"".join(decompressed(in_blocks(compress(first) + compress(second), block))) == first + second
    assert b"".join(decompressed(in_blocks(compress(b""), block))) == b""


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_truncated_or_damaged_content_is_reported_after_its_readable_part(compress):
    """Truncated content never counts as complete."""
    data = os.urandom(300_000)
    packed = compress(data)
    for bad in (packed[:-20], packed[:200_000] + b"\xff" * 5000):
        had = []
        with pytest.raises(Corrupt):
            had.extend(decompressed(in_blocks(bad, 1000)))
        assert data.startswith(b"".join(had)[:100_000])


def test_a_small_file_that_expands_to_much_comes_in_bounded_blocks():
    """At most 32 MiB of 1 GiB of zeros are in memory."""
    gigabyte = 1 << 30
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = b"".join(compressor.compress(bytes(1 << 24)) for _ in range(64)) + compressor.flush()
    sizes = [len(block) for block in decompressed(in_blocks(packed, BLOCK_BYTES))]
    assert sum(sizes) == gigabyte
    assert max(sizes) <= 33 << 20


def test_empty_blocks_pass_so_that_nothing_waits_for_more():
    """The content of earlier blocks comes before them."""
    line = zstandard.ZstdCompressor().compressobj()
    first = line.compress(b"a line\n") + line.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    blocks = decompressed(iter([first, b"", line.flush()]))
    assert next(blocks) == b"a line\n"
    assert next(blocks) == b""
