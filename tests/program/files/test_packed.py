"""Compressed files that are damaged, or begin in an unusual way."""

from __future__ import annotations

import gzip
from pathlib import Path

import zstandard
from command import Run

LINES = b"".join(b'{"id": "%d", "text": "The ferry number %d leaves."}\n' % (n, n * 7919) for n in range(3_000))


def test_a_wrong_checksum_loses_no_line(neardup: Run, tmp_path: Path) -> None:
    """All lines before the end of a gzip member are read, and the damage is one refusal."""
    packed = bytearray(gzip.compress(LINES))
    packed[-8] ^= 1
    (tmp_path / "news.jsonl.gz").write_bytes(packed)
    done = neardup("run", "news.jsonl.gz")
    assert b"documents: 3,000" in done.stderr
    assert b"news.jsonl.gz:3001: the compressed data is damaged or cut off" in done.stderr


def test_a_large_window_is_named_with_its_remedy(neardup: Run, tmp_path: Path) -> None:
    """A file of ``zstd --long=28`` is not called damaged."""
    settings = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    (tmp_path / "news.jsonl.zst").write_bytes(packer.compress(LINES) + packer.flush())
    done = neardup("run", "news.jsonl.zst")
    assert b"larger than 128 MiB: decompress it first" in done.stderr
    assert b"damaged" not in done.stderr


def test_a_skippable_frame_may_come_first(neardup: Run, tmp_path: Path) -> None:
    """pzstd begins with a frame that holds the size of the next one."""
    frame = zstandard.ZstdCompressor().compress(LINES)
    head = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + len(frame).to_bytes(4, "little")
    (tmp_path / "news.jsonl.zst").write_bytes(head + frame)
    done = neardup("run", "news.jsonl.zst")
    assert b"documents: 3,000" in done.stderr
    assert b"refused: 0" in done.stderr
