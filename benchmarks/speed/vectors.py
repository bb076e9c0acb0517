"""S10: vectors. Signing against a plain product with the same hyperplanes; recall of pairs of exactly known similarity.

The product is NumPy's ``vectors @ planes.T`` in ``float32`` on one thread. It packs no bits, and its last digits differ
between machines. The scenario measures the signatures alone, and the whole path from documents to matches against the
product and the table's own cost. Recall is counted over pairs at the threshold, a hundred for each seed.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.measure import in_subprocess, interleaved
from benchmarks.report import Result, Size, Target, checksum
from neardup import Config, Document, Signer
from neardup.pairs.pipeline import Matcher, match_step
from neardup.schemes.interface import Evidence
from neardup.schemes.rows import SCHEMES
from neardup_textbook.signatures import hyperplanes
from neardup_textbook.vectors.draws import normals

SEED = 10
SPEED, RECALL = "S10-vectors-speed", "S10-vectors-recall"
THRESHOLD = 0.9
RATIO_MAX = 1.0
# From documents to matches at .95 of the rate of the product and the table.
STREAM_RATIO_MAX = 1 / 0.95
DIMENSIONS = (128, 784)
_VECTORS: dict[Size, int] = {"smoke": 200, "default": 5000, "large": 50_000}
_REPEATS: dict[Size, int] = {"smoke": 2, "default": 15, "large": 15}
# Pairs of each measure, how many of them share a seed of the scheme at most, and how many seeds there are at least: the
# promise is a mean over seeds.
_PAIRS: dict[Size, int] = {"smoke": 200, "default": 10_000, "large": 50_000}
_PAIRS_A_SEED, _SEEDS_MIN = 100, 100
_DEVIATIONS = 3.0
Floats = npt.NDArray[np.float64]
Pairs = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class Setting(NamedTuple):
    """A measure: its settings, pairs of one similarity, and by how much their recall may miss the promise."""

    settings: dict[str, Any]
    pairs: Callable[[np.random.Generator, int, float], Pairs]
    lost: float = 0.0


def _unit(x: Floats) -> Floats:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def _at_angle(x: Floats, y: Floats, cosine: float) -> Pairs:
    """Unit vectors in the directions of x and at an angle from them towards y."""
    x = _unit(x)
    y = _unit(y - (x * y).sum(axis=1, keepdims=True) * x)
    return x, cosine * x + math.sqrt(1 - cosine * cosine) * y


def pairs_at_angle(rng: np.random.Generator, count: int, cosine: float, dimension: int = 64) -> Pairs:
    """Unit vectors whose dot product is ``cosine``."""
    return _at_angle(rng.standard_normal((count, dimension)), rng.standard_normal((count, dimension)), cosine)


def pairs_of_few(rng: np.random.Generator, count: int, cosine: float) -> Pairs:
    """As ``pairs_at_angle``, of 128 components; of one side all but as many as planes of signs need are zero."""
    x = np.zeros((count, 128))
    few = math.ceil(hyperplanes.components_min(cosine))
    x[:, :few] = rng.choice([-1.0, 1.0], (count, few))
    return _at_angle(x, rng.standard_normal((count, 128)), cosine)


def pairs_at_distance(rng: np.random.Generator, count: int, similarity: float) -> Pairs:
    """Points of 64 components, 10 (1 - similarity) apart."""
    x = 5 * rng.standard_normal((count, 64))
    return x, x + 10 * (1 - similarity) * _unit(rng.standard_normal((count, 64)))


def pairs_of_bits(rng: np.random.Generator, count: int, similarity: float) -> Pairs:
    """Vectors of 1,000 bits; the fraction ``similarity`` of the bits is equal."""
    x = rng.integers(0, 2, (count, 1000), np.uint8)
    differing = np.tile(np.arange(1000) < round(1000 * (1 - similarity)), (count, 1))
    return np.packbits(x, axis=1), np.packbits(x ^ rng.permuted(differing, axis=1), axis=1)


def pairs_of_numbers(rng: np.random.Generator, count: int, similarity: float) -> Pairs:
    """Vectors of 64 whole numbers, at an L1 distance of 4,000 (1 - similarity)."""
    steps = rng.multinomial(round(4000 * (1 - similarity)), np.full(64, 1 / 64), count)
    x = rng.integers(0, 256 - steps)
    return x, x + steps


_SIGNS = {"scheme": "hyperplane:dimension=128,planes=signs"}
SETTINGS: dict[str, Setting] = {
    "cosine": Setting({"scheme": "hyperplane:dimension=64"}, pairs_at_angle),
    "cosine, planes of signs": Setting(_SIGNS, partial(pairs_at_angle, dimension=128)),
    "cosine, planes of signs, 20 components": Setting(_SIGNS, pairs_of_few, lost=0.03),
    "cosine, sketches only": Setting(
        {"scheme": "hyperplane:dimension=64,evidence=sketch"}, pairs_at_angle
    ),
    "dot product": Setting({"scheme": "hyperplane_dot:dimension=64,norm_max=1.0"}, pairs_at_angle),
    "Euclidean distance": Setting({"scheme": "p_stable:dimension=64,distance_scale=10.0"}, pairs_at_distance),
    "Hamming distance": Setting({"scheme": "bit_sampling:dimension=1000"}, pairs_of_bits),
    "L1 distance": Setting(
        {"scheme": "bit_sampling:dimension=64,component_max=255,distance_scale=4000.0", "measure": "l1"},
        pairs_of_numbers,
    ),
}  # fmt: skip


def emitted(setting: Setting, pairs: int) -> tuple[Config, int]:
    """How many pairs at the threshold are candidates and pass the cut."""
    rng, count = np.random.default_rng(SEED), 0
    together = min(max(1, pairs // _SEEDS_MIN), _PAIRS_A_SEED)
    for first in range(0, pairs, together):
        config = Config(**setting.settings, threshold=THRESHOLD, seed=SEED + first)
        scheme, plan = SCHEMES[config.scheme], config.plan
        sides: list[Evidence] = []
        for side in setting.pairs(rng, min(together, pairs - first), THRESHOLD):
            reading = scheme.features([Document("", vector=vector) for vector in side], plan)
            sides.append(scheme.evidence(reading.features, plan))
        found = scheme.common(sides[0], sides[1], plan)
        # Rounding moves a pair generated on the threshold to either side.
        count += int(((found.keys > 0) & (found.similarity >= config.tuning.score_min - 1e-6)).sum())
    return config, count


def run_recall(size: Size) -> Iterator[Result]:
    """Recall at the threshold, for each measure."""
    pairs = _PAIRS[size]
    for name, setting in SETTINGS.items():
        config, count = emitted(setting, pairs)
        chance = _DEVIATIONS * math.sqrt(config.recall * (1 - config.recall) / pairs)
        details = {
            "shape": f"{config.tuning.bands} x {config.tuning.rows}", "pairs": pairs, "checksum": checksum([count]),
        }  # fmt: skip
        target = Target("at least", config.recall - setting.lost, chance)
        yield Result(RECALL, f"{name}: recall at {THRESHOLD}", count / pairs, "", target, details)


def measure(dimension: int, count: int, repeats: int) -> dict[str, Any]:
    """Seconds of the product, of signing, of documents to batches and of batches to matches; best of ``repeats``."""
    config = Config(scheme="hyperplane", scheme_options={"dimension": dimension}, threshold=THRESHOLD)
    bands, rows = config.tuning.bands, config.tuning.rows
    planes, vectors = normals(bands * rows, dimension, SEED), normals(count, dimension, SEED + 1)
    documents = [Document(f"{i:020}", vector=vector) for i, vector in enumerate(vectors)]
    signer = Signer(config)
    batch = signer.sign(documents).batch
    answers: dict[str, Any] = {}

    def table() -> None:
        answers["matches"] = len(match_step(Matcher(config), batch).older)

    runs: dict[str, Callable[[], object]] = {
        "product": lambda: vectors @ planes.T,
        "sign": lambda: hyperplanes.sign(vectors, bands, rows, config.seed),
        "batch": lambda: signer.sign(documents),
        "table": table,
    }
    for warm_up in runs.values():
        warm_up()
    best = {name: min(times) for name, times in interleaved(runs, dict.fromkeys(runs, repeats)).items()}
    sketch = hyperplanes.sign(vectors, bands, rows, config.seed)
    return {**best, "planes": bands * rows, "checksum": checksum([sketch.tobytes()]), **answers}


def run_speed(size: Size) -> Iterator[Result]:
    """Each runs in a separate process, in which the library of the product has one thread from the start."""
    count = _VECTORS[size]
    for dimension in DIMENSIONS:
        got = in_subprocess("benchmarks.speed.vectors", str(dimension), str(count), str(_REPEATS[size]))
        name = f"{count:,} vectors of {dimension}, {got['planes']} planes"
        cost = {f"{part} us": got[part] / count * 1e6 for part in ("product", "sign", "batch", "table")}
        details = {**cost, "checksum": got["checksum"]}
        yield Result(
            SPEED, f"{name}: signing", got["sign"] / got["product"], "products", Target("at most", RATIO_MAX), details
        )
        stream = (got["batch"] + got["table"]) / (got["product"] + got["table"])
        target = Target("at most", STREAM_RATIO_MAX)
        yield Result(SPEED, f"{name}: documents to matches", stream, "products and tables", target, cost)


SCENARIOS = {SPEED: run_speed, RECALL: run_recall}

if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
