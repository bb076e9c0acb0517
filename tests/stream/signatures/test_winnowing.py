"""Robust winnowing, and the runs that winnowed texts share."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.schemes.signatures.passage_runs import Runs, Winnowed, runs
from neardup.schemes.signatures.winnowing import POSITION_BITS, WINDOW_MAX, Texts, listed, winnow, without

GRAM, WINDOW = 10, 20
NUMBERS = st.lists(st.integers(0, 7), max_size=80)


def selected(hashes: list[int], window: int) -> list[tuple[int, int]]:
    """The hash and the position of each selected one, by the definition: window by window."""
    found: list[tuple[int, int]] = []
    for end in range(min(window, len(hashes)), len(hashes) + 1):
        begin = max(end - window, 0)
        least = min(hashes[begin:end], default=0)
        if end and not (found and found[-1][1] >= begin and found[-1][0] == least):
            found.append((least, max(i for i in range(begin, end) if hashes[i] == least)))
    return found


def winnowed(rows: list[list[int]], window: int) -> list[list[tuple[int, int]]]:
    starts = np.cumsum([0, *map(len, rows)])
    values, ends = winnow(np.array([x for row in rows for x in row], np.uint64) << POSITION_BITS, starts, window, 0)
    parts = [values[a:b] for a, b in pairwise(ends)]
    return [
        list(zip((x >> POSITION_BITS).tolist(), np.cumsum(x & np.uint64(WINDOW_MAX)).tolist(), strict=True))
        for x in parts
    ]


@given(st.lists(NUMBERS, max_size=5), st.integers(1, 40))
def test_the_selected_hashes_are_those_of_the_definition(rows: list[list[int]], window: int) -> None:
    """Also of texts with fewer hashes than a window, and where many hashes are equal."""
    assert winnowed(rows, window) == [selected(row, window) for row in rows]


def test_long_blocks_are_selected_by_the_definition_too() -> None:
    """Hashes are compared 16 at a time."""
    rng = random.Random(1)
    for window in (15, 16, 17, 111):
        row = [rng.randrange(1 << 47) for _ in range(2000)]
        assert winnowed([row], window) == [selected(row, window)]


def test_equal_hashes_select_one_in_a_window() -> None:
    """A text of one repeated character; plain winnowing selects 4,890 positions of it."""
    assert len(winnowed([[5] * 5000], 111)[0]) == 45


@given(NUMBERS, NUMBERS, NUMBERS, st.data())
def test_texts_with_a_common_window_share_a_selected_hash(
    a: list[int], b: list[int], c: list[int], data: st.DataObject
) -> None:
    """Whatever stands around it."""
    window = data.draw(st.integers(1, 20))
    common = data.draw(st.lists(st.integers(0, 7), min_size=window, max_size=window))
    found = winnowed([a + common + b, c + common], window)
    assert {hash_ for hash_, _ in found[0]} & {hash_ for hash_, _ in found[1]}


@given(st.lists(st.lists(st.integers(0, 7), max_size=120), max_size=4), st.sets(st.integers(0, 7)), st.integers(1, 9))
def test_hashes_of_templates_are_left_out_and_the_others_keep_their_places(
    rows: list[list[int]], dropped: set[int], window: int
) -> None:
    """Of a template that holds a selected hash, all characters are known, and what reaches into them has no hash."""
    hashes = np.array([x for row in rows for x in row], np.uint64) << POSITION_BITS
    starts = np.cumsum([0, *map(len, rows)])
    lengths = np.array([len(row) + GRAM - 1 if row else 0 for row in rows], np.int64)
    own = np.arange(len(rows), dtype=np.uint64)
    templates = listed(np.array(sorted(dropped), np.uint64) << POSITION_BITS, 0)
    left, covered = without(winnow(hashes, starts, window, 0), Texts(hashes, starts, lengths, own), GRAM, 0, templates)
    for i, row in enumerate(rows):
        part = left.values[left.starts[i] : left.starts[i + 1]]
        kept = list(
            zip((part >> POSITION_BITS).tolist(), np.cumsum(part & np.uint64(WINDOW_MAX)).tolist(), strict=True)
        )
        edges = [0, *(n for n in range(1, len(row)) if (row[n] in dropped) != (row[n - 1] in dropped)), len(row)]
        chosen, held = selected(row, window), set()
        for begin, end in pairwise(edges):
            if any(begin <= position < end and hash_ in dropped for hash_, position in chosen):
                held |= set(range(begin, end + GRAM - 1))
        assert kept == [(h, position) for h, position in chosen if not held & set(range(position, position + GRAM))]
        assert covered[i] == len(held)


def test_a_gap_that_is_too_wide_for_a_difference_has_hashes_of_its_own() -> None:
    """A template of 200,000 characters; no other text has these hashes."""
    rng = random.Random(9)
    hashes = np.array(numbers(rng, 50) + [5] * 200_000 + numbers(rng, 50), np.uint64) << POSITION_BITS
    starts, lengths = np.array([0, len(hashes)]), np.array([len(hashes) + GRAM - 1])
    chosen = winnow(hashes, starts, WINDOW, 0)
    texts = Texts(hashes, starts, lengths, np.array([7], np.uint64) << POSITION_BITS)
    left, covered = without(chosen, texts, GRAM, 0, np.array([5], np.uint64) << POSITION_BITS)
    positions = np.cumsum(left.values & np.uint64(WINDOW_MAX))
    kept = left.values >> POSITION_BITS != 7
    assert set(positions[kept].tolist()) < set(np.cumsum(chosen.values & np.uint64(WINDOW_MAX)).tolist())
    assert (covered[0], (~kept).sum(), positions[-1] > 200_050) == (200_000 + GRAM - 1, 3, True)


def texts(*rows: list[int]) -> Winnowed:
    """Texts of one hash a character, and GRAM - 1 characters at the end."""
    starts = np.cumsum([0, *map(len, rows)])
    hashes = np.array([x for row in rows for x in row], np.uint64)
    mixed = (hashes + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    values, ends = winnow(mixed ^ (mixed >> np.uint64(29)), starts, WINDOW, 0)
    lengths = np.array([len(row) + GRAM - 1 if row else 0 for row in rows])
    return Winnowed(values, ends, lengths, lengths)


def single(x: Winnowed, i: int) -> Winnowed:
    """One of some texts."""
    starts = x.starts[i : i + 2]
    return Winnowed(x.values[starts[0] : starts[1]], starts - starts[0], x.lengths[i : i + 1], x.own[i : i + 1])


def found(a: Winnowed, b: Winnowed) -> Runs:
    return runs(a, b, GRAM, WINDOW)


def numbers(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(1 << 40) for _ in range(count)]


def test_a_text_within_another_is_found_where_it_stands() -> None:
    """Its fraction is nearly one, the other fraction is that of the lengths."""
    rng = random.Random(2)
    inner = numbers(rng, 400)
    part = found(texts(inner), texts(numbers(rng, 300) + inner + numbers(rng, 300)))
    assert part.fractions[0] == pytest.approx([0.97, 0.4], abs=0.04)
    (span,) = part.spans.tolist()
    assert span[2] - span[0] == span[3] - span[1] == 300


def test_two_passages_in_another_order_are_two_runs() -> None:
    """Moved paragraphs count in full."""
    rng = random.Random(3)
    one, other = numbers(rng, 300), numbers(rng, 300)
    part = found(texts(one + other), texts(other + numbers(rng, 90) + one))
    assert [span[0] < span[2] for span in part.spans.tolist()] == [True, False]
    assert part.fractions[0, 0] > 0.9


def test_a_changed_word_does_not_end_a_passage() -> None:
    """Also if the other word has another length."""
    rng = random.Random(4)
    text = numbers(rng, 600)
    for word in (numbers(rng, GRAM), numbers(rng, GRAM + 4)):
        part = found(texts(text), texts(text[:300] + word + text[300 + GRAM :]))
        assert len(part.spans) == 1
        assert part.fractions[0, 0] > 0.9


@given(st.lists(st.integers(0, 3), max_size=200), st.lists(st.integers(0, 3), max_size=200))
def test_the_order_of_the_texts_makes_no_difference(one: list[int], other: list[int]) -> None:
    """Fractions are exchanged, spans too; every span lies in its text, and a fraction in [0, 1]."""
    a, b = texts(one), texts(other)
    there, back = found(a, b), found(b, a)
    assert there.fractions.tolist() == back.fractions[:, ::-1].tolist()
    assert sorted(there.spans.tolist()) == sorted(back.spans[:, [2, 3, 0, 1]].tolist())
    for span in there.spans.tolist():
        assert 0 <= span[0] < span[1] <= a.lengths[0]
        assert 0 <= span[2] < span[3] <= b.lengths[0]
    assert ((there.fractions >= 0) & (there.fractions <= 1)).all()


def test_pairs_do_not_depend_on_their_batch() -> None:
    """Each pair has its own runs, and those without any have none."""
    rng = random.Random(5)
    rows = [numbers(rng, 200) for _ in range(6)]
    a, b = texts(*rows), texts(rows[0], rows[2] + rows[1], rows[2], [], rows[4][:60], rows[5] * 2)
    whole = found(a, b)
    for i in range(6):
        part = whole.spans[whole.starts[i] : whole.starts[i + 1]].tolist()
        one = found(single(a, i), single(b, i))
        assert (part, whole.fractions[i].tolist()) == (one.spans.tolist(), one.fractions[0].tolist())
    assert whole.fractions[3].tolist() == [0, 0]


def test_a_repeated_text_takes_time_that_grows_with_its_length_alone() -> None:
    """Forty thousand equal hashes on both sides are one run."""
    part = found(texts([7] * 800_000), texts([7] * 700_000))
    assert len(part.spans) == 1
    assert part.fractions[0] == pytest.approx([7 / 8, 1], abs=0.01)
