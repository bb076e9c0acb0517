"""Schemes of sets: a text is split into shingles, their set is signed, and the sketch of the signature has bands.

A document may bring its elements instead of a text (``neardup.features.tokens.elements``). With a measure of bags, the
second and further copies of an element become different elements, so these schemes find similar bags too.

Similarity is estimated from the rows in which two sketches agree. With ``verify="exact"`` it is computed from the
hashed elements, which are then part of the evidence: ``shingle_bytes`` for each element of each document in the window,
within ``evidence_bytes_max``. Signatures estimate Jaccard similarity, whatever the measure: containment t is
Jaccard t / (2 - t) for two sets of one size, and less for sets of different sizes.

Source: Mining of Massive Datasets, 3.1 to 3.4.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document, Features
from neardup.errors import ConfigError
from neardup.features.said.word_tables import said_rules
from neardup.features.texts.normalize import FOLD_RULES, CodePoints
from neardup.features.texts.plain_words import PlainRules
from neardup.features.texts.reading import raw_texts_of, read_held, read_texts
from neardup.features.texts.shingles import SHINGLES, TEXT_SHINGLES, Split, with_joined_numbers
from neardup.features.tokens import verify
from neardup.features.tokens.bags import lengths_within, numbered, sorted_sets
from neardup.features.tokens.elements import TOKENS_MAX, elements
from neardup.features.tokens.rarity import jaccard_idf
from neardup.machine.kernels.hashing import hash_bags
from neardup.schemes.interface import (
    Common,
    Evidence,
    Keys,
    Reading,
    Scheme,
    Signing,
    fixed_evidence,
    in_parts,
    ragged_evidence,
    ragged_values,
    regular_keys,
    sign_features,
    without_first,
)
from neardup.schemes.kinds import one_pass
from neardup.schemes.kinds.set_options import PROBE_CANDIDATES_MAX, S_CURVE, SHINGLE_BYTES, SetOptions
from neardup.schemes.kinds.set_plan import SetPlan, plan
from neardup.schemes.kinds.short_texts import with_short_texts
from neardup.schemes.signatures import banding, one_permutation, stored_sets
from neardup.schemes.theory.tuning import SKETCH_BITS
from neardup.schemes.word_evidence import RUN_RULE, keys_with_runs, said, with_word_sets, without_words
from neardup.window import BandTable

_STORED: dict[int, type[np.unsignedinteger]] = {4: np.uint32, 8: np.uint64}
# Elements of stored sets that are signed again at once.
_COMPARED_BYTES = 1 << 22

_new_common = functools.partial(tuple.__new__, Common)  # a call of ``Common`` takes three times as long
_ONE_SIGNAL = Common._field_defaults.values()

Sign = Callable[[npt.NDArray[np.uint64], npt.NDArray[np.int64], int, int], npt.NDArray[np.uint64]]


def features(documents: Sequence[Document], plan: SetPlan) -> Reading:
    """Shingles of the plan's kind, of texts that are not too long and have any; or elements given by the documents."""
    split = SHINGLES[plan.shingles].split
    reading = _read_tokens(documents, plan) if split is None else _read_texts(documents, plan, split)
    values, starts = reading.features
    bits = 8 * plan.shingle_bytes
    if plan.shingle_bytes < values.itemsize:
        np.bitwise_and(values, np.uint64((1 << bits) - 1), out=values)
    if plan.of_bags:
        values = numbered(values, starts, bits)
    elif split is None:  # an element that a document gives twice does not change its content
        values, starts = sorted_sets(values, starts)
    return reading._replace(features=Features(values, starts))


def _read_tokens(documents: Sequence[Document], plan: SetPlan) -> Reading:
    read = elements((document.tokens for document in documents), plan.ratings, TOKENS_MAX)
    usable = np.diff(read.starts) > 0
    starts = np.append(read.starts[:-1][usable], read.starts[-1:])
    return Reading(Features(read.values, starts), read.refused, 0)


