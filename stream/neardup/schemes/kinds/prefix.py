"""The exact prefix index: every two sets with a Jaccard similarity at or above the threshold J meet.

A set is a string: its tokens as order values (``neardup.features.tokens.token_order``), ascending, so the rarest come
first. The string is the evidence. Its keys are hashes of its first p tokens, p = floor((1 - J) L) + 1 for L tokens.
Each key has a payload: position and suffix length of the token. With the payloads the table excludes sets that cannot
reach J, and sets that share too few tokens of their prefixes (``neardup.window.admit``). The remaining sets are
compared in full.

A set probes and adds the same prefix. A shorter prefix would be enough for later sets that are longer, but a stream
does not order sets by size.

Why no pair is missed: let two sets of L and M tokens have similarity J or more, and let their first common token be at
positions i and j. All common tokens start there, so L - i >= J max(L, M) >= J L. Hence i <= (1 - J) L, which is within
the prefix of the first set; by the same argument j is within the prefix of the second. The bounds of the payload hold
for every such pair. The code uses the quotients of whole numbers as ``float64`` rounds them, the same numbers that are
then compared with the threshold: p is the number of positions i with (L - i) / L >= J.

Source: Mining of Massive Datasets, 3.9.2 to 3.9.6; Chaudhuri, Ganti, Kaushik, "A primitive operator for similarity
joins in data cleaning", ICDE 2006; Xiao, Wang, Lin, Yu, "Efficient similarity joins for near duplicate detection",
WWW 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, InstanceOf

from neardup.documents.document import Document, Features
from neardup.errors import ConfigError
from neardup.features.texts.shingles import SHINGLES
from neardup.features.tokens import verify
from neardup.features.tokens.token_order import TokenOrder
from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels.hashing import derive_seed, mix64
from neardup.schemes.interface import Common, Evidence, Keys, Reading, Scheme, ragged_evidence, ragged_values
from neardup.schemes.kinds import set_plan, sets
from neardup.schemes.kinds.set_options import SetOptions, TokenOptions
from neardup.schemes.kinds.set_plan import SetPlan
from neardup.schemes.parameters import Parameters
from neardup.schemes.theory.tuning import Tuning, complete
from neardup.window.admit import payload_of

# The settings that decide how documents are read.
_READING = (
    "shingles", "k", "measure", "languages", "stop_words", "fold", "text_characters_max",
)  # fmt: skip
# The Jaccard similarity of bags is that of sets in which each copy of a token is a different element.
_MEASURES = ("jaccard", "jaccard_bag")
# Settings that would lose pairs, or have no effect here -> why they must be left out.
_REFUSED = {
    "probe_candidates_max": "prefix misses no pair",
    "buckets_shared_min": "prefix misses no pair",
    "min_similarity": "prefix emits the pairs at or above the threshold and no other",
}

Strings = npt.NDArray[np.uint64]
Starts = npt.NDArray[np.int64]

# Separates these from the seeds of rows, which count from 0, and of bands, which count from 2^32.
_TOKEN_PURPOSE = np.uint64(1 << 33)


class PrefixOptions(TokenOptions):
    """How tokens are read and ordered."""

    in_files: ClassVar[tuple[str, ...]] = ("token_order",)

    token_order: InstanceOf[TokenOrder] | None = Field(default=None, description=
        "order of tokens that prefix indexes by, as learn-order makes it; by default that of hashes")  # fmt: skip


class PrefixPlan(NamedTuple):
    """The resolved settings; ``reading`` decides how documents become sets of tokens."""

    reading: SetPlan
    order: TokenOrder
    threshold: float
    seed: int
    width: int = 0  # evidence has no part of fixed width

    @property
    def kind(self) -> str:
        """What the sets are made of."""
        return self.reading.kind

    @property
    def tuning(self) -> Tuning:
        """No pair at the threshold is missed, and no pair below it is emitted."""
        return complete(self.threshold)


def prefix_lengths(lengths: npt.NDArray[np.int64], threshold: float) -> npt.NDArray[np.int64]:
    """Return how many tokens of strings of these lengths are keys; ``threshold`` is above 0 and at most 1.

    >>> import numpy as np
    >>> prefix_lengths(np.array([9, 10, 19, 20, 29, 30]), 0.9).tolist()
    [1, 2, 2, 3, 3, 4]
    """
    out = np.empty_like(lengths)
    _prefix_lengths(lengths, threshold, out)
    return out


def prefix_keys(values: Strings, starts: Starts, threshold: float, seed: int) -> Keys:
    """A key and a payload for each token of the prefix of each string, none of them empty, in the order of tokens."""
    prefix_starts = np.zeros(len(starts), np.int64)
    np.cumsum(prefix_lengths(np.diff(starts), threshold), out=prefix_starts[1:])
    out = Keys(np.empty(prefix_starts[-1], np.uint64), prefix_starts, np.empty(prefix_starts[-1], np.uint64))
    _prefix_keys(values, starts, np.uint64(seed), out.values, out.starts, out.payloads)
    return out


def shared(
    values_a: Strings, starts_a: Starts, values_b: Strings, starts_b: Starts, threshold: float
) -> npt.NDArray[np.int32]:
    """Return how many tokens the prefixes of m pairs have in common, string i of the one and string i of the other."""
    out = np.empty(len(starts_a) - 1, np.int32)
    _shared(values_a, starts_a, values_b, starts_b, threshold, out)
    return out


def plan(parameters: Parameters, options: PrefixOptions) -> PrefixPlan:
    """Raises ``ConfigError`` for settings that contradict each other or would lose promised pairs."""
    for name, reason in _REFUSED.items():
        value = getattr(parameters, name)
        if value != Parameters.model_fields[name].default:
            raise ConfigError(f"{name} is {value}, but {reason}: leave it out")
    if (parameters.measure or "jaccard") not in _MEASURES:
        raise ConfigError(
            f"measure is {parameters.measure}, but prefix knows only {', '.join(_MEASURES)}: set one of them"
        )
    rated = SetOptions(**{name: getattr(options, name) for name in TokenOptions.model_fields})
    return PrefixPlan(
        reading=set_plan.plan(Parameters(**{name: getattr(parameters, name) for name in _READING}), rated),
        order=options.token_order or TokenOrder(),
        threshold=float(parameters.threshold),
        seed=parameters.seed,
    )


def features(documents: Sequence[Document], plan: PrefixPlan) -> Reading:
    """The tokens, as the other schemes of sets read them."""
    return sets.features(documents, plan.reading)


def evidence(features: Features, plan: PrefixPlan) -> Evidence:
    """The strings, eight bytes a token."""
    return ragged_evidence(*plan.order.strings(features.values, features.starts))


def keys(evidence: Evidence, plan: PrefixPlan) -> Keys:
    """A key and a payload for each token of the prefixes."""
    return prefix_keys(*ragged_values(evidence, np.uint64), plan.threshold, plan.seed)


def common(a: Evidence, b: Evidence, plan: PrefixPlan) -> Common:
    """The number of common tokens of the prefixes, the true Jaccard similarity of the sets."""
    both = (*ragged_values(a, np.uint64), *ragged_values(b, np.uint64))
    tokens = shared(*both, plan.threshold)
    return Common(tokens, np.ones(len(tokens), np.bool_), verify.SET_MEASURES["jaccard"].similarity(*both))


def signing(plan: PrefixPlan) -> tuple[object, ...]:
    """Return what decides the tokens, their order, and how many of them are keys."""
    return (*sets.signing(plan.reading), plan.order.digest, plan.threshold, plan.seed)


SCHEME = Scheme(
    plan, features, sets.bag_contents, evidence, keys, common, signing,
    by_content=True,
    exact=True,
    has_payloads=True,
    options=PrefixOptions,
    guarantee="every pair of sets with a Jaccard similarity at or above the threshold, and no other",
    sample=lambda text, plan: sets.sample(text, plan.reading),
    examples=tuple({"shingles": shingles, "threshold": 0.6} for shingles in SHINGLES),
)  # fmt: skip


@inlined
def _prefix_length(length, threshold):
    """Return one more than the greatest i with (length - i) / length >= threshold, in ``float64``."""
    left = np.int64(np.ceil(threshold * length))
    while left > 1 and (left - 1) * 1.0 / length >= threshold:
        left -= 1
    while left * 1.0 / length < threshold:
        left += 1
    return length - left + 1


@kernel("i64[], f64, i64[]")
def _prefix_lengths(lengths, threshold, out):
    for i in range(len(lengths)):
        out[i] = _prefix_length(lengths[i], threshold)


@kernel("const u64[], i64[], u64, u64[], i64[], u64[]")
def _prefix_keys(values, starts, seed, keys, key_starts, payloads):
    token_seed = derive_seed(seed, _TOKEN_PURPOSE)
    for i in range(len(starts) - 1):
        first, length, at = starts[i], starts[i + 1] - starts[i], key_starts[i]
        for position in range(key_starts[i + 1] - at):
            keys[at + position] = mix64(values[first + position] ^ token_seed)
            payloads[at + position] = payload_of(position, length - position)


@kernel("const u64[], i64[], const u64[], i64[], f64, i32[]")
def _shared(values_a, starts_a, values_b, starts_b, threshold, tokens):
    for pair in range(len(tokens)):
        first_a, first_b = starts_a[pair], starts_b[pair]
        a = values_a[first_a : first_a + _prefix_length(starts_a[pair + 1] - first_a, threshold)]
        b = values_b[first_b : first_b + _prefix_length(starts_b[pair + 1] - first_b, threshold)]
        tokens[pair] = verify.merged(a, b)
