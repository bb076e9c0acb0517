"""Near-duplicates in a stream of documents: the library. It knows no clock, and its one output is a window in a file.

>>> import neardup
>>> dedup = neardup.Deduplicator(neardup.Config(threshold=0.7))
>>> text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
>>> [pair.newer for pair in dedup.process([neardup.Document("a", text), neardup.Document("b", text.upper())])]
['b']
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neardup.deduplicator import Deduplicator
    from neardup.documents.document import Column, Document, Explanation, Neighbour, Pair, Refusal, Verdict
    from neardup.errors import CapacityError, ConfigError, NeardupError
    from neardup.pairs.pipeline import Matcher
    from neardup.pairs.signing import Signer
    from neardup.schemes.config import Config
    from neardup.stories.arrow.signatures import sign_table

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
    "load_window",
    "save_window",
    "sign_table",
]

# In the order in which they load: a program that only matches loads no more than it needs.
_MODULES = (
    "errors",
    "documents.document",
    "schemes.config",
    "pairs.signing",
    "pairs.pipeline",
    "deduplicator",
    "stories.arrow.signatures",
)


def __dir__() -> list[str]:
    """The public names, though they are loaded when the first one is asked for."""
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> object:
    """A public name, whose module is loaded when the name is used: the command's help needs none."""
    if name == "__version__":
        from importlib.metadata import version  # a tenth of the time of a help

        return version("neardup")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from neardup.kernel_folder import ensure_kernel_folder

    ensure_kernel_folder()
    for module in _MODULES:
        defined = vars(import_module(f"{__name__}.{module}"))
        if name in defined:
            globals()[name] = defined[name]
            return globals()[name]
    raise AssertionError(f"{name} is public, and no module of {_MODULES} defines it")


def save_window(dedup: Deduplicator, path: str | Path) -> None:
    """Write the window of a deduplicator to a file, as ``neardup run --keep`` does.

    Args:
        dedup: whose documents are written: their signatures, no text.
        path: is replaced when the file is whole.

    Raises:
        OSError: the file cannot be written.
    """
    from neardup.documents.document import check_type

    check_type(path, (str, Path), "the path of a window is a string or a Path: save_window(dedup, 'window.bin')")
    unfinished = Path(f"{path}.unfinished")
    unfinished.write_bytes(dedup.save())
    unfinished.replace(path)


def load_window(path: str | Path, config: Config | None = None) -> Deduplicator:
    """A deduplicator that holds the window in a file, from ``save_window`` or ``neardup run --keep``.

    Args:
        path: of the file.
        config: the configuration that the window was made with.

    Raises:
        OSError: the file cannot be read.
        NeardupError: it is no window, is truncated, or was made with a configuration that signs differently.
    """
    from neardup import Deduplicator

    dedup = Deduplicator(config)
    dedup.load(Path(path).read_bytes())
    return dedup
