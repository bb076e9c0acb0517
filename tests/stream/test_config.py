"""Configuration: which values are refused, with which message, and which settings enter which fingerprint."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from setting_tables import CHANGES, REFUSING, WRONG, given

from neardup import Config, ConfigError, Document, Signer
from neardup.features.texts.words import stop_languages
from neardup.schemes.rows import SCHEMES

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
    """A new setting or option of a scheme needs a range and a place in the fingerprints."""
    fields = {*Config.model_fields} - {"scheme_options"}
    options = {(owner(scheme, name), name) for scheme, row in SCHEMES.items() for name in row.options.model_fields}
    for table in (WRONG, CHANGES):
        assert {field for field in table if ":" not in field} == fields
        names = [field.split(":") for field in table if ":" in field]
        assert {(owner(scheme, name), name) for scheme, name in names} == options


def owner(scheme: str, option: str) -> str:
    """The table that has an option: that of the scheme, or one that it derives from."""
    tables = reversed(SCHEMES[scheme].options.__mro__)
    return next(table.__name__ for table in tables if option in vars(table).get("__annotations__", {}))


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]])
def test_a_wrong_value_is_refused_with_value_rule_and_remedy(field: str, value: Any) -> None:
    """The message names the setting and what was given, the rule, and the default or to leave it out."""
    scheme, _, name = field.rpartition(":")
    with pytest.raises(ConfigError) as caught:
        Config(**({"scheme": scheme, "scheme_options": {name: value}} if scheme else {field: value}))
    default = (SCHEMES[scheme].options if scheme else Config).model_fields[name].default
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
        ({"scheme": "one_permutation:ratings=stars"}, "ratings=stars.*measure is jaccard: set measure to jaccard_bag"),
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
    monkeypatch.setattr("neardup.schemes.kinds.sets.FOLD_RULES", "15.0.0")
    assert Config().signing_fingerprint == "39b3195e310f3122b46f057e8e342b7e"
    assert Config().matching_fingerprint == "d7ebfbf10b60875fecdd25b53ea17d5e"
    monkeypatch.setattr("neardup.schemes.kinds.sets.FOLD_RULES", "15.1.0")
    assert Config().signing_fingerprint != "39b3195e310f3122b46f057e8e342b7e"


@pytest.mark.parametrize("field", CHANGES)
def test_a_setting_changes_the_fingerprints_it_is_part_of(field: str) -> None:
    """Signing, matching, both or none; and back again."""
    value, names = CHANGES[field]
    base, other = Config(**given(field)), Config(**given(field, value))
    assert (base.signing_fingerprint != other.signing_fingerprint) == ("signing" in names)
    assert (base.matching_fingerprint != other.matching_fingerprint) == ("matching" in names)
    scheme, _, name = field.rpartition(":")
    again = getattr(base.scheme_options if scheme else base, name)
    assert Config(**given(field, again)).signing_fingerprint == base.signing_fingerprint


@pytest.mark.parametrize("field", [field for field in CHANGES if field not in REFUSING])
def test_keys_change_exactly_with_the_signing_fingerprint(field: str) -> None:
    """Equal fingerprints, equal evidence and keys, bit by bit; a setting of the fingerprint changes some of them."""
    value, names = CHANGES[field]
    base, other = Config(**given(field)), Config(**given(field, value))
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
    assert {Config(scheme=name).probe_limit for name in ("one_permutation", "minhash", "grouped")} == {1_024}
    assert {Config(scheme=name).probe_limit for name in ("prefix", "identical", "grid")} == {None}
    assert Config(scheme="hyperplane:dimension=8").probe_limit is None
    assert Config(probe_candidates_max=7).probe_limit == 7
    assert Config(probe_candidates_max=1_024).matching_fingerprint == Config().matching_fingerprint
