"""Configuration: which values are refused, with which message, and which settings enter which fingerprint."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest

from neardup import Config, ConfigError, Document, Signer
from neardup.features.texts.words import stop_languages
from neardup.features.tokens.token_order import TokenOrder
from neardup.schemes.rows import SCHEMES

NAN = math.nan
# Field -> values out of its range, or of another type.
WRONG: dict[str, list[Any]] = {
    "scheme": ["minhsh", 5],
    "shingles": ["word", None],
    "shingle_bytes": [2, 16],
    "measure": ["jacard", 5],
    "verify": ["exactly", None],
    "groups": [0, 1025],
    "ratings": ["star", None],
    "rating_high_min": [-0.1, 1000.1, NAN],
    "rating_max": [0.9, 1000.1, NAN],
    "tokens_max": [0, 2**28 + 1],
    "k": [0, 101, 1.5, "three"],
    "languages": [("xx",), "en"],
    "stop_words": ["the", 5],
    "nfkc": ["perhaps"],
    "fold_case": [2],
    "fold_space": ["x"],
    "threshold": [0.04, 1.01, NAN, "high"],
    "recall": [0.0, 1.0, -1, NAN],
    "min_similarity": [-0.1, 1.1, NAN],
    "false_weight": [0, 1, -0.1, NAN],
    "rows_max": [0, 1025],
    "bands": [0, 1025],
    "rows": [0, 1025],
    "seed": [-1, 2**63],
    "sketch_bits": [7, 64],
    "characters_min": [-1, 1_000_001],
    "window_seconds": [0, -1, math.inf, NAN],
    "lateness_seconds": [-1, math.inf, NAN],
    "story_seconds_max": [0, -1, math.inf, NAN],
    "window_documents": [0, 2**30 + 1],
    "bucket_candidates_max": [0, 2**20 + 1],
    "probe_candidates_max": [0, 2**30 + 1],
    "probe_two_per_band": [2],
    "buckets_shared_min": [0, 1025],
    "evidence_bytes_max": [0, 2**42 + 1],
    "record_fields": ["name", 5],
    "record_keys": ["name", 5],
    "record_shingled": ["name", 5],
    "record_shingle_k": [0, 101],
    "record_bands": [0, 65],
    "record_rows": [1, 65],
    "record_penalty": [-1, 1e7, NAN],
    "record_missing": [-0.1, 1.1, NAN],
    "record_nicknames": ["english", 5],
    "grid_squares": [0, 65537],
    "grid_functions": [0, 65537],
    "grid_groups": [0, 17],
    "grid_function_squares": [0, 17],
    "dimension": [0, 65537],
    "vector_evidence": ["float64", 5],
    "planes": ["round", None],
    "distance_scale": [0, -1, 1e31, NAN],
    "segment_width": [0, -1, 1e31, NAN],
    "component_max": [0, 65536],
    "norm_max": [0, -1, 1e31, NAN],
    "passage_gram": [1, 101],
    "passage_characters": [1, 10_001],
    "passage_templates": ["a text", 5],
    "passage_part_min": [0.4, 1.1, NAN],
    "token_order": ["order.npy", np.array([1], np.uint64)],
    "identical_positions": [0, 1025],
    "text_characters_max": [0, 2**28 + 1],
    "id_bytes_max": [0, 65536],
    "collection_field": [0],
}
# A shingle of the documents below.
AGAIN = SCHEMES["prefix"].features([Document("", "again")], Config(scheme="prefix").plan).features.values
# Field -> another value, and the fingerprints that it changes.
CHANGES: dict[str, tuple[Any, set[str]]] = {
    "scheme": ("minhash", {"signing"}),
    "shingles": ("words", {"signing"}),
    "shingle_bytes": (4, {"signing"}),
    "measure": ("jaccard_bag", {"signing", "matching"}),
    "verify": ("exact", {"signing", "matching"}),
    "groups": (4, {"signing"}),
    "ratings": ("liked_hated", {"signing"}),
    "rating_high_min": (4.0, {"signing"}),
    "rating_max": (4.0, {"signing"}),  # which ratings are refused
    "tokens_max": (2, {"signing"}),
    "k": (7, {"signing"}),
    "languages": (("de", "en"), set()),  # but see the stopwords shingles below
    "stop_words": (("The", "for"), {"signing"}),
    "nfkc": (False, {"signing"}),
    "fold_case": (False, {"signing"}),
    "fold_space": (False, {"signing"}),
    "threshold": (0.9, {"signing", "matching"}),
    "recall": (0.99, {"signing", "matching"}),
    "min_similarity": (0.6, {"matching"}),
    "false_weight": (0.5, {"signing", "matching"}),
    "rows_max": (64, {"signing", "matching"}),
    "bands": (16, {"signing", "matching"}),
    "rows": (6, {"signing", "matching"}),
    "seed": (2, {"signing"}),
    "sketch_bits": (16, {"signing", "matching"}),
    "characters_min": (60, {"signing"}),
    "window_seconds": (60.0, {"matching"}),
    "lateness_seconds": (5.0, {"matching"}),
    "story_seconds_max": (86_400.0, set()),
    "window_documents": (10, {"matching"}),
    "bucket_candidates_max": (9, {"matching"}),
    "probe_candidates_max": (9, {"matching"}),
    "probe_two_per_band": (True, {"matching"}),
    "buckets_shared_min": (2, {"signing", "matching"}),
    "evidence_bytes_max": (1 << 20, {"matching"}),
    "record_fields": (("name:50", "phone", "address"), {"signing", "matching"}),
    "record_keys": (("name+phone",), {"signing"}),
    "record_shingled": (("name",), {"signing"}),
    "record_shingle_k": (4, {"signing"}),
    "record_bands": (8, {"signing"}),
    "record_rows": (3, {"signing"}),
    "record_penalty": (1.0, {"matching"}),
    "record_missing": (0.0, {"matching"}),
    "record_nicknames": (("bill=william",), {"matching"}),
    "grid_squares": (900, {"signing"}),
    "grid_functions": (1000, {"signing"}),
    "grid_groups": (1, {"matching"}),  # only the first group decides keys
    "grid_function_squares": (2, {"signing"}),
    "dimension": (4, {"signing"}),
    "vector_evidence": ("float16", {"signing"}),
    "planes": ("signs", {"signing"}),
    "distance_scale": (9.0, {"signing", "matching"}),
    "segment_width": (9.0, {"signing"}),
    "component_max": (8, {"signing", "matching"}),
    "norm_max": (11.0, {"signing", "matching"}),
    "token_order": (TokenOrder(AGAIN), {"signing"}),
    "identical_positions": (3, {"signing"}),
    "passage_gram": (30, {"signing"}),
    "passage_characters": (41, {"signing"}),
    "passage_templates": (("The quick brown fox finds strasse and strasse, again and again",), {"signing"}),
    "passage_part_min": (0.8, set()),
    "text_characters_max": (1000, {"signing"}),  # which texts are signed at all
    "id_bytes_max": (9, set()),
    "collection_field": ("collection", {"signing"}),
}
# Fields whose other value refuses what is signed here.
REFUSING = ("text_characters_max", "dimension", "rating_max", "tokens_max", "planes")
SHAPE_OF_SHINGLED = ("record_shingle_k", "record_bands", "record_rows")
# Field -> settings that give it a meaning, if the defaults give it none.
BASES: dict[str, dict[str, Any]] = {
    "stop_words": {"shingles": "stopwords"},
    "token_order": {"scheme": "prefix"},
    "identical_positions": {"scheme": "identical"},
    **{field: {"scheme": "records"} for field in CHANGES if field.startswith("record_")},
    **{field: {"scheme": "records", "record_shingled": ("name",)} for field in SHAPE_OF_SHINGLED},
    **{field: {"scheme": "grid"} for field in CHANGES if field.startswith("grid_")},
    **{field: {"scheme": "hyperplane", "dimension": 3} for field in ("dimension", "vector_evidence", "planes")},
    **{x: {"scheme": "p_stable", "dimension": 3, "distance_scale": 10} for x in ("distance_scale", "segment_width")},
    "component_max": {"scheme": "bit_sampling", "measure": "l1", "dimension": 3, "component_max": 9},
    "norm_max": {"scheme": "hyperplane_dot", "dimension": 3, "norm_max": 10.0},
    "groups": {"scheme": "partial_minhash"},
    **{field: {"scheme": "passages"} for field in CHANGES if field.startswith("passage_")},
    **{field: {"shingles": "tokens"} for field in ("ratings", "rating_high_min", "rating_max", "tokens_max")},
}
# What every scheme can be given.
RECORD = {"name": "Bill Smith", "address": "1 Elm Street", "phone": "555 1234"}
DOCUMENTS = [
    Document(
        "0",
        "The Quick  brown\tfox ﬁnds STRASSE and Straße, again and again",
        fields=RECORD,
        tokens=range(0, 900, 3),
        vector=[1.0, 2.0, 3.0],
    ),
    Document(
        "1", "ＦＵＬＬ width for the\n\nend of it all", fields=RECORD, tokens=range(0, 900, 5), vector=[8.0, 1.0, 5.0]
    ),
]


def test_the_tables_of_these_tests_have_every_field() -> None:
    """A new setting needs a range and a place in the fingerprints."""
    assert set(WRONG) == set(Config.model_fields)
    assert set(CHANGES) == set(Config.model_fields)


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]])
def test_a_wrong_value_is_refused_with_value_rule_and_remedy(field: str, value: Any) -> None:
    """The message names the setting and what was given, the rule, and the default or to leave it out."""
    with pytest.raises(ConfigError) as caught:
        Config(**{field: value})
    default = Config.model_fields[field].default
    message = str(caught.value)
    assert message.startswith(f"{field}={value!r}: ")
    assert "must be " in message or "should be " in message
    assert message.endswith("; leave it out" if default is None else f"; the default is {default!r}")


def test_a_value_out_of_range_is_refused_with_the_whole_range() -> None:
    """The message gives both ends, and whether they are allowed."""
    with pytest.raises(
        ConfigError, match=r"^threshold=2: must be at least 0\.05 and at most 1\.0; the default is 0\.8$"
    ):
        Config(threshold=2)
    with pytest.raises(
        ConfigError, match=r"^recall=1: must be more than 0\.0 and less than 1\.0; the default is 0\.95$"
    ):
        Config(recall=1)
    with pytest.raises(ConfigError, match=r"^rows_max=0: must be at least 1 and at most 1,024; the default is 128$"):
        Config(rows_max=0)


def test_a_wrong_choice_is_refused_with_the_choices_and_the_nearest() -> None:
    """For schemes, shingles, languages and bits."""
    with pytest.raises(ConfigError, match=r"one_permutation, minhash.* \(did you mean 'minhash'\?\)"):
        Config(scheme="minhsh")
    with pytest.raises(ConfigError, match=r"must be one of 8, 16, 32"):
        Config(sketch_bits=12)
    with pytest.raises(ConfigError, match=", ".join(stop_languages())):
        Config(languages=("en", "xx"))


def test_unknown_settings_are_refused_by_name_with_the_nearest() -> None:
    """Each unknown setting; without a similar name, the message lists all settings."""
    with pytest.raises(ConfigError, match="unknown setting 'thresold'; did you mean 'threshold'"):
        Config(thresold=0.8)
    with pytest.raises(ConfigError, match=f"unknown setting 'qqq'; known are: {', '.join(Config.model_fields)}"):
        Config(qqq=1)
    with pytest.raises(
        ConfigError, match=r"'window_second'; did you mean 'window_seconds'.*'sed'; did you mean 'seed'"
    ):
        Config(window_second=1, sed=2)


def test_all_that_is_wrong_is_said_at_once() -> None:
    """One sentence a field."""
    with pytest.raises(ConfigError, match=r"threshold=2.*; seed=-1.*; unknown setting 'x'"):
        Config(threshold=2, seed=-1, x=1)


def test_stop_word_shingles_have_three_words_and_a_language() -> None:
    """k = 4 contradicts them, k = 3 does not; without a list there is no stop word."""
    with pytest.raises(ConfigError, match=r"k=4 with stopwords shingles.*leave k out"):
        Config(shingles="stopwords", k=4)
    with pytest.raises(ConfigError, match=r"languages is empty.*name at least one language"):
        Config(shingles="stopwords", languages=())
    assert Config(shingles="stopwords", k=3) != Config(shingles="stopwords")
    assert Config(shingles="stopwords", k=3).signing_fingerprint == Config(shingles="stopwords").signing_fingerprint
    assert Config(languages=()).plan.stops.languages == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shingles": "tokens", "k": 2}, "k=2 with tokens.*leave k out"),
        ({"stop_words": ("a",)}, "stop_words has no meaning with chars shingles: set shingles to stopwords or urls"),
        ({"shingles": "stopwords", "stop_words": ()}, "stop_words is empty.*leave it out"),
        ({"shingles": "urls", "stop_words": ("a1",)}, "stop_words has 'a1'.*give letters only"),
        ({"shingles": "stopwords", "stop_words": ("as well",)}, "stop_words has 'as well'.*2 words"),
        ({"shingles": "stopwords", "stop_words": ("a",), "languages": ("de",)}, "languages=de with stop_words"),
        ({"ratings": "stars"}, "ratings=stars.*measure is jaccard: set measure to jaccard_bag"),
        ({"measure": "containment"}, "measure=containment cannot be estimated.*set verify to exact"),
        ({"verify": "exact", "min_similarity": 0.7}, r"min_similarity=0\.7 with verify=exact.*leave it out"),
        ({"measure": "cosine"}, "measure is cosine, but sets are compared by jaccard.*set one of them"),
    ],
)
def test_settings_of_sets_that_contradict_are_refused(settings: dict[str, Any], message: str) -> None:
    """The message has the rule and the remedy."""
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


def test_containment_is_another_score_of_the_same_evidence() -> None:
    """Where the bands are given, only the matching fingerprint distinguishes it from Jaccard similarity."""
    shape = {"verify": "exact", "bands": 32, "rows": 4}
    jaccard, containment = Config(**shape, measure="jaccard"), Config(**shape, measure="containment")
    assert jaccard.signing_fingerprint == containment.signing_fingerprint
    assert jaccard.matching_fingerprint != containment.matching_fingerprint


def test_a_target_out_of_reach_says_what_is_reachable() -> None:
    """A configuration that cannot reach its recall is refused."""
    with pytest.raises(ConfigError, match=r"out of reach of 16 rows.*ask for a recall of .* or less.*rows_max to"):
        Config(threshold=0.6, rows_max=16, sketch_bits=8)


def test_a_configuration_cannot_be_changed() -> None:
    """``model_copy`` makes another configuration, with its own tuning, and checks it."""
    config = Config()
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 2  # type: ignore[misc]
    fingerprint = config.signing_fingerprint
    other = config.model_copy(update={"seed": 2, "threshold": 0.9})
    assert (other.plan.seed, other.tuning) == (2, Config(threshold=0.9).tuning)
    assert other.signing_fingerprint == Config(seed=2, threshold=0.9).signing_fingerprint != fingerprint
    with pytest.raises(ConfigError, match="threshold=7"):
        config.model_copy(update={"threshold": 7})


def test_equal_settings_are_equal_configurations() -> None:
    """Also as keys of a dict, copied, pickled, or after their properties were read."""
    asked, other = Config(threshold=0.7), Config(threshold=0.7, seed=1)
    assert asked.signing_fingerprint
    assert asked.plan
    assert asked == other == copy.deepcopy(asked) == pickle.loads(pickle.dumps(asked)) == asked.model_copy()
    assert len({asked, other, Config(threshold=0.7, seed=2)}) == 2


@pytest.mark.parametrize(("shingles", "k"), [("chars", 5), ("words", 3), ("stopwords", 3), ("urls", 2)])
def test_k_follows_the_shingles(shingles: str, k: int) -> None:
    """Five characters, three words, two parts of a URL."""
    assert Config(shingles=shingles).plan.k == k
    assert Config(shingles=shingles, k=k).signing_fingerprint == Config(shingles=shingles).signing_fingerprint


def test_fingerprints_have_known_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They name generations, so they last from release to release; the Unicode version is part of them."""
    monkeypatch.setattr("neardup.schemes.kinds.sets.UNICODE_VERSION", "15.0.0")
    assert Config().signing_fingerprint == "5fd001790fd1655e8aa8bd32a7548fd5"
    assert Config().matching_fingerprint == "d7ebfbf10b60875fecdd25b53ea17d5e"
    monkeypatch.setattr("neardup.schemes.kinds.sets.UNICODE_VERSION", "15.1.0")
    assert Config().signing_fingerprint != "5fd001790fd1655e8aa8bd32a7548fd5"


