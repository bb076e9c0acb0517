"""Records: entity resolution. Records that agree in a blocking key are scored field by field.

A record is a mapping of field names to strings. Each field has a weight, the points of two equal values (100 unless
told otherwise: three fields make a score of 300); unequal values lose ``penalty`` points for each square of their edit
distance (insertions and deletions), never more than the weight. Forms of one name ("bill" and "william") count as one
edit. A field that neither record has tells nothing and is left out of the sum; one that only one of them has is left
out too, or earns a fixed share of its weight. The similarity is the score divided by the weights that were in play.

Blocking keys decide which pairs are scored at all: equal values of one field, equal values of several fields
together, or a band of the signature of a field's shingles, for values that are seldom typed twice alike. A key whose
field is missing is no key; a record without any key could never be met and is refused.

The evidence of a record is its normalised values in the order of the fields, with 0x1F between them, as UTF-8, and
the sketches of its shingled fields. So keys, score and everything else about a pair are told from the evidence.

Guarantee: records that share an exact key are always scored, unless a bucket is cut; records that share none never
are. Of a shingled field with Jaccard similarity s, a pair is scored with probability 1 - (1 - s^r)^b.

Source: Mining of Massive Datasets, 3.8.2 (scores, nicknames, one key for each field), 3.5.5 (edit distance), 3.4.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Indel
from rapidfuzz.process import cpdist

from stream import banding, shingles
from stream.errors import ConfigError
from stream.hashing import BASE, derive_seed, mix64
from stream.kernels import kernel
from stream.normalize import NormalForm, code_points, normalize
from stream.signatures import one_permutation

WEIGHT_DEFAULT = 100.0
# Points for a square of the edit distance. With 4, two letters exchanged for others leave 36 of 100 points, and five
# insertions and deletions (bill and william) leave none.
PENALTY_DEFAULT = 4.0
# Between the values of a record: the unit separator, which normalised values never hold.
SEPARATOR = "\x1f"
_SEPARATOR_BYTE = np.uint8(0x1F)
# Bits kept of each row of a shingled field. A band has at least two rows, so that one of different shingles agrees by
# chance with 2^-32 at most.
_ROW_BITS = 16
ROWS_MIN = 2
# Told apart from the seeds of bands and of signature rows.
_KEY_PURPOSE = 1 << 33
# Values are normalised before their shingles are cut.
_AS_IT_IS = NormalForm(nfkc=False, fold_case=False, fold_space=False)

Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Values = tuple[str, ...]


class Field(NamedTuple):
    """A field that is scored: its name, the points of equal values, those lost for each square of the distance."""

    name: str
    weight: float
    penalty: float


class Nicknames(NamedTuple):
    """Groups of words that stand for each other: the groups of each word, and the word that stands for each group."""

    groups: dict[str, frozenset[int]]
    names: tuple[str, ...]


class Blocking(NamedTuple):
    """Which records meet.

    ``exact`` holds the places of the fields of each exact key, ``shingled`` those of the fields with bands. ``k``
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


def parse_fields(items: Sequence[str], penalty: float = PENALTY_DEFAULT) -> tuple[Field, ...]:
    """Fields written as ``name``, ``name:weight`` or ``name:weight:penalty``.

    Raises ``ConfigError`` for none, for one that stands twice, for a weight that is not positive, for a penalty that
    is negative.

    >>> parse_fields(["name", "phone:50:1.5"])
    (Field(name='name', weight=100.0, penalty=4.0), Field(name='phone', weight=50.0, penalty=1.5))
    """
    if not any(items):
        raise ConfigError("record_fields is empty, but a record needs a field to be scored: name at least one")
    fields: list[Field] = []
    for item in items:
        name, *numbers = item.split(":")
        try:
            weight, cost = [*map(float, numbers), *(WEIGHT_DEFAULT, penalty)[len(numbers) :]]
        except ValueError:
            raise ConfigError(
                f"record_fields={item!r} must be name, name:weight or name:weight:penalty, as in name:100:4"
            ) from None
        if not name or not (0 < weight < math.inf) or not (0 <= cost < math.inf):
            raise ConfigError(
                f"record_fields={item!r} must have a name, a weight above 0 and a penalty of at least 0: "
                "write it as in name:100:4"
            )
        fields.append(Field(name, weight, cost))
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"record_fields has {twice!r} twice, but a field is scored once: leave one out")
    return tuple(fields)


