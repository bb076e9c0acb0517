"""The options of schemes of vectors."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from neardup.schemes.parameters import SchemeOptions, one_of
from neardup_textbook.signatures.hyperplanes import PLANES

# Components of a vector at most: so many squares, or products with drawn numbers, have a finite sum.
DIMENSION_MAX = 65_536
# What may be stored of a vector.
VECTOR_EVIDENCE = ("float32", "float16", "sketch")


class VectorOptions(SchemeOptions):
    """The form of vectors, and what is kept of them."""

    dimension: int | None = Field(
        default=None, ge=1, le=DIMENSION_MAX, description="components of a vector; it has no default"
    )
    evidence: Annotated[str, one_of(*VECTOR_EVIDENCE)] = Field(
        default="float32",
        description="what is kept of a vector to score it: float32 (bits and whole numbers as they are), float16, or "
        "sketch (nothing, and the similarity is an estimate)",
    )


class HyperplaneOptions(VectorOptions):
    """How hyperplanes are drawn, too."""

    planes: Annotated[str, one_of(*PLANES)] = Field(
        default="normal",
        description="components of random hyperplanes: " + ", ".join(PLANES) + ", not for vectors "
        "that few components rule",
    )


class DotOptions(HyperplaneOptions):
    """The bound of lengths, too."""

    norm_max: float | None = Field(
        default=None, gt=0, le=1e30, description="greatest length of a vector; it has no default"
    )


class SegmentOptions(VectorOptions):
    """The scale of distances and the segments of lines, too."""

    distance_scale: float | None = Field(
        default=None, gt=0, le=1e30, description="distance from which the similarity is 0; it has no default"
    )
    segment_width: float | None = Field(
        default=None,
        gt=0,
        le=1e30,
        description="width of the segments of lines; by default 4 distances at the threshold",
    )


class SampledOptions(VectorOptions):
    """The form of vectors of whole numbers, too."""

    distance_scale: float | None = Field(
        default=None,
        gt=0,
        le=1e30,
        description="distance from which the similarity is 0, of l1; by default the greatest there is",
    )
    component_max: int | None = Field(
        default=None, ge=1, le=65_535, description="greatest number in a vector of whole numbers, of measure l1"
    )
