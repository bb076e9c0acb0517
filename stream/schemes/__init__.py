"""``SCHEMES``: every way to find near-duplicates; each row has plain functions and a guarantee.

The table, the pipeline and the workers use only this row of a scheme. ``stream.scheme_interface`` defines each
function. ``tests/laws`` runs every law on every row.
"""

from __future__ import annotations

from stream.scheme_interface import DEFAULTS, AnyScheme, sign_features
from stream.schemes import grids, identical, partial_sets, prefix, records, sets, vectors

SCHEMES: dict[str, AnyScheme] = {
    "one_permutation": sets.SCHEME,
    "minhash": sets.SCHEME._replace(evidence=sets.minhash_evidence, sign=sign_features, examples=DEFAULTS),
    "records": records.SCHEME,
    "grid": grids.SCHEME,
    "permutation": sets.SCHEME._replace(evidence=sets.permutation_evidence, sign=sign_features, examples=DEFAULTS),
    "partial_minhash": partial_sets.SCHEME,
    "grouped": partial_sets.SCHEME._replace(plan=partial_sets.grouped_plan, examples=DEFAULTS),
    "prefix": prefix.SCHEME,
    "identical": identical.SCHEME,
    "hyperplane": vectors.HYPERPLANE,
    "hyperplane_dot": vectors.HYPERPLANE_DOT,
    "p_stable": vectors.P_STABLE,
    "bit_sampling": vectors.BIT_SAMPLING,
}
