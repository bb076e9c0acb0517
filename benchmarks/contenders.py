"""The contenders, one row each: the code that a user of the peer writes, in its fastest known form.

All contenders read the same documents in the same order, on one thread. For each document they probe the index, add the
document, and return candidate pairs (older id, newer id). The measured time starts from the text and includes
shingling, because a user has to do it. Three facts favour the peers:

- the texts are in normal form already, and only ``neardup`` normalises them again;
- peers store no signatures and return candidates; ``neardup`` stores signatures and scores the candidates;
- ``map`` over ready-made slices makes the shingles if that is fastest, and a set only if that is faster.

``datasketch`` runs as its documentation shows it: ``update`` for each shingle, SHA-1. Its fastest configuration uses
32-bit affine permutations (its default since 2.0), ``zlib.crc32`` as the hash function, ``update_batch`` in parts of
512 that stay in the cache (half the time of one large batch), copies of one ``MinHash``, and no check for duplicate
keys. ``rensa`` is the full R-MinHash, without its ``rho`` functions, which sample positions. ``FastSketchLSH`` needs a
power of two rows, so it has 16 bands of 8, and one row of ``neardup`` has the same shape.

``start("ready", bands, rows)`` gives the peers ready shingles: the ``tokens`` of a document
are the distinct shingles of its text, as ``ready`` makes them.

The rows called "packed" have no Python in the shingling: NumPy packs five ASCII characters into a number, and the index
gets ready hashes. Such a program works only for this alphabet and this k.
"""

from __future__ import annotations

import functools
import importlib.metadata
import zlib
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.texts import char_shingles, word_shingles
from neardup import Config, Deduplicator, Document

IdPairs = list[tuple[str, str]]
Process = Callable[[Sequence[Document]], IdPairs]

