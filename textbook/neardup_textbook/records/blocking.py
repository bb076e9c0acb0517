"""Blocking: which records become candidates, by equal values of fields or by bands of their shingles.

The values of a record are ragged bytes, UTF-8 with 0x1F between them. The hash of a key includes its number, so equal
values of different fields have different keys. A record that lacks a field has no key with this field.

Source: Mining of Massive Datasets, 3.8.2 (a key for each field), 3.4.1 (bands).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.features.texts import shingles
from neardup.features.texts.normalize import NormalForm, code_points
from neardup.features.texts.words import StopList
from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import BASE, mix64, seed_of
from neardup.schemes.signatures import banding, one_permutation

# Between the values of a record: the unit separator, which no value holds.
SEPARATOR = "\x1f"
_SEPARATOR_BYTE = np.uint8(0x1F)
# Bits stored of each row of a shingled field. A band has at least two rows (a bound of the option rows), so that bands
# of different shingles agree by chance with probability 2^-32 at most.
_ROW_BITS = 16
# Separates the seeds of keys from those of bands and of signature rows.
_KEY_PURPOSE = 1 << 33
# Values are normalised before they are split into shingles.
_AS_IT_IS = NormalForm(nfkc=False, fold_case=False, fold_space=False)

Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Values = tuple[str, ...]


class Blocking(NamedTuple):
    """Which records become candidates.

    ``exact`` holds the positions of the fields of each exact key, ``shingled`` those of the fields with bands. ``k``
    characters a shingle; ``bands`` bands of ``rows`` rows for each shingled field.
    """

    exact: tuple[tuple[int, ...], ...]
    shingled: tuple[int, ...]
    k: int
    bands: int
    rows: int
    seed: int

    @property
    def width(self) -> int:
        """Bytes of the sketches of a record."""
        return len(self.shingled) * self.bands * self.rows * _ROW_BITS // 8


class _KeyRules(NamedTuple):
    """The keys of a record: a seed for each; the fields of exact key k are ``parts[part_starts[k]:part_starts[k+1]]``;
    the shingled fields follow."""

    seeds: Words
    parts: npt.NDArray[np.int64]
    part_starts: Starts
    shingled: npt.NDArray[np.int64]


def parse_blocking(
    names: Sequence[str],
    exact: Sequence[str],
    shingled: Sequence[str],
    k: int,
    bands: int,
    rows: int,
    seed: int,
) -> Blocking:
    """Parse exact keys written as ``field`` or ``field+field``; without any key, each field of ``names`` is a key.

    Raises ``ConfigError`` for a field that is not among ``names``, and for an empty one.

    >>> names = ["name", "address", "phone"]
    >>> parse_blocking(names, [], [], k=3, bands=8, rows=2, seed=1).exact
    ((0,), (1,), (2,))
    >>> parse_blocking(names, ["name+phone"], ["address"], k=3, bands=8, rows=2, seed=1)[:2]
    (((0, 2),), (1,))
    """
    positions = {name: at for at, name in enumerate(names)}
    if not exact and not shingled:
        exact = names

    def position(name: str, setting: str) -> int:
        if name not in positions:
            raise ConfigError(
                f"{setting} names {name!r}, which is not among option fields: {', '.join(positions)}; name one of "
                "them, or leave the option out"
            )
        return positions[name]

    keys = tuple(tuple(position(name, "option keys") for name in item.split("+")) for item in exact)
    banded = tuple(position(name, "option shingled") for name in shingled)
    return Blocking(keys, banded, k, bands, rows, seed)


def join_values(values: Sequence[Values]) -> tuple[Bytes, Starts]:
    """Values of n records as ragged bytes ``uint8[m]`` with starts ``int64[n + 1]``; no lone surrogates."""
    parts = [SEPARATOR.join(record).encode() for record in values]
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    return np.frombuffer(b"".join(parts), np.uint8), starts


def split_values(data: Bytes, starts: Starts) -> list[Values]:
    """The inverse of ``join_values``; records of the same bytes are decoded once."""
    whole, known = data.tobytes(), dict[bytes, Values]()
    out = []
    for first, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        part = whole[first:end]
        if part not in known:
            known[part] = tuple(part.decode().split(SEPARATOR))
        out.append(known[part])
    return out


def sketches(values: Sequence[Values], blocking: Blocking) -> Bytes:
    """Sketches ``uint8[n, width]`` of the shingled fields of n records; those of a missing value are all ones."""
    out = np.empty((len(values), blocking.width), np.uint8)
    wide = blocking.bands * blocking.rows * _ROW_BITS // 8
    for at, field in enumerate(blocking.shingled):
        codes = code_points([record[field] for record in values], _AS_IT_IS)
        grams = shingles.chars(codes, blocking.k, StopList())
        signatures = one_permutation.sign(grams.values, grams.starts, blocking.bands * blocking.rows, blocking.seed)
        out[:, at * wide : (at + 1) * wide] = banding.sketch(signatures, _ROW_BITS)
    return out


def keys(data: Bytes, starts: Starts, sketched: Bytes, fields: int, blocking: Blocking) -> tuple[Words, Starts]:
    """Bucket keys of n records of ``fields`` values each: ragged ``uint64[m]`` and starts ``int64[n + 1]``.

    First the exact keys in their order, then the bands of each shingled field. A key hashes its own number, so that
    equal values of different fields differ. A key with a missing value is left out.
    """
    n, exact, banded = len(starts) - 1, len(blocking.exact), len(blocking.shingled)
    wide = blocking.bands * blocking.rows * _ROW_BITS // 8
    seeds = [seed_of(np.uint64(blocking.seed), np.uint64(_KEY_PURPOSE + i)) for i in range(exact + banded)]
    bands = np.empty((n, banded, blocking.bands), np.uint64)
    for at in range(banded):
        sketch = np.ascontiguousarray(sketched[:, at * wide : (at + 1) * wide])
        bands[:, at] = banding.keys(sketch, blocking.bands, int(seeds[exact + at]))
    parts = np.array([field for key in blocking.exact for field in key], np.int64)
    part_starts = np.cumsum([0, *map(len, blocking.exact)]).astype(np.int64)
    out = np.empty(n * (exact + banded * blocking.bands), np.uint64)
    out_starts = np.zeros(n + 1, np.int64)
    rules = _KeyRules(np.array(seeds, np.uint64), parts, part_starts, np.array(blocking.shingled, np.int64))
    bounds = np.empty(fields + 1, np.int64)
    _keys(data, starts, rules, bands, bounds, out, out_starts)
    return out[: out_starts[-1]], out_starts


def shared_keys(a: Words, a_starts: Starts, b: Words, b_starts: Starts) -> npt.NDArray[np.int32]:
    """Return the number of common keys of m pairs, ``int32[m]``."""
    shared = np.empty(len(a_starts) - 1, np.int32)
    _shared(a, a_starts, b, b_starts, shared)
    return shared


@kernel("const u8[], const i64[], _KeyRules, u64[,,], i64[], u64[], i64[]")
def _keys(data, starts, rules, bands, bounds, out, out_starts):
    """Write the keys of all records. ``bounds`` is scratch: where each value begins, and one after the last value."""
    made = 0
    seeds, parts, part_starts, shingled = rules
    exact = len(part_starts) - 1
    for i in range(len(starts) - 1):
        bounds[0] = starts[i]
        field = 0
        for at in range(starts[i], starts[i + 1]):
            if data[at] == _SEPARATOR_BYTE:
                field += 1
                bounds[field] = at + 1
        bounds[field + 1] = starts[i + 1] + 1
        for key in range(exact):
            hashed = seeds[key]
            whole = True
            for part in range(part_starts[key], part_starts[key + 1]):
                first, end = bounds[parts[part]], bounds[parts[part] + 1] - 1
                whole &= end > first
                for at in range(first, end):
                    hashed = hashed * BASE + (np.uint64(data[at]) + np.uint64(1))
                hashed *= BASE  # the end of a value
            if whole:
                out[made] = mix64(hashed)
                made += 1
        for at in range(len(shingled)):
            if bounds[shingled[at] + 1] - 1 > bounds[shingled[at]]:
                for band in range(bands.shape[2]):
                    out[made] = bands[i, at, band]
                    made += 1
        out_starts[i + 1] = made


@kernel("u64[], i64[], u64[], i64[], i32[]")
def _shared(a, a_starts, b, b_starts, shared):
    for i in range(len(shared)):
        shared[i] = 0
        for at in range(a_starts[i], a_starts[i + 1]):
            for other in range(b_starts[i], b_starts[i + 1]):
                if a[at] == b[other]:
                    shared[i] += 1
                    break
