"""Hashing: known answers, so that a change of any constant is noticed, and agreement with plain integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from python_calls import from_python
from reference import MASK, content, derive_seed, mix64, polynomial

from neardup.machine.kernels import hashing

MIX, SEED = from_python(hashing.mix64), from_python(hashing.derive_seed)
WORDS = st.integers(0, MASK)


def test_a_counter_from_1234567_gives_the_published_numbers_of_splitmix64() -> None:
    """The first five outputs of the generator as its reference implementation prints them."""
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    seed = np.uint64(1234567)
    assert [int(SEED(seed, np.uint64(i))) for i in range(5)] == published


def test_mixing_has_known_answers() -> None:
    """Zero stays zero; one and all ones are scattered."""
    answers = {0: 0, 1: 6238072747940578789, MASK: 13029008266876403067}
    assert {x: int(MIX(np.uint64(x))) for x in answers} == answers


@given(WORDS, WORDS)
def test_mixing_and_seeds_equal_those_of_plain_integers(x: int, purpose: int) -> None:
    """The kernel wraps modulo 2^64 and shifts without sign."""
    assert int(MIX(np.uint64(x))) == mix64(x)
    assert int(SEED(np.uint64(x), np.uint64(purpose))) == derive_seed(x, purpose)
    assert int(hashing.seed_of(np.uint64(x), np.uint64(purpose))) == derive_seed(x, purpose)


def test_every_input_bit_moves_about_half_of_the_output_bits() -> None:
    """Over 200 numbers each of the 64 input bits flips each output bit in 30 to 70 of 100 cases."""
    numbers = [derive_seed(7, i) for i in range(200)]
    for bit in range(64):
        flips = np.array([[mix64(x) ^ mix64(x ^ (1 << bit))] for x in numbers], np.uint64).view(np.uint8)
        share = np.unpackbits(flips, axis=1).mean(axis=0)
        assert share.min() > 0.3, bit
        assert share.max() < 0.7, bit


def test_the_base_of_the_polynomial_loses_nothing() -> None:
    """It is odd, so a unit is never multiplied away, and 5 modulo 8, so its powers repeat only after 2^62."""
    base = int(hashing.BASE)
    assert base % 8 == 5
    assert pow(base, 2**61, 2**64) != 1
    assert pow(base, 2**62, 2**64) == 1


@given(st.lists(st.binary(max_size=40), max_size=8), WORDS)
def test_byte_strings_hash_as_mixed_polynomials(strings: list[bytes], seed: int) -> None:
    """The hash of a string depends on the seed, and not on its neighbours."""
    starts = np.cumsum([0, *map(len, strings)])
    out = np.empty(len(strings), np.uint64)
    hashing.hash_strings(np.frombuffer(b"".join(strings), np.uint8), starts, np.uint64(seed), out)
    assert out.tolist() == [mix64(polynomial(string, seed)) for string in strings]


def test_byte_strings_of_nothing_but_zeros_differ_by_length() -> None:
    """A NUL does not vanish."""
    strings = [b"\0" * n for n in range(50)]
    out = np.empty(50, np.uint64)
    starts = np.cumsum([0, *map(len, strings)])
    hashing.hash_strings(np.frombuffer(b"".join(strings), np.uint8), starts, np.uint64(1), out)
    assert len(set(out.tolist())) == 50


def hash_bag(values: list[int]) -> tuple[int, ...]:
    out = np.empty((1, 2), np.uint64)
    hashing.hash_bags(np.array(values, np.uint64), np.array([0, len(values)]), out)
    return tuple(out[0].tolist())


def test_a_bag_has_a_known_answer() -> None:
    """128 bits of the bag 5, 6, 7."""
    assert hash_bag([5, 6, 7]) == (15434875530296372041, 3543018601992087762)


@given(st.lists(WORDS, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_a_bag_hashes_alike_in_any_order_and_apart_from_its_repetition(values: list[int], rng) -> None:  # type: ignore[no-untyped-def]
    """The order has no influence on the hash; an additional or repeated element changes it."""
    shuffled = rng.sample(values, len(values))
    assert hash_bag(shuffled) == hash_bag(values) == content(values)
    assert hash_bag([*values, values[0]]) != hash_bag(values)
