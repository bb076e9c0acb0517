"""Hashing, shingles, signatures, sketches and keys in plain Python integers, written from their definitions.

The kernels must give the same numbers. This file imports no part of ``stream``: it defines the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
BASE = 0xBB67AE8584CAA605
PRIME = (1 << 61) - 1


def mix64(x: int) -> int:
    """The finaliser of SplitMix64."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def derive_seed(seed: int, purpose: int) -> int:
    return mix64((seed + (purpose + 1) * GOLDEN) & MASK)


def polynomial(units: Iterable[int], start: int = 0) -> int:
    h = start
    for unit in units:
        h = (h * BASE + unit + 1) & MASK
    return h


def kgrams(units: Sequence[int], k: int) -> list[int]:
    """The mixed polynomial of every k consecutive units; of all units if there are fewer than k."""
    k = min(k, len(units))
    return [mix64(polynomial(units[i : i + k])) for i in range(len(units) - k + 1)] if k else []


def code_points(text: str) -> list[int]:
    return [ord(c) for c in text]


def words(tokens: Sequence[str], k: int) -> list[int]:
    return kgrams([mix64(polynomial(code_points(token))) for token in tokens], k)


def stop_shingles(tokens: Sequence[str], stops: Iterable[str], k: int = 3) -> list[int]:
    """Each stop word with the k - 1 words after it, fewer at the end."""
    hashes = [mix64(polynomial(code_points(token))) for token in tokens]
    return [mix64(polynomial(hashes[i : i + k])) for i, token in enumerate(tokens) if token in set(stops)]


def one_permutation(shingles: Iterable[int], rows: int, seed: int) -> list[int]:
    """Fast similarity sketching: rows rounds over random rows, then a round for each row; the earliest least wins."""
    best: list[tuple[int, int] | None] = [None] * rows
    for round_ in range(2 * rows):
        if all(best):
            break
        flip, factor = derive_seed(seed, 2 * round_), derive_seed(seed, 2 * round_ + 1) | 1
        for shingle in set(shingles):
            x = ((shingle ^ flip) * factor) & MASK
            row = ((x >> 32) * rows) >> 32 if round_ < rows else round_ - rows
            now = best[row]
            if now is None or (round_, x) < now:
                best[row] = (round_, x)
    return [x for _, x in best]


def minhash(shingles: Iterable[int], rows: int, seed: int) -> list[int]:
    numbers = [derive_seed(seed, i) for i in range(2 * rows)]
    a = [number % (PRIME - 1) + 1 for number in numbers[:rows]]
    b = [number % PRIME for number in numbers[rows:]]
    return [min((a[r] * shingle + b[r]) % PRIME for shingle in set(shingles)) for r in range(rows)]


def permutation(shingles: Iterable[int], rows: int, seed: int) -> list[int]:
    """The least place in x -> mix64((x xor s) m), a bijection for every odd m."""
    numbers = [derive_seed(seed, i) for i in range(2 * rows)]
    return [
        min(mix64(((shingle ^ numbers[2 * row]) * (numbers[2 * row + 1] | 1)) & MASK) for shingle in set(shingles))
        for row in range(rows)
    ]


def partial_minhash(shingles: Iterable[int], rows: int, groups: int, seed: int) -> list[int]:
    """Row f * groups + g: the least hash by function f of the shingles that it puts into group g; all ones if none."""
    out = [MASK] * rows
    for row in range(rows):
        function = row // groups * groups
        for shingle in shingles:
            x = mix64(shingle ^ derive_seed(seed, function))
            if function + (((x >> 32) * groups) >> 32) == row:
                out[row] = min(out[row], x)
    return out


def sketch(signature: Iterable[int], bits: int) -> bytes:
    """The low bits of each row, little-endian."""
    return b"".join((row & ((1 << bits) - 1)).to_bytes(bits // 8, "little") for row in signature)


def keys(sketch_bytes: bytes, bands: int, seed: int) -> list[int]:
    """A key for each band: its bytes, eight at a time as one big-endian number, mixed into the seed of the band."""
    width = len(sketch_bytes) // bands
    out = []
    for band in range(bands):
        key, part = derive_seed(seed, (1 << 32) + band), sketch_bytes[band * width : (band + 1) * width]
        for first in range(0, width, 8):
            key = mix64(key ^ int.from_bytes(part[first : first + 8], "big"))
        out.append(key)
    return out


def content(bag: Sequence[int]) -> tuple[int, int]:
    """The 128-bit hash of a bag of shingles."""
    first, second = sum(bag) & MASK, sum((x ^ (x >> 29)) * GOLDEN for x in bag) & MASK
    return mix64((first + len(bag)) & MASK), mix64(second ^ len(bag))


def order_values(tokens: Iterable[int], known: Sequence[int]) -> list[int]:
    """Half of the hash of an unknown token; for a known token the top bit and its rank, spread over the lower bits."""
    spread = 63 - max(len(known) - 1, 0).bit_length()
    return [1 << 63 | known.index(token) << spread if token in known else token >> 1 for token in tokens]


def token_keys(values: Iterable[int], seed: int) -> list[int]:
    """The keys of the tokens of a prefix."""
    return [mix64(value ^ derive_seed(seed, 1 << 33)) for value in values]


def text_hash(text: str) -> tuple[int, int]:
    """The 128-bit hash of a whole text: words of three code points of 21 bits, then the ones that are left."""
    first, second = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
    codes = code_points(text)
    whole = len(codes) - len(codes) % 3
    words_ = [codes[i] | codes[i + 1] << 21 | codes[i + 2] << 42 for i in range(0, whole, 3)] + codes[whole:]
    for word in words_:
        first = ((first ^ word) * 0xBF58476D1CE4E5B9) & MASK
        first ^= first >> 32
        second = ((second + word) * 0x94D049BB133111EB) & MASK
        second ^= second >> 29
    return mix64(first ^ len(codes)), mix64((second + len(codes) * GOLDEN) & MASK)
