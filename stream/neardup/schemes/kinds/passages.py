"""Passages: texts that share a run of characters, wherever it stands in each.

A text is represented by its winnowed hashes (``neardup.schemes.signatures.winnowing``) with their positions, and by its
length. Every hash is a key, so two texts that share ``characters`` normalised characters share a key. The
similarity is the estimated fraction of the shorter text that stands in the longer one
(``neardup.schemes.signatures.passage_runs``).

Guarantee: two texts of one window that share a run of at least ``characters`` normalised characters are
candidates, unless the run stands in ``bucket_candidates_max`` newer texts. Shorter runs meet by chance. Copied text is
found; text in other words is not.

Templates are a list, not a memory: texts that the settings name. Where a text repeats ``characters`` of one,
its characters of the template have no hash and count in no fraction. Then a text has four bytes more.

Source: Schleimer, Wilkerson, Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from neardup.documents.document import Document, Features
from neardup.errors import ConfigError
from neardup.features.texts.normalize import FOLD_RULES, NormalForm
from neardup.features.texts.reading import read_texts
from neardup.features.texts.shingles import chars
from neardup.features.texts.words import StopList
from neardup.features.tokens.bags import sorted_sets
from neardup.features.tokens.verify import common_elements
from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import derive_seed, mix64, seed_of
from neardup.schemes.interface import (
    NO_PAYLOADS,
    Common,
    Evidence,
    Keys,
    Reading,
    Scheme,
    Shared,
    ragged_evidence,
    ragged_values,
)
from neardup.schemes.kinds.identical import head_contents, text_hashes, with_heads
from neardup.schemes.parameters import Parameters, SchemeOptions
from neardup.schemes.signatures.passage_runs import Runs, Winnowed, runs
from neardup.schemes.signatures.winnowing import POSITION_BITS, Texts, listed, winnow, without
from neardup.schemes.theory.tuning import Tuning, keyed

# Separates the seeds of selected hashes and of their keys from the other uses of a seed.
_HASH_PURPOSE = 3 << 34
_KEY_PURPOSE = np.uint64((3 << 34) + 1)
_NO_STOPS = StopList()
# Numbers before the selected hashes of a text in its features: two of its content, and its length with, in the upper
# half, its characters of templates.
_HEAD = 3
_TEMPLATES_SHIFT = np.uint64(32)
_LENGTH_BYTES = 4


class PassageOptions(SchemeOptions):
    """Which runs are found, and what they make of a text."""

    in_files: ClassVar[tuple[str, ...]] = ("templates",)

    gram: int = Field(default=40, ge=2, le=100, description=
        "characters of a run that have one hash; shorter runs are unseen")  # fmt: skip
    characters: int = Field(default=150, ge=2, le=10_000, description=
        "normalised characters of a run that two texts share, from which it is certainly found")  # fmt: skip
    templates: tuple[str, ...] | None = Field(default=None, description=
        "texts that a corpus repeats, as neardup passages --templates lists them: they are left out")  # fmt: skip
    part_min: float | None = Field(default=None, ge=0.5, le=1, description=
        "part of a text that stands in an earlier one, from which it is a duplicate; by default only copies "
        "are")  # fmt: skip


class PassagePlan(NamedTuple):
    """The resolved settings; a ``window`` is the hashes of ``characters`` characters. ``templates`` are the
    bytes of hashes as ``winnowing.listed`` returns them, ``part_min`` is of verdicts."""

    normal_form: NormalForm
    text_characters_max: int
    gram: int
    window: int
    seed: int
    tuning: Tuning
    templates: bytes = b""
    kind: str = "text"
    width: int = _LENGTH_BYTES
    part_min: float | None = None


def plan(p: Parameters, o: PassageOptions) -> PassagePlan:
    """Raises ``ConfigError`` for passages that are shorter than a gram, and for a threshold of 1."""
    if o.characters < o.gram:
        raise ConfigError(
            f"passages:characters={o.characters} is below gram={o.gram}, the characters that "
            "have one hash: set gram to a third of characters"
        )
    if p.threshold == 1:
        raise ConfigError(
            "threshold=1.0 asks for equal texts, but a fraction of 1 is an estimate: set a lower threshold, or scheme "
            "identical"
        )
    normal_form = NormalForm.of(p.fold)
    templates = b"" if o.templates is None else _listed(o.templates, normal_form, o.gram, p.seed)
    return PassagePlan(
        normal_form=normal_form,
        text_characters_max=p.text_characters_max,
        gram=o.gram,
        window=o.characters - o.gram + 1,
        seed=p.seed,
        tuning=keyed(p.threshold, p.min_similarity)._replace(exact_score=False),
        templates=templates,
        width=_LENGTH_BYTES * (2 if templates else 1),
        part_min=o.part_min,
    )


def _listed(texts: tuple[str, ...], normal_form: NormalForm, gram: int, seed: int) -> bytes:
    """The hashes of templates. Raises ``ConfigError`` for none, and for one that is too short to have one."""
    longest = max(map(len, texts), default=0)
    codes, *_ = read_texts([Document("", text) for text in texts], normal_form, longest * 18)
    short = np.flatnonzero(codes.lengths < gram)
    if not texts or len(short):
        wrong = (
            f"template {short[0] + 1} has {codes.lengths[short[0]]} characters"
            if texts
            else "passages:templates is empty"
        )
        raise ConfigError(f"{wrong}, but a template has at least gram={gram}, normalised: leave it out")
    return listed(chars(codes, gram, _NO_STOPS).values, int(seed_of(seed, _HASH_PURPOSE))).tobytes()


def features(documents: Sequence[Document], plan: PassagePlan) -> Reading:
    """Of each text the hash of the whole and its length, then its selected hashes."""
    codes, refused, _ = read_texts(documents, plan.normal_form, plan.text_characters_max)
    grams = chars(codes, plan.gram, _NO_STOPS)
    seed = int(seed_of(plan.seed, _HASH_PURPOSE))
    selected = winnow(grams.values, grams.starts, plan.window, seed)
    wholes, lengths = text_hashes(codes), codes.lengths.astype(np.uint64)
    if plan.templates:
        texts = Texts(grams.values, grams.starts, codes.lengths, wholes[:, 0].copy())
        selected, covered = without(selected, texts, plan.gram, seed, np.frombuffer(plan.templates, np.uint64).copy())
        lengths |= covered.astype(np.uint64) << _TEMPLATES_SHIFT
    heads = np.column_stack([wholes, lengths])
    return Reading(with_heads(*selected, heads, codes), refused, codes.characters)


def evidence(features: Features, plan: PassagePlan) -> Evidence:
    """The selected hashes with their positions, eight bytes each, and the length of the text, four bytes; with
    templates also how many of its characters are theirs, four bytes."""
    at = features.starts[:-1]
    lengths = features.values[at + _HEAD - 1].astype("<u8").view(np.uint8).reshape(-1, 2 * _LENGTH_BYTES)
    lengths = np.ascontiguousarray(lengths[:, : plan.width])
    selected = np.delete(features.values, (at[:, None] + np.arange(_HEAD)).reshape(-1))
    return ragged_evidence(selected, features.starts - _HEAD * np.arange(len(features.starts)), lengths)


def keys(evidence: Evidence, plan: PassagePlan) -> Keys:
    """A key for each selected hash, once, in ascending order of the hashes."""
    values, starts = _hashes(evidence)
    out = np.empty_like(values)
    _keys(values, np.uint64(plan.seed), out)
    return Keys(out, starts, NO_PAYLOADS)


def common(a: Evidence, b: Evidence, plan: PassagePlan) -> Common:
    """The number of common keys, and the fraction of the shorter text that the common runs cover."""
    count = common_elements(*_hashes(a), *_hashes(b)).astype(np.int32)
    one, other = _winnowed(a), _winnowed(b)
    fractions = runs(one, other, plan.gram, plan.window).fractions
    similarity = np.where(one.own <= other.own, fractions[:, 0], fractions[:, 1])
    return Common(count, np.ones(len(count), np.bool_), similarity)


def shared(a: Evidence, b: Evidence, plan: PassagePlan) -> Shared:
    """The runs that the texts share, as they are scored."""
    common_runs: Runs = runs(_winnowed(a), _winnowed(b), plan.gram, plan.window)
    return Shared(*common_runs)


def part_min(plan: PassagePlan) -> float | None:
    """The part of a text that stands in an earlier one and makes it a duplicate."""
    return plan.part_min


def lengths(evidence: Evidence) -> npt.NDArray[np.int64]:
    """The characters of each text, ``int64[n]``."""
    return _numbers(evidence)[:, 0]


def signing(plan: PassagePlan) -> tuple[object, ...]:
    """Return what decides the normal form, the grams, which of them are selected, and which are left out."""
    templates = (hashlib.sha256(plan.templates).hexdigest(),) if plan.templates else ()
    settings = plan.text_characters_max, plan.gram, plan.window, plan.seed
    return (FOLD_RULES, *plan.normal_form, *settings, *templates)


def sample(text: str, plan: PassagePlan) -> Document:
    """The text, repeated until it holds the passages that are asked for."""
    return Document("", text * -(-3 * (plan.gram + plan.window) // max(len(text), 1)))


def _winnowed(evidence: Evidence) -> Winnowed:
    numbers = _numbers(evidence)
    sizes = np.ascontiguousarray(numbers[:, 0])
    return Winnowed(*ragged_values(evidence, np.uint64), sizes, numbers[:, 0] - numbers[:, 1:].sum(axis=1))


def _numbers(evidence: Evidence) -> npt.NDArray[np.int64]:
    """The characters of each text, and with templates how many are theirs."""
    fixed = np.ascontiguousarray(evidence.fixed)
    return fixed.view("<u4").reshape(len(fixed), fixed.shape[1] // _LENGTH_BYTES).astype(np.int64)


def _hashes(evidence: Evidence) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The selected hashes without their positions, ascending, each once."""
    values, starts = ragged_values(evidence, np.uint64)
    return sorted_sets(values >> POSITION_BITS, starts)


SCHEME = Scheme(
    plan, features, head_contents, evidence, keys, common, signing,
    by_content=True,
    exact=False,
    options=PassageOptions,
    direct=False,  # a short text within a long one would swallow others
    guarantee="candidates are all pairs that share a run of so many normalised characters as the option characters "
    "says, unless it stands in bucket_candidates_max newer texts",
    sample=sample,
    shared=shared,
    lengths=lengths,
    part_min=part_min,
    defaults={"threshold": 0.3, "bucket_candidates_max": 64},
)  # fmt: skip


@kernel("u64[], u64, u64[]")
def _keys(hashes, seed, out):
    key_seed = derive_seed(seed, _KEY_PURPOSE)
    for i in range(len(hashes)):
        out[i] = mix64(hashes[i] ^ key_seed)
