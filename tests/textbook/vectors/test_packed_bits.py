"""Packed bits: bands are whole bytes, padding is not counted, and agreement is the agreement of the bits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup.machine.compile import kernel
from neardup.machine.words import WORD_BYTES
from neardup_textbook.vectors.packed_bits import agreement, spread_bands, width


@kernel()
def spread(bits, bands, rows, room, out):  # type: ignore[no-untyped-def]
    """Spread bits as the kernel of a sketch does."""
    spread_bands(bits, bands, rows, room, out)


def sketch_of(bits: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """The definition: each band alone, padded to whole bytes, the first bit lowest."""
    return np.packbits(bits.reshape(len(bits), bands, rows), axis=2, bitorder="little").reshape(len(bits), -1)


@given(st.integers(1, 12), st.integers(1, 150), st.integers(0, 2**32))
def test_a_band_takes_whole_bytes(bands: int, rows: int, seed: int) -> None:
    """Bits without gaps, spread to bands, give the same bytes as each band packed alone."""
    bits = np.random.default_rng(seed).integers(0, 2, (1, bands * rows), np.uint8)
    beyond = np.random.default_rng(seed).integers(0, 256, WORD_BYTES, np.uint8)
    dense = np.concatenate([np.packbits(bits[0], bitorder="little"), beyond])
    out = np.empty(width(bands, rows), np.uint8)
    spread(dense, bands, rows, np.empty(len(out) + WORD_BYTES, np.uint8), out)
    assert out.tolist() == sketch_of(bits, bands, rows)[0].tolist()


@given(st.integers(1, 12), st.integers(1, 20) | st.integers(1, 150), st.floats(0, 0.5), st.integers(0, 2**32))
def test_agreement_equals_that_of_the_bits(bands: int, rows: int, noise: float, seed: int) -> None:
    """The number of equal bands and of equal bits agree with a count one by one."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, (20, bands * rows), np.uint8)
    b = a ^ (rng.random(a.shape) < noise)
    found = agreement(sketch_of(a, bands, rows), sketch_of(b, bands, rows), bands, rows)
    whole = (a == b).reshape(20, bands, rows).all(axis=2)
    assert found.bits.tolist() == (a == b).sum(axis=1).tolist()
    assert found.bands.tolist() == whole.sum(axis=1).tolist()
