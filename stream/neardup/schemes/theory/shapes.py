"""Shapes: how many bands of how many rows a signature may have.

A sketch stores some bits of each row. Hashed rows agree by chance, so a band of hashed rows needs enough bits in all. A
row that is one bit in itself (the side of a hyperplane, a sampled bit) has no more bits to store: unrelated items agree
in many such rows.
"""

from __future__ import annotations

from neardup.errors import ConfigError

# Allowed sketch bits of a hashed row, and the least bits of a band of such rows. Two rows of different values may agree
# by chance. With 32 bits a band and 128 bands, a pair with nothing in common is a candidate less than once in 10^7.
SKETCH_BITS = (8, 16, 32)
BAND_BITS_MIN = 32
# Rows of one bit have no such bound: unrelated items agree in half of them, and the tuning counts the cost.
BIT_ROW = 1


def shapes(
    rows_max: int, bits: int, bands: int | None = None, rows: int | None = None, bands_min: int = 1
) -> list[tuple[int, int]]:
    """The (bands, rows) of up to ``rows_max`` rows in all, with at least ``bands_min`` bands; at least one.

    ``bands`` and ``rows`` fix one number or both. Raises ``ConfigError`` if no shape fits.

    >>> shapes(rows_max=9, bits=8)
    [(1, 4), (2, 4), (1, 5), (1, 6), (1, 7), (1, 8), (1, 9)]
    """
    for name, value in (("bands", bands), ("rows", rows)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}, but must be 1 or more; leave it out to have it chosen")
    if bands_min < 1 or (bands is not None and bands < bands_min):
        raise ConfigError(
            f"a pair must meet in {bands_min} bands, but bands is {bands or 'left open'}: let it be 1 or more, and no "
            "more than bands"
        )
    fewest = rows_least(bits)
    if rows is not None and rows < fewest:
        wider = next(width for width in SKETCH_BITS if width * rows >= BAND_BITS_MIN)
        raise ConfigError(
            f"{rows} rows of {bits} bits make a band of {bits * rows} bits, but it needs {BAND_BITS_MIN}: "
            f"set rows to {fewest} or more, or sketch_bits to {wider}"
        )
    least, few = rows or fewest, bands or bands_min
    if least * few > rows_max:
        raise ConfigError(
            f"{few} bands of {least} rows of {bits} bits are {least * few} rows, but rows_max is {rows_max}: "
            f"take fewer bands or rows, or set rows_max to {least * few} or more"
        )
    widths = [rows] if rows else range(fewest, rows_max // few + 1)
    return [(b, r) for r in widths for b in ([bands] if bands else range(bands_min, rows_max // r + 1))]


def rows_least(bits: int) -> int:
    """The fewest rows of a band."""
    return 1 if bits == BIT_ROW else BAND_BITS_MIN // bits
