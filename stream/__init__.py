"""Near-duplicates in a stream of documents: the library. It does no input or output and knows no clock."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neardup.stream.config import Config
    from neardup.stream.deduplicator import Deduplicator
    from neardup.stream.documents import Column, Document, Explanation, Neighbour, Pair, Refusal, Verdict
    from neardup.stream.errors import CapacityError, ConfigError, NeardupError
    from neardup.stream.pipeline import Matcher, Signer

__all__ = [
    "CapacityError",
    "Column",
    "Config",
    "ConfigError",
    "Deduplicator",
    "Document",
    "Explanation",
    "Matcher",
    "NeardupError",
    "Neighbour",
    "Pair",
    "Refusal",
    "Signer",
    "Verdict",
]

_MODULES = ("errors", "documents", "config", "pipeline", "deduplicator")


def __getattr__(name: str) -> object:
    """A public name, whose module is loaded when the name is used: a program that only matches loads no more."""
    if name in __all__:
        for module in _MODULES:
            defined = vars(import_module(f"{__name__}.{module}"))
            if name in defined:
                globals()[name] = defined[name]
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
