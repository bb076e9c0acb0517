"""The messages of a window: decoding inverts encoding, other bytes are refused, and the size is known."""

from __future__ import annotations

import struct
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.pairs.batches import Batch, id_columns, make_batch
from neardup.pairs.window_message import WindowMessage, WireError, decode, encode
from neardup.schemes.interface import Evidence

HEADER_BYTES = 64
FINGERPRINT, OTHER = "0123456789abcdef" * 2, "f" * 32

ids = st.lists(st.text(max_size=40).map(lambda text: text.encode("utf-8", "ignore")), max_size=20)


@st.composite
def messages(draw: st.DrawFn) -> WindowMessage:
    """Any batch of any width, with or without ragged evidence, with any removals."""
    names, removed, width = draw(ids), draw(ids), draw(st.sampled_from([0, 1, 7, 126]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return WindowMessage(_batch(names, width, rng, draw(st.sampled_from([0, 1, 50]))), removed)


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


def _same(a: WindowMessage, b: WindowMessage) -> bool:
    columns = zip(a.batch, b.batch, strict=True)
    return a.removed == b.removed and all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in columns)


@given(messages())
def test_what_is_encoded_comes_back(message: WindowMessage) -> None:
    """Decoding gives the same columns, of the same types, and the same removed ids."""
    assert _same(decode(encode(message, FINGERPRINT), FINGERPRINT), message)


@given(messages())
def test_the_columns_are_as_the_kernels_need_them(message: WindowMessage) -> None:
    """Every column is aligned and contiguous."""
    for column in decode(encode(message, FINGERPRINT), FINGERPRINT).batch:
        assert column.flags.aligned
        assert column.flags.c_contiguous


@given(messages(), st.data())
def test_a_message_cut_or_joined_is_refused(message: WindowMessage, data: st.DataObject) -> None:
    """A message with a byte missing or a byte too many is refused."""
    whole = encode(message, FINGERPRINT)
    for wrong in (whole[: data.draw(st.integers(0, len(whole) - 1))], whole + b"\0", whole + whole):
        with pytest.raises(WireError):
            decode(wrong, FINGERPRINT)


@given(messages())
def test_another_generation_is_refused_with_both_names(message: WindowMessage) -> None:
    """Data signed under another configuration is refused, never misread."""
    with pytest.raises(WireError, match=rf"{FINGERPRINT}.*{OTHER}"):
        decode(encode(message, FINGERPRINT), OTHER)


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    """Bytes that no signer wrote raise ``WireError`` and no other error."""
    with pytest.raises(WireError):
        decode(data, FINGERPRINT)


@given(messages(), st.data())
def test_a_header_that_lies_is_refused(message: WindowMessage, data: st.DataObject) -> None:
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
def test_ids_whose_lengths_do_not_add_up_are_refused(message: WindowMessage, data: st.DataObject) -> None:
    """The sum of the lengths reveals a changed length."""
    n = message.batch.size
    if n == 0:
        return
    whole = bytearray(encode(message, FINGERPRINT))
    at = HEADER_BYTES + 32 * n + 2 * data.draw(st.integers(0, n - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(WireError, match="adds up"):
        decode(bytes(whole), FINGERPRINT)


def test_another_format_version_is_refused() -> None:
    """A message of a later program says so in its fifth byte."""
    whole = bytearray(encode(WindowMessage(_batch([b"a"], 8, np.random.default_rng(1)), []), FINGERPRINT))
    whole[4] += 1
    with pytest.raises(WireError, match="version 3"):
        decode(bytes(whole), FINGERPRINT)


def test_flags_of_a_later_program_are_refused() -> None:
    """No flag is defined: a message that sets one means something that this program would misread."""
    whole = bytearray(encode(WindowMessage(_batch([b"a"], 8, np.random.default_rng(1)), []), FINGERPRINT))
    whole[5] = 1
    with pytest.raises(WireError, match="without flags"):
        decode(bytes(whole), FINGERPRINT)


def test_the_size_is_the_columns_and_a_header() -> None:
    """64 bytes a message, 34 a document plus its sketch and its id, 2 a removed id plus its bytes."""
    batch = _batch([b"abc", b"de"], 126, np.random.default_rng(1))
    size = len(encode(WindowMessage(batch, [b"wxyz"]), FINGERPRINT))
    assert size == HEADER_BYTES + 2 * (34 + 126) + 5 + (2 + 4)


def test_decoding_makes_no_object_a_row() -> None:
    """As many blocks of memory for 20,000 documents as for 20."""

    def blocks(documents: int) -> int:
        names = [f"{i:08}".encode() for i in range(documents)]
        data = encode(WindowMessage(_batch(names, 126, np.random.default_rng(1)), []), FINGERPRINT)
        decode(data, FINGERPRINT)
        before = sys.getallocatedblocks()
        kept = decode(data, FINGERPRINT)
        assert kept.batch.size == documents
        return sys.getallocatedblocks() - before

    assert blocks(20_000) <= blocks(20) + 10