def _read_texts(documents: Sequence[Document], plan: SetPlan, split: Split) -> Reading:
    codes, refused, held = read_texts(documents, plan.normal_form, plan.text_characters_max)
    shingles = split(with_joined_numbers(codes) if plan.weighted else codes, plan.k, plan.stops)
    starts, characters = shingles.starts, codes.characters
    if not lengths_within(starts)[0]:  # rare: leave out documents without features
        counts = np.diff(starts)
        _refuse_bare(refused, counts)
        starts = np.append(shingles.starts[:-1][counts > 0], shingles.starts[-1:])
        codes = codes.select(counts > 0)
    return Reading(Features(shingles.values, starts), refused, characters, codes, held)


def _refuse_bare(refused: dict[int, str], counts: npt.NDArray[np.int64]) -> None:
    """Refuse texts without a shingle, unless another reason refuses them."""
    for i in np.flatnonzero(counts == 0).tolist():
        refused.setdefault(i, "no_shingles")


def bag_contents(features: Features) -> npt.NDArray[np.uint64]:
    """Content hashes ``uint64[n, 2]``: equal for texts with the same bag of shingles."""
    out = np.empty((len(features.starts) - 1, 2), np.uint64)
    hash_bags(features.values, features.starts, out)
    return out


def evidence_by(sign: Sign) -> Callable[[Features, SetPlan], Evidence]:
    """Return the function that makes evidence by signing with ``sign``."""

    def evidence(features: Features, plan: SetPlan) -> Evidence:
        signatures = sign(features.values, features.starts, plan.signature_rows, plan.seed)
        return with_elements(banding.sketch(signatures, plan.tuning.sketch_bits), features, plan)

    return evidence


def with_elements(sketches: npt.NDArray[np.uint8], features: Features, plan: SetPlan) -> Evidence:
    """Return sketches as evidence, together with the elements if similarity is exact. Features have no words."""
    evidence = fixed_evidence(sketches)
    if plan.exact:
        values, starts = sorted_sets(features.values, features.starts)
        evidence = ragged_evidence(values.astype(_STORED[plan.shingle_bytes]), starts, sketches)
    return evidence if plan.novelty == "off" else without_words(evidence)


def exact_similarity(a: Evidence, b: Evidence, plan: SetPlan) -> npt.NDArray[np.float64]:
    """Return the measure of the elements stored with two sketches, pairwise."""
    both, measure = (*stored_elements(a, plan), *stored_elements(b, plan)), verify.SET_MEASURES[plan.measure]
    if not measure.weighted:
        return measure.similarity(*both)
    if plan.weights is None:
        raise ConfigError(f"measure={plan.measure} needs the counts of one stream, and none are here: set another one")
    return jaccard_idf(*both, plan.weights)


def stored_elements(evidence: Evidence, plan: SetPlan) -> Features:
    """Return the elements that are stored with sketches, ascending."""
    evidence = evidence if plan.novelty == "off" else without_first(evidence)
    values, starts = ragged_values(evidence, _STORED[plan.shingle_bytes])
    return Features(values.astype(np.uint64, copy=False), starts)


def keys(evidence: Evidence, plan: SetPlan) -> Keys:
    """A key for each band of the sketches and, with ``novelty=words``, for some runs of words."""
    if plan.novelty == "words":
        return keys_with_runs(evidence, plan.tuning.bands, plan)
    return band_keys(evidence, plan)


def band_keys(evidence: Evidence, plan: SetPlan) -> Keys:
    """A key for each band of the sketches."""
    return regular_keys(banding.keys(evidence.fixed, plan.tuning.bands, plan.seed))


def common(a: Evidence, b: Evidence, plan: SetPlan) -> Common:
    """First common band, number of common bands; similarity, exact or from the equal rows of two sketches."""
    agreed = banding.agreement(a.fixed, b.fixed, plan.tuning.bands, plan.tuning.sketch_bits)
    if plan.exact:
        similarity = exact_similarity(a, b, plan)
    else:
        similarity = banding.estimate(agreed.rows, plan.signature_rows, plan.tuning.sketch_bits)
    return Common(agreed.bands, np.ones(len(similarity), np.bool_), similarity)


