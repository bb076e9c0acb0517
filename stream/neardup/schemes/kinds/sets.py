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

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document, Features
from neardup.errors import ConfigError
from neardup.features.said.word_tables import said_rules
from neardup.features.texts.normalize import FOLD_RULES, NO_ASCII, NO_CODES, AsciiTexts, CodePoints, NormalForm
from neardup.features.texts.reading import raw_texts_of, read_held, read_texts
from neardup.features.texts.shingles import SHINGLES, TEXT_SHINGLES, Split
from neardup.features.texts.words import StopList
from neardup.features.tokens import verify
from neardup.features.tokens.bags import lengths_within, numbered, sorted_sets
from neardup.features.tokens.elements import TOKENS_MAX, RatingRule, elements
from neardup.features.tokens.rarity import Weights, jaccard_idf
from neardup.machine.kernels.hashing import hash_bags
from neardup.schemes.interface import (
    Common,
    Evidence,
    Keys,
    Reading,
    Scheme,
    Signing,
    fixed_evidence,
    ragged_evidence,
    ragged_values,
    regular_keys,
    sign_features,
    without_first,
)
from neardup.schemes.kinds import one_pass
from neardup.schemes.kinds.set_options import PROBE_CANDIDATES_MAX, S_CURVE, SHINGLE_BYTES, SetOptions
from neardup.schemes.kinds.short_texts import with_short_texts
from neardup.schemes.parameters import Parameters
from neardup.schemes.signatures import banding, one_permutation
from neardup.schemes.theory.tuning import SKETCH_BITS, Tuning, choose
from neardup.schemes.theory.weighing import weigh
from neardup.schemes.word_evidence import check_novelty, said, with_word_sets, without_words

# Bits of a row where the settings name none: the second number if the first one cannot reach the recall.
_BITS = SKETCH_BITS[:2]
_STORED: dict[int, type[np.unsignedinteger]] = {4: np.uint32, 8: np.uint64}

Sign = Callable[[npt.NDArray[np.uint64], npt.NDArray[np.int64], int, int], npt.NDArray[np.uint64]]


class SetPlan(NamedTuple):
    """The resolved settings of a set scheme."""

    shingles: str
    k: int
    stops: StopList
    normal_form: NormalForm
    text_characters_max: int
    tuning: Tuning
    seed: int
    shingle_bytes: int
    measure: str
    exact: bool
    ratings: RatingRule
    groups: int
    characters_min: int
    novelty: str
    weights: Weights | None = None  # of elements, by a measure that weighs them: those of now

    @property
    def signature_rows(self) -> int:
        """Rows of a signature: bands times rows a band."""
        return self.tuning.bands * self.tuning.rows

    @property
    def kind(self) -> str:
        """What a document brings."""
        return SHINGLES[self.shingles].kind

    @property
    def width(self) -> int:
        """Bytes of a sketch."""
        return self.signature_rows * self.tuning.sketch_bits // 8

    @property
    def of_bags(self) -> bool:
        """Whether repeated elements count."""
        return verify.SET_MEASURES[self.measure].of_bags


def plan(parameters: Parameters, options: SetOptions) -> SetPlan:
    """Return the plan of a scheme with whole sketches. Raises ``ConfigError`` like ``common_plan``."""
    chosen, least = common_plan(parameters, options), parameters.characters_min
    if least and chosen.kind != "text":
        raise ConfigError(f"characters_min={least} with {chosen.shingles} shingles, which are of no text: leave it out")
    check_novelty(parameters.novelty, chosen.kind)
    return chosen._replace(characters_min=least, novelty=parameters.novelty)


def common_plan(p: Parameters, o: SetOptions) -> SetPlan:
    """Raises ``ConfigError`` where settings contradict or no shape of bands reaches the recall."""
    _check(p, o)
    return SetPlan(
        shingles=p.shingles,
        k=p.k if p.k is not None else SHINGLES[p.shingles].k_default,
        stops=stops_of(p),
        normal_form=NormalForm.of(p.fold),
        text_characters_max=p.text_characters_max,
        tuning=_tuned(p),
        seed=p.seed,
        shingle_bytes=o.shingle_bytes,
        measure=measure_of(p),
        exact=p.verify == "exact",
        ratings=RatingRule(o.ratings, o.rating_high_min, o.rating_max),
        groups=1,
        characters_min=0,
        novelty="off",
    )


def stops_of(p: Parameters) -> StopList:
    """Return the stop list in one form, whatever the order of its entries."""
    words = None if p.stop_words is None else tuple(sorted(set(p.stop_words)))
    return StopList(tuple(sorted(set(p.languages))), words)


def _check_stop_words(p: Parameters) -> None:
    shingling = SHINGLES[p.shingles]
    if not shingling.has_stop_words:
        names = " or ".join(name for name, row in SHINGLES.items() if row.has_stop_words)
        raise ConfigError(
            f"stop_words has no meaning with {p.shingles} shingles: set shingles to {names}, or leave it out"
        )
    if not p.stop_words:
        raise ConfigError("stop_words is empty, but a list of your own has a word at least: leave it out")
    if p.languages != Parameters.model_fields["languages"].default:
        raise ConfigError(
            f"languages={', '.join(p.languages)} with stop_words, which replaces their lists: leave one out"
        )
    shingling.rules(stops_of(p))  # raises ConfigError for an entry that is not one word