def parse_blocking(
    fields: Sequence[Field],
    exact: Sequence[str] | None,
    shingled: Sequence[str],
    k: int,
    bands: int,
    rows: int,
    seed: int,
) -> Blocking:
    """Exact keys written as ``field`` or ``field+field``, by default each field alone if nothing is shingled either.

    Raises ``ConfigError`` for a field that is not scored and where no key is left.

    >>> fields = parse_fields(["name", "address", "phone"])
    >>> parse_blocking(fields, None, [], k=3, bands=8, rows=2, seed=1).exact
    ((0,), (1,), (2,))
    >>> parse_blocking(fields, ["name+phone"], ["address"], k=3, bands=8, rows=2, seed=1)[:2]
    (((0, 2),), (1,))
    """
    places = {field.name: at for at, field in enumerate(fields)}
    if exact is None:
        exact = [] if any(shingled) else list(places)

    def place(name: str, setting: str) -> int:
        if name not in places:
            raise ConfigError(f"{setting} names {name!r}, which is not among the record_fields: {', '.join(places)}")
        return places[name]

    keys = tuple(tuple(place(name, "record_keys") for name in item.split("+")) for item in exact if item)
    banded = tuple(place(name, "record_shingled") for name in shingled if name)
    if not keys and not banded:
        raise ConfigError("record_keys and record_shingled are both empty, so no records would meet: name a field")
    return Blocking(keys, banded, k, bands, rows, seed)


def parse_nicknames(groups: Sequence[str]) -> Nicknames:
    """Groups written as ``william=bill=will``; the first word stands for the group.

    Raises ``ConfigError`` for a group of fewer than two words.

    >>> parse_nicknames(["william=bill", "patricia=pat", "patrick=pat"]).groups["pat"]
    frozenset({1, 2})
    """
    found: dict[str, set[int]] = {}
    names: list[str] = []
    for item in groups:
        words = [word.strip() for word in item.split("=")]
        if item and (len(words) < 2 or not all(words)):
            raise ConfigError(f"record_nicknames={item!r} must be two words or more, as in william=bill=will")
        for word in words if item else ():
            found.setdefault(word, set()).add(len(names))
        if item:
            names.append(words[0])
    return Nicknames({word: frozenset(numbers) for word, numbers in found.items()}, tuple(names))


def values_of(record: Mapping[str, str], fields: Sequence[Field], form: NormalForm) -> Values:
    """The normalised values of a record in the order of the fields; a missing field is empty.

    >>> values_of({"phone": " 555 1234 ", "name": "Bill"}, parse_fields(["name", "address", "phone"]), NormalForm())
    ('bill', '', '555 1234')
    """
    return tuple(normalize(record.get(field.name, ""), form).replace(SEPARATOR, " ") for field in fields)


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
        cut = shingles.chars(codes, blocking.k, ())
        signatures = one_permutation.sign(cut.values, cut.starts, blocking.bands * blocking.rows, blocking.seed)
        out[:, at * wide : (at + 1) * wide] = banding.sketch(signatures, _ROW_BITS)
    return out


def keys(data: Bytes, starts: Starts, sketched: Bytes, fields: int, blocking: Blocking) -> tuple[Words, Starts]:
    """Bucket keys of n records of ``fields`` values each: ragged ``uint64[m]`` and starts ``int64[n + 1]``.

    First the exact keys in their order, then the bands of each shingled field. A key hashes its own number, so that
    equal values of different fields never meet; one with a missing value is left out.
    """
    n, exact, banded = len(starts) - 1, len(blocking.exact), len(blocking.shingled)
    wide = blocking.bands * blocking.rows * _ROW_BITS // 8
    seeds = [derive_seed(np.uint64(blocking.seed), np.uint64(_KEY_PURPOSE + i)) for i in range(exact + banded)]
    bands = np.empty((n, banded, blocking.bands), np.uint64)
    for at in range(banded):
        sketch = np.ascontiguousarray(sketched[:, at * wide : (at + 1) * wide])
        bands[:, at] = banding.keys(sketch, blocking.bands, int(seeds[exact + at]))
    parts = np.array([field for key in blocking.exact for field in key], np.int64)
    part_starts = np.cumsum([0, *map(len, blocking.exact)]).astype(np.int64)
    out = np.empty(n * (exact + banded * blocking.bands), np.uint64)
    out_starts = np.zeros(n + 1, np.int64)
    shingled = np.array(blocking.shingled, np.int64)
    seed_array = np.array(seeds, np.uint64)
    bounds = np.empty(fields + 1, np.int64)
    _keys(data, starts, seed_array, parts, part_starts, shingled, bands, bounds, out, out_starts)
    return out[: out_starts[-1]], out_starts