@pytest.mark.parametrize("field", CHANGES)
def test_a_setting_changes_the_fingerprints_it_is_part_of(field: str) -> None:
    """Signing, matching, both or none; and back again."""
    value, names = CHANGES[field]
    settings = BASES.get(field, {})
    base, other = Config(**settings), Config(**{**settings, field: value})
    assert (base.signing_fingerprint != other.signing_fingerprint) == ("signing" in names)
    assert (base.matching_fingerprint != other.matching_fingerprint) == ("matching" in names)
    assert Config(**{**settings, field: getattr(base, field)}).signing_fingerprint == base.signing_fingerprint


@pytest.mark.parametrize("field", [field for field in CHANGES if field not in REFUSING])
def test_keys_change_exactly_with_the_signing_fingerprint(field: str) -> None:
    """Equal fingerprints, equal evidence and keys, bit by bit; a setting of the fingerprint changes some of them."""
    value, names = CHANGES[field]
    settings = BASES.get(field, {})
    base, other = Config(**settings), Config(**{**settings, field: value})
    assert (signed(base) == signed(other)) == ("signing" not in names)


def test_stop_lists_are_part_of_the_signing_fingerprint_where_they_matter() -> None:
    """The order of languages and repeated names make no difference."""
    base = Config(shingles="stopwords")
    other, again = (Config(shingles="stopwords", languages=names) for names in (("de", "en"), ("en", "de", "en")))
    assert base.signing_fingerprint != other.signing_fingerprint == again.signing_fingerprint
    assert signed(other) == signed(again)


