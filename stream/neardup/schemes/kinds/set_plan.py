"""The resolved settings of schemes of sets."""

from __future__ import annotations

from typing import NamedTuple

from neardup.errors import ConfigError
from neardup.features.texts.normalize import NormalForm
from neardup.features.texts.shingles import SHINGLES
from neardup.features.texts.words import StopList
from neardup.features.tokens import verify
from neardup.features.tokens.elements import RatingRule
from neardup.features.tokens.rarity import Weights
from neardup.schemes.kinds.set_options import SetOptions
from neardup.schemes.parameters import Parameters
from neardup.schemes.theory.tuning import SKETCH_BITS, Tuning, choose
from neardup.schemes.theory.weighing import weigh
from neardup.schemes.word_evidence import check_novelty

# Bits of a row where the settings name none: the second number if the first one cannot reach the recall.
_BITS = SKETCH_BITS[:2]


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

    @property
    def weighted(self) -> bool:
        """Whether counts of the stream weigh elements; those of texts are then of ``with_joined_numbers``."""
        return verify.SET_MEASURES[self.measure].weighted


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
