"""``Parameters``: all settings as one flat model with bounds; schemes make their plans from it.

It is flat, so each field is one option of the command line, one line of TOML and one environment variable. A scheme
checks the rules between several fields in its ``plan``; ``Config`` runs all checks.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf

from neardup.features.texts.shingles import SHINGLES
from neardup.features.tokens.elements import RATINGS
from neardup.features.tokens.token_order import TokenOrder
from neardup.schemes.theory.tuning import ROWS_LIMIT

# Seconds: 3,170 years. In microseconds it leaves room for sums of times in 64 bits.
_SECONDS_MAX = 1e11
# What the similarity of a candidate is computed from: two sketches, or the elements themselves.
VERIFICATIONS = ("sketch", "exact")
# Bytes of a hashed shingle.
SHINGLE_BYTES = (4, 8)
# Components of a vector at most: so many squares, or products with drawn numbers, have a finite sum.
DIMENSION_MAX = 65_536
# What may be stored of a vector.
VECTOR_EVIDENCE = ("float32", "float16", "sketch")
# The keys of tables that are loaded with the schemes of vectors: ``PLANES`` of
# ``neardup_textbook.signatures.hyperplanes``, and ``VECTOR_MEASURES`` of ``neardup_textbook.kinds.vector_measures``.
PLANE_COMPONENTS = ("normal", "signs")
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
    shingle_bytes: int = Field(
        default=8, description="bytes of a hashed shingle: 8, or 4 for half the memory of verification"
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
    groups: int = Field(
        default=8,
        ge=1,
        le=ROWS_LIMIT,
        description="parts of the universe of which partial_minhash looks at one for a row",
    )
    ratings: str = Field(default="ignore_low", description="what ratings of tokens become: " + ", ".join(RATINGS))
    rating_high_min: float = Field(default=3.0, ge=0.0, le=1000.0, description="the least rating that is not low")
    rating_max: float = Field(default=5.0, ge=1.0, le=1000.0, description="the greatest rating allowed; the least is 0")
    tokens_max: int = Field(default=1_000_000, ge=1, le=2**28, description="tokens of a document at most")
    languages: tuple[str, ...] = Field(
        default=("en",), description="stop lists of the stopwords shingles, by language code"
    )
    stop_words: tuple[str, ...] | None = Field(
        default=None,
        description="stop words of your own, one word a line: of the stopwords shingles instead of the lists of "
        "languages, of the urls shingles instead of htm, index and the like",
    )
    nfkc: bool = Field(default=True, description="normalise texts to Unicode NFKC")
    fold_case: bool = Field(default=True, description="fold the case of texts")
    fold_space: bool = Field(default=True, description="take a run of white space as one blank, none at the ends")
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
    token_order: InstanceOf[TokenOrder] | None = Field(
        default=None,
        description="order of tokens that prefix indexes by, as learn-order makes it; by default that of hashes",
    )
    identical_positions: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="characters that the key of identical is made of; by default the whole text",
    )
    passage_gram: int = Field(
        default=40, ge=2, le=100, description="characters of a run that passages hash together; shorter runs are unseen"
    )
    passage_characters: int = Field(
        default=150,
        ge=2,
        le=10_000,
        description="normalised characters of a run that two texts share, from which passages certainly find it",
    )
    passage_templates: tuple[str, ...] | None = Field(
        default=None,
        description="texts that a corpus repeats, as neardup passages --templates lists them: passages leaves them out",
    )
    passage_part_min: float | None = Field(
        default=None,
        ge=0.5,
        le=1,
        description="part of a text that stands in an earlier one, from which it is a duplicate; by default only "
        "copies are",
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
    probe_two_per_band: bool = Field(
        default=False, description="a probe stops after twice as many candidates as there are bands"
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
    grid_squares: int = Field(
        default=1000, ge=1, le=65536, description="squares of a grid; tokens are numbers below it"
    )
    grid_functions: int = Field(default=1024, ge=1, le=65536, description="functions of a group, joined by OR")
    grid_groups: int = Field(default=2, ge=1, le=16, description="groups of functions, joined by AND")
    grid_function_squares: int = Field(default=3, ge=1, le=16, description="squares that a function asks for")
    dimension: int | None = Field(
        default=None, ge=1, le=DIMENSION_MAX, description="components of a vector; vector schemes need it"
    )
    vector_evidence: str = Field(
        default="float32",
        description="what is kept of a vector to score it: float32 (bits and whole numbers as they are), float16, or "
        "sketch (nothing, and the similarity is an estimate)",
    )
    planes: str = Field(
        default="normal",
        description="components of random hyperplanes: " + ", ".join(PLANE_COMPONENTS) + ", not for vectors "
        "that few components rule",
    )
    distance_scale: float | None = Field(
        default=None, gt=0, le=1e30, description="distance from which the similarity is 0, of measures euclidean and l1"
    )
    segment_width: float | None = Field(
        default=None,
        gt=0,
        le=1e30,
        description="width of the segments of lines; by default 4 distances at the threshold",
    )
    component_max: int | None = Field(
        default=None, ge=1, le=65_535, description="greatest number in a vector of whole numbers, of measure l1"
    )
    norm_max: float | None = Field(
        default=None, gt=0, le=1e30, description="greatest length of a vector, of measure dot"
    )
    text_characters_max: int = Field(default=5_000_000, ge=1, le=2**28, description="characters of a text at most")
    id_bytes_max: int = Field(
        default=1024, ge=1, le=65535, description="bytes of an id in UTF-8 at most, with its collection"
    )
    collection_field: str | None = Field(
        default=None,
        description="name of the collection in JSON Lines and tables; documents of different ones never meet",
    )
