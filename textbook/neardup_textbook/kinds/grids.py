"""Grids: fingerprints as sets of grid squares; functions of a few squares each decide their buckets.

Functions form groups (``neardup_textbook.kinds.grid_functions``). A pair meets in a group if it has all squares of some
function of the group in common (OR), and is a candidate if it meets in every group (AND). The table holds the buckets
of the first group only. Whether a pair meets in the other groups follows from the two fingerprints, so those groups
cost a comparison for each pair and no bucket.

The evidence of a fingerprint is its squares as a bitmap; keys, groups and similarity follow from it. The similarity is
the Jaccard similarity of the two sets of squares.

Guarantee: if a pair shares each square with probability p, independently, it is a candidate with probability
``grid_functions.candidate_probability``, about (1 - (1 - p^squares)^functions)^groups. Example with 1,000 squares, of
which a fifth have a minutia: two fingerprints of one finger (p = .16) are candidates with probability .978 in one group
of 1024 functions and .958 in two groups; fingerprints of two fingers (p = .04) with .063 and .0048. A fingerprint
without a function of the first group meets only its copies. The guarantee holds only for aligned fingerprints: align
them before you compute their squares.

Source: Mining of Massive Datasets, 3.8.4, 3.8.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from neardup.documents.document import Document, Features
from neardup.errors import Reason
from neardup.machine.compile import kernel
from neardup.machine.kernels.hashing import hash_bags, mix64
from neardup.schemes.interface import NO_PAYLOADS, Common, Evidence, Keys, Reading, Scheme, fixed_evidence
from neardup.schemes.parameters import Parameters, SchemeOptions
from neardup.schemes.theory.tuning import Tuning, keyed
from neardup_textbook.kinds import grid_functions
from neardup_textbook.kinds.grid_functions import Functions


class GridOptions(SchemeOptions):
    """The grid, and its functions."""

    squares: int = Field(default=1000, ge=1, le=65536, description="squares of a grid; tokens are numbers below it")
    functions: int = Field(default=1024, ge=1, le=65536, description="functions of a group, joined by OR")
    groups: int = Field(default=2, ge=1, le=16, description="groups of functions, joined by AND")
    function_squares: int = Field(default=3, ge=1, le=16, description="squares that a function asks for")


class GridPlan(NamedTuple):
    """The resolved parameters of the grid scheme."""

    squares: int
    functions: Functions
    seed: int
    tuning: Tuning
    kind: str = "tokens"

    @property
    def width(self) -> int:
        """Bytes of a bitmap."""
        return grid_functions.width(self.squares)


def plan(p: Parameters, o: GridOptions) -> GridPlan:
    """Raises ``ConfigError`` for functions of more squares than the grid has."""
    shape = o.groups, o.functions, o.function_squares
    chosen = grid_functions.functions(o.squares, *shape, p.seed)
    return GridPlan(o.squares, chosen, p.seed, keyed(p.threshold, p.min_similarity))


def features(documents: Sequence[Document], plan: GridPlan) -> Reading:
    """Return the squares of each fingerprint, ascending, each once (``uint64``); refuse fingerprints without squares or
    with squares outside of the grid."""
    refused: dict[int, str] = {}
    usable: list[npt.NDArray[np.uint64]] = []
    for i, document in enumerate(documents):
        squares = _squares(document, plan.squares)
        if isinstance(squares, Reason):
            refused[i] = squares
        else:
            usable.append(squares)
    starts = np.zeros(len(usable) + 1, np.int64)
    np.cumsum([len(squares) for squares in usable], out=starts[1:])
    values = np.concatenate(usable) if usable else np.empty(0, np.uint64)
    return Reading(Features(values, starts), refused, 0)


def _squares(document: Document, squares: int) -> npt.NDArray[np.uint64] | Reason:
    """Return the squares of one fingerprint, or the reason why it is refused."""
    tokens = document.tokens
    if tokens is None or len(tokens) == 0:
        return Reason("no_square")
    given = np.asarray(tokens)
    if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= squares:
        return Reason("square_range")
    return np.unique(given).astype(np.uint64)


def contents(features: Features) -> npt.NDArray[np.uint64]:
    """Content hashes ``uint64[n, 2]``: equal for equal sets of squares."""
    hashed = np.empty(len(features.values), np.uint64)
    _mix(features.values, hashed)
    out = np.empty((len(features.starts) - 1, 2), np.uint64)
    hash_bags(hashed, features.starts, out)
    return out


def evidence(features: Features, plan: GridPlan) -> Evidence:
    """The squares as a bitmap."""
    return fixed_evidence(grid_functions.bitmaps(features.values.astype(np.int64), features.starts, plan.squares))


def keys(evidence: Evidence, plan: GridPlan) -> Keys:
    """Return a key for each function of the first group whose squares the fingerprint has."""
    return Keys(*grid_functions.keys(evidence.fixed, plan.functions, plan.seed), NO_PAYLOADS)


def common(a: Evidence, b: Evidence, plan: GridPlan) -> Common:
    """The common functions of the first group, whether each group has a common function, the Jaccard similarity."""
    shared = grid_functions.shared_functions(a.fixed, b.fixed, plan.functions)
    similarity = grid_functions.jaccard(a.fixed, b.fixed)
    return Common(np.ascontiguousarray(shared[:, 0]), np.asarray((shared > 0).all(axis=1)), similarity)


def signing(plan: GridPlan) -> tuple[object, ...]:
    """Return the grid and the parameters of the first group's functions; the other groups decide no key."""
    return (plan.squares, *plan.functions.squares.shape[1:], plan.seed)


def score_settings(plan: GridPlan) -> tuple[object, ...]:
    """Return the number of groups: a pair must meet in all of them."""
    return (len(plan.functions.squares),)


def sample(text: str, plan: GridPlan) -> Document:
    """A square for each character."""
    return Document("", tokens=sorted({ord(character) * 31 % plan.squares for character in text}))


SCHEME = Scheme(
    plan, features, contents, evidence, keys, common, signing,
    by_content=True,
    exact=False,
    options=GridOptions,
    guarantee="candidate with about (1 - (1 - p^3)^1024)^2 where two prints share a square with chance p",
    scoring=score_settings,
    sample=sample,
    examples=({"scheme_options": {"squares": 64}},),
)  # fmt: skip


@kernel("u64[], u64[]")
def _mix(values, out):
    """Hash small numbers, so that sums of hashes differ for different sets."""
    for i in range(len(out)):
        out[i] = mix64(values[i] + np.uint64(1))
