"""The message of the ``bands`` topic: decoding inverts encoding, other bytes are refused, and the size is known."""

from __future__ import annotations

import random
import struct
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_versions import HEADER_BYTES, version_2

from neardup.stream import Config, Document, Signer
from neardup.stream.bands_message import NO_PLACE, BandMessage, WireError, decode, encode
from neardup.stream.batches import Batch, bucket_keys, id_columns, make_batch, select
from neardup.stream.partitions import route
from neardup.stream.scheme_interface import Evidence

FINGERPRINT, OTHER = "0123456789abcdef" * 2, "f" * 32

ids = st.lists(st.text(max_size=40).map(lambda text: text.encode("utf-8", "ignore")), max_size=20)


@st.composite
def messages(draw: st.DrawFn) -> BandMessage:
    """Any batch of any width, with or without ragged evidence, with any removals."""
    names, removed, width = draw(ids), draw(ids), draw(st.sampled_from([0, 1, 7, 126]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    progress = rng.integers(0, 2**62, (draw(st.integers(0, 3)), 3))
    batch = _batch(names, width, rng, draw(st.sampled_from([0, 1, 50])))
    places = rng.integers(-1, 2**62, batch.size)
    return BandMessage(batch, removed, places, draw(st.integers(-(2**63), 2**63 - 1)), progress)


def _batch(names: list[bytes], width: int, rng: np.random.Generator, ragged_max: int = 0) -> Batch:
    id_bytes, starts = id_columns(names)
    n = len(names)
    ragged_starts = np.cumsum([0, *rng.integers(0, ragged_max + 1, n)])
    ragged = rng.integers(0, 256, ragged_starts[-1], np.uint8)
    return make_batch(
        id_bytes,
        starts,
        rng.integers(-(2**62), 2**62, n),
        rng.integers(0, 2**64, (n, 2), np.uint64),
        Evidence(rng.integers(0, 256, (n, width), np.uint8), ragged, ragged_starts),
    )


def _same(a: BandMessage, b: BandMessage) -> bool:
    columns = zip((*a.batch, a.places, a.progress), (*b.batch, b.places, b.progress), strict=True)
    return (a.removed, a.stream_time) == (b.removed, b.stream_time) and all(
        x is not None and y is not None and x.dtype == y.dtype and np.array_equal(x, y) for x, y in columns
    )


@given(messages())
def test_what_is_encoded_comes_back(message: BandMessage) -> None:
    """Decoding gives the same columns, of the same types, and the same removed ids."""
    assert _same(decode(encode(message, FINGERPRINT), FINGERPRINT), message)


@given(messages())
def test_the_columns_are_as_the_kernels_need_them(message: BandMessage) -> None:
    """Every column is aligned and contiguous."""
    for column in decode(encode(message, FINGERPRINT), FINGERPRINT).batch:
        assert column.flags.aligned
        assert column.flags.c_contiguous


@given(messages(), st.data())
def test_a_message_cut_or_joined_is_refused(message: BandMessage, data: st.DataObject) -> None:
    """A message with a byte missing or a byte too many is refused."""
    whole = encode(message, FINGERPRINT)
    for wrong in (whole[: data.draw(st.integers(0, len(whole) - 1))], whole + b"\0", whole + whole):
        with pytest.raises(WireError):
            decode(wrong, FINGERPRINT)


@given(messages())
def test_another_generation_is_refused_with_both_names(message: BandMessage) -> None:
    """Data signed under another configuration is refused, never misread."""
    with pytest.raises(WireError, match=rf"{FINGERPRINT}.*{OTHER}"):
        decode(encode(message, FINGERPRINT), OTHER)


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    """Bytes that no signer wrote raise ``WireError`` and no other error."""
    with pytest.raises(WireError):
        decode(data, FINGERPRINT)


@given(messages(), st.data())
def test_a_header_that_lies_is_refused(message: BandMessage, data: st.DataObject) -> None:
    """Counts that do not add up to the length are refused before anything is allocated from them."""
    whole = bytearray(encode(message, FINGERPRINT))
    at = data.draw(st.sampled_from([24, 28, 32, 36, 40, 44, 56]))
    (count,) = struct.unpack_from("<I", whole, at)
    lie = data.draw(st.integers(0, 2**32 - 1).filter(lambda n: n != count))
    struct.pack_into("<I", whole, at, lie)
    try:
        found = decode(bytes(whole), FINGERPRINT)
    except WireError:
        return
    # The only error that decoding does not notice: the width of an empty batch.
    assert (at, found.batch.size) == (28, 0)


@given(messages(), st.data())
def test_ids_whose_lengths_do_not_add_up_are_refused(message: BandMessage, data: st.DataObject) -> None:
    """The sum of the lengths reveals a changed length."""
    n = message.batch.size
    if n == 0:
        return
    whole = bytearray(encode(message, FINGERPRINT))
    at = HEADER_BYTES + 32 * n + 24 * len(message.progress) + 2 * data.draw(st.integers(0, n - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(WireError, match="adds up"):
        decode(bytes(whole), FINGERPRINT)


def test_another_format_version_is_refused() -> None:
    """A message of a later program says so in its fifth byte."""
    whole = bytearray(encode(BandMessage(_batch([b"a"], 8, np.random.default_rng(1)), []), FINGERPRINT))
    whole[4] += 1
    with pytest.raises(WireError, match="version 3"):
        decode(bytes(whole), FINGERPRINT)


@given(messages())
def test_the_version_before_is_read_without_places_and_progress(message: BandMessage) -> None:
    """A window may hold messages of the program before an upgrade: their documents have no place."""
    found = decode(version_2(message, FINGERPRINT), FINGERPRINT)
    assert _same(found, BandMessage(message.batch, message.removed, np.full(message.batch.size, NO_PLACE)))


def test_flags_of_a_later_program_are_refused() -> None:
    """No flag is defined: a message that sets one means something that this program would misread."""
    whole = bytearray(encode(BandMessage(_batch([b"a"], 8, np.random.default_rng(1)), []), FINGERPRINT))
    whole[5] = 1
    with pytest.raises(WireError, match="without flags"):
        decode(bytes(whole), FINGERPRINT)


def test_the_size_is_the_columns_and_a_header() -> None:
    """64 bytes a message, 34 a document plus its sketch and its id, 2 a removed id plus its bytes."""
    batch = _batch([b"abc", b"de"], 126, np.random.default_rng(1))
    size = len(encode(BandMessage(batch, [b"wxyz"]), FINGERPRINT))
    assert size == HEADER_BYTES + 2 * (34 + 126) + 5 + (2 + 4)


def test_a_document_costs_at_most_1400_bytes_over_8_partitions() -> None:
    """With the default scheme, ids of 20 characters, and messages of 500 documents, before compression."""
    config, rng = Config(), random.Random(1)
    documents = [
        Document(f"{i:020}", " ".join("".join(rng.choices("abcdefgh", k=6)) for _ in range(60)), 0.0)
        for i in range(500)
    ]
    batch = Signer(config).sign(documents).batch
    keys = bucket_keys(batch, config)
    parts = [select(batch, rows) for rows in route(keys, 8)]
    size = sum(len(encode(BandMessage(part, []), config.signing_fingerprint)) for part in parts)
    assert size / len(documents) <= 1400


def test_decoding_makes_no_object_a_row() -> None:
    """As many blocks of memory for 20,000 documents as for 20."""

    def blocks(documents: int) -> int:
        names = [f"{i:08}".encode() for i in range(documents)]
        data = encode(BandMessage(_batch(names, 126, np.random.default_rng(1)), []), FINGERPRINT)
        decode(data, FINGERPRINT)
        before = sys.getallocatedblocks()
        kept = decode(data, FINGERPRINT)
        assert kept.batch.size == documents
        return sys.getallocatedblocks() - before

    assert blocks(20_000) <= blocks(20) + 10
