"""``SCHEMES``: every way to find near-duplicates, one row each, plain functions and a guarantee.

The table, the pipeline and the workers know nothing else of a scheme; ``stream.frame`` says what each function is.
``tests/laws`` runs every law on every row.
"""

from __future__ import annotations

from stream import sets
from stream.frame import Scheme

_S_CURVE = (
    "candidate with probability 1 - (1 - q^r)^b, where q = s + (1 - s) 2^-w; emitted if the estimate passes the cut"
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
)

SCHEMES: dict[str, Scheme] = {
    "one_permutation": _SETS,
    "minhash": _SETS._replace(evidence=sets.minhash_evidence),
}
