"""``SCHEMES``: every way to find near-duplicates, one row each, plain functions and a guarantee.

Document -> features -> evidence -> keys -> (table) -> candidates -> common, score -> pair.

A row says how features become evidence, evidence becomes bucket keys, and what two pieces of evidence say of a pair.
The table, the pipeline and the workers know nothing else of a scheme. ``tests/laws`` runs every law on every row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream import banding
from stream.hashing import hash_bags
from stream.normalize import CodePoints
from stream.shingles import SHINGLES, Shingles
from stream.signatures import minhash, one_permutation
from stream.tuning import Tuning


class Plan(NamedTuple):
    """What a configuration resolves to; the argument of every function of a scheme beside its data."""

    shingles: str
    k: int
    languages: tuple[str, ...]
    tuning: Tuning
    seed: int

    @property
    def signature_rows(self) -> int:
        """Rows of a signature: bands times rows a band."""
        return self.tuning.bands * self.tuning.rows


class Common(NamedTuple):
    """What pairs of evidence share: first common key (-1: none), number of shared keys, similarity in [0, 1]."""

    first_key: npt.NDArray[np.int32]
    keys: npt.NDArray[np.int32]
    similarity: npt.NDArray[np.float64]


Evidence = npt.NDArray[np.uint8]


class Scheme(NamedTuple):
    """One row of ``SCHEMES``; see the module. Arrays have one row an item."""

    features: Callable[[CodePoints, Plan], Shingles]
    contents: Callable[[Shingles], npt.NDArray[np.uint64]]  # 128-bit hash of the features, uint64[n, 2]
    evidence: Callable[[Shingles, Plan], Evidence]  # uint8[n, width]
    width: Callable[[Plan], int]  # bytes of evidence of an item
    keys: Callable[[Evidence, Plan], npt.NDArray[np.uint64]]  # bucket keys, uint64[n, b]
    common: Callable[[Evidence, Evidence, Plan], Common]
    by_content: bool  # whether equal features are the same content, which is linked and not compared
    guarantee: str


def shingle_features(codes: CodePoints, plan: Plan) -> Shingles:
    """The shingles of the plan's kind."""
    return SHINGLES[plan.shingles](codes, plan.k, plan.languages)


def bag_contents(features: Shingles) -> npt.NDArray[np.uint64]:
    """Content hashes ``uint64[n, 2]``: equal for texts with the same bag of shingles."""
    out = np.empty((len(features.starts) - 1, 2), np.uint64)
    hash_bags(features.values, features.starts, out)
    return out


def one_permutation_evidence(features: Shingles, plan: Plan) -> Evidence:
    """Sketches of one-permutation signatures."""
    signatures = one_permutation.sign(features.values, features.starts, plan.signature_rows, plan.seed)
    return banding.sketch(signatures, plan.tuning.sketch_bits)


def minhash_evidence(features: Shingles, plan: Plan) -> Evidence:
    """Sketches of MinHash signatures."""
    signatures = minhash.sign(features.values, features.starts, plan.signature_rows, plan.seed)
    return banding.sketch(signatures, plan.tuning.sketch_bits)


def sketch_width(plan: Plan) -> int:
    """Bytes of a sketch."""
    return plan.signature_rows * plan.tuning.sketch_bits // 8


def band_keys(evidence: Evidence, plan: Plan) -> npt.NDArray[np.uint64]:
    """A key for each band of the sketches."""
    return banding.keys(evidence, plan.tuning.bands, plan.seed)


def sketch_common(a: Evidence, b: Evidence, plan: Plan) -> Common:
    """First common band, number of common bands, similarity estimated from the equal rows of two sketches."""
    found = banding.agreement(a, b, plan.tuning.bands, plan.tuning.sketch_bits)
    similarity = banding.estimate(found.rows, plan.signature_rows, plan.tuning.sketch_bits)
    return Common(found.first_band, found.bands, similarity)


_S_CURVE = (
    "candidate with probability 1 - (1 - q^r)^b, where q = s + (1 - s) 2^-w; emitted if the estimate passes the cut"
)

SCHEMES: dict[str, Scheme] = {
    "one_permutation": Scheme(
        features=shingle_features,
        contents=bag_contents,
        evidence=one_permutation_evidence,
        width=sketch_width,
        keys=band_keys,
        common=sketch_common,
        by_content=True,
        guarantee=_S_CURVE,
    ),
    "minhash": Scheme(
        features=shingle_features,
        contents=bag_contents,
        evidence=minhash_evidence,
        width=sketch_width,
        keys=band_keys,
        common=sketch_common,
        by_content=True,
        guarantee=_S_CURVE,
    ),
}
