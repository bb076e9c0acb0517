"""Parts: texts that share a quote, exact or changed, wherever it stands in each.

The evidence of a text is its words in order, 16 bits each (``neardup.features.ordered.word_codes``). Keys are some of
its seeds, a few words in a row (``neardup.schemes.signatures.word_seeds``). Two texts that meet are aligned word by
word around the seeds that they share (``neardup.schemes.signatures.word_alignment``). A part is emitted from a score
on: it says how unlikely the part is by chance, so no fraction is asked for, and no length but ten words.

Guarantee: two texts of one window that share ``window`` + 2 words in a row (+ 5 ideographs or kana, + 33 numbers of
five digits or less) share a key, so they are candidates unless ``bucket_candidates_max`` other texts have that key
too. If the run reaches the score, the pair is emitted, unless each of its seeds stands more than eight times in the
older text. A run of 150 characters of words has both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from neardup.documents.document import Document, Features
from neardup.errors import ConfigError
from neardup.features.ordered.word_codes import WordCodes, order_rules, word_codes
from neardup.features.texts.normalize import FOLD_RULES, NormalForm
from neardup.features.texts.reading import read_texts
from neardup.schemes.interface import NO_PAYLOADS, Common, Evidence, Keys, Reading, Scheme, Shared, starts_of_lengths
from neardup.schemes.kinds.identical import head_contents, text_hashes, with_heads
from neardup.schemes.parameters import Parameters, SchemeOptions, one_of
from neardup.schemes.signatures.passage_runs import covered_characters
from neardup.schemes.signatures.word_alignment import (
    NEWER_BEGIN,
    NEWER_END,
    OLDER_BEGIN,
    OLDER_END,
    PAIR,
    SCORE,
    aligned,
)
from neardup.schemes.signatures.word_extension import QUARTERS
from neardup.schemes.signatures.word_seeds import EQUAL_CODES, EQUAL_HASHES, ordered_units, seed_keys, seeds_in_order
from neardup.schemes.signatures.word_units import Ordered, positions_of, restored, stored
from neardup.schemes.theory.tuning import Tuning, keyed

# Numbers before the words of a text in its features: two of its content, and its length in code points.
_HEAD = 3
_NUMBER_BYTES = 4
# Parts of a pair are shown as one if so few code points lie between them in both texts.
_JOINED_MAX = 150
# So many seeds of templates in a row are of one: fewer stand in other texts by chance.
_TEMPLATE_SEEDS = 4
# The least threshold, and the default here: it asks for no fraction.
_ANY_FRACTION = 0.05
SPELLINGS = ("plain", "historic")


class PartOptions(SchemeOptions):
    """Which parts are found."""

    in_files: ClassVar[tuple[str, ...]] = ("templates",)

    score: float = Field(
        default=18.0,
        ge=6,
        le=1000,
        description="score from which a part is emitted: words by their lengths, 1 to 3 each",
    )
    window: int = Field(
        default=8, ge=1, le=64, description="seeds in a row of which one is kept: memory for changed quotes"
    )
    spelling: Annotated[str, one_of(*SPELLINGS)] = Field(
        default="plain", description="plain, or historic: spellings of one word before about 1800 are equal"
    )
    templates: tuple[str, ...] | None = Field(default=None, description=
        "texts that a corpus repeats, as neardup passages --templates lists them: they are left out")  # fmt: skip


class PartPlan(NamedTuple):
    """The resolved settings; ``score`` in points, ``templates`` the bytes of their seeds; ``short_templates`` have too
    few words to have some."""

    normal_form: NormalForm
    text_characters_max: int
    score: float
    window: int
    historic: bool
    seed: int
    tuning: Tuning
    templates: bytes = b""
    short_templates: int = 0
    kind: str = "text"
    width: int = 2 * _NUMBER_BYTES


class Part(NamedTuple):
    """A part that two texts share: where it begins and ends in the newer and in the older one, in normalised code
    points, and its score in points."""

    newer: tuple[int, int]
    older: tuple[int, int]
    score: float


def plan(p: Parameters, o: PartOptions) -> PartPlan:
    """Every part from the score on makes a pair, whatever fraction it is, unless a threshold asks for one."""
    tuning = keyed(p.threshold, p.min_similarity)._replace(exact_score=False)
    if p.threshold <= _ANY_FRACTION and p.min_similarity is None:
        tuning = tuning._replace(score_min=0.0)
    made = PartPlan(
        normal_form=NormalForm.of(p.fold),
        text_characters_max=p.text_characters_max,
        score=o.score,
        window=o.window,
        historic=o.spelling == "historic",
        seed=p.seed,
        tuning=tuning,
    )
    return made if o.templates is None else _with_templates(made, o.templates)


def _with_templates(plan: PartPlan, texts: tuple[str, ...]) -> PartPlan:
    """The plan with the seeds of templates. Raises ``ConfigError`` if none of them has enough."""
    longest = max(map(len, texts), default=0)
    codes, *_ = read_texts([Document("", text) for text in texts], plan.normal_form, longest * 18)
    words = word_codes(codes, historic=plan.historic)
    seeds, starts = seeds_in_order(words.codes, words.starts, _mask(plan))
    counts = np.diff(starts)
    is_long = counts >= _TEMPLATE_SEEDS
    if not is_long.any():
        raise ConfigError(
            f"no text of parts:templates has {_TEMPLATE_SEEDS + 2} words, as a template has: leave the option out"
        )
    listed = np.unique(seeds[np.repeat(is_long, counts)]).tobytes()
    return plan._replace(templates=listed, short_templates=int(len(texts) - is_long.sum()))


def _without(words: WordCodes, plan: PartPlan) -> WordCodes:
    """The words that are not of templates."""
    seeds, starts = seeds_in_order(words.codes, words.starts, _mask(plan))
    listed, changes = np.zeros((2, len(words.values) + 2), np.int64)
    at = np.arange(len(seeds)) + np.repeat((words.starts - starts)[:-1], np.diff(starts))
    listed[at] = np.isin(seeds, np.frombuffer(plan.templates, np.uint64))
    # The last word of a text begins no seed, so no run goes on in the next one.
    begins, ends = np.flatnonzero(np.diff(listed, prepend=0)).reshape(-1, 2).T
    is_long = ends - begins >= _TEMPLATE_SEEDS
    changes[begins[is_long]] += 1
    changes[ends[is_long] + 1] -= 1  # a seed has two words at least
    kept = np.cumsum(changes)[: len(words.values)] == 0
    return WordCodes(words.values[kept], starts_of_lengths(kept)[words.starts])


def features(documents: Sequence[Document], plan: PartPlan) -> Reading:
    """Of each text the hash of the whole and its length, then its words in order."""
    codes, refused, _ = read_texts(documents, plan.normal_form, plan.text_characters_max)
    words = word_codes(codes, historic=plan.historic)
    if plan.templates:
        words = _without(words, plan)
    heads = np.column_stack([text_hashes(codes), codes.lengths.astype(np.uint64)])
    return Reading(with_heads(*words, heads, codes), refused, codes.characters)


def evidence(features: Features, plan: PartPlan) -> Evidence:
    """The words in order with their positions and the selected seeds; the numbers of words and of code points."""
    at, n = features.starts[:-1], len(features.starts) - 1
    words = WordCodes(
        np.delete(features.values, (at[:, None] + np.arange(_HEAD)).reshape(-1)),
        features.starts - _HEAD * np.arange(n + 1),
    )
    lengths = features.values[at + _HEAD - 1].astype(np.int64)
    fixed = np.column_stack([np.diff(words.starts), lengths]).astype("<u4").view(np.uint8)
    units, starts = ordered_units(words, plan.window, _mask(plan))
    return Evidence(np.ascontiguousarray(fixed).reshape(n, plan.width), *stored(units, starts, np.diff(words.starts)))


def keys(evidence: Evidence, plan: PartPlan) -> Keys:
    """A key for each seed, once; those of selected seeds come first, and are added."""
    values, starts, added = seed_keys(_ordered(evidence, plan), plan.seed)
    return Keys(values, starts, NO_PAYLOADS, added)


def common(a: Evidence, b: Evidence, plan: PartPlan) -> Common:
    """The number of common keys; whether some part reaches the score; the fraction of the shorter text in parts."""
    sides = _ordered(a, plan), _ordered(b, plan)
    parts, seeds = aligned(*sides, plan.score)
    lengths_a, lengths_b, spans = lengths(a), lengths(b), _spans(parts, *sides)
    fractions = _fractions(parts[:, PAIR].copy(), spans, lengths_a, lengths_b)
    similarity = np.where(lengths_a <= lengths_b, fractions[:, 0], fractions[:, 1])
    return Common(seeds, np.bincount(parts[:, PAIR], minlength=len(seeds)) > 0, similarity)


def shared(a: Evidence, b: Evidence, plan: PartPlan) -> Shared:
    """The parts that the texts share; ``b`` are the newer ones."""
    sides = _ordered(b, plan), _ordered(a, plan)
    parts, _ = aligned(*sides, plan.score)
    spans, pairs = _spans(parts, *sides), parts[:, PAIR].copy()
    fractions = _fractions(pairs, spans, lengths(b), lengths(a))[:, ::-1]
    spans, pairs = _joined(spans, pairs)
    counts = np.bincount(pairs, minlength=len(a.starts) - 1)
    order = np.lexsort((spans[:, 2], pairs))
    return Shared(np.ascontiguousarray(fractions), spans[:, [2, 3, 0, 1]][order], starts_of_lengths(counts))


def parts_of(newer: Evidence, older: Evidence, plan: PartPlan) -> list[list[Part]]:
    """Return the parts that text i of ``newer`` and text i of ``older`` share, by the newer text, none joined."""
    sides = _ordered(newer, plan), _ordered(older, plan)
    parts, seeds = aligned(*sides, plan.score)
    out: list[list[Part]] = [[] for _ in seeds]
    spans, scores = _spans(parts, *sides).tolist(), (parts[:, SCORE] / QUARTERS).tolist()
    for pair, (a, b, c, d), score in zip(parts[:, PAIR].tolist(), spans, scores, strict=True):
        out[pair].append(Part((a, b), (c, d), score))
    return out


def lengths(evidence: Evidence) -> npt.NDArray[np.int64]:
    """The code points of each text, ``int64[n]``."""
    return _numbers(evidence)[:, 1]


def signing(plan: PartPlan) -> tuple[object, ...]:
    """Return what decides the normal form, the words, which seeds are selected, and which are left out."""
    templates = (hashlib.sha256(plan.templates).hexdigest(),) if plan.templates else ()
    settings = plan.text_characters_max, plan.window, plan.historic, plan.seed
    return (FOLD_RULES, order_rules(), *plan.normal_form, *settings, *templates)


def scoring(plan: PartPlan) -> tuple[object, ...]:
    """Return what decides which parts are emitted."""
    return (plan.score,)


def sample(text: str, plan: PartPlan) -> Document:
    """The text, repeated until it has a run that reaches the score."""
    return Document("", text * -(-200 // max(len(text), 1)))


def _mask(plan: PartPlan) -> np.uint16:
    return EQUAL_HASHES if plan.historic else EQUAL_CODES


def _numbers(evidence: Evidence) -> npt.NDArray[np.int64]:
    """The words and the code points of each text, ``int64[n, 2]``."""
    return np.ascontiguousarray(evidence.fixed).view("<u4").reshape(len(evidence.fixed), 2).astype(np.int64)


def _ordered(evidence: Evidence, plan: PartPlan) -> Ordered:
    return restored(evidence.ragged, evidence.starts, _numbers(evidence)[:, 0].copy(), _mask(plan), plan.window)


def _spans(parts: npt.NDArray[np.int64], newer: Ordered, older: Ordered) -> npt.NDArray[np.int64]:
    """Where parts begin and end in the newer and in the older text, in code points, ``int64[k, 4]``."""
    if not len(parts):
        return np.empty((0, 4), np.int64)
    rows, columns = parts[:, PAIR].copy(), []
    for texts, first, end in ((newer, NEWER_BEGIN, NEWER_END), (older, OLDER_BEGIN, OLDER_END)):
        columns.append(positions_of(texts, rows, parts[:, first].copy())[0])
        columns.append(positions_of(texts, rows, parts[:, end] - 1)[1])
    return np.column_stack(columns)


def _fractions(
    pairs: npt.NDArray[np.int64],
    spans: npt.NDArray[np.int64],
    newer: npt.NDArray[np.int64],
    older: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    """The fraction of the newer and of the older text that parts cover, ``float64[m, 2]``."""
    if not len(pairs):
        return np.zeros((len(newer), 2))
    covered = [covered_characters(pairs, spans[:, column : column + 2], len(newer)) for column in (0, 2)]
    return np.minimum(np.column_stack([covered[0] / newer, covered[1] / older]), 1.0)


def _joined(
    spans: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Join parts of a pair with few code points between them in both texts."""
    if not len(pairs):
        return spans, pairs
    gaps = spans[1:, [0, 2]] - spans[:-1, [1, 3]]
    is_next = (pairs[1:] == pairs[:-1]) & ((gaps >= 0) & (gaps <= _JOINED_MAX)).all(axis=1)
    first = np.flatnonzero(np.append(True, ~is_next))
    last = np.append(first[1:], len(pairs)) - 1
    return np.column_stack([spans[first, 0], spans[last, 1], spans[first, 2], spans[last, 3]]), pairs[first]


SCHEME = Scheme(
    plan, features, head_contents, evidence, keys, common, signing,
    by_content=True,
    exact=False,
    options=PartOptions,
    direct=False,  # a quote in two long texts does not make them alike
    guarantee="candidates are all pairs that share as many words in a row as the option window says, and two more, "
    "unless bucket_candidates_max other texts have them too; a run of 150 characters of words is emitted",
    scoring=scoring,
    sample=sample,
    examples=({}, {"scheme_options": {"spelling": "historic"}}),
    shared=shared,
    lengths=lengths,
    defaults={"threshold": _ANY_FRACTION, "bucket_candidates_max": 8},
)  # fmt: skip
