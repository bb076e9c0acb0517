"""``SCHEMES``: every way to find near-duplicates, one row each, plain functions and a guarantee.

The table, the pipeline and the workers know nothing else of a scheme; ``stream.scheme_interface`` says what each
function is.
``tests/laws`` runs every law on every row.
"""

from __future__ import annotations

from stream.scheme_interface import Scheme
from stream.schemes import grids, identical, partial_sets, prefix, records, sets, vectors

_S_CURVE = (
    "candidate with probability 1 - (1 - q^r)^b, where q = s + (1 - s) 2^-w; emitted if the estimate passes the cut"
)
_PARTIAL = (
    _S_CURVE + "; for sets so large that few of their rows are infinite, since a band with one has no key: "
    "a row is infinite with probability (1 - 1 / groups)^n"
)

_SETS = Scheme(
    plan=sets.plan,
    kind=sets.kind,
    features=sets.features,
    contents=sets.bag_contents,
    evidence=sets.one_permutation_evidence,
    width=sets.width,
    keys=sets.keys,
    common=sets.common,
    signing=sets.signing,
    tuning=sets.tuning,
    by_content=True,
    exact=False,
    guarantee=_S_CURVE,
    scoring=sets.scoring,
)
_PARTIAL_SETS = _SETS._replace(
    plan=partial_sets.plan,
    evidence=partial_sets.evidence,
    keys=partial_sets.keys,
    common=partial_sets.common,
    guarantee=_PARTIAL,
)

_VECTORS = Scheme(
    plan=vectors.plan_of("cosine"),
    kind=vectors.kind,
    features=vectors.features,
    contents=vectors.contents,
    evidence=vectors.evidence,
    width=vectors.width,
    keys=vectors.keys,
    common=vectors.common,
    signing=vectors.signing,
    tuning=vectors.tuning,
    by_content=True,
    exact=False,
    guarantee="candidate with probability 1 - (1 - q^r)^b, where q = 1 - angle / 180; emitted if its similarity is at "
    "or above the threshold",
    scoring=vectors.scoring,
)

SCHEMES: dict[str, Scheme] = {
    "one_permutation": _SETS,
    "minhash": _SETS._replace(evidence=sets.minhash_evidence),
    "records": Scheme(
        plan=records.plan,
        kind=records.kind,
        features=records.features,
        contents=records.contents,
        evidence=records.evidence,
        width=records.width,
        keys=records.keys,
        common=records.common,
        signing=records.signing,
        tuning=records.tuning,
        by_content=False,
        exact=False,
        guarantee="scored if two records share an exact key, or a band of a shingled field with 1 - (1 - s^r)^b",
        scoring=records.score_settings,
    ),
    "grid": Scheme(
        plan=grids.plan,
        kind=grids.kind,
        features=grids.features,
        contents=grids.contents,
        evidence=grids.evidence,
        width=grids.width,
        keys=grids.keys,
        common=grids.common,
        signing=grids.signing,
        tuning=grids.tuning,
        by_content=True,
        exact=False,
        guarantee="candidate with about (1 - (1 - p^3)^1024)^2 where two prints share a square with chance p",
        scoring=grids.score_settings,
    ),
    "permutation": _SETS._replace(evidence=sets.permutation_evidence),
    "partial_minhash": _PARTIAL_SETS,
    "grouped": _PARTIAL_SETS._replace(plan=partial_sets.grouped_plan),
    "prefix": Scheme(
        plan=prefix.plan,
        kind=prefix.kind,
        features=prefix.features,
        contents=sets.bag_contents,
        evidence=prefix.evidence,
        width=prefix.width,
        keys=prefix.keys,
        common=prefix.common,
        signing=prefix.signing,
        tuning=prefix.tuning,
        by_content=True,
        exact=True,
        guarantee="every pair of sets with a Jaccard similarity at or above the threshold, and no other",
    ),
    "identical": Scheme(
        plan=identical.plan,
        kind=identical.kind,
        features=identical.features,
        contents=identical.contents,
        evidence=identical.evidence,
        width=identical.width,
        keys=identical.keys,
        common=identical.common,
        signing=identical.signing,
        tuning=identical.tuning,
        by_content=True,
        exact=True,
        guarantee="every text that is equal to an earlier one after normalisation, and no other",
    ),
    "hyperplane": _VECTORS,
    # The dot product of a vector with itself is the square of its length, so a copy is compared like any other.
    "hyperplane_dot": _VECTORS._replace(
        plan=vectors.plan_of("dot"),
        by_content=False,
        guarantee="candidate with at least the probability of hyperplanes, of the angle whose cosine is the similarity",
    ),
    "p_stable": _VECTORS._replace(
        plan=vectors.plan_of("euclidean"),
        guarantee="candidate with probability 1 - (1 - q^r)^b, where q is the chance that two points at their distance "
        "share a segment of a random line; emitted if its similarity is at or above the threshold",
    ),
    "bit_sampling": _VECTORS._replace(
        plan=vectors.plan_of("hamming", "l1"),
        guarantee="candidate with probability 1 - (1 - q^r)^b, where q is the share of equal bits, of the vectors or "
        "of their unary codes; emitted if its similarity is at or above the threshold",
    ),
}
