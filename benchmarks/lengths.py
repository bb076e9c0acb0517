"""S29: microseconds a document by its length and by the way of calling, next to the peers.

Each peer has three rows: as its README uses it, with the best Python that is known, and with ready hashes. The time of
the first two starts from the text; the best Python packs five ASCII characters into a number with NumPy and gives
hashes to the peer. The time of the third starts from these hashes. Each row is called in two ways: one document a call,
as a feed does, and in batches of 1,000. All rows of a length run by turns, on one thread, on the same texts, and the
figure is the least of the turns.

``neardup`` and datasketch return pairs, the others flags: whether a document shares a bucket with one before it.
rensa and FastSketchLSH have 16 bands of 8 rows, because their fastest code needs a power of 2.

``python -m benchmarks.lengths`` prints the table of the README in Markdown.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.contenders import CONTENDERS, packed
from benchmarks.measure import interleaved
from benchmarks.report import Result, Size
from benchmarks.texts import char_shingles, documents
from neardup import Config, Deduplicator, Document
from neardup.schemes.interface import starts_of_lengths
from neardup.schemes.signatures import one_permutation

ID = "S29-lengths"
SEED = 29
BATCH = 1000
LENGTHS = (60, 400, 1800, 5000)
TABLE_LENGTHS = (60, 400, 5000)
_BANDS, _ROWS = 16, 8
_DOCUMENTS: dict[Size, int] = {"smoke": 6, "default": 2000, "large": 10_000}
_SLOW_DOCUMENTS = 100  # of rows that take about a millisecond a document
_REPEATS: dict[Size, int] = {"smoke": 1, "default": 5, "large": 5}

Hashes = Sequence[npt.NDArray[np.uint64]]
# Adds a part of the documents, which have these ready hashes, to an index.
Add = Callable[[Sequence[Document], Hashes], object]


class Row(NamedTuple):
    """``start`` makes an empty index; ``package`` is a key of ``CONTENDERS``, whose distribution must be installed."""

    title: str
    package: str
    start: Callable[[], Add]
    is_slow: bool = False


def _process() -> Add:
    dedup = Deduplicator(Config())
    return lambda part, _: dedup.process(part)


def _decide() -> Add:
    dedup = Deduplicator(Config())
    return lambda part, _: dedup.decide(part)


def _signing() -> Add:
    return lambda _, hashes: one_permutation.sign(*_flat(hashes), _BANDS * _ROWS, 0)


def _flat(hashes: Hashes) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The hashes of a part in one array, and where those of each document begin."""
    return np.concatenate(hashes), starts_of_lengths(np.array([len(each) for each in hashes]))


def _packing(start: Callable[[], Add]) -> Add:
    """The same from the text: NumPy makes the hashes."""
    add = start()
    return lambda part, _: add(part, [packed(document.text) for document in part])


def _datasketch_readme() -> Add:
    process = CONTENDERS["datasketch"].start("chars", 18, 7)
    return lambda part, _: process(part)


def _datasketch_ready() -> Add:
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(num_perm=126, params=(18, 7))
    empty = MinHash(num_perm=126, hashfunc=int)

    def add(part: Sequence[Document], hashes: Hashes) -> object:
        found = []
        for document, values in zip(part, hashes, strict=True):
            minhash = empty.copy()
            minhash.update_batch(np.unique((values >> np.uint64(32)).astype(np.uint32)).tolist())
            found.append(lsh.query(minhash))
            lsh.insert(document.id, minhash, check_duplication=False)
        return found

    return add


def _rensa_readme() -> Add:
    from rensa import RMinHashDeduplicator

    dedup = RMinHashDeduplicator(threshold=0.8, num_perm=_BANDS * _ROWS, use_lsh=True, num_bands=_BANDS)
    return lambda part, _: dedup.add_pairs((document.id, char_shingles(document.text)) for document in part)


def _rensa_ready() -> Add:
    from rensa import RMinHash, RMinHashLSH

    lsh, added = RMinHashLSH(threshold=0.8, num_perm=_BANDS * _ROWS, num_bands=_BANDS), [0]

    def add(part: Sequence[Document], hashes: Hashes) -> object:
        values, starts = _flat(hashes)
        digests = RMinHash.digest_matrix_from_flat_token_hashes(values, starts.astype(np.uint64), _BANDS * _ROWS, 42)
        added[0] += len(part)
        return lsh.insert_matrix_and_query_duplicate_flags(digests, start_key=added[0] - len(part))

    return add


def _rensa_signing() -> Add:
    from rensa import RMinHash

    def sign(_: Sequence[Document], hashes: Hashes) -> object:
        values, starts = _flat(hashes)
        return RMinHash.digest_matrix_from_flat_token_hashes(values, starts.astype(np.uint64), _BANDS * _ROWS, 42)

    return sign