_K = 5
_SLICES = [slice(i, i + _K) for i in range(1 << 16)]
_BATCH = 512  # shingles a call: its intermediate results stay in the second cache
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Contender(NamedTuple):
    """``start(shingles, bands, rows)`` makes an empty index and returns the function that adds documents to it."""

    title: str
    package: str  # the distribution that must be installed
    start: Callable[[str, int, int], Process]
    shape: tuple[int, int] = (18, 7)
    repeats: int = 5
    shingles: tuple[str, ...] = ("chars", "words")
    ready: Callable[[str], list[Any]] | None = None

    @property
    def version(self) -> str | None:
        """The version installed, or ``None``."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


def config(shingles: str, bands: int, rows: int) -> Config:
    """The default configuration except the shingles and the shape."""
    return Config(shingles=shingles, bands=bands, rows=rows, recall=0.9)


def neardup(shingles: str, bands: int, rows: int) -> Process:
    """This project: candidates with their estimates."""
    dedup = Deduplicator(config(shingles, bands, rows), candidates=True)

    def process(documents: Sequence[Document]) -> IdPairs:
        return [(pair.older, pair.newer) for pair in dedup.process(documents)]

    process.dedup = dedup  # type: ignore[attr-defined]  # for its own accounting of memory
    return process


def datasketch_default(shingles: str, bands: int, rows: int) -> Process:
    """As its documentation shows it."""
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(num_perm=bands * rows, params=(bands, rows))
    cut = _cut(shingles, char_shingles, word_shingles)

    def process(documents: Sequence[Document]) -> IdPairs:
        pairs: IdPairs = []
        for document in documents:
            minhash = MinHash(num_perm=bands * rows)
            for shingle in set(cut(document)):
                minhash.update(shingle.encode("utf-8"))
            pairs += [(older, document.id) for older in lsh.query(minhash)]
            lsh.insert(document.id, minhash)
        return pairs

    return process


def _datasketch(hashfunc: Any, cut: Callable[[Document], list[Any]], bands: int, rows: int) -> Process:
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(num_perm=bands * rows, params=(bands, rows))
    empty = MinHash(num_perm=bands * rows, hashfunc=hashfunc)

    def process(documents: Sequence[Document]) -> IdPairs:
        pairs: IdPairs = []
        for document in documents:
            minhash = empty.copy()
            shingles = cut(document)
            for first in range(0, len(shingles), _BATCH):
                minhash.update_batch(shingles[first : first + _BATCH])
            pairs += [(older, document.id) for older in lsh.query(minhash)]
            lsh.insert(document.id, minhash, check_duplication=False)
        return pairs

    return process


def datasketch_fastest(shingles: str, bands: int, rows: int) -> Process:
    """Its fastest configuration."""
    return _datasketch(zlib.crc32, _cut(shingles, _byte_set, _word_byte_set), bands, rows)


def datasketch_packed(shingles: str, bands: int, rows: int) -> Process:
    """Its fastest configuration, the shingles ready as 32-bit numbers."""
    del shingles

    def cut(document: Document) -> list[int]:
        numbers: list[int] = np.unique((packed(document.text) >> np.uint64(32)).astype(np.uint32)).tolist()
        return numbers

    return _datasketch(int, cut, bands, rows)


def rensa(shingles: str, bands: int, rows: int) -> Process:
    """Full R-MinHash: every shingle counts."""
    from rensa import RMinHash, RMinHashLSH

    lsh = RMinHashLSH(threshold=0.8, num_perm=bands * rows, num_bands=bands)
    cut = _cut(shingles, _strings, word_shingles)
    ids: list[str] = []

    def process(documents: Sequence[Document]) -> IdPairs:
        pairs: IdPairs = []
        for document in documents:
            minhash = RMinHash(num_perm=bands * rows, seed=42)
            minhash.update(cut(document))
            pairs += [(ids[older], document.id) for older in lsh.query(minhash)]
            lsh.insert(len(ids), minhash)
            ids.append(document.id)
        return pairs

    return process


def fastsketch(shingles: str, bands: int, rows: int) -> Process:
    """Fast similarity sketches."""
    sketch = _fastsketch_sketcher(bands * rows)
    cut = _cut(shingles, _strings, word_shingles)
    return _fastsketch(lambda document: np.array([sketch(cut(document))], np.uint64), bands, rows)


def fastsketch_packed(shingles: str, bands: int, rows: int) -> Process:
    """Fast similarity sketches of shingles that are ready as 64-bit hashes."""
    del shingles
    sketch = _fastsketch_sketcher(bands * rows)

    def sign(document: Document) -> npt.NDArray[np.uint64]:
        hashes = packed(document.text)
        ends = np.array([0, len(hashes)], np.uint64)
        return np.asarray(sketch.batch_csr(hashes, ends, prehashed=True, num_threads=1))

    return _fastsketch(sign, bands, rows)


def _fastsketch_sketcher(size: int) -> Any:
    from FastSketchLSH import FastSimilaritySketch

    return FastSimilaritySketch(size=size, seed=42)


def _fastsketch(sign: Callable[[Document], npt.NDArray[np.uint64]], bands: int, rows: int) -> Process:
    from FastSketchLSH import LSH

    lsh = LSH(num_perm=bands * rows, num_bands=bands, num_threads=1)
    ids: list[str] = []

    def process(documents: Sequence[Document]) -> IdPairs:
        pairs: IdPairs = []
        for document in documents:
            signature = sign(document)
            pairs += [(ids[older], document.id) for older in lsh.query(signature[0])]
            lsh.insert(signature)
            ids.append(document.id)
        return pairs

    return process


def packed(text: str) -> npt.NDArray[np.uint64]:
    """Five ASCII characters as one number, mixed: a hash of each 5-gram without collisions."""
    codes = np.frombuffer(text.encode("ascii"), np.uint8).astype(np.uint64)
    grams = codes[: 1 - _K].copy()
    for i in range(1, _K):
        grams |= codes[i : len(codes) - _K + 1 + i] << np.uint64(8 * i)
    grams *= _GOLDEN
    return grams ^ (grams >> np.uint64(32))


def _cut(
    shingles: str, chars: Callable[[str], list[Any]], words: Callable[[str], list[Any]]
) -> Callable[[Document], list[Any]]:
    """The function that gives the shingles of a document."""
    if shingles == "ready":
        return attrgetter("tokens")
    cut = {"chars": chars, "words": words}[shingles]
    return lambda document: cut(document.text)


def _distinct(text: str) -> list[str]:
    """In the order of the text, in which they lie in memory."""
    return list(dict.fromkeys(_strings(text)))


def _strings(text: str) -> list[str]:
    return list(map(text.__getitem__, _slices(len(text) - _K + 1)))


def _byte_set(text: str) -> list[bytes]:
    if not text.isascii():
        return [shingle.encode() for shingle in set(_strings(text))]
    data = text.encode()
    return list(set(map(data.__getitem__, _slices(len(data) - _K + 1))))


def _word_byte_set(text: str) -> list[bytes]:
    words = text.encode().split()
    return list(set(map(b" ".join, zip(words, words[1:], words[2:], strict=False))))


@functools.lru_cache(maxsize=64)
def _slices(count: int) -> list[slice]:
    return _SLICES[: max(count, 1)]


CONTENDERS: dict[str, Contender] = {
    "neardup": Contender("neardup", "neardup", neardup),
    "datasketch": Contender("datasketch, default", "datasketch", datasketch_default, repeats=1),
    "datasketch-fastest": Contender(
        "datasketch, fastest", "datasketch", datasketch_fastest, repeats=3, ready=_byte_set
    ),
    "rensa": Contender("rensa, full R-MinHash", "rensa", rensa, ready=_distinct),
    "neardup-16x8": Contender("neardup, 16 x 8", "neardup", neardup, shape=(16, 8)),
    "fastsketchlsh": Contender("FastSketchLSH, 16 x 8", "fastsketchlsh", fastsketch, shape=(16, 8), ready=_distinct),
    "datasketch-packed": Contender(
        "datasketch, packed", "datasketch", datasketch_packed, repeats=3, shingles=("chars",)
    ),
    "fastsketchlsh-packed": Contender(
        "FastSketchLSH, packed", "fastsketchlsh", fastsketch_packed, shape=(16, 8), shingles=("chars",)
    ),
}
