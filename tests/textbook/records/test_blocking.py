"""Blocking: which records become candidates, by equal values or by bands of shingles."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import ConfigError
from neardup_textbook.records import blocking

NAMES = ["name", "address", "phone"]
VALUES = st.tuples(*[st.text("ab é1", max_size=6)] * 3)


def block_by(exact=(), shingled=(), k=3, bands=8, rows=2, seed=1):
    return blocking.parse_blocking(NAMES, exact, shingled, k, bands, rows, seed)


def keys_of(values, block):
    data, starts = blocking.join_values(values)
    found, key_starts = blocking.keys(data, starts, blocking.sketches(values, block), len(NAMES), block)
    return [found[a:b].tolist() for a, b in pairwise(key_starts)]


@given(st.lists(VALUES, max_size=5))
def test_the_evidence_holds_the_values(values):
    """Values joined by 0x1F are split again, also empty values."""
    data, starts = blocking.join_values(values)
    assert blocking.split_values(data, starts) == values


def test_equal_fields_share_a_key_each():
    """Equal values of different fields have different keys."""
    block = block_by()
    one, two, three = keys_of([("ann", "elm", "5"), ("ann", "oak", "5"), ("elm", "ann", "")], block)
    assert (len(one), len(two), len(three)) == (3, 3, 2)
    assert [one.index(key) for key in one if key in two] == [0, 2]
    assert not set(one) & set(three)


def test_a_key_of_several_fields_wants_them_all():
    """All fields of a key are equal and present; the ends of values make a difference."""
    block = block_by(["name+phone"])
    keys = keys_of(
        [("ann", "elm", "5"), ("ann", "oak", "5"), ("ann", "elm", ""), ("an", "", "n5"), ("", "", "")], block
    )
    assert keys[0] == keys[1]
    assert [len(own) for own in keys] == [1, 1, 0, 1, 0]
    assert keys[3] != keys[0]


def test_a_record_without_a_field_has_no_key_of_it():
    """Two empty values are not equal values."""
    assert keys_of([("", "", ""), ("", "elm", "")], block_by())[0] == []


def test_shingled_fields_meet_as_the_s_curve_says():
    """Names of Jaccard similarity s share a band with 1 - (1 - s^r)^b, over seeds; a missing name has no band."""
    values = [("abcdefghijklmnop", "", ""), ("abcdefghijklmnxy", "", ""), ("", "elm", "")]
    s = 12 / 16
    met, tries = 0, 600
    for seed in range(tries):
        block = block_by([], ["name"], bands=2, rows=3, seed=seed)
        one, other, none = keys_of(values, block)
        assert (len(one), len(other), len(none)) == (2, 2, 0)
        met += bool(set(one) & set(other))
    expected = 1 - (1 - s**3) ** 2
    assert abs(met / tries - expected) < 4 * (expected * (1 - expected) / tries) ** 0.5


def test_shingles_and_exact_keys_stand_side_by_side():
    """The exact keys first, then the bands of each field with a seed of its own."""
    block = block_by(["phone"], ["name", "address"], bands=4)
    one, other = keys_of([("ann jones", "ann jones", "5"), ("ann jones", "ann jones", "6")], block)
    assert len(one) == len(set(one)) == 1 + 4 + 4
    assert [one.index(key) for key in one if key in other] == list(range(1, 9))
    assert block.width == 2 * 4 * 2 * 2


def test_another_seed_gives_other_keys():
    """Exact keys and bands."""
    values = [("ann jones", "1 elm street", "5")]
    first, second = (set(keys_of(values, block_by(["phone"], ["name"], seed=seed))[0]) for seed in (1, 2))
    assert len(first) == 9
    assert not first & second


@given(st.lists(st.lists(st.integers(0, 6), max_size=5, unique=True), min_size=2, max_size=8))
def test_shared_keys_are_counted(lists):
    """The counts agree with Python sets."""
    a, b = lists[: len(lists) // 2], lists[len(lists) // 2 :][: len(lists) // 2]
    columns = [
        (np.array([key for keys in side for key in keys], np.uint64), np.cumsum([0, *map(len, side)]))
        for side in (a, b)
    ]
    shared = blocking.shared_keys(*columns[0], *columns[1])
    assert shared.tolist() == [len(set(x) & set(y)) for x, y in zip(a, b, strict=True)]


def test_keys_do_not_depend_on_the_other_records_of_a_batch():
    """A batch gives what one by one gives."""
    rng = np.random.default_rng(5)
    words = ["ann", "bob", "", "élan", "漢字", "william"]
    values = [tuple(" ".join(rng.choice(words, 2)).strip() for _ in range(3)) for _ in range(50)]
    block = block_by(["name", "address+phone"], ["name"])
    assert keys_of(values, block) == [keys_of([one], block)[0] for one in values]


@pytest.mark.parametrize(("exact", "shingled"), [(["name+age"], []), ([], ["age"])])
def test_keys_of_unknown_fields_are_refused(exact, shingled):
    """The evidence holds only scored fields."""
    with pytest.raises(ConfigError, match=r"names 'age', which is not among option fields: name, address, phone"):
        block_by(exact, shingled)


def test_without_any_key_each_field_is_one():
    """As in 3.8.2; with a shingled field the fields are no keys."""
    assert block_by().exact == ((0,), (1,), (2,))
    assert block_by([], ["name"]).exact == ()
