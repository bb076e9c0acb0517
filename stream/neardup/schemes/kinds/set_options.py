"""The options of schemes of sets, and what is equal for those that estimate."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from neardup.features.tokens.elements import RATINGS
from neardup.schemes.parameters import SchemeOptions, one_of

# Bytes of a hashed shingle.
SHINGLE_BYTES = (4, 8)
S_CURVE = (
    "candidate with probability 1 - (1 - q^r)^b, where q = s + (1 - s) 2^-w; emitted if the estimate passes the cut"
)
# Measured on real sets (scenario S12-truncation): with the limit of a bucket it costs nothing at thresholds .8 and .6,
# and .00003 of the pairs at .5, where 128 cost .08. A flood of near-copies reaches the limit of a bucket first.
PROBE_CANDIDATES_MAX = 1_024


class TokenOptions(SchemeOptions):
    """How ratings of tokens become elements."""

    ratings: Annotated[str, one_of(*RATINGS)] = Field(default="ignore_low", description=
        "what ratings of tokens become: " + ", ".join(RATINGS))  # fmt: skip
    rating_high_min: float = Field(default=3.0, ge=0.0, le=1000.0, description="the least rating that is not low")
    rating_max: float = Field(default=5.0, ge=1.0, le=1000.0, description="the greatest rating allowed; the least is 0")


class SetOptions(TokenOptions):
    """How elements are stored, too."""

    shingle_bytes: Annotated[int, one_of(*SHINGLE_BYTES)] = Field(default=8, description=
        "bytes of a hashed shingle: 8, or 4 for half the memory of verification")  # fmt: skip