def measure_of(p: Parameters) -> str:
    """Return the configured measure, by default Jaccard; raises ``ConfigError`` for any other measure."""
    measure = p.measure or "jaccard"
    if measure not in verify.SET_MEASURES:
        raise ConfigError(
            f"measure is {measure}, but sets are compared by {', '.join(verify.SET_MEASURES)}: set one of them"
        )
    return measure


def _check(p: Parameters, o: SetOptions) -> None:
    """Rules between several settings."""
    shingling, measure = SHINGLES[p.shingles], verify.SET_MEASURES[measure_of(p)]
    if shingling.k_fixed and p.k not in (None, shingling.k_default):
        raise ConfigError(f"k={p.k} with {shingling.k_fixed}: leave k out")
    if shingling.needs_languages and not p.languages and p.stop_words is None:
        raise ConfigError(f"languages is empty, but {p.shingles} shingles need a stop list: name at least one language")
    if p.stop_words is not None:
        _check_stop_words(p)
    if o.ratings == "stars" and not measure.of_bags:
        raise ConfigError(
            f"ratings=stars puts an item into a bag n times, but measure is {measure_of(p)}: set measure to jaccard_bag"
        )
    if not measure.estimable and p.verify != "exact":
        raise ConfigError(f"measure={p.measure} cannot be estimated from sketches: set verify to exact")
    if p.threshold > measure.similarity_max:
        raise ConfigError(
            f"threshold={p.threshold} with measure={p.measure}, by which equal documents are similar by "
            f"{measure.similarity_max}: set threshold to {measure.similarity_max} or less"
        )
    if p.verify == "exact" and p.min_similarity is not None:
        raise ConfigError(
            f"min_similarity={p.min_similarity} with verify=exact, where the threshold is the least score: leave it out"
        )


def _tuned(p: Parameters) -> Tuning:
    """Choose the shape for pairs that must share ``buckets_shared_min`` bands, scored by estimate or exactly."""
    shape = p.bands, p.rows, p.min_similarity
    law, exact = verify.SET_MEASURES[measure_of(p)].agreement, p.verify == "exact"
    met = p.buckets_shared_min
    if p.false_weight is not None:
        sized = p.rows_max, p.sketch_bits or _BITS[0], *shape
        return weigh(p.false_weight, p.threshold, *sized, agreement=law, exact_score=exact, bands_min=met)

    def with_bits(bits: int) -> Tuning:
        sized = p.rows_max, bits, *shape
        return choose(p.threshold, p.recall, *sized, agreement=law, exact_score=exact, bands_min=met)

    if p.sketch_bits is not None:
        return with_bits(p.sketch_bits)
    try:
        return with_bits(_BITS[0])
    except ConfigError:
        return with_bits(_BITS[1])


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
    shingles = split(codes, plan.k, plan.stops)
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


def signing(plan: SetPlan) -> tuple[object, ...]:
    """Return what decides elements, sketches and bands, with the rules of the shingles or the ratings."""
    shingling, tuning = SHINGLES[plan.shingles], plan.tuning
    elements = plan.shingles, plan.k, plan.shingle_bytes, plan.of_bags, plan.exact, plan.groups
    bands = tuning.bands, tuning.rows, tuning.sketch_bits, plan.seed
    if shingling.split is None:
        reading: tuple[object, ...] = (*plan.ratings, TOKENS_MAX)
    else:
        reading = (FOLD_RULES, *plan.normal_form, plan.text_characters_max)
    shortest = ("characters_min", plan.characters_min) if plan.characters_min else ()
    novelty = ("novelty", plan.novelty, said_rules()) if plan.novelty != "off" else ()
    return (*elements, *bands, *reading, *shingling.rules(plan.stops), *shortest, *novelty)


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
    if held.ascii_longest:
        form = plan.normal_form
        plain = AsciiTexts(held.raw, form.fold_case, form.fold_space, held.ascii_longest)
        sketches, contents, _, shingles, characters, fewest = sign_codes(NO_CODES, plan, plain)
        if fewest:
            return Signing(contents, fixed_evidence(sketches), {}, characters, shingles, None, held)
    codes, refused = read_held(held, plan.normal_form, plan.text_characters_max)
    sketches, contents, counts, shingles, characters, fewest = sign_codes(codes, plan)
    if not fewest:
        _refuse_bare(refused, counts)
        contents, sketches, codes = contents[counts > 0], sketches[counts > 0], codes.select(counts > 0)
    return Signing(contents, fixed_evidence(sketches), refused, characters, shingles, codes, held)


def sign_codes(codes: CodePoints, plan: SetPlan, plain: AsciiTexts = NO_ASCII) -> one_pass.SignedTexts:
    """Return sketches, contents and numbers of shingles of normalised texts, or of plain ones, by one permutation."""
    tuning = plan.tuning
    shape = plan.k, 8 * plan.shingle_bytes, tuning.bands * tuning.rows, plan.seed, tuning.sketch_bits
    return ONE_PASS[plan.shingles](codes, *shape, plain)


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
    banded=True,
    options=SetOptions,
    guarantee=S_CURVE,
    scoring=scoring,
    sign=with_word_sets(with_short_texts(sign_one_pass)),
    sample=sample,
    examples=EXAMPLES,
    probe_candidates_max=PROBE_CANDIDATES_MAX,
    said=said,
    elements=stored_elements,
)  # fmt: skip
