"""``SCHEMES``: every way to find near-duplicates; each row has plain functions and a guarantee.

The table, the pipeline and the workers use only this row of a scheme. ``neardup.schemes.interface`` defines each
function. ``tests/laws`` runs every law on every row.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import import_module

from neardup.schemes.interface import AnyScheme

# Name of a scheme -> the module that has it, and its row there. A module of ``neardup_textbook`` is loaded by this name
# alone: the library does not need it.
_MODULES = {
    "one_permutation": ("neardup.schemes.kinds.sets", "SCHEME"),
    "minhash": ("neardup_textbook.kinds.whole_sets", "MINHASH"),
    "records": ("neardup_textbook.kinds.records", "SCHEME"),
    "grid": ("neardup_textbook.kinds.grids", "SCHEME"),
    "permutation": ("neardup_textbook.kinds.whole_sets", "PERMUTATION"),
    "partial_minhash": ("neardup_textbook.kinds.partial_sets", "SCHEME"),
    "grouped": ("neardup_textbook.kinds.partial_sets", "GROUPED"),
    "prefix": ("neardup.schemes.kinds.prefix", "SCHEME"),
    "identical": ("neardup.schemes.kinds.identical", "SCHEME"),
    "passages": ("neardup.schemes.kinds.passages", "SCHEME"),
    "parts": ("neardup.schemes.kinds.parts", "SCHEME"),
    "signals": ("neardup.schemes.kinds.signals", "SCHEME"),
    "hyperplane": ("neardup_textbook.kinds.vectors", "HYPERPLANE"),
    "hyperplane_dot": ("neardup_textbook.kinds.vectors", "HYPERPLANE_DOT"),
    "p_stable": ("neardup_textbook.kinds.vectors", "P_STABLE"),
    "bit_sampling": ("neardup_textbook.kinds.vectors", "BIT_SAMPLING"),
}


_loaded = functools.cache(import_module)


class _Rows(Mapping[str, AnyScheme]):
    """The table. It imports the module of a scheme when the row is read: a program that uses one scheme loads one."""

    def __getitem__(self, name: str) -> AnyScheme:
        module, row = _MODULES[name]
        scheme: AnyScheme = getattr(_loaded(module), row)
        return scheme

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


SCHEMES: Mapping[str, AnyScheme] = _Rows()