def _fastsketch(sign: Callable[[Sequence[Document], Hashes], npt.NDArray[np.uint64]]) -> Add:
    from FastSketchLSH import LSH

    lsh = LSH(num_perm=_BANDS * _ROWS, num_bands=_BANDS, num_threads=1)
    return lambda part, hashes: lsh.insert_and_query_duplicates(sign(part, hashes))


def _fastsketch_readme() -> Add:
    from FastSketchLSH import FastSimilaritySketch

    sketch = FastSimilaritySketch(size=_BANDS * _ROWS, seed=42)
    return _fastsketch(lambda part, _: sketch.batch([sorted(set(char_shingles(d.text))) for d in part], num_threads=1))


def _fastsketch_ready() -> Add:
    from FastSketchLSH import FastSimilaritySketch

    sketch = FastSimilaritySketch(size=_BANDS * _ROWS, seed=42)

    def sign(_: Sequence[Document], hashes: Hashes) -> npt.NDArray[np.uint64]:
        values, starts = _flat(hashes)
        return np.asarray(sketch.batch_csr(values, starts.astype(np.uint64), prehashed=True, num_threads=1))

    return _fastsketch(sign)


ROWS: tuple[Row, ...] = (
    Row("neardup, `process`", "neardup", _process),
    Row("neardup, `decide`", "neardup", _decide),
    Row("datasketch, README", "datasketch", _datasketch_readme, is_slow=True),
    Row("datasketch, NumPy packs", "datasketch", functools.partial(_packing, _datasketch_ready), is_slow=True),
    Row("datasketch, ready hashes", "datasketch", _datasketch_ready, is_slow=True),
    Row("rensa, README", "rensa", _rensa_readme, is_slow=True),
    Row("rensa, NumPy packs", "rensa", functools.partial(_packing, _rensa_ready)),
    Row("rensa, ready hashes", "rensa", _rensa_ready),
    Row("FastSketchLSH, README", "fastsketchlsh", _fastsketch_readme, is_slow=True),
    Row("FastSketchLSH, NumPy packs", "fastsketchlsh", functools.partial(_packing, _fastsketch_ready)),
    Row("FastSketchLSH, ready hashes", "fastsketchlsh", _fastsketch_ready),
    Row("neardup, ready hashes, signing alone", "neardup", _signing),
    Row("rensa, ready hashes, signing alone", "rensa", _rensa_signing),
)


def measured(length: int, count: int, repeats: int) -> dict[tuple[str, int], float]:
    """Microseconds a document of each row, by title and documents a call; of the rows whose package is installed."""
    stream = [document._replace(text=document.text[:length]) for document in documents("5kb", count, SEED)]
    hashes = [packed(document.text) for document in stream]
    calls: dict[tuple[str, int], tuple[Callable[[], None], int]] = {}
    for row in ROWS:
        if CONTENDERS[row.package].version is None:
            continue
        texts = min(len(stream), _SLOW_DOCUMENTS) if row.is_slow else len(stream)
        for size in (1, BATCH):
            call = functools.partial(_run, row, stream[:texts], hashes[:texts], size)
            calls[row.title, size] = call, texts
    times = interleaved({way: call for way, (call, _) in calls.items()}, dict.fromkeys(calls, repeats))
    return {way: min(times[way]) / texts * 1e6 for way, (_, texts) in calls.items()}


def _run(row: Row, stream: Sequence[Document], hashes: Hashes, size: int) -> None:
    add = row.start()
    for first in range(0, len(stream), size):
        add(stream[first : first + size], hashes[first : first + size])


def run(size: Size) -> Iterator[Result]:
    """The microseconds of each row, by length and way of calling."""
    for length in LENGTHS:
        for (title, documents_a_call), microseconds in measured(length, _DOCUMENTS[size], _REPEATS[size]).items():
            name = f"{title}, {length} characters, {documents_a_call} a call"
            yield Result(ID, name, microseconds, "us a document")


def table() -> list[str]:
    """The lines of a table in Markdown: one document a call, then in batches, by length."""
    figures = {length: measured(length, _DOCUMENTS["default"], _REPEATS["default"]) for length in TABLE_LENGTHS}
    heads = [f"{length:,}{way}" for way in ("", ", batches") for length in TABLE_LENGTHS]
    lines = ["| microseconds a document | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for title in dict.fromkeys(title for title, _ in figures[TABLE_LENGTHS[0]] if "alone" not in title):
        row = [figures[length][title, size] for size in (1, BATCH) for length in TABLE_LENGTHS]
        cells = [f"{figure:.3g}" if figure < 100 else f"{figure:,.0f}" for figure in row]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


SCENARIOS = {ID: run}

if __name__ == "__main__":
    print("\n".join(table()))
