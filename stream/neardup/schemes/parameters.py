"""``Parameters``: all settings as one flat model with bounds; schemes make their plans from it.

It is flat, so each field is one option of the command line, one line of TOML and one environment variable. A scheme
checks the rules between several fields in its ``plan``; ``Config`` runs all checks.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from neardup.features.texts.normalize import FOLDS
from neardup.features.texts.shingles import SHINGLES
from neardup.schemes.theory.tuning import ROWS_LIMIT

# Seconds: 3,170 years. In microseconds it leaves room for sums of times in 64 bits.
_SECONDS_MAX = 1e11
# What the similarity of a candidate is computed from: two sketches, or the elements themselves.
VERIFICATIONS = ("sketch", "exact")
# When a document may be dropped: by overlap alone, if it has no new number, or if all that it says was said.
NOVELTIES = ("off", "numbers", "words")
# The keys of ``VECTOR_MEASURES`` of ``neardup_textbook.kinds.vector_measures``, which is loaded with its schemes.
VECTOR_MEASURE_NAMES = ("cosine", "dot", "euclidean", "hamming", "hamming_symbols", "l1")


def one_of(*values: object) -> AfterValidator:
    """Return the rule of an option that has one of a few values."""

    def check(value: object) -> object:
        if value not in values:
            raise ValueError(f"must be one of {', '.join(map(str, values))}")
        return value

    return AfterValidator(check)


class SchemeOptions(BaseModel):
    """The options of a scheme: settings that no other kind of scheme has. A kind with options derives its table."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    # Options whose values stand in files of their own: a text of options has the path.
    in_files: ClassVar[tuple[str, ...]] = ()


class Parameters(BaseModel):
    """What to find, and within which limits. Every field has a default."""

    # The validators of a model take longer to make than its class, and a program uses one of the models derived here.
    model_config = ConfigDict(defer_build=True)

    shingles: str = Field(default="chars", description="what is compared: " + ", ".join(SHINGLES))
    k: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="characters, words or parts of a URL in a shingle; by default 5 characters, 3 words, 2 parts",
    )
    measure: str | None = Field(
        default=None,
        description="what similarity is: jaccard (the default), jaccard_bag, jaccard_bag_sum or containment of sets; "
        "cosine, dot, euclidean, hamming, hamming_symbols or l1 of vectors, where the scheme decides",
    )
    verify: str = Field(
        default="sketch",
        description="how the similarity of a candidate is computed: sketch (estimated from two sketches), exact (from "
        "its elements, which are then kept, shingle_bytes each)",
    )
    novelty: str = Field(
        default="off",
        description="what a dropped document must not have that the one it repeats lacks: off (anything), numbers, "
        "words (numbers, and more than an eighth of its words, by weight)",
    )
    languages: tuple[str, ...] = Field(
        default=("en",), description="stop lists of the stopwords shingles, by language code"
    )
    stop_words: tuple[str, ...] | None = Field(
        default=None,
        description="stop words of your own, one word a line: of the stopwords shingles instead of the lists of "
        "languages, of the urls shingles instead of htm, index and the like",
    )
    fold: tuple[str, ...] = Field(
        default=FOLDS,
        description="what is not distinguished in texts, or none: nfkc (Unicode NFKC), case, space (white space is one "
        "blank, none at the ends)",
    )
    threshold: float = Field(default=0.8, ge=0.05, le=1.0, description="similarity from which two documents are a pair")
    recall: float = Field(
        default=0.95, gt=0.0, lt=1.0, description="probability that a pair at the threshold is emitted"
    )
    min_similarity: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="estimate from which a candidate is emitted; by default chosen for the recall",
    )
    false_weight: float | None = Field(
        default=None,
        gt=0.0,
        lt=1.0,
        description="weight of false pairs against missed ones, which have the rest; then it chooses bands, rows and "
        "cut, not the recall",
    )
    rows_max: int = Field(
        default=128,
        ge=1,
        le=ROWS_LIMIT,
        description="rows of a signature at most: time and memory for accuracy; of vectors 512 by default",
    )
    bands: int | None = Field(default=None, ge=1, le=ROWS_LIMIT, description="bands; by default chosen for the recall")
    rows: int | None = Field(
        default=None, ge=1, le=ROWS_LIMIT, description="rows a band; by default chosen for the recall"
    )
    seed: int = Field(default=1, ge=0, le=2**63 - 1, description="seed of every hash function")
    sketch_bits: int | None = Field(
        default=None, description="bits kept of each row: 8, 16 or 32; by default 8, or 16 where the recall needs them"
    )
    characters_min: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="characters of a normalised text at least; shorter texts are compared for equality only",
    )
    window_seconds: float | None = Field(
        default=None,
        gt=0,
        le=_SECONDS_MAX,
        description="two documents may pair when their times differ by at most this",
    )
    lateness_seconds: float = Field(
        default=0.0,
        ge=0,
        le=_SECONDS_MAX,
        description="how late a document may come and still meet all of its window",
    )
    story_seconds_max: float = Field(
        default=2_592_000.0,
        gt=0,
        le=_SECONDS_MAX,
        description="a story ends at most so long after it began; at least the window",
    )
    window_documents: int = Field(
        default=1_000_000, ge=1, le=2**30, description="documents held at most; the oldest are evicted first"
    )
    bucket_candidates_max: int = Field(
        default=256,
        ge=1,
        le=2**20,
        description="candidates taken from one bucket at most: three in four are the newest, the others the oldest",
    )
    probe_candidates_max: int | None = Field(
        default=None, ge=1, le=2**30, description="candidates after which a probe stops, over all buckets"
    )
    buckets_shared_min: int = Field(
        default=1, ge=1, le=ROWS_LIMIT, description="buckets in which two documents must meet before they are a pair"
    )
    evidence_bytes_max: int = Field(
        default=2 << 30,
        ge=1 << 20,
        le=1 << 42,
        description="bytes of ids and ragged evidence in the window at most; the oldest documents are evicted first",
    )
    text_characters_max: int = Field(default=5_000_000, ge=1, le=2**28, description="characters of a text at most")
    collection_field: str | None = Field(
        default=None,
        description="name of the collection in JSON Lines and tables; documents of different ones never meet",
    )
