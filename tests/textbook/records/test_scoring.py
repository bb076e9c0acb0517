"""Scores of records: weights, penalties, missing fields, nicknames."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Indel

from neardup.errors import ConfigError
from neardup_textbook.records import scoring
from neardup_textbook.records.nicknames import NICKNAMES

FIELDS = scoring.parse_fields(["name", "address", "phone"])
NAMES = scoring.parse_nicknames(["english"])
NO_NAMES = scoring.parse_nicknames([])
VALUES = st.tuples(*[st.text("ab é1", max_size=6).map(str.strip)] * 3)


def scored(a, b, fields=FIELDS, nicknames=NAMES, missing=None):
    points, weights = scoring.score([a], [b], fields, nicknames, missing)
    back = scoring.score([b], [a], fields, nicknames, missing)
    assert (points.tolist(), weights.tolist()) == tuple(side.tolist() for side in back)
    return points[0], weights[0]


def test_three_equal_fields_make_a_score_of_300():
    """A hundred points each."""
    record = ("william smith", "1 elm street", "555 1234")
    assert scored(record, record) == (300, 300)


def test_the_penalty_grows_as_the_square_of_the_edit_distance():
    """One insertion costs 4 points, two 16, three 36; five and more leave nothing, and never less."""
    name = "abcdefgh"
    scores = [scored((name, "x", "1"), (name + "z" * edits, "x", "1"))[0] for edits in range(8)]
    assert scores == [300, 296, 284, 264, 236, 200, 200, 200]


def test_a_name_and_its_short_form_differ_by_one_edit():
    """Bill and William are five edits apart, and count as one; so do forms inside longer values, in any place."""
    assert Indel.distance("bill", "william") == 5
    assert scoring.edits(["bill"], ["william"], NO_NAMES).tolist() == [5]
    a = ["bill", "bill smith", "bob and bill", "smith bill", "bill", "bill"]
    b = ["william", "william smyth", "robert and william", "smith william", "bill", "bell"]
    assert scoring.edits(a, b, NAMES).tolist() == [1, 3, 2, 1, 0, 2]
    assert scoring.edits(b, a, NAMES).tolist() == [1, 3, 2, 1, 0, 2]


def test_a_word_of_two_groups_meets_both_and_does_not_join_them():
    """Pat is Patricia or Patrick, but Patricia is not Patrick."""
    assert scoring.edits(["pat", "pat", "patricia"], ["patricia", "patrick", "patrick"], NAMES).tolist() == [1, 1, 3]


def test_one_field_the_same_one_different_and_one_slightly_off_scores_185_or_so():
    """The example of 3.8.2: an exact address, another name, a phone with one digit exchanged."""
    points, weights = scored(("ann jones", "1 elm street", "555 1234"), ("bob k. xiao", "1 elm street", "555 1235"))
    assert (points, weights) == (184, 300)


@pytest.mark.parametrize(
    ("missing", "expected"), [(None, (200, 200)), (0.0, (200, 300)), (0.5, (250, 300)), (1.0, (300, 300))]
)
def test_a_field_that_one_record_lacks_is_left_out_or_earns_its_share(missing, expected):
    """The phone is not there in the second."""
    assert scored(("ann", "1 elm", "555"), ("ann", "1 elm", ""), missing=missing) == expected


@pytest.mark.parametrize("missing", [None, 0.0, 0.5])
def test_a_field_that_both_records_lack_tells_nothing(missing):
    """So that a twin scores 1 whatever it lacks."""
    points, weights = scored(("ann", "", "555"), ("ann", "", "555"), missing=missing)
    assert (points, weights) == (200, 200)
    assert scored(("", "", ""), ("", "", ""), missing=missing) == (0, 0)
    assert scoring.similarity(np.array([0.0, 200.0]), np.array([0.0, 200.0])).tolist() == [0.0, 1.0]


def test_weights_and_penalties_equal_those_of_each_field():
    """A penalty of 0 gives a field its points whenever both records have it."""
    fields = scoring.parse_fields(["name:50", "address:10:0", "phone:40:0.5"], penalty=2)
    assert fields == (("name", 50, 2), ("address", 10, 0), ("phone", 40, 0.5))
    assert scored(("ann", "1 elm", "555"), ("anna", "9 oak", "5551"), fields) == (48 + 10 + 39.5, 100)


@given(VALUES, VALUES, st.sampled_from([None, 0.0, 0.5]))
def test_the_score_is_symmetric_and_between_nothing_and_the_weights(a, b, missing):
    """And equal to what the formula says, one field after the other."""
    points, weights = scored(a, b, nicknames=NO_NAMES, missing=missing)
    expected = weight = 0.0
    for x, y in zip(a, b, strict=True):
        if x and y:
            expected += max(100 - 4 * Indel.distance(x, y) ** 2, 0)
            weight += 100
        elif (x or y) and missing is not None:
            expected += 100 * missing
            weight += 100
    assert (points, weights) == (expected, weight)
    assert 0 <= scoring.similarity(np.array([points]), np.array([weights]))[0] <= 1


def test_the_shipped_groups_are_normalised_and_each_names_a_word_once():
    """Small letters without blanks, at least two words a group."""
    for group in NICKNAMES["english"]:
        words = group.split("=")
        assert len(set(words)) == len(words) >= 2
        assert all(word.isalpha() and word == word.casefold() for word in words)


@pytest.mark.parametrize("items", [[], [""], ["name", "name"], ["name:0"], ["name:x"], [":5"], ["a:1:-1"], ["a:1:2:3"]])
def test_fields_that_cannot_work_are_refused(items):
    """The message has the remedy."""
    with pytest.raises(ConfigError, match="option fields"):
        scoring.parse_fields(items)


def test_a_group_of_one_word_is_refused():
    """One word has no other form, unless it names a table; an empty text is no group."""
    with pytest.raises(ConfigError, match=r"two words or more.*table: english"):
        scoring.parse_nicknames(["bill"])
    assert scoring.parse_nicknames([""]) == ({}, ())


def test_groups_stand_next_to_a_table_or_in_its_place():
    """The table, and more; or others alone."""
    more = scoring.parse_nicknames(["english", "konstantin=kostya"])
    assert scoring.edits(["kostya", "bill"], ["konstantin", "william"], more).tolist() == [1, 1]
    others = scoring.parse_nicknames(["konstantin = kostya"])
    assert scoring.edits(["kostya", "bill"], ["konstantin", "william"], others).tolist() == [1, 5]
