"""Records: fields and their scores, nicknames, blocking keys, the evidence and what two of them share."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Indel

from stream import records
from stream.errors import ConfigError
from stream.nicknames import NICKNAMES
from stream.normalize import NormalForm

FIELDS = records.parse_fields(["name", "address", "phone"])
NAMES = records.parse_nicknames(NICKNAMES)
NO_NAMES = records.parse_nicknames([])
VALUES = st.tuples(*[st.text("ab é1", max_size=6).map(str.strip)] * 3)


def scored(a, b, fields=FIELDS, nicknames=NAMES, missing=None):
    points, weights = records.score([a], [b], fields, nicknames, missing)
    back = records.score([b], [a], fields, nicknames, missing)
    assert (points.tolist(), weights.tolist()) == tuple(side.tolist() for side in back)
    return points[0], weights[0]


def blocking(exact=None, shingled=(), fields=FIELDS, k=3, bands=8, rows=2, seed=1):
    return records.parse_blocking(fields, exact, shingled, k, bands, rows, seed)


def keys_of(values, block, fields=FIELDS):
    data, starts = records.join_values(values)
    found, key_starts = records.keys(data, starts, records.sketches(values, block), len(fields), block)
    return [found[a:b].tolist() for a, b in pairwise(key_starts)]


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
    assert records.edits(["bill"], ["william"], NO_NAMES).tolist() == [5]
    a = ["bill", "bill smith", "bob and bill", "smith bill", "bill", "bill"]
    b = ["william", "william smyth", "robert and william", "smith william", "bill", "bell"]
    assert records.edits(a, b, NAMES).tolist() == [1, 3, 2, 1, 0, 2]
    assert records.edits(b, a, NAMES).tolist() == [1, 3, 2, 1, 0, 2]


def test_a_word_of_two_groups_meets_both_and_does_not_join_them():
    """Pat is Patricia or Patrick, but Patricia is not Patrick."""
    assert records.edits(["pat", "pat", "patricia"], ["patricia", "patrick", "patrick"], NAMES).tolist() == [1, 1, 3]


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
    assert records.similarity(np.array([0.0, 200.0]), np.array([0.0, 200.0])).tolist() == [0.0, 1.0]


def test_weights_and_penalties_are_those_of_each_field():
    """A penalty of 0 gives a field its points whenever both records have it."""
    fields = records.parse_fields(["name:50", "address:10:0", "phone:40:0.5"], penalty=2)
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
    assert 0 <= records.similarity(np.array([points]), np.array([weights]))[0] <= 1


@given(st.lists(VALUES, max_size=5))
def test_the_evidence_holds_the_values(values):
    """Joined by 0x1F and split again, whatever is empty."""
    data, starts = records.join_values(values)
    assert records.split_values(data, starts) == values


def test_values_are_normalised_and_hold_no_separator():
    """In the order of the fields; a missing one is empty, and names that are no field are ignored."""
    record = {"phone": "555\x1f1234", "name": "  ＢＩＬＬ  Smith ", "age": "7"}
    assert records.values_of(record, FIELDS, NormalForm()) == ("bill smith", "", "555 1234")
    assert records.values_of(record, FIELDS, NormalForm(fold_space=False))[2] == "555 1234"


def test_equal_fields_share_a_key_each():
    """And no value meets one of another field."""
    block = blocking()
    one, two, three = keys_of([("ann", "elm", "5"), ("ann", "oak", "5"), ("elm", "ann", "")], block)
    assert (len(one), len(two), len(three)) == (3, 3, 2)
    assert [one.index(key) for key in one if key in two] == [0, 2]
    assert not set(one) & set(three)


def test_a_key_of_several_fields_wants_them_all():
    """Equal together, and none of them missing; where a value ends makes a difference."""
    block = blocking(["name+phone"])
    keys = keys_of(
        [("ann", "elm", "5"), ("ann", "oak", "5"), ("ann", "elm", ""), ("an", "", "n5"), ("", "", "")], block
    )
    assert keys[0] == keys[1]
    assert [len(own) for own in keys] == [1, 1, 0, 1, 0]
    assert keys[3] != keys[0]


def test_a_record_without_a_field_has_no_key_of_it():
    """Two empty values are not equal values."""
    assert keys_of([("", "", ""), ("", "elm", "")], blocking())[0] == []


def test_shingled_fields_meet_as_the_s_curve_says():
    """Names of Jaccard similarity s share a band with 1 - (1 - s^r)^b, over seeds; a missing one has no band."""
    values = [("abcdefghijklmnop", "", ""), ("abcdefghijklmnxy", "", ""), ("", "elm", "")]
    s = 12 / 16
    met, tries = 0, 600
    for seed in range(tries):
        block = blocking([], ["name"], bands=2, rows=3, seed=seed)
        one, other, none = keys_of(values, block)
        assert (len(one), len(other), len(none)) == (2, 2, 0)
        met += bool(set(one) & set(other))
    expected = 1 - (1 - s**3) ** 2
    assert abs(met / tries - expected) < 4 * (expected * (1 - expected) / tries) ** 0.5


def test_shingles_and_exact_keys_stand_side_by_side():
    """The exact keys first, then the bands of each field with a seed of its own."""
    block = blocking(["phone"], ["name", "address"], bands=4)
    one, other = keys_of([("ann jones", "ann jones", "5"), ("ann jones", "ann jones", "6")], block)
    assert len(one) == len(set(one)) == 1 + 4 + 4
    assert [one.index(key) for key in one if key in other] == list(range(1, 9))
    assert block.width == 2 * 4 * 2 * 2


def test_another_seed_gives_other_keys():
    """Exact keys and bands."""
    values = [("ann jones", "1 elm street", "5")]
    first, second = (set(keys_of(values, blocking(["phone"], ["name"], seed=seed))[0]) for seed in (1, 2))
    assert len(first) == 9
    assert not first & second


@given(st.lists(st.lists(st.integers(0, 6), max_size=5, unique=True), min_size=2, max_size=8))
def test_shared_keys_are_counted_and_the_first_is_known(lists):
    """As sets would say."""
    a, b = lists[: len(lists) // 2], lists[len(lists) // 2 :][: len(lists) // 2]
    columns = [
        (np.array([key for keys in side for key in keys], np.uint64), np.cumsum([0, *map(len, side)]))
        for side in (a, b)
    ]
    first, shared = records.shared_keys(*columns[0], *columns[1])
    assert shared.tolist() == [len(set(x) & set(y)) for x, y in zip(a, b, strict=True)]
    assert first.tolist() == [next((i for i, key in enumerate(x) if key in y), -1) for x, y in zip(a, b, strict=True)]


def test_keys_and_score_do_not_depend_on_what_stands_beside_a_record():
    """A batch gives what one by one gives."""
    rng = np.random.default_rng(5)
    words = ["ann", "bob", "", "élan", "漢字", "william"]
    values = [tuple(" ".join(rng.choice(words, 2)).strip() for _ in range(3)) for _ in range(50)]
    block = blocking(["name", "address+phone"], ["name"])
    assert keys_of(values, block) == [keys_of([one], block)[0] for one in values]
    batch = records.score(values[:25], values[25:], FIELDS, NAMES)
    single = [records.score([a], [b], FIELDS, NAMES) for a, b in zip(values[:25], values[25:], strict=True)]
    assert [side.tolist() for side in batch] == [[one[i][0] for one in single] for i in (0, 1)]


def test_the_shipped_groups_are_normalised_and_each_names_a_word_once():
    """Small letters without blanks, at least two words a group."""
    for group in NICKNAMES:
        words = group.split("=")
        assert len(set(words)) == len(words) >= 2
        assert all(word.isalpha() and word == word.casefold() for word in words)


@pytest.mark.parametrize("items", [[], [""], ["name", "name"], ["name:0"], ["name:x"], [":5"], ["a:1:-1"], ["a:1:2:3"]])
def test_fields_that_cannot_work_are_refused(items):
    """With the remedy."""
    with pytest.raises(ConfigError, match="record_fields"):
        records.parse_fields(items)


@pytest.mark.parametrize(
    ("exact", "shingled", "words"),
    [
        (["age"], [], "record_keys names 'age'"),
        ([], ["age"], "record_shingled names"),
        ([], [], "no records would meet"),
    ],
)
def test_keys_that_cannot_work_are_refused(exact, shingled, words):
    """Fields that are not scored have no place in the evidence."""
    with pytest.raises(ConfigError, match=words):
        blocking(exact, shingled)


def test_a_group_of_one_word_is_refused():
    """It stands for nothing; an empty text is no group at all."""
    with pytest.raises(ConfigError, match="two words or more"):
        records.parse_nicknames(["bill"])
    assert records.parse_nicknames([""]) == ({}, ())
