"""Schemes of sets: texts are cut into shingles, the set of them is signed, and sketches of the signatures are banded.

Similarity is the Jaccard similarity of the sets, estimated from the rows in which two sketches agree.

Source: Mining of Massive Datasets, 3.1 to 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream import banding
from stream.documents import Document
from stream.errors import ConfigError
from stream.features import Features
from stream.frame import Common, Evidence, Keys, Reading, fixed_evidence, regular_keys
from stream.hashing import hash_bags
from stream.normalize import UNICODE_VERSION, NormalForm, code_points
from stream.parameters import Parameters
from stream.shingles import SHINGLES, STOPWORD_SHINGLE_WORDS
from stream.signatures import minhash, one_permutation
from stream.tuning import Tuning, choose
from stream.words import stop_rules, word_rules

_K_DEFAULTS = {"chars": 5, "words": 3, "stopwords": STOPWORD_SHINGLE_WORDS}

Sign = Callable[[npt.NDArray[np.uint64], npt.NDArray[np.int64], int, int], npt.NDArray[np.uint64]]


class SetPlan(NamedTuple):
    """What the parameters of a set scheme resolve to."""

    shingles: str
    k: int
    languages: tuple[str, ...]
    normal_form: NormalForm
    text_characters_max: int
    tuning: Tuning
    seed: int

    @property
    def signature_rows(self) -> int:
        """Rows of a signature: bands times rows a band."""
        return self.tuning.bands * self.tuning.rows


def plan(parameters: Parameters) -> SetPlan:
    """Raises ``ConfigError`` where settings contradict or no shape of bands reaches the recall."""
    p = parameters
    if p.shingles == "stopwords" and p.k not in (None, STOPWORD_SHINGLE_WORDS):
        raise ConfigError(f"k={p.k} with stopwords shingles, which are a stop word and two more: leave k out")
    if p.shingles == "stopwords" and not p.languages:
        raise ConfigError("languages is empty, but stopwords shingles need a stop list: name at least one language")
    return SetPlan(
        shingles=p.shingles,
        k=p.k if p.k is not None else _K_DEFAULTS[p.shingles],
        languages=tuple(sorted(set(p.languages))),
        normal_form=NormalForm(p.nfkc, p.fold_case, p.fold_space),
        text_characters_max=p.text_characters_max,
        tuning=choose(p.threshold, p.recall, p.rows_max, p.sketch_bits, p.bands, p.rows, p.min_similarity),
        seed=p.seed,
    )


def kind(plan: SetPlan) -> str:
    """Sets are cut from texts."""
    del plan
    return "text"


def features(documents: Sequence[Document], plan: SetPlan) -> Reading:
    """The shingles of the plan's kind, of texts that are not too long and have any."""
    refused: dict[int, str] = {}
    texts = []
    for i, document in enumerate(documents):
        too_long = len(document.text) > plan.text_characters_max
        if too_long:
            refused[i] = "text_too_long"
        texts.append("" if too_long else document.text)
    codes = code_points(texts, plan.normal_form)
    cut = SHINGLES[plan.shingles](codes, plan.k, plan.languages)
    counts = np.diff(cut.starts)
    starts = cut.starts
    if not counts.all():  # rare: leave out what has no features, and go on with the rest
        for i in np.flatnonzero(counts == 0).tolist():
            reason = "surrogate" if codes.surrogates[i] else "no_shingles" if codes.lengths[i] else "empty"
            refused.setdefault(i, reason)
        starts = np.append(cut.starts[:-1][counts > 0], cut.starts[-1:])
    return Reading(cut._replace(starts=starts), refused, int(codes.lengths.sum()))


def bag_contents(features: Features) -> npt.NDArray[np.uint64]:
    """Content hashes ``uint64[n, 2]``: equal for texts with the same bag of shingles."""
    out = np.empty((len(features.starts) - 1, 2), np.uint64)
    hash_bags(features.values, features.starts, out)
    return out


def evidence_by(sign: Sign) -> Callable[[Features, SetPlan], Evidence]:
    """The sketches of signatures that ``sign`` makes."""

    def evidence(features: Features, plan: SetPlan) -> Evidence:
        signatures = sign(features.values, features.starts, plan.signature_rows, plan.seed)
        return fixed_evidence(banding.sketch(signatures, plan.tuning.sketch_bits))

    return evidence


def width(plan: SetPlan) -> int:
    """Bytes of a sketch."""
    return plan.signature_rows * plan.tuning.sketch_bits // 8


def keys(evidence: Evidence, plan: SetPlan) -> Keys:
    """A key for each band of the sketches."""
    return regular_keys(banding.keys(evidence.fixed, plan.tuning.bands, plan.seed))


def common(a: Evidence, b: Evidence, plan: SetPlan) -> Common:
    """First common band, number of common bands, similarity estimated from the equal rows of two sketches."""
    found = banding.agreement(a.fixed, b.fixed, plan.tuning.bands, plan.tuning.sketch_bits)
    similarity = banding.estimate(found.rows, plan.signature_rows, plan.tuning.sketch_bits)
    return Common(found.first_band, found.bands, np.ones(len(similarity), np.bool_), similarity)


def signing(plan: SetPlan) -> tuple[object, ...]:
    """What decides shingles, sketches and bands; the rules of words and stop lists where they take part."""
    tuning = plan.tuning
    parts: list[object] = [UNICODE_VERSION, plan.shingles, plan.k, *plan.normal_form]
    parts += [tuning.bands, tuning.rows, tuning.sketch_bits, plan.seed, plan.text_characters_max]
    if plan.shingles != "chars":
        parts.append(word_rules())
    if plan.shingles == "stopwords":
        parts.append(stop_rules(plan.languages))
    return tuple(parts)


def tuning(plan: SetPlan) -> Tuning:
    """The plan's."""
    return plan.tuning


one_permutation_evidence = evidence_by(one_permutation.sign)
minhash_evidence = evidence_by(minhash.sign)
