"""Settings at the edge, and settings that a scheme does not use."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from neardup import Config, ConfigError, Deduplicator, Document
from neardup.pairs.evaluation.judging import confusion
from neardup.schemes.config import OF_SCHEMES, Asked
from neardup.schemes.rows import SCHEMES
from neardup_textbook.theory.families import collision

RECORDS = {"scheme": "records:fields=name,city,keys=city", "threshold": 0.5}
PEOPLE = [Document("a", fields={"name": "Ann", "city": "Bern"}), Document("b", fields={"name": "Anne", "city": "Bern"})]


@pytest.mark.parametrize(
    ("settings", "idle"),
    [
        ({"scheme": "prefix", "bands": 5}, "bands"),
        ({"scheme": "prefix", "verify": "exact"}, "verify"),
        ({"scheme": "grid:squares=9", "k": 3}, "k"),
        ({**RECORDS, "sketch_bits": 16, "bands": 2}, "bands, sketch_bits"),
    ],
)
def test_a_setting_that_the_scheme_does_not_use_is_refused_by_name(settings, idle):
    """Otherwise it would be ignored silently; its default may be given."""
    with pytest.raises(ConfigError, match=f"{idle} has no meaning with scheme {settings['scheme'].partition(':')[0]}"):
        Config(**settings)
    names = idle.split(", ")
    kept = {name: value for name, value in settings.items() if name not in names}
    Config(**kept, **{name: Config.model_fields[name].default for name in names})


@pytest.mark.parametrize("penalty", [0.0, 1e-310, 1e-38, 1e-9, 1e3])
def test_any_penalty_of_records_gives_a_score(penalty):
    """However near to zero, where every number of edits leaves points."""
    config = Config(**{**RECORDS, "scheme": f"{RECORDS['scheme']},penalty={penalty}"})
    (pair,) = Deduplicator(config).process(PEOPLE) or [None]
    assert pair is not None


@pytest.mark.parametrize("field", ["name:1e308", "name:1e10", "name:1:1e308", "name:0", "name:nan"])
def test_weights_whose_sum_is_no_number_are_refused(field):
    """With the rule and the form."""
    with pytest.raises(ConfigError, match="a weight above 0 and a penalty of at least 0, both at most 1e\\+09"):
        Config(scheme=f"records:fields={field},city,keys=city", threshold=0.5)


def test_distances_at_the_end_of_the_range_give_chances_without_a_warning():
    """Of segments of lines."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert collision("euclid", 1e308, scale=1.0) < 1e-300
        assert collision("euclid", 1.0, scale=1e308) == 1
        assert collision("euclid", 1e308, scale=1e308) == pytest.approx(0.369, abs=1e-3)


def test_segments_that_hold_all_vectors_are_refused():
    """The error comes before the search, which would take seconds."""
    with pytest.raises(ConfigError, match="segment_width=1e\\+30 is more than 1,000,000 times distance_scale"):
        Config(scheme="p_stable:dimension=2,distance_scale=1.0,segment_width=1e30")


def test_a_remedy_can_be_followed():
    """A recall of no pairs has no value."""
    with pytest.raises(ConfigError) as raised:
        Config(threshold=0.05, recall=0.9999999, rows=30, bands=2)
    assert "recall of 0.0000" not in str(raised.value)
    assert "ask for a higher threshold" in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "document"),
    [
        ({"scheme": "grouped"}, {"text": "short"}),
        ({"scheme": "partial_minhash"}, {"text": "short"}),
        ({"scheme": "grid:squares=100"}, {"tokens": [1, 2]}),
    ],
)
def test_copies_share_a_bucket_at_least(settings, document):
    """Also where so small a content has no key of its own."""
    found = Deduplicator(Config(**settings)).process([Document("a", **document), Document("b", **document)])
    assert [pair.buckets >= 1 for pair in found] == [True]


def test_too_few_documents_are_reported_as_they_were_given():
    """Copies are among them, and are not subtracted before."""
    with pytest.raises(ConfigError, match="documents is 3, but the pairs name 5"):
        confusion([("a", "b")], [("a", "c")], documents=3, copies=2)
    assert confusion([("a", "b")], [("a", "c")], documents=5, copies=2).true_negatives == 1


@pytest.mark.long
def test_the_table_of_settings_lists_what_each_scheme_uses():
    """In docs/GUARANTEES.md; what every scheme uses stands above the table."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "GUARANTEES.md").read_text(encoding="utf-8")
    table = page.split("### Settings of each scheme")[1].split("###")[0]
    listed = {name: {"threshold", "min_similarity", "seed"} for name in SCHEMES}
    for schemes, settings in re.findall(r"^\| (`.*`) \| (`.*`) \|$", table, re.M):
        for name in re.findall(r"`(\w+)`", schemes):
            listed[name] |= set(re.findall(r"`(\w+)`", settings))
    for name, scheme in SCHEMES.items():
        used = set()
        for example in scheme.examples:
            config = Config(scheme=name, **example)
            asked = Asked(config)
            scheme.plan(asked, config.scheme_options)
            used |= asked.read & OF_SCHEMES
        assert listed[name] == used, name
