"""S5: the distance to the lower bound: a bare loop that hashes every k-gram once and stores no results.

The bare loop rolls the polynomial of the shingles over the bytes, h B + c_in - B^k c_out, and mixes each value. It adds
up the results, so that the compiler cannot remove them. Its vectorised form computes the same values by doubling, block
by block in the first cache. The scenario compares two times with these loops: shingles and signatures of the same
normalised bytes; and the whole path from texts to a batch, with normalisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import numpy.typing as npt

from benchmarks.measure import interleaved
from benchmarks.report import Result, Size, Target, checksum
from benchmarks.texts import documents
from neardup import Config, Signer
from neardup.documents.chunks import chunks
from neardup.documents.document import Features
from neardup.features.texts.normalize import CodePoints, code_points
from neardup.features.texts.shingles import TEXT_SHINGLES
from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import BASE, mix64
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.kinds.sets import sign_codes
from neardup.schemes.rows import SCHEMES

SEED = 5
ID = "S5-floor"
RATIO_MAX = 2.0  # vectorised bare loops
_K = 5
_DOCUMENTS: dict[Size, int] = {"smoke": 52, "default": 1040, "large": 10_400}
_REPEATS: dict[Size, int] = {"smoke": 2, "default": 30, "large": 30}
_BLOCK = 512
_ONE = np.uint64(1)


@kernel()
def bare_loop(codes, starts, lengths):
    """The sum of the mixed hashes of the 5-grams of every text, rolled."""
    power = np.uint64(1)
    for _ in range(_K):
        power *= BASE
    total = np.uint64(0)
    for i in range(len(starts)):
        text = codes[starts[i] : starts[i] + lengths[i]]
        h = np.uint64(0)
        for j in range(_K):
            h = h * BASE + (np.uint64(text[j]) + _ONE)
        total += mix64(h)
        for j in range(_K, len(text)):
            h = h * BASE + (np.uint64(text[j]) + _ONE) - power * (np.uint64(text[j - _K]) + _ONE)
            total += mix64(h)
    return total


@kernel()
def vector_loop(codes, starts, lengths, twos, fours):
    """The same sum from vector code: pairs, fours and one more, in blocks. ``twos``, ``fours`` are scratch."""
    square = BASE * BASE
    total = np.uint64(0)
    for i in range(len(starts)):
        last = starts[i] + lengths[i]
        for first in range(starts[i], last - _K + 1, _BLOCK):
            text = codes[first : min(first + _BLOCK + _K - 1, last)]
            count = len(text) - _K + 1
            for j in range(count + 2):
                twos[j] = (np.uint64(text[j]) + _ONE) * BASE + (np.uint64(text[j + 1]) + _ONE)
            for j in range(count):
                fours[j] = twos[j] * square + twos[j + 2]
            for j in range(count):
                total += mix64(fours[j] * BASE + (np.uint64(text[j + _K - 1]) + _ONE))
    return total


def run(size: Size) -> Iterator[Result]:
    """Nanoseconds a byte of each loop, and the ratios."""
    config = Config(shingles="chars", k=_K)
    scheme, plan, signer = SCHEMES[config.scheme], cast(SetPlan, config.plan), Signer(config)
    batches = list(chunks(documents("5kb", _DOCUMENTS[size], SEED)))
    codes = [code_points([document.text for document in batch], plan.normal_form) for batch in batches]
    assert not any(code.is_wide.any() for code in codes), "generated texts are ASCII"
    size_bytes = sum(int(code.lengths.sum()) for code in codes)

    def cut(texts: CodePoints) -> Features:
        return TEXT_SHINGLES[plan.shingles](texts, plan.k, plan.stops)

    twos, fours = np.empty(_BLOCK + 2, np.uint64), np.empty(_BLOCK, np.uint64)
    sums: dict[str, int] = {}

    def bare() -> None:
        sums["bare"] = sum(int(bare_loop(c.narrow, c.starts, c.lengths)) for c in codes) % (1 << 64)

    def vector() -> None:
        sums["vector"] = sum(int(vector_loop(c.narrow, c.starts, c.lengths, twos, fours)) for c in codes) % (1 << 64)

    def shingle() -> None:
        for c in codes:
            cut(c)

    def sign() -> None:
        for c in codes:
            sign_codes(c, plan)

    def batch() -> None:
        for documents_ in batches:
            signer.sign(documents_)

    runs: dict[str, Callable[[], None]] = {
        "bare": bare, "vector": vector, "shingle": shingle, "sign": sign, "batch": batch,
    }  # fmt: skip
    for warm_up in runs.values():
        warm_up()
    best = {name: min(t) for name, t in interleaved(runs, dict.fromkeys(runs, _REPEATS[size])).items()}
    assert sums["bare"] == sums["vector"], sums
    features = [cut(c) for c in codes]
    assert sums["bare"] == sum(int(f.values.sum(dtype=np.uint64)) for f in features) % (1 << 64), "another hash"
    sketches = [scheme.evidence(f, plan).fixed for f in features]
    assert all(np.array_equal(sign_codes(c, plan).sketches, s) for c, s in zip(codes, sketches, strict=True)), (
        "another row"
    )
    yield from _rows(best, size_bytes, sum(map(len, batches)), sketches)


def _rows(
    best: dict[str, float], size_bytes: int, texts: int, sketches: list[npt.NDArray[np.uint8]]
) -> Iterator[Result]:
    def cost(name: str) -> dict[str, float]:
        return {"ns/byte": best[name] / size_bytes * 1e9, "us/text": best[name] / texts * 1e6}

    yield Result(ID, "bare loop", best["bare"] / size_bytes * 1e9, "ns/byte", details=cost("bare"))
    yield Result(ID, "bare loop, vectorised", best["vector"] / best["bare"], "bare loops", details=cost("vector"))
    details = {**cost("sign"), "checksum": checksum([sketch.tobytes() for sketch in sketches])}
    unit, target = "vectorised bare loops", Target("at most", RATIO_MAX)
    yield Result(ID, "shingles", best["shingle"] / best["vector"], unit, details=cost("shingle"))
    yield Result(ID, "shingles and signatures", best["sign"] / best["vector"], unit, details=details)
    yield Result(ID, "texts to a batch", best["batch"] / best["vector"], unit, target, cost("batch"))


SCENARIOS = {ID: run}
