"""Near-duplicates in a stream of documents: the library. It does no input or output and knows no clock."""

from stream.config import Config
from stream.deduplicator import Deduplicator
from stream.documents import Column, Document, Explanation, Neighbour, Pair, Refusal, Verdict
from stream.errors import CapacityError, ConfigError, NeardupError
from stream.pipeline import Matcher, Signer

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