def common_in(
    table: BandTable, slots: npt.NDArray[np.int64], newer: Evidence, items: npt.NDArray[np.int32], plan: SetPlan
) -> Common | None:
    """Return the same of documents of a table and items of ``newer``; ``None`` if counts of the stream weigh them.

    The common bands of those that are exactly compared, and are no pair, are not counted: they are 1.
    """
    if plan.exact and verify.SET_MEASURES[plan.measure].weighted:
        return None
    tuning = plan.tuning
    if not plan.exact:
        estimated = banding.estimate_in(table, slots, newer.fixed, items, tuning.bands, tuning.sketch_bits)
        return _new_common((*estimated, *_ONE_SIGNAL))
    has_words = plan.novelty != "off"
    counts = stored_sets.counts_in(table, slots, newer, items, plan.shingle_bytes, has_words=has_words)
    similarity = verify.SET_MEASURES[plan.measure].of_counts(*counts)
    keys = np.ones(len(slots), np.int32)
    near = np.arange(len(slots)) if tuning.bands_min > 1 else np.flatnonzero(similarity >= tuning.score_min)
    for part in in_parts(table.ragged_lengths(slots[near]), _COMPARED_BYTES) if len(near) else ():
        rows = near[part]
        each, of_rows = np.unique(slots[rows], return_inverse=True)
        older = stored_sets.evidence_in(table, each, derive, plan).fixed[of_rows]
        keys[rows] = banding.agreement(newer.fixed[items[rows]], older, tuning.bands, tuning.sketch_bits).bands
    return Common(keys, np.ones(len(slots), np.bool_), similarity)


