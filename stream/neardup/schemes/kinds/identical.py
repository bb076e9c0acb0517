"""Identical texts: one key for a whole text, a 128-bit hash of its code points after normalisation.

Two texts with the same hash count as equal. Two different texts have the same hash with probability 2^-128, unless
an attacker constructs a collision. A pair has similarity 1 or 0.

With ``positions``, the key is made of the length and the code points at fixed random positions, the same for all texts.
So a common template at the start of all texts does no harm. Texts that share a bucket are compared by the hashes of the
whole text. The magnitude of a position is drawn first, so that a short text has some positions, and a long text has
positions far from its start. Positions after the end of a text are left out; the length in the key makes this safe.

Three code points of 21 bits fill a word, so the hash is the same however the text is stored.

Source: Mining of Massive Datasets, 3.9.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from neardup.documents.document import Document, Features
from neardup.errors import ConfigError
from neardup.features.texts.normalize import FOLD_RULES, CodePoints, NormalForm
from neardup.features.texts.reading import read_texts
from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels.hashing import GOLDEN, derive_seed, mix64
from neardup.schemes.interface import Common, Evidence, Keys, Reading, Scheme, fixed_evidence, regular_keys
from neardup.schemes.parameters import Parameters, SchemeOptions
from neardup.schemes.theory.tuning import Tuning, complete

# Settings that would lose pairs or have no effect here -> why they must be left out.
_REFUSED = {
    "probe_candidates_max": "identical misses no pair",
    "buckets_shared_min": "a text of identical has one bucket",
    "min_similarity": "the similarity of identical is 1 or 0",
}

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

# Positions lie below 2^20: longer texts with one key have equal lengths, and are compared in full.
_MAGNITUDES = np.uint64(20)
# Separates the seeds of positions from the other uses of a seed.
_POSITION_PURPOSE = np.uint64(2 << 33)
_KEY_PURPOSE = np.uint64(3 << 33)
# Odd, without structure in common: the multipliers of SplitMix64 and of its variant 13.
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BITS, _TWO_BITS = np.uint64(21), np.uint64(42)
_HALF, _THIRD = np.uint64(32), np.uint64(29)
_ONE = np.uint64(1)


def text_hashes(codes: CodePoints) -> Hashes:
    """128-bit hashes of n texts, ``uint64[n, 2]``: of their code points, in order, and their length."""
    out = np.empty((len(codes.starts), 2), np.uint64)
    _text_hashes(codes, out)
    return out


def with_heads(values: Hashes, starts: Positions, heads: Hashes, codes: CodePoints) -> Features:
    """Features of the texts that are not empty: for each its row of ``heads``, which begins with the hash of the text,
    then its values."""
    usable = np.flatnonzero(codes.lengths)
    ends = np.append(starts[usable], starts[-1:]) + heads.shape[1] * np.arange(len(usable) + 1)
    return Features(np.insert(values, np.repeat(starts[usable], heads.shape[1]), heads[usable].reshape(-1)), ends)


def head_contents(features: Features) -> npt.NDArray[np.uint64]:
    """The hashes of the whole texts, ``uint64[n, 2]``."""
    at = features.starts[:-1]
    return np.column_stack([features.values[at], features.values[at + 1]])


def random_positions(count: int, seed: int) -> Positions:
    """Draw ``count`` positions from 0 to 2^20 - 1, ``int64``: first a power of two (2 to 2^20), then a position below.

    >>> sorted(random_positions(5, seed=1).tolist())
    [19, 38, 173, 588, 247000]
    """
    out = np.empty(count, np.int64)
    _random_positions(np.uint64(seed), out)
    return out


def position_hashes(codes: CodePoints, positions: Positions) -> Hashes:
    """Hashes ``uint64[n]`` of the lengths of n texts and their code points at the positions."""
    out = np.empty(len(codes.starts), np.uint64)
    _position_hashes(codes, positions, out)
    return out


def hash_keys(hashes: Hashes, seed: int) -> Hashes:
    """A bucket key for each row of hashes: ``uint64[n, w]`` to ``uint64[n]``."""
    out = np.empty(len(hashes), np.uint64)
    _hash_keys(np.require(hashes, requirements=["C", "A"]), np.uint64(seed), out)
    return out


class IdenticalOptions(SchemeOptions):
    """What the key is made of."""

    positions: int | None = Field(default=None, ge=1, le=1024, description=
        "characters that the key is made of; by default the whole text")  # fmt: skip


class IdenticalPlan(NamedTuple):
    """The resolved settings; without ``positions`` the key is made of the whole text."""

    normal_form: NormalForm
    text_characters_max: int
    positions: tuple[int, ...]
    threshold: float
    seed: int
    kind: str = "text"

    @property
    def width(self) -> int:
        """Bytes of the hashes."""
        return 24 if self.positions else 16

    @property
    def tuning(self) -> Tuning:
        """No pair is missed; no pair of different texts is emitted."""
        return complete(self.threshold)


def plan(parameters: Parameters, options: IdenticalOptions) -> IdenticalPlan:
    """Raises ``ConfigError`` for settings that would lose pairs or have no effect."""
    p = parameters
    for name, reason in _REFUSED.items():
        value = getattr(p, name)
        if value != Parameters.model_fields[name].default:
            raise ConfigError(f"{name} is {value}, but {reason}: leave it out")
    return IdenticalPlan(
        normal_form=NormalForm.of(p.fold),
        text_characters_max=p.text_characters_max,
        positions=tuple(random_positions(options.positions or 0, p.seed).tolist()),
        threshold=float(p.threshold),
        seed=p.seed,
    )


def features(documents: Sequence[Document], plan: IdenticalPlan) -> Reading:
    """Return hashes instead of the texts: two words for the whole text, and one for the positions if there are any."""
    codes, refused, _ = read_texts(documents, plan.normal_form, plan.text_characters_max)
    hashes = text_hashes(codes)
    if plan.positions:
        hashes = np.column_stack([hashes, position_hashes(codes, np.array(plan.positions, np.int64))])
    values = np.ascontiguousarray(hashes[codes.lengths > 0])
    starts = np.arange(len(values) + 1, dtype=np.int64) * values.shape[1]
    return Reading(Features(values.reshape(-1), starts), refused, codes.characters)


def contents(features: Features) -> Hashes:
    """The hashes of the whole texts, ``uint64[n, 2]``."""
    n = len(features.starts) - 1
    return np.ascontiguousarray(features.values.reshape(n, -1 if n else 2)[:, :2])


def evidence(features: Features, plan: IdenticalPlan) -> Evidence:
    """The hashes, eight bytes each."""
    stored = np.ascontiguousarray(features.values, "<u8")
    return fixed_evidence(stored.view(np.uint8).reshape(-1, plan.width))


def keys(evidence: Evidence, plan: IdenticalPlan) -> Keys:
    """Return one key for each text: of the hash of its positions if the plan has positions, else of the whole text."""
    return regular_keys(hash_keys(_key_words(evidence, plan), plan.seed)[:, None])


def common(a: Evidence, b: Evidence, plan: IdenticalPlan) -> Common:
    """Return whether the keys are equal, and whether the texts are equal: similarity 1 or 0."""
    same_key = (_key_words(a, plan) == _key_words(b, plan)).all(axis=1)
    same_text = (a.fixed[:, :16] == b.fixed[:, :16]).all(axis=1)
    ones = np.ones(len(same_key), np.bool_)
    return Common(same_key.astype(np.int32), ones, same_text.astype(np.float64))


def signing(plan: IdenticalPlan) -> tuple[object, ...]:
    """Return what decides the normal form, the hashes and the key."""
    return (FOLD_RULES, *plan.normal_form, plan.text_characters_max, len(plan.positions), plan.seed)


def _key_words(evidence: Evidence, plan: IdenticalPlan) -> Hashes:
    """The hashes that make the key, ``uint64[n, w]``."""
    words = np.ascontiguousarray(evidence.fixed).view("<u8")
    return np.ascontiguousarray(words[:, 2:] if plan.positions else words, np.uint64)


SCHEME = Scheme(
    plan, features, contents, evidence, keys, common, signing,
    by_content=True,
    exact=True,
    options=IdenticalOptions,
    guarantee="every text that is equal to an earlier one after normalisation, and no other",
    examples=({}, {"scheme_options": {"positions": 4}}),
)  # fmt: skip


@inlined
def _text_hash(codes):
    first, second = _FIRST, _SECOND
    length = len(codes)
    whole = length - length % 3
    for at in range(0, whole, 3):
        word = np.uint64(codes[at]) | np.uint64(codes[at + 1]) << _BITS | np.uint64(codes[at + 2]) << _TWO_BITS
        first = (first ^ word) * _FIRST
        first ^= first >> _HALF
        second = (second + word) * _SECOND
        second ^= second >> _THIRD
    for at in range(whole, length):
        first = (first ^ np.uint64(codes[at])) * _FIRST
        first ^= first >> _HALF
        second = (second + np.uint64(codes[at])) * _SECOND
        second ^= second >> _THIRD
    return mix64(first ^ np.uint64(length)), mix64(second + np.uint64(length) * GOLDEN)


@kernel("CodePoints, u64[,]")
def _text_hashes(codes, out):
    for i in range(len(codes.starts)):
        first, end = codes.starts[i], codes.starts[i] + codes.lengths[i]
        if codes.is_wide[i]:
            out[i, 0], out[i, 1] = _text_hash(codes.wide[first:end])
        else:
            out[i, 0], out[i, 1] = _text_hash(codes.narrow[first:end])


@kernel("u64, i64[]")
def _random_positions(seed, out):
    for i in range(len(out)):
        x = derive_seed(seed, _POSITION_PURPOSE + np.uint64(i))
        magnitude = ((x >> _HALF) * _MAGNITUDES) >> _HALF
        out[i] = np.int64(mix64(x) & ((np.uint64(2) << magnitude) - _ONE))


@kernel("CodePoints, i64[], u64[]")
def _position_hashes(codes, positions, out):
    for i in range(len(codes.starts)):
        h = mix64(np.uint64(codes.lengths[i]) + GOLDEN)
        for position in positions:
            if position < codes.lengths[i]:
                at = codes.starts[i] + position
                unit = np.uint64(codes.wide[at]) if codes.is_wide[i] else np.uint64(codes.narrow[at])
                h = mix64(h ^ unit) + GOLDEN
        out[i] = h


@kernel("const u64[,], u64, u64[]")
def _hash_keys(hashes, seed, out):
    key_seed = derive_seed(seed, _KEY_PURPOSE)
    for i in range(len(hashes)):
        key = key_seed
        for j in range(hashes.shape[1]):
            key = mix64(key ^ hashes[i, j])
        out[i] = key
