"""Schemes of vectors: sketches find the candidates, the vectors themselves score them.

Evidence is the sketch and, unless option ``evidence`` is ``sketch``, the vector after it: then the similarity is the
true one, and no pair below the threshold is emitted. ``VECTOR_MEASURES`` has what differs between measures.

Source: Mining of Massive Datasets, 3.7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document, Features
from neardup.errors import ConfigError
from neardup.schemes.interface import Common, Evidence, Keys, Reading, Scheme, fixed_evidence, regular_keys
from neardup.schemes.parameters import Parameters
from neardup.schemes.signatures import banding
from neardup.schemes.theory.tuning import SKETCH_BITS, Tuning, choose, complete
from neardup.schemes.theory.weighing import weigh
from neardup_textbook.kinds.vector_measures import VECTOR_MEASURES, Values, VectorPlan
from neardup_textbook.kinds.vector_options import (
    VECTOR_EVIDENCE,
    DotOptions,
    HyperplaneOptions,
    SampledOptions,
    SegmentOptions,
)
from neardup_textbook.signatures.hyperplanes import PLANES

# Default of rows_max: a row of one bit holds less information than a row of a set, so few false candidates need more
# rows.
ROWS_MAX = 512
# Default width of a segment, in distances at the threshold: wider segments gain nothing (Datar et al., figure 1).
SEGMENT_DISTANCES = 4.0
# Pairs are scored in portions whose evidence takes so many bytes on one side: a portion stays in the cache.
_SCORED_BYTES = 1 << 20
# Segments are at most so many times as wide as distance_scale: a row of wider segments agrees for nearly every pair.
SEGMENT_SCALES_MAX = 1_000_000
# Parameters that a measure needs -> what to set them to.
_REMEDIES = {
    "dimension": "the number of components of a vector",
    "distance_scale": "the distance from which two vectors have nothing in common",
    "norm_max": "the greatest length of a vector",
    "component_max": "the greatest number in a vector",
}


def plan_of(*measures: str) -> Callable[[Parameters, Any], VectorPlan]:
    """Return the ``plan`` of a scheme with these measures; the first is the default."""

    def plan(p: Parameters, o: Any) -> VectorPlan:
        measure = measures[0] if p.measure is None else p.measure
        if measure not in measures:
            raise ConfigError(f"measure={measure!r} is not a measure of this scheme: set {' or '.join(measures)}")
        _check(o, measure)
        row = VECTOR_MEASURES[measure]
        untuned = VectorPlan(
            measure=measure,
            dimension=o.dimension or 0,
            vector_evidence=o.evidence,
            planes=o.planes if row.planes else "",
            scale=row.scale(o),
            segment_width=_segment_width(p, o, row.scale(o)) if "distance_scale" in row.required else 0.0,
            component_max=o.component_max or 0 if "component_max" in row.required else 0,
            tuning=complete(p.threshold),
            seed=p.seed,
            kind=row.kind,
        )
        return untuned._replace(tuning=_tuned(p, untuned))

    return plan


def features(documents: Sequence[Document], plan: VectorPlan) -> Reading:
    """Return the usable vectors, and the refusals."""
    rows = VECTOR_MEASURES[plan.measure].read([getattr(document, plan.kind) for document in documents], plan)
    count, width = rows.values.shape
    return Reading(Features(rows.values.reshape(-1), np.arange(count + 1) * width), rows.refused, 0)


def contents(features: Features) -> npt.NDArray[np.uint64]:
    """Content hashes ``uint64[n, 2]``: equal for equal vectors."""
    digests = b"".join(map(mmh3.mmh3_x64_128_digest, _rows(features)))
    return np.frombuffer(digests, "<u8").reshape(-1, 2).astype(np.uint64)


def evidence(features: Features, plan: VectorPlan) -> Evidence:
    """Return the sketch of each vector, followed by the vector if it is stored."""
    row, values = VECTOR_MEASURES[plan.measure], _rows(features)
    sketch = row.sketch(values, plan)
    if plan.vector_evidence == "sketch":
        return fixed_evidence(sketch)
    stored = np.ascontiguousarray(row.store(values, plan), plan.stored_type).view(np.uint8)
    return fixed_evidence(np.hstack([sketch, stored.reshape(len(values), plan.stored_bytes)]))


def keys(evidence: Evidence, plan: VectorPlan) -> Keys:
    """A key for each band of the sketches."""
    sketches = np.ascontiguousarray(evidence.fixed[:, : plan.sketch_bytes])
    return regular_keys(banding.keys(sketches, plan.tuning.bands, plan.seed))


def common(a: Evidence, b: Evidence, plan: VectorPlan) -> Common:
    """The number of common bands; the true similarity, or its estimate without stored vectors."""
    row, at, count = VECTOR_MEASURES[plan.measure], plan.sketch_bytes, len(a.fixed)
    together, similarity = np.empty(count, np.int32), np.empty(count)
    pairs = max(1, _SCORED_BYTES // a.fixed.shape[1])
    for start in range(0, count, pairs):
        part = slice(start, start + pairs)
        x, y = a.fixed[part], b.fixed[part]
        together[part], equal = row.compare(x[:, :at], y[:, :at], plan)
        if plan.vector_evidence == "sketch":
            similarity[part] = row.estimate(equal, plan)
        else:
            similarity[part] = row.similarity(_stored(x[:, at:], plan), _stored(y[:, at:], plan), plan)
    return Common(together, np.ones(count, np.bool_), similarity)


def signing(plan: VectorPlan) -> tuple[object, ...]:
    """Return what decides sketches, bands and the stored vector."""
    tuning = plan.tuning
    scale = plan.scale if VECTOR_MEASURES[plan.measure].lifted or plan.vector_evidence == "float16" else 0.0
    parts = (
        plan.measure,
        plan.dimension,
        plan.vector_evidence,
        plan.planes,
        scale,
        plan.segment_width,
        plan.component_max,
    )
    return (*parts, tuning.bands, tuning.rows, tuning.sketch_bits, plan.seed)


def scoring(plan: VectorPlan) -> tuple[object, ...]:
    """Return what decides the similarity in addition to the evidence."""
    return (plan.scale,)


def _check(o: Any, measure: str) -> None:
    """Raises ``ConfigError`` for a missing parameter that the measure needs, and for parameters that do not fit."""
    row = VECTOR_MEASURES[measure]
    for name in row.required:
        if getattr(o, name) is None:
            raise ConfigError(
                f"option {name} is not set, but the measure {measure} needs it: set it to {_REMEDIES[name]}"
            )
    if o.evidence not in row.evidence_choices:
        raise ConfigError(
            f"evidence={o.evidence!r} with the measure {measure}, which has "
            f"{' and '.join(row.evidence_choices)}: set one of them"
        )
    most = (o.dimension or 0) * (o.component_max or 0) if measure == "l1" else 0
    if measure == "l1" and row.scale(o) > most:
        raise ConfigError(
            f"distance_scale={o.distance_scale} is more than {most}, the greatest distance of {o.dimension} numbers up "
            f"to {o.component_max}: set it to {most} or less"
        )


def _segment_width(p: Parameters, o: SegmentOptions, scale: float) -> float:
    if o.segment_width is not None:
        if o.segment_width > SEGMENT_SCALES_MAX * scale:
            raise ConfigError(
                f"segment_width={o.segment_width:g} is more than {SEGMENT_SCALES_MAX:,} times distance_scale "
                f"({scale:g}), so nearly all vectors fall into one segment: leave it out, or set it to some distances "
                "between near-duplicates"
            )
        return o.segment_width
    if p.threshold >= 1:
        raise ConfigError(
            "threshold=1.0 is a distance of 0, from which no width of a segment follows: set segment_width, or a "
            "threshold below 1, or use scheme identical"
        )
    return SEGMENT_DISTANCES * (1 - p.threshold) * scale


def _tuned(p: Parameters, plan: VectorPlan) -> Tuning:
    row = VECTOR_MEASURES[plan.measure]
    given = p.rows_max  # read in any case, because a setting that the plan does not read is refused
    rows_max = given if "rows_max" in p.model_fields_set else ROWS_MAX
    shape = rows_max, row.row_bits or p.sketch_bits or SKETCH_BITS[0], p.bands, p.rows, p.min_similarity
    law, exact, met = row.agreement(plan), plan.vector_evidence != "sketch", p.buckets_shared_min
    if p.false_weight is not None:
        return weigh(p.false_weight, p.threshold, *shape, agreement=law, exact_score=exact, bands_min=met)
    unrelated = row.unrelated if row.unrelated < p.threshold else 0.0
    return choose(p.threshold, p.recall, *shape, agreement=law, exact_score=exact, unrelated=unrelated, bands_min=met)


def _rows(features: Features) -> Values:
    """The vectors as rows of a matrix."""
    count = len(features.starts) - 1
    return features.values.reshape(count, len(features.values) // max(count, 1))


def _stored(data: npt.NDArray[np.uint8], plan: VectorPlan) -> Values:
    """Stored vectors as the measure reads them: ``float32``, or packed bits and symbols as they are."""
    values = np.ascontiguousarray(data).view(plan.stored_type)
    row = VECTOR_MEASURES[plan.measure]
    return values if row.packed or row.symbols else values.astype(np.float32, copy=False)


def sample(text: str, plan: VectorPlan) -> Document:
    """A vector of zeros and ones, which every measure accepts; scaled if the measure has ``norm_max``."""
    bits = [1] * plan.dimension
    for position, character in enumerate(text):
        bits[(ord(character) + position) % plan.dimension] = ord(character) % 2
    bits[0] = 1  # a vector of zeros has no direction
    length = plan.scale / plan.dimension**0.5 if VECTOR_MEASURES[plan.measure].lifted else 1.0
    return Document("", vector=[bit * length for bit in bits], tokens=bits)


def shortened(document: Document, plan: VectorPlan) -> Document:
    """Scale the vector of a query to the length ``norm_max`` if it is longer: the order of its neighbours is the same.

    Its similarities are the similarities of the scaled vector. An invalid vector does not change: reading refuses it.
    """
    vector = document.vector
    try:
        values = np.frombuffer(vector, "<f4") if isinstance(vector, bytes) else np.asarray(vector, np.float64)
    except (TypeError, ValueError):
        return document
    length = float(np.linalg.norm(values)) if values.ndim == 1 else 0.0
    if not plan.scale < length < np.inf:
        return document
    return document._replace(vector=np.asarray(values * (plan.scale / length), np.float64))


_DIMENSION: dict[str, Any] = {"dimension": 24}
_Q = "candidate with probability 1 - (1 - q^r)^b, where q "
_EMITTED = "; emitted if its similarity is at or above the threshold"
HYPERPLANE = Scheme(
    plan_of("cosine"), features, contents, evidence, keys, common, signing,
    by_content=True,
    exact=False,
    options=HyperplaneOptions,
    guarantee=_Q + "= 1 - angle / 180" + _EMITTED,
    scoring=scoring,
    sample=sample,
    examples=(
        *({"scheme_options": {**_DIMENSION, "evidence": choice}} for choice in VECTOR_EVIDENCE),
        *({"scheme_options": {"dimension": 64, "planes": planes}} for planes in PLANES),  # signs need 16 ones
    ),
)  # fmt: skip
# The dot product of a vector with itself is the square of its length, so a copy is compared like any other.
HYPERPLANE_DOT = HYPERPLANE._replace(
    plan=plan_of("dot"),
    query=shortened,
    by_content=False,
    guarantee="candidate with at least the probability of hyperplanes, of the angle whose cosine is the similarity",
    examples=({"scheme_options": {**_DIMENSION, "norm_max": 10.0}, "threshold": 0.05},),
    options=DotOptions,
)
P_STABLE = HYPERPLANE._replace(
    plan=plan_of("euclidean"),
    guarantee=_Q + "is the chance that two points at their distance share a segment of a random line" + _EMITTED,
    examples=({"scheme_options": {**_DIMENSION, "distance_scale": 10.0}, "threshold": 0.5},),
    options=SegmentOptions,
)
BIT_SAMPLING = HYPERPLANE._replace(
    plan=plan_of("hamming", "l1", "hamming_symbols"),
    guarantee=_Q + "is the share of equal bits, of the vectors or of their unary codes, or of equal symbols" + _EMITTED,
    examples=(
        {"scheme_options": _DIMENSION, "threshold": 0.5},
        {"scheme_options": _DIMENSION, "threshold": 0.5, "measure": "hamming_symbols"},
        *(
            {
                "scheme_options": {**_DIMENSION, "component_max": most, "distance_scale": 10.0},
                "measure": "l1",
                "threshold": 0.5,
            }
            for most in (1, 1000)
        ),
    ),
    options=SampledOptions,
)