def derived(evidence: Evidence, plan: SetPlan) -> npt.NDArray[np.bool_] | None:
    """Return which sketches follow from the elements: all but those of short texts (``short_texts``). ``None`` if the
    sketches of all candidates are compared: to sign elements again takes longer than to compare them."""
    if not plan.exact or plan.weighted or plan.tuning.bands_min > 1:
        return None
    sizes = np.diff(evidence.starts)
    found = sizes > 0
    if plan.characters_min:  # a text has no more elements than characters
        begins = np.zeros(len(sizes), np.int64)
        if plan.novelty != "off":
            begins[found] = ragged_values(evidence, np.uint32)[0][evidence.starts[:-1][found] // 4]
        few = np.flatnonzero(found & (sizes - begins < plan.characters_min * plan.shingle_bytes))
        if len(few):
            chosen = evidence.select(few)
            found[few] = (derive(chosen, plan) == chosen.fixed).all(axis=1)
    return found


def derive(evidence: Evidence, plan: SetPlan) -> npt.NDArray[np.uint8]:
    """Return the sketches of stored elements."""
    signatures = one_permutation.sign(*stored_elements(evidence, plan), plan.signature_rows, plan.seed)
    return banding.sketch(signatures, plan.tuning.sketch_bits)


def signing(plan: SetPlan) -> tuple[object, ...]:
    """Return what decides elements, sketches and bands, with the rules of the shingles or the ratings."""
    shingling, tuning = SHINGLES[plan.shingles], plan.tuning
    elements = plan.shingles, plan.k, plan.shingle_bytes, plan.of_bags, plan.exact, plan.groups
    bands = tuning.bands, tuning.rows, tuning.sketch_bits, plan.seed
    if shingling.split is None:
        reading: tuple[object, ...] = (*plan.ratings, TOKENS_MAX)
    else:
        reading = (FOLD_RULES, *plan.normal_form, plan.text_characters_max, *(("joined",) if plan.weighted else ()))
    shortest = ("characters_min", plan.characters_min) if plan.characters_min else ()
    novelty = ("novelty", plan.novelty, said_rules()) if plan.novelty != "off" else ()
    runs = ("runs", *RUN_RULE) if plan.novelty == "words" else ()
    return (*elements, *bands, *reading, *shingling.rules(plan.stops), *shortest, *novelty, *runs)


def scoring(plan: SetPlan) -> tuple[object, ...]:
    """Return the measure, which scores the same sketches and elements."""
    return (plan.measure,)


one_permutation_evidence = evidence_by(one_permutation.sign)


# Shinglings of texts that are signed in one pass.
ONE_PASS = {"chars": one_pass.sign_chars, "words": one_pass.sign_words}


def sign_one_pass(scheme: Scheme[SetPlan], documents: Sequence[Document], plan: SetPlan) -> Signing:
    """Sign by one permutation in one pass over the texts; for configurations that need no array of shingles."""
    if plan.shingles not in ONE_PASS or plan.exact or plan.of_bags:
        return sign_features(scheme, documents, plan)
    held = raw_texts_of(documents, plan.text_characters_max)
    codes, refused = read_held(held, plan.normal_form, plan.text_characters_max)
    sketches, contents, counts, shingles, characters, fewest = sign_codes(codes, plan)
    if not fewest:
        _refuse_bare(refused, counts)
        contents, sketches, codes = contents[counts > 0], sketches[counts > 0], codes.select(counts > 0)
    return Signing(contents, fixed_evidence(sketches), refused, characters, shingles, codes, held)


def sign_codes(codes: CodePoints, plan: SetPlan) -> one_pass.SignedTexts:
    """Return sketches, contents and numbers of shingles of normalised texts, by one permutation."""
    return ONE_PASS[plan.shingles](codes, *_shape(plan), plan.tuning.sketch_bits)


def plain_rules(plan: SetPlan) -> PlainRules | None:
    """Return how ASCII texts are signed where Python has them; ``None`` if a plan makes more of them than a sketch."""
    makes_more = plan.exact or plan.of_bags or plan.characters_min or plan.novelty != "off"
    if plan.shingles not in ONE_PASS or makes_more:
        return None
    return one_pass.plain_rules(plan.shingles, plan.normal_form, *_shape(plan))


def _shape(plan: SetPlan) -> tuple[int, int, int, int]:
    """k, the bits of a shingle, rows and seed."""
    return plan.k, 8 * plan.shingle_bytes, plan.signature_rows, plan.seed


def sample(text: str, plan: SetPlan) -> Document:
    """The text, and its characters as tokens."""
    return Document("", "" if plan.kind == "tokens" else text, tokens=sorted(set(map(ord, text))))


EXAMPLES: tuple[Mapping[str, object], ...] = (
    *({"shingles": shingles, "sketch_bits": bits} for shingles in TEXT_SHINGLES for bits in SKETCH_BITS),
    *(
        {
            "shingles": shingles,
            "verify": "exact",
            "measure": measure,
            "threshold": 0.8 * row.similarity_max,
            "scheme_options": {"shingle_bytes": size},
            "rows_max": 256,
        }
        for shingles in ("chars", "tokens")
        for measure, row in verify.SET_MEASURES.items()
        for size in SHINGLE_BYTES
    ),
)

SCHEME = Scheme(
    plan, features, bag_contents, one_permutation_evidence, keys, common, signing,
    by_content=True,
    exact=False,
    banded=lambda plan: plan.novelty != "words",
    meets_parts=lambda plan: plan.novelty == "words",
    options=SetOptions,
    guarantee=S_CURVE,
    scoring=scoring,
    sign=with_word_sets(with_short_texts(sign_one_pass)),
    sample=sample,
    examples=EXAMPLES,
    probe_candidates_max=PROBE_CANDIDATES_MAX,
    said=said,
    elements=stored_elements,
    plain=plain_rules,
    common_in=common_in,
    derived=derived,
    derive=derive,
)  # fmt: skip