def test_own_stop_words_are_part_of_the_signing_fingerprint() -> None:
    """For both shinglings with stop words, in schemes with and without sketches; order and repetition do not matter."""
    for scheme, shingles in itertools.product(("one_permutation", "prefix"), ("stopwords", "urls")):
        base, other, again = (
            Config(scheme=scheme, shingles=shingles, stop_words=words)
            for words in (None, ("for", "the"), ("the", "for", "the"))
        )
        assert base.signing_fingerprint != other.signing_fingerprint == again.signing_fingerprint
        assert signed(other) == signed(again)


def test_another_way_to_the_same_bands_is_the_same_generation() -> None:
    """Only the resolved settings enter the fingerprint."""
    base = Config()
    given = Config(bands=base.tuning.bands, rows=base.tuning.rows)
    assert given != base
    assert given.signing_fingerprint == base.signing_fingerprint
    assert given.matching_fingerprint == base.matching_fingerprint


def signed(config: Config) -> list[bytes]:
    rated = [x._replace(tokens={"a": 5, "b": 3, "c": 1}) for x in DOCUMENTS]
    signed = Signer(config).sign(rated if config.shingles == "tokens" else DOCUMENTS)
    assert not signed.refusals
    batch = signed.batch
    keys = SCHEMES[config.scheme].keys(batch.evidence, config.plan)
    return [np.ascontiguousarray(column).tobytes() for column in (batch.contents, *batch.evidence, keys.values)]


def test_the_limit_of_a_probe_follows_the_scheme() -> None:
    """Candidates of sets are mostly pairs, so a probe stops at 1,024; other schemes lose pairs by that."""
    vectors = {"dimension": 8}
    assert {Config(scheme=name).probe_limit for name in ("one_permutation", "minhash", "grouped")} == {1_024}
    assert {Config(scheme=name).probe_limit for name in ("prefix", "identical", "grid")} == {None}
    assert Config(scheme="hyperplane", **vectors).probe_limit is None
    assert Config(probe_candidates_max=7).probe_limit == 7
    assert Config(probe_candidates_max=1_024).matching_fingerprint == Config().matching_fingerprint
