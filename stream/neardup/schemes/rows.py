"""``SCHEMES``: every way to find near-duplicates; each row has plain functions and a guarantee.

The table, the pipeline and the workers use only this row of a scheme. ``neardup.schemes.interface`` defines each
function. ``tests/laws`` runs every law on every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from neardup.schemes.interface import AnyScheme

# Name of a scheme -> its file in ``kinds``, and its row there.
_FILES = {
    "one_permutation": ("sets", "SCHEME"),
    "minhash": ("sets", "MINHASH"),
    "records": ("records", "SCHEME"),
    "grid": ("grids", "SCHEME"),
    "permutation": ("sets", "PERMUTATION"),
    "partial_minhash": ("partial_sets", "SCHEME"),
    "grouped": ("partial_sets", "GROUPED"),
    "prefix": ("prefix", "SCHEME"),
    "identical": ("identical", "SCHEME"),
    "passages": ("passages", "SCHEME"),
    "hyperplane": ("vectors", "HYPERPLANE"),
    "hyperplane_dot": ("vectors", "HYPERPLANE_DOT"),
    "p_stable": ("vectors", "P_STABLE"),
    "bit_sampling": ("vectors", "BIT_SAMPLING"),
}


class _Rows(Mapping[str, AnyScheme]):
    """The table. It imports the file of a scheme when the row is read: a program that uses one scheme loads one."""

    def __getitem__(self, name: str) -> AnyScheme:
        file, row = _FILES[name]
        scheme: AnyScheme = getattr(import_module(f"neardup.schemes.kinds.{file}"), row)
        return scheme

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)


SCHEMES: Mapping[str, AnyScheme] = _Rows()
