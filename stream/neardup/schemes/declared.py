"""The settings of the library, declared: name, type, default, bounds, and one sentence. ``Parameters`` checks them.

They are flat, so each is one option of the command line, one line of TOML and one environment variable. This module
imports no kernel and no pydantic, which take a third of a second: the help of a command shows the declarations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, dataclass_transform

# Rows of a signature at most: the greatest power of two whose binomial coefficients fit a float64.
ROWS_LIMIT = 1024
# Seconds: 3,170 years. In microseconds it leaves room for sums of times in 64 bits.
_SECONDS_MAX = 1e11


def setting(
    *,
    description: str,
    default: Any = None,
    default_factory: Callable[[], Any] | None = None,
    elsewhere: str = "",
    **rules: object,
) -> Any:
    """Declare a setting.

    Args:
        description: the sentence of the help.
        default: its value where no source names it.
        default_factory: makes the default instead.
        elsewhere: where the default is another one, in words.
        rules: what pydantic checks (``ge``, ``gt``, ``le``, ``lt``, ``min_length``, ``max_length``, ``pattern``), and
            ``in_file=True`` if the value stands in a file, whose path is given.
    """
    metadata = {"description": description, "elsewhere": elsewhere, **rules}
    if default_factory is not None:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(kw_only_default=True, field_specifiers=(setting,))
class Declared:
    """Settings as class attributes. A model of pydantic that derives from such a class has them as its fields."""


class LibraryOptions(Declared):
    """What to find, and within which limits."""

    scheme: str = setting(default="one_permutation", description=
        "how near-duplicates are found: one_permutation, minhash, records, grid, permutation, partial_minhash, "
        "grouped, prefix, identical, passages, parts, signals, hyperplane, hyperplane_dot, p_stable, bit_sampling; "
        "with options of the scheme as in records:keys=email,bands=16, which neardup help schemes lists")  # fmt: skip
    shingles: str = setting(default="chars", description=
        "what is compared: chars, scripts (chars, but two of Han and kana), words, stopwords, urls, "
        "tokens")  # fmt: skip
    k: int | None = setting(default=None, ge=1, le=100, description=
        "characters, words or parts of a URL in a shingle; by default 5 characters, 3 words, 2 parts")  # fmt: skip
    measure: str | None = setting(default=None, description=
        "what similarity is: jaccard (the default), jaccard_bag, jaccard_bag_sum, containment or jaccard_idf (rare "
        "elements count more: for short texts) of sets; cosine, dot, euclidean, hamming, hamming_symbols or l1 of "
        "vectors, where the scheme decides")  # fmt: skip
    verify: str = setting(default="sketch", description=
        "how the similarity of a candidate is computed: sketch (estimated from two sketches), exact (from its "
        "elements, which are then kept, shingle_bytes each)")  # fmt: skip
    novelty: str = setting(default="off", description=
        "what a dropped document must not have that the one it repeats lacks: off (anything), numbers, words (numbers, "
        "and more than an eighth of its words, by weight)")  # fmt: skip
    languages: tuple[str, ...] = setting(default=("en",), description=
        "stop lists of the stopwords shingles, by language code")  # fmt: skip
    stop_words: tuple[str, ...] | None = setting(default=None, in_file=True, description=
        "stop words of your own, one word a line: of the stopwords shingles instead of the lists of languages, of the "
        "urls shingles instead of htm, index and the like")  # fmt: skip
    fold: tuple[str, ...] = setting(default=("nfkc", "case", "space"), description=
        "what is not distinguished in texts, or none: nfkc (Unicode NFKC without invisible letters), case, space "
        "(white space is one blank, none at the ends), marks (Arabic vowel signs and the like)")  # fmt: skip
    threshold: float = setting(
        default=0.8,
        ge=0.05,
        le=1.0,
        description="similarity from which two documents are a pair",
        elsewhere="0.3 with scheme passages; 0.05 with scheme parts",
    )
    recall: float = setting(default=0.95, gt=0.0, lt=1.0, description=
        "probability that a pair at the threshold is emitted")  # fmt: skip
    min_similarity: float | None = setting(default=None, ge=0.0, le=1.0, description=
        "estimate from which a candidate is emitted; by default chosen for the recall")  # fmt: skip
    false_weight: float | None = setting(default=None, gt=0.0, lt=1.0, description=
        "weight of false pairs against missed ones, which have the rest; then it chooses bands, rows and cut, not the "
        "recall")  # fmt: skip
    rows_max: int = setting(default=128, ge=1, le=ROWS_LIMIT, description=
        "rows of a signature at most: time and memory for accuracy; of vectors 512 by default")  # fmt: skip
    bands: int | None = setting(default=None, ge=1, le=ROWS_LIMIT, description=
        "bands; by default chosen for the recall")  # fmt: skip
    rows: int | None = setting(default=None, ge=1, le=ROWS_LIMIT, description=
        "rows a band; by default chosen for the recall")  # fmt: skip
    seed: int = setting(default=1, ge=0, le=2**63 - 1, description="seed of every hash function")
    sketch_bits: int | None = setting(default=None, description=
        "bits kept of each row: 8, 16 or 32; by default 8, or 16 where the recall needs them")  # fmt: skip
    characters_min: int = setting(default=0, ge=0, le=1_000_000, description=
        "characters of a normalised text at least; shorter texts are compared for equality only")  # fmt: skip
    window_seconds: float | None = setting(default=None, gt=0, le=_SECONDS_MAX, description=
        "two documents may pair when their times differ by at most this")  # fmt: skip
    lateness_seconds: float = setting(default=0.0, ge=0, le=_SECONDS_MAX, description=
        "how late a document may come and still meet all of its window")  # fmt: skip
    story_seconds_max: float = setting(default=2_592_000.0, gt=0, le=_SECONDS_MAX, description=
        "a story ends at most so long after it began; at least the window")  # fmt: skip
    window_documents: int = setting(
        default=1_000_000,
        ge=1,
        le=2**30,
        description="documents held at most; the oldest are evicted first",
        elsewhere="of run, dedup and probe, what half of the free memory holds",
    )
    bucket_candidates_max: int = setting(
        default=256,
        ge=1,
        le=2**20,
        description="candidates taken from one bucket at most: three in four are the newest, the others the oldest",
        elsewhere="64 with scheme passages; 8 with scheme parts",
    )
    probe_candidates_max: int | None = setting(
        default=None,
        ge=1,
        le=2**30,
        description="candidates after which a probe stops, over all buckets",
        elsewhere="1024 with scheme one_permutation, signals, minhash, permutation, partial_minhash, grouped; else all",
    )
    buckets_shared_min: int = setting(default=1, ge=1, le=ROWS_LIMIT, description=
        "buckets in which two documents must meet before they are a pair")  # fmt: skip
    evidence_bytes_max: int = setting(
        default=2 << 30,
        ge=1 << 20,
        le=1 << 42,
        description="bytes of ids and ragged evidence in the window at most; the oldest documents are evicted first",
        elsewhere="of run, dedup and probe, what half of the free memory holds",
    )
    text_characters_max: int = setting(default=5_000_000, ge=1, le=2**28, description="characters of a text at most")
    collection_field: str | None = setting(default=None, description=
        "name of the collection in JSON Lines and tables; documents of different ones never meet")  # fmt: skip
