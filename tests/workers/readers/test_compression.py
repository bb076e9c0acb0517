"""gzip and Zstandard decompress in blocks."""

import gzip
import os

import pytest
import zstandard

from neardup_workers.outside.readers.compression import BLOCK_BYTES, Corrupt, Tape, decompressed


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
def test_what_pieces_expand_to_comes_in_full_blocks(compress):
    """Whatever a piece expands to, and whatever follows: lines are signed by the block. Nothing waits for input."""
    content = b"".join(b"%d is one line of a file of many lines\n" % n for n in range(100_000))
    packed = compress(content)
    found = list(decompressed(in_blocks(packed, 20_000)))
    assert b"".join(found) == content
    assert len(found) <= 2 * len(content) // BLOCK_BYTES + 1
    found = list(decompressed(iter([packed[:20_000], b"", packed[20_000:]])))
    assert b"".join(found) == content
    assert found.index(b"") <= 2  # what is there comes before it waits


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


@pytest.mark.long
def test_a_small_file_that_expands_to_much_comes_in_bounded_blocks():
    """At most 32 MiB of 1 GiB of zeros are in memory."""
    gigabyte = 1 << 30
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = b"".join(compressor.compress(bytes(1 << 24)) for _ in range(64)) + compressor.flush()
    sizes = [len(block) for block in decompressed(in_blocks(packed, BLOCK_BYTES))]
    assert sum(sizes) == gigabyte
    assert max(sizes) <= 33 << 20


def with_dictionary(*contents, pack=bytes):
    """A frame for each content, after the frame of their dictionary, which ``pack`` may compress."""
    samples = [b'{"id": "%d", "text": "the same words and number %d"}' % (n, n * n) for n in range(2000)]
    dictionary = zstandard.train_dictionary(2000, samples)
    held = pack(dictionary.as_bytes())
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)
    head = b"\x5d\x2a\x4d\x18" + len(held).to_bytes(4, "little")
    return head + held, [compressor.compress(content) for content in contents]


@pytest.mark.parametrize("pack", [bytes, zstd])
@pytest.mark.parametrize("block", [1, 7, 100_000])
def test_zstandard_may_begin_with_the_dictionary_of_its_frames(pack, block):
    """As in archives of the web; the dictionary is plain or compressed."""
    contents = [b'{"id": "%d", "text": "the same words"}\n' % n for n in range(3)]
    head, frames = with_dictionary(*contents, pack=pack)
    assert b"".join(decompressed(in_blocks(head + b"".join(frames), block))) == b"".join(contents)
    for frame in frames:
        with pytest.raises(Corrupt):
            list(decompressed(in_blocks(frame, block)))


@pytest.mark.parametrize("pack", [bytes, zstd])
def test_after_a_damaged_frame_the_next_one_is_read_with_the_dictionary(pack):
    """The damage is marked once."""
    head, (first, second, third) = with_dictionary(
        b"the same words 1", b"the same words 2", b"the same words 3", pack=pack
    )
    tape = Tape()
    tape.resumes = True
    broken = second[:8] + bytes(len(second) - 8)
    found = list(filter(lambda block: block != b"", decompressed(in_blocks(head + first + broken + third, 50), tape)))
    assert found.count(None) == 1
    assert found[0] == b"the same words 1"
    assert found[-1] == b"the same words 3"


@pytest.mark.parametrize(
    "held", [b"", b"\x37\xa4\x30\xec damaged", zstd(b"\x37\xa4\x30\xec damaged"), zstd(b"x" * 99)[:-2]]
)
def test_a_damaged_dictionary_is_reported(held):
    """Also one whose frame is cut off, or claims more than 16 MiB."""
    magic, frame = b"\x5d\x2a\x4d\x18", zstd(b"content")
    for size in (len(held), len(held) + 1000, (1 << 24) + 1, (1 << 32) - 1):
        with pytest.raises(Corrupt):
            list(decompressed(iter([magic + size.to_bytes(4, "little") + held + frame])))


def test_empty_blocks_pass_so_that_nothing_waits_for_more():
    """The content of earlier blocks comes before them."""
    line = zstandard.ZstdCompressor().compressobj()
    first = line.compress(b"a line\n") + line.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    blocks = decompressed(iter([first, b"", line.flush()]))
    assert next(blocks) == b"a line\n"
    assert next(blocks) == b""