def shared_keys(
    a: Words, a_starts: Starts, b: Words, b_starts: Starts
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Of m pairs of ragged keys: the place among a's keys of the first that b has too (-1: none), and how many."""
    first, shared = np.empty(len(a_starts) - 1, np.int32), np.empty(len(a_starts) - 1, np.int32)
    _shared(a, a_starts, b, b_starts, first, shared)
    return first, shared


def score(
    a: Sequence[Values],
    b: Sequence[Values],
    fields: Sequence[Field],
    nicknames: Nicknames,
    missing: float | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Points and the weights in play of m pairs of records, ``float64[m]`` each; the same for (b, a).

    ``missing`` is the share of a weight, 0 to 1, for a field that only one record has; ``None`` leaves it out.

    >>> fields, names = parse_fields(["name", "address", "phone"]), parse_nicknames(["william=bill"])
    >>> score([("bill", "1 elm st", "555")], [("william", "1 elm st", "555")], fields, names)
    (array([296.]), array([300.]))
    """
    points, weights = np.zeros(len(a)), np.zeros(len(a))
    for at, field in enumerate(fields):
        left, right = [record[at] for record in a], [record[at] for record in b]
        has_left, has_right = (np.array(list(map(bool, side)), np.bool_) for side in (left, right))
        both, one = has_left & has_right, has_left ^ has_right
        distance = edits(left, right, nicknames, _edits_that_count(field)).astype(np.float64)
        earned = np.maximum(field.weight - field.penalty * distance**2, 0.0)
        points += np.where(both, earned, 0.0)
        weights += np.where(both, field.weight, 0.0)
        if missing is not None:
            points += np.where(one, missing * field.weight, 0.0)
            weights += np.where(one, field.weight, 0.0)
    return points, weights


def similarity(points: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Score as a share of the weights in play, ``float64[m]`` in [0, 1]; 0 where no field was in play."""
    return np.divide(points, weights, out=np.zeros(len(points)), where=weights > 0)


def edits(a: Sequence[str], b: Sequence[str], nicknames: Nicknames, most: int | None = None) -> npt.NDArray[np.int32]:
    """Edit distances ``int32[m]`` by insertions and deletions, where a form of the same name counts as one edit.

    A distance above ``most`` may be told as ``most + 1``.

    >>> edits(["bill", "bill"], ["william", "will i am"], parse_nicknames(["william=bill"])).tolist()
    [1, 7]
    """
    out = cpdist(a, b, scorer=Indel.distance, dtype=np.int32, score_cutoff=most)
    for i in np.flatnonzero(out > 1).tolist():
        swapped = _swap_nicknames(a[i], b[i], nicknames)
        if swapped is not None:
            left, right, swaps = swapped
            out[i] = min(int(out[i]), swaps + Indel.distance(left, right))
    return np.asarray(out)


def _edits_that_count(field: Field) -> int | None:
    """The greatest distance that leaves a point; beyond it the score is 0 anyway."""
    return None if field.penalty == 0 else math.isqrt(math.ceil(field.weight / field.penalty))


def _swap_nicknames(a: str, b: str, nicknames: Nicknames) -> tuple[str, str, int] | None:
    """Two values with words of one group made equal, and how many were; ``None`` if there are none."""
    left, right = sorted((a, b))
    words, others = left.split(" "), right.split(" ")
    swaps = 0
    for i, word in enumerate(words):
        groups = nicknames.groups.get(word)
        if groups is None or word in others:
            continue
        for j, other in enumerate(others):
            common = groups & nicknames.groups.get(other, frozenset())
            if common and other not in words:
                words[i] = others[j] = nicknames.names[min(common)]
                swaps += 1
                break
    return (" ".join(words), " ".join(others), swaps) if swaps else None


@kernel
def _keys(data, starts, seeds, parts, part_starts, shingled, bands, bounds, out, out_starts):  # type: ignore[no-untyped-def]
    """``bounds`` is scratch: where each value of a record begins, and one behind the end of the last."""
    made = 0
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


@kernel
def _shared(a, a_starts, b, b_starts, first, shared):  # type: ignore[no-untyped-def]
    for i in range(len(first)):
        first[i] = -1
        shared[i] = 0
        for at in range(a_starts[i], a_starts[i + 1]):
            for other in range(b_starts[i], b_starts[i + 1]):
                if a[at] == b[other]:
                    shared[i] += 1
                    if first[i] < 0:
                        first[i] = at - a_starts[i]
                    break
