"""Schemes of sets whose signatures have infinite rows: a row reads one part of the universe, which may hold no element.

Two rules differ from ``neardup.schemes.kinds.sets``: a band with an infinite row has no key, and the estimate leaves
out rows that are infinite in both signatures. These schemes are fast, and fit sets that leave few rows infinite. For a
set of n elements a band of r rows has no infinite row with probability about (1 - (1 - 1 / groups)^n)^r; only such
bands make candidates.

Source: Mining of Massive Datasets, 3.3.6, 3.3.7; Li, Owen, Zhang, "One permutation hashing", NIPS 2012.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import Field

from neardup.documents.document import Features
from neardup.schemes.declared import ROWS_LIMIT
from neardup.schemes.interface import DEFAULTS, NO_PAYLOADS, Common, Evidence, Keys, nothing, sign_features
from neardup.schemes.kinds import sets
from neardup.schemes.kinds.set_options import S_CURVE, SetOptions
from neardup.schemes.kinds.set_plan import SetPlan, common_plan
from neardup.schemes.parameters import Parameters
from neardup.schemes.theory.tuning import SKETCH_BITS
from neardup_textbook.signatures import partial, partial_banding


class PartialOptions(SetOptions):
    """How many parts the universe has, too."""

    groups: int = Field(
        default=8,
        ge=1,
        le=ROWS_LIMIT,
        description="parts of the universe of which a row looks at one",
    )


def plan(parameters: Parameters, options: PartialOptions) -> SetPlan:
    """Each hash function makes ``groups`` rows, at most all rows."""
    chosen = _with_score_min(common_plan(parameters, options))
    return chosen._replace(groups=min(options.groups, chosen.signature_rows))


def grouped_plan(parameters: Parameters, options: SetOptions) -> SetPlan:
    """One hash function makes all rows: as many groups as rows."""
    chosen = _with_score_min(common_plan(parameters, options))
    return chosen._replace(groups=chosen.signature_rows)


def _with_score_min(plan: SetPlan) -> SetPlan:
    """Return the plan with the ``score_min`` that partial sketches estimate from the same number of equal rows."""
    if plan.exact:
        return plan
    equal, rows = (np.array([x], np.int32) for x in (plan.tuning.agreements_min, plan.signature_rows))
    score_min = float(partial_banding.estimate(equal, rows, rows, plan.tuning.sketch_bits)[0])
    return plan._replace(tuning=plan.tuning._replace(score_min=score_min, margin=plan.tuning.threshold - score_min))


def evidence(features: Features, plan: SetPlan) -> Evidence:
    """Sketches in which 0 is infinity."""
    signatures = partial.sign(features.values, features.starts, plan.signature_rows, plan.groups, plan.seed)
    return sets.with_elements(partial_banding.sketch(signatures, plan.tuning.sketch_bits), features, plan)


def keys(evidence: Evidence, plan: SetPlan) -> Keys:
    """A key for each whole band of the sketches."""
    tuning = plan.tuning
    return Keys(*partial_banding.keys(evidence.fixed, tuning.bands, tuning.sketch_bits, plan.seed), NO_PAYLOADS)


def common(a: Evidence, b: Evidence, plan: SetPlan) -> Common:
    """First common band, number of common bands; similarity, exact or from the rows that are finite on any side."""
    bits = plan.tuning.sketch_bits
    agreed = partial_banding.agreement(a.fixed, b.fixed, plan.tuning.bands, bits)
    if plan.exact:
        similarity = sets.exact_similarity(a, b, plan)
    else:
        similarity = partial_banding.estimate(agreed.equal, agreed.finite, agreed.compared, bits)
    return Common(agreed.bands, np.ones(len(similarity), np.bool_), similarity)


EXAMPLES: tuple[Mapping[str, object], ...] = tuple({"sketch_bits": bits} for bits in SKETCH_BITS)
SCHEME = sets.SCHEME._replace(
    plan=plan,
    evidence=evidence,
    keys=keys,
    banded=lambda plan: False,
    common=common,
    partial=True,
    options=PartialOptions,
    sign=sign_features,
    plain=nothing,
    common_in=nothing,
    derived=nothing,
    guarantee=S_CURVE + "; for sets so large that few of their rows are infinite, since a band with one has no key: "
    "a row is infinite with probability (1 - 1 / groups)^n",
    examples=EXAMPLES,
)
GROUPED = SCHEME._replace(plan=grouped_plan, options=SetOptions, examples=DEFAULTS)
