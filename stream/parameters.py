"""``Parameters``: every choice and every limit as one flat model, with its bounds; what schemes make their plans from.

Flat, so that each field is one option of the command line, one line of TOML and one variable of the environment. The
rules between several fields stand with the scheme that knows them, in its ``plan``; ``Config`` validates.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from stream.shingles import SHINGLES
from stream.tuning import ROWS_LIMIT

# Seconds: 3,170 years. In microseconds it leaves room for sums of times in 64 bits.
_SECONDS_MAX = 1e11


class Parameters(BaseModel):
    """What to find and within which limits. Every field has a default."""

    shingles: str = Field("chars", description="what is compared: " + ", ".join(SHINGLES))
    k: int | None = Field(
        None, ge=1, le=100, description="characters or words a shingle; by default 5 characters or 3 words"
    )
    languages: tuple[str, ...] = Field(("en",), description="stop lists of the stopwords shingles, by language code")
    nfkc: bool = Field(True, description="normalise texts to Unicode NFKC")
    fold_case: bool = Field(True, description="fold the case of texts")
    fold_space: bool = Field(True, description="take a run of white space as one blank, none at the ends")
    threshold: float = Field(0.8, ge=0.05, le=1.0, description="similarity from which two documents are a pair")
    recall: float = Field(0.95, gt=0.0, lt=1.0, description="probability that a pair at the threshold is emitted")
    min_similarity: float | None = Field(
        None,
        ge=0.0,
        le=1.0,
        description="estimate from which a candidate is emitted; by default chosen for the recall",
    )
    rows_max: int = Field(
        128, ge=1, le=ROWS_LIMIT, description="rows of a signature at most: time and memory for accuracy"
    )
    bands: int | None = Field(None, ge=1, le=ROWS_LIMIT, description="bands; by default chosen for the recall")
    rows: int | None = Field(None, ge=1, le=ROWS_LIMIT, description="rows a band; by default chosen for the recall")
    seed: int = Field(1, ge=0, le=2**63 - 1, description="seed of every hash function")
    sketch_bits: int = Field(8, description="bits kept of each row: 8, 16 or 32")
    window_seconds: float | None = Field(
        None,
        gt=0,
        le=_SECONDS_MAX,
        description="two documents may pair when their times differ by at most this",
    )
    lateness_seconds: float = Field(
        0.0,
        ge=0,
        le=_SECONDS_MAX,
        description="how late a document may come and still meet all of its window",
    )
    window_documents: int = Field(
        1_000_000, ge=1, le=2**30, description="documents held at most; the oldest are evicted first"
    )
    bucket_candidates_max: int = Field(
        256, ge=1, le=2**20, description="candidates taken from one bucket at most, the newest first"
    )
    probe_candidates_max: int | None = Field(
        None, ge=1, le=2**30, description="candidates after which a probe stops, over all buckets; by default none"
    )
    buckets_shared_min: int = Field(
        1, ge=1, le=ROWS_LIMIT, description="buckets in which two documents must meet before they are a pair"
    )
    evidence_bytes_max: int = Field(
        2 << 30,
        ge=1 << 20,
        le=1 << 42,
        description="bytes of ids and ragged evidence in the window at most; the oldest documents are evicted first",
    )
    text_characters_max: int = Field(5_000_000, ge=1, le=2**28, description="characters of a text at most")
    id_bytes_max: int = Field(1024, ge=1, le=65535, description="bytes of an id in UTF-8 at most")
