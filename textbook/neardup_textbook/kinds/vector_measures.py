"""Measures of vectors: for each, how vectors are read and stored, the family that signs them, and its agreement law.

A measure is a row of ``VECTOR_MEASURES``. Similarities are in [0, 1]:

- ``cosine``: the cosine of the angle, 0 from a right angle on; by hyperplanes;
- ``dot``: x . y / norm_max^2, 0 from 0 down; by hyperplanes too: both vectors get one more coordinate that makes them
  equally long, and the cosine is then at least the similarity (``hyperplanes.lift``). So a pair is found at
  least as often as its S-curve says;
- ``euclidean``: 1 - d / distance_scale, 0 from that distance on; by segments of random lines;
- ``hamming``: 1 - d / dimension, of bits; by sampled bits;
- ``hamming_symbols``: 1 - d / dimension, of any symbols, which documents bring as tokens; by sampled symbols;
- ``l1``: 1 - d / distance_scale, of whole numbers from 0 to component_max; by sampled bits of their unary code.

Source: Mining of Massive Datasets, 3.5 and 3.7; the files of ``neardup.schemes.signatures`` for each family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from neardup.schemes.signatures import banding
from neardup.schemes.theory.curves import AgreementLaw
from neardup.schemes.theory.tuning import BIT_ROW, Tuning
from neardup_textbook.signatures import bit_sampling, hyperplanes, p_stable
from neardup_textbook.vectors import packed_bits, pairwise
from neardup_textbook.vectors.symbol_input import read_symbols
from neardup_textbook.vectors.vector_input import VectorRows, keep, largest, read_bits, read_numbers

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]
Values = npt.NDArray[Any]  # of n vectors: float32[n, d], packed bits uint8[n, ceil(d / 8)], or symbols uint32[n, d]

# The greatest number of float16.
_HALF_MAX = 65504.0
# Lengths this much beyond norm_max, relative, are roundings of float32.
_NORM_SLACK = 1e-6


class VectorPlan(NamedTuple):
    """The resolved parameters of a vector scheme; those that the measure does not use are zero or empty."""

    measure: str
    dimension: int
    vector_evidence: str
    planes: str
    scale: float
    segment_width: float
    component_max: int
    tuning: Tuning
    seed: int
    kind: str

    @property
    def rows(self) -> int:
        """Rows of a sketch: bands times rows a band."""
        return self.tuning.bands * self.tuning.rows

    @property
    def unit(self) -> float:
        """The unit of the scale for stored numbers: half precision stores them in units of the scale."""
        return 1.0 if self.vector_evidence == "float16" else self.scale

    @property
    def sketch_bytes(self) -> int:
        """Bytes of a sketch."""
        tuning = self.tuning
        if tuning.sketch_bits == BIT_ROW:
            return packed_bits.width(tuning.bands, tuning.rows)
        return self.rows * tuning.sketch_bits // 8

    @property
    def stored_type(self) -> np.dtype[np.generic]:
        """Type of a stored component: the smallest type that holds whole numbers; packed bits as they are."""
        row = VECTOR_MEASURES[self.measure]
        if row.symbols:
            return np.dtype("<u4")
        if row.packed or 0 < self.component_max < 256:
            return np.dtype("u1")
        return np.dtype("<u2" if self.component_max else "<f2" if self.vector_evidence == "float16" else "<f4")

    @property
    def stored_bytes(self) -> int:
        """Bytes of the stored vector."""
        if self.vector_evidence == "sketch":
            return 0
        components = -(-self.dimension // 8) if VECTOR_MEASURES[self.measure].packed else self.dimension
        return components * self.stored_type.itemsize

    @property
    def width(self) -> int:
        """Bytes of a sketch and of the vector."""
        return self.sketch_bytes + self.stored_bytes


class VectorMeasure(NamedTuple):
    """A row of ``VECTOR_MEASURES``; arrays have one row a vector."""

    required: tuple[str, ...]  # options that have no default here
    scale: Callable[[Any], float]  # of the similarity
    read: Callable[[Sequence[Any], VectorPlan], VectorRows]
    sketch: Callable[[Values, VectorPlan], Bytes]
    compare: Callable[[Bytes, Bytes, VectorPlan], tuple[Counts, Counts]]  # bands, rows that agree
    agreement: Callable[[VectorPlan], AgreementLaw | None]  # probability that a row agrees, by similarity
    estimate: Callable[[Counts, VectorPlan], Floats]  # similarity from the number of rows that agree
    store: Callable[[Values, VectorPlan], Values]  # the vector as it is stored
    similarity: Callable[[Values, Values, VectorPlan], Floats]  # of stored vectors, in ``float32`` or packed
    evidence_choices: tuple[str, ...]  # the values of ``vector_evidence`` that it supports
    row_bits: int  # bits of a row of the sketch; 0: as many as ``sketch_bits`` says
    planes: bool  # whether the setting ``planes`` has a meaning
    lifted: bool  # whether the sketch depends on the scale
    packed: bool  # whether vectors are packed bits
    unrelated: float  # similarity of unrelated vectors
    symbols: bool = False  # whether components are hashes of symbols
    kind: str = "vector"  # the value of a document that is compared


def _read_directions(vectors: Sequence[Any], plan: VectorPlan) -> VectorRows:
    rows = read_numbers(vectors, plan.dimension)
    return _dense(keep(rows, largest(rows.values) > 0, "vector_zero"), plan)


def _read_bounded(vectors: Sequence[Any], plan: VectorPlan) -> VectorRows:
    rows = read_numbers(vectors, plan.dimension)
    longest = plan.scale * (1 + _NORM_SLACK)
    return _dense(keep(rows, pairwise.dot(rows.values, rows.values) <= longest * longest, "vector_norm"), plan)


def _dense(rows: VectorRows, plan: VectorPlan) -> VectorRows:
    """Refuse the vectors for which planes of plus and minus ones do not keep the recall."""
    if plan.planes != "signs":
        return rows
    return keep(
        rows, hyperplanes.components(rows.values) >= hyperplanes.components_min(plan.tuning.threshold), "vector_sparse"
    )


def _read_points(vectors: Sequence[Any], plan: VectorPlan) -> VectorRows:
    rows = read_numbers(vectors, plan.dimension)
    if plan.vector_evidence != "float16":
        return rows
    return keep(rows, largest(rows.values) <= _HALF_MAX * plan.scale, "vector_half")


def _read_whole(vectors: Sequence[Any], plan: VectorPlan) -> VectorRows:
    rows = read_numbers(vectors, plan.dimension)
    x = rows.values
    return keep(rows, ((x >= 0) & (x <= plan.component_max) & (x == np.floor(x))).all(axis=1), "vector_component")


def _read_packed(vectors: Sequence[Any], plan: VectorPlan) -> VectorRows:
    return read_bits(vectors, plan.dimension)


def _read_symbols(given: Sequence[Any], plan: VectorPlan) -> VectorRows:
    return read_symbols(given, plan.dimension)


def _hyperplane_sketch(values: Values, plan: VectorPlan) -> Bytes:
    return hyperplanes.sign(values, plan.tuning.bands, plan.tuning.rows, plan.seed, plan.planes)


def _lifted_sketch(values: Values, plan: VectorPlan) -> Bytes:
    return _hyperplane_sketch(hyperplanes.lift(values, pairwise.dot(values, values), plan.scale), plan)


def _segment_sketch(values: Values, plan: VectorPlan) -> Bytes:
    segments = p_stable.sign(values, plan.rows, plan.seed, plan.segment_width)
    return banding.sketch(segments.astype(np.uint64), plan.tuning.sketch_bits)


def _bits_sketch(values: Values, plan: VectorPlan) -> Bytes:
    return bit_sampling.sign_bits(values, plan.dimension, plan.tuning.bands, plan.tuning.rows, plan.seed)


def _unary_sketch(values: Values, plan: VectorPlan) -> Bytes:
    return bit_sampling.sign_unary(values, plan.component_max, plan.tuning.bands, plan.tuning.rows, plan.seed)


def _symbols_sketch(values: Values, plan: VectorPlan) -> Bytes:
    return banding.sketch(bit_sampling.sign_symbols(values, plan.rows, plan.seed), plan.tuning.sketch_bits)


def _compare_bits(a: Bytes, b: Bytes, plan: VectorPlan) -> tuple[Counts, Counts]:
    return packed_bits.agreement(a, b, plan.tuning.bands, plan.tuning.rows)


def _compare_rows(a: Bytes, b: Bytes, plan: VectorPlan) -> tuple[Counts, Counts]:
    return banding.agreement(a, b, plan.tuning.bands, plan.tuning.sketch_bits)


class SegmentAgreement(NamedTuple):
    """The probability that two vectors are in one segment, by their similarity."""

    scale: float
    width: float

    def __call__(self, s: Floats) -> npt.ArrayLike:
        """The chance at similarities ``s`` (0 to 1, any shape)."""
        return p_stable.agreement((1 - s) * self.scale, self.width)


class UnaryAgreement(NamedTuple):
    """The probability that two vectors agree in a bit of their unary codes, by their similarity."""

    scale: float
    bits: int

    def __call__(self, s: Floats) -> npt.ArrayLike:
        """The chance at similarities ``s`` (0 to 1, any shape)."""
        return 1 - (1 - s) * self.scale / self.bits


def _segment_agreement(plan: VectorPlan) -> AgreementLaw:
    return cast(AgreementLaw, SegmentAgreement(plan.scale, plan.segment_width))  # a tuple, which is compared by value


def _unary_agreement(plan: VectorPlan) -> AgreementLaw:
    return cast(AgreementLaw, UnaryAgreement(plan.scale, plan.dimension * plan.component_max))


def _estimate_cosine(equal: Counts, plan: VectorPlan) -> Floats:
    return np.clip(hyperplanes.cosine(equal / plan.rows), 0.0, 1.0)


def _estimate_equal(equal: Counts, plan: VectorPlan) -> Floats:
    return np.asarray(equal / plan.rows)


def _estimate_symbols(equal: Counts, plan: VectorPlan) -> Floats:
    return banding.estimate(equal, plan.rows, plan.tuning.sketch_bits)


def _estimate_l1(equal: Counts, plan: VectorPlan) -> Floats:
    return np.clip(1 - (1 - equal / plan.rows) * plan.dimension * plan.component_max / plan.scale, 0.0, 1.0)


def _estimate_euclidean(equal: Counts, plan: VectorPlan) -> Floats:
    return _similarities(plan.rows, plan.tuning.sketch_bits, plan.segment_width, plan.scale)[equal]


@lru_cache(maxsize=8)
def _similarities(rows: int, bits: int, width: float, scale: float) -> Floats:
    """The similarity at which 0 to ``rows`` rows are expected to agree, by their segments or by chance."""
    whole = banding.estimate(np.arange(rows + 1, dtype=np.int32), rows, bits)
    return np.clip(1 - p_stable.distances(whole, width) / scale, 0.0, 1.0)


def _store_direction(values: Values, plan: VectorPlan) -> Values:
    if plan.vector_evidence != "float16":
        return values
    return values / np.sqrt(pairwise.dot(values, values))[:, None]


def _store_scaled(values: Values, plan: VectorPlan) -> Values:
    return values / plan.scale if plan.vector_evidence == "float16" else values


def _store_as_is(values: Values, plan: VectorPlan) -> Values:
    del plan
    return values


def _cosine(a: Values, b: Values, plan: VectorPlan) -> Floats:
    del plan
    return np.maximum(pairwise.cosine(a, b), 0.0)


def _dot(a: Values, b: Values, plan: VectorPlan) -> Floats:
    return np.clip(pairwise.dot(a, b) / plan.unit**2, 0.0, 1.0)


def _euclidean(a: Values, b: Values, plan: VectorPlan) -> Floats:
    return np.maximum(1 - pairwise.euclidean(a, b) / plan.unit, 0.0)


def _hamming(a: Values, b: Values, plan: VectorPlan) -> Floats:
    return np.asarray(1 - pairwise.hamming(a, b) / plan.dimension)


def _symbols(a: Values, b: Values, plan: VectorPlan) -> Floats:
    return np.asarray(np.count_nonzero(a == b, axis=1) / plan.dimension)


def _l1(a: Values, b: Values, plan: VectorPlan) -> Floats:
    return np.maximum(1 - pairwise.manhattan(a, b) / plan.scale, 0.0)


_COSINE = VectorMeasure(
    required=("dimension",),
    scale=lambda o: 1.0,
    read=_read_directions,
    sketch=_hyperplane_sketch,
    compare=_compare_bits,
    agreement=lambda plan: hyperplanes.agreement,
    estimate=_estimate_cosine,
    store=_store_direction,
    similarity=_cosine,
    evidence_choices=("float32", "float16", "sketch"),
    row_bits=BIT_ROW,
    planes=True,
    lifted=False,
    packed=False,
    unrelated=0.0,
)
_HAMMING = VectorMeasure(
    required=("dimension",),
    scale=lambda o: float(o.dimension or 0),
    read=_read_packed,
    sketch=_bits_sketch,
    compare=_compare_bits,
    agreement=lambda plan: None,
    estimate=_estimate_equal,
    store=_store_as_is,
    similarity=_hamming,
    evidence_choices=("float32", "sketch"),
    row_bits=BIT_ROW,
    planes=False,
    lifted=False,
    packed=True,
    unrelated=0.5,
)
VECTOR_MEASURES: dict[str, VectorMeasure] = {
    "cosine": _COSINE,
    "dot": _COSINE._replace(
        required=("dimension", "norm_max"),
        scale=lambda o: o.norm_max or 0.0,
        read=_read_bounded,
        sketch=_lifted_sketch,
        store=_store_scaled,
        similarity=_dot,
        lifted=True,
        evidence_choices=("float32", "float16"),
    ),
    "euclidean": VectorMeasure(
        required=("dimension", "distance_scale"),
        scale=lambda o: o.distance_scale or 0.0,
        read=_read_points,
        sketch=_segment_sketch,
        compare=_compare_rows,
        agreement=_segment_agreement,
        estimate=_estimate_euclidean,
        store=_store_scaled,
        similarity=_euclidean,
        evidence_choices=("float32", "float16", "sketch"),
        row_bits=0,
        planes=False,
        lifted=False,
        packed=False,
        unrelated=0.0,
    ),
    "hamming": _HAMMING,
    "hamming_symbols": _HAMMING._replace(
        read=_read_symbols,
        sketch=_symbols_sketch,
        compare=_compare_rows,
        estimate=_estimate_symbols,
        similarity=_symbols,
        row_bits=0,
        packed=False,
        unrelated=0.0,
        symbols=True,
        kind="tokens",
    ),
    "l1": _HAMMING._replace(
        required=("dimension", "component_max"),
        scale=lambda o: o.distance_scale or float((o.dimension or 0) * (o.component_max or 0)),
        read=_read_whole,
        sketch=_unary_sketch,
        agreement=_unary_agreement,
        estimate=_estimate_l1,
        similarity=_l1,
        packed=False,
        unrelated=0.0,
    ),
}
