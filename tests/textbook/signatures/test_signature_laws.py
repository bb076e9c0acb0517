"""Laws that every signature obeys: known answers, the definition in integers, and independence of the batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from oracle import pair_of_sets
from quick_parameters import quick_first
from reference import MASK

from neardup.schemes.signatures import one_permutation
from neardup_textbook.signatures import bit_sampling, hyperplanes, minhash, p_stable, permutation
from neardup_textbook.signatures import partial as parts

Arrays = tuple[np.ndarray, np.ndarray]
ROWS = 5


class SetSignature(NamedTuple):
    """A signature of sets: the library's, the model's, and the rows of {5, 6, 7} with seed 1."""

    sign: Callable[..., np.ndarray]  # values, starts, rows, seed
    model: Callable[..., list[int]]  # elements, rows, seed
    known: list[int]


def in_groups(groups: int, known: list[int]) -> SetSignature:
    """Of partial rows; no more groups than rows."""

    def sign(values: np.ndarray, starts: np.ndarray, rows: int, seed: int) -> np.ndarray:
        return parts.sign(values, starts, rows, min(groups, rows), seed)

    def model(elements: list[int], rows: int, seed: int) -> list[int]:
        return reference.partial_minhash(elements, rows, min(groups, rows), seed)

    return SetSignature(sign, model, known)


SETS: dict[str, SetSignature] = {
    "minhash": SetSignature(
        minhash.sign,
        reference.minhash,
        [687396574017564485, 1804478723351557072, 56833455293673630, 134749216727378695, 282606144552825951],
    ),
    "one_permutation": SetSignature(
        one_permutation.sign,
        reference.one_permutation,
        [2163941038745312170, 6418404092625686718, 8651034942841998137, 11542938764031558364, 15921186249811740689],
    ),
    "permutation": SetSignature(
        permutation.sign,
        reference.permutation,
        [4201723081693349765, 10928242189282577146, 2673926132936982651, 1293238132355533420, 7087233301719100308],
    ),
    "one group": in_groups(
        1, [153563183858708247, 6021208539336438519, 4074088370292818116, 2182297875667997990, 1002190920300497482]
    ),
    "three groups": in_groups(
        3, [153563183858708247, 7267534899053666369, 12966676493058619558, 2182297875667997990, MASK]
    ),
    "a group for each row": in_groups(
        MASK, [153563183858708247, 7267534899053666369, MASK, 12966676493058619558, MASK]
    ),
}
every_set_signature = pytest.mark.parametrize("name", SETS)


def ragged(sets: list[list[int]]) -> Arrays:
    return np.array([x for one in sets for x in one], np.uint64), np.cumsum([0, *map(len, sets)])


def rows_of(name: str, elements: list[int], rows: int = ROWS, seed: int = 1) -> list[int]:
    return SETS[name].sign(*ragged([elements]), rows, seed)[0].tolist()


@every_set_signature
def test_a_signature_has_a_known_answer(name: str) -> None:
    """Signatures are a format: these numbers change only with ``SIGNING_VERSION``."""
    assert rows_of(name, [5, 6, 7]) == SETS[name].known


@every_set_signature
@given(
    elements=st.lists(st.integers(0, MASK), min_size=1, max_size=60),
    rows=st.integers(1, 40),
    seed=st.integers(0, 2**63 - 1),
)
def test_a_signature_follows_its_definition(name: str, elements: list[int], rows: int, seed: int) -> None:
    """The model computes it with integers of any size."""
    assert rows_of(name, elements, rows, seed) == SETS[name].model(elements, rows, seed)


@every_set_signature
def test_an_empty_set_has_infinity_in_every_row(name: str) -> None:
    """It does not change the signature of the next set."""
    both = SETS[name].sign(*ragged([[], [5, 6, 7]]), ROWS, 1)
    assert both[0].tolist() == [MASK] * ROWS
    assert both[1].tolist() == SETS[name].known


@every_set_signature
def test_no_sets_have_no_signatures(name: str) -> None:
    """An empty batch gives an empty array with the same number of columns."""
    assert SETS[name].sign(*ragged([]), ROWS, 1).shape == (0, ROWS)


@every_set_signature
def test_order_and_repetition_of_elements_make_no_difference(name: str) -> None:
    """A signature is that of a set."""
    assert rows_of(name, [7, 5, 6, 6, 5, 7, 7]) == SETS[name].known


@every_set_signature
def test_a_set_is_signed_alike_in_any_batch(name: str) -> None:
    """Sets before and after it, longer, shorter or empty, make no difference."""
    rng = np.random.default_rng(4)
    sizes = np.append(rng.integers(1, 300, 40), 0)
    values = rng.integers(0, 2**64, sizes.sum(), np.uint64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    alone = [SETS[name].sign(values[a:b], np.array([0, b - a]), 64, 9)[0].tolist() for a, b in pairwise(starts)]
    assert SETS[name].sign(values, starts, 64, 9).tolist() == alone


@every_set_signature
def test_another_seed_gives_other_rows(name: str) -> None:
    """No row with a value keeps it."""
    values = list(range(1000))
    one, other = rows_of(name, values, 64, seed=1), rows_of(name, values, 64, seed=2)
    assert not set(one) & set(other) - {MASK}


@pytest.mark.parametrize("name", ["minhash", "permutation"])
@pytest.mark.parametrize("union", quick_first([1, 2, 3, 10, 100, 1000], 4))
@pytest.mark.parametrize("similarity", [0.3, 0.8])
def test_the_fraction_of_equal_rows_estimates_the_similarity(name: str, union: int, similarity: float) -> None:
    """Without bias, over 200 seeds of 128 rows; five standard deviations."""
    seeds, rows = 200, 128
    estimates, exact = [], 0.0
    for seed in range(seeds):
        a, b, exact = pair_of_sets(union, similarity, seed)
        both = SETS[name].sign(np.concatenate([a, b]), np.array([0, len(a), len(a) + len(b)]), rows, seed)
        estimates.append((both[0] == both[1]).mean())
    assert abs(np.mean(estimates) - exact) <= 5 * (exact * (1 - exact) / rows / seeds) ** 0.5, (union, exact)


class VectorSignature(NamedTuple):
    """A signature of vectors: 20 components, or 128 bits; the answer for ``sample`` with seed 1."""

    sign: Callable[[np.ndarray], np.ndarray]
    sample: np.ndarray
    known: list[list[int]]


CENTRED = np.arange(-10, 10, dtype=np.float32)[None]
VECTORS: dict[str, VectorSignature] = {
    "normal planes": VectorSignature(
        partial(hyperplanes.sign, bands=4, rows=9, seed=1, planes="normal"),
        CENTRED,
        [[194, 1, 155, 0, 129, 1, 112, 0]],
    ),
    "planes of signs": VectorSignature(
        partial(hyperplanes.sign, bands=4, rows=9, seed=1, planes="signs"), CENTRED, [[67, 1, 51, 1, 145, 0, 112, 0]]
    ),
    "sampled bits": VectorSignature(
        lambda x: bit_sampling.sign_bits(x, 128, 4, 9, seed=1),
        np.frombuffer(bytes(range(40, 56)), np.uint8)[None],
        [[130, 1, 153, 0, 120, 0, 53, 1]],
    ),
    "sampled bits of unary codes": VectorSignature(
        lambda x: bit_sampling.sign_unary(x, 20, 4, 9, seed=1),
        np.arange(20, dtype=np.float32)[None],
        [[229, 0, 14, 1, 3, 1, 129, 0]],
    ),
    "segments of lines": VectorSignature(
        lambda x: p_stable.sign(x, 8, seed=1, width=4.0), CENTRED, [[-2, 2, -1, -1, 0, -6, 11, 3]]
    ),
}
every_vector_signature = pytest.mark.parametrize("name", VECTORS)


@every_vector_signature
def test_a_vector_has_a_known_answer(name: str) -> None:
    """Sketches are a format: these numbers change only with ``SIGNING_VERSION``."""
    assert VECTORS[name].sign(VECTORS[name].sample).tolist() == VECTORS[name].known


@every_vector_signature
@pytest.mark.parametrize("size", [1, 5, 97])
def test_a_vector_is_signed_alike_in_any_batch(name: str, size: int) -> None:
    """Alone, among others, or in the last part of a batch."""
    sign, sample = VECTORS[name].sign, VECTORS[name].sample
    x = np.random.default_rng(6).integers(0, 20, (200, sample.shape[1])).astype(sample.dtype)
    parts_of_it = [sign(x[i : i + size]) for i in range(0, len(x), size)]
    assert np.array_equal(np.concatenate(parts_of_it), sign(x))


@every_vector_signature
def test_no_vectors_have_no_signatures(name: str) -> None:
    """An empty batch gives an empty array with the same number of columns."""
    row = VECTORS[name]
    assert row.sign(row.sample[:0]).shape == (0, len(row.known[0]))
