"""Examples in docstrings run, and public names say what they take, give and raise."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import neardup
from neardup.schemes.interface import Scheme

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    ".".join(path.relative_to(ROOT / root).with_suffix("").parts).removesuffix(".__init__")
    for root in ("stream", "textbook")
    for path in sorted((ROOT / root).rglob("*.py"))
    if path.name != "__main__.py"
]
CLASSES = [
    neardup.Config,
    neardup.Document,
    neardup.Pair,
    neardup.Refusal,
    neardup.Deduplicator,
    neardup.Signer,
    neardup.Matcher,
    Scheme,
]


@pytest.mark.parametrize("module", MODULES)
def test_every_example_of_the_library_gives_what_it_shows(module: str) -> None:
    """A reader may copy it."""
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@pytest.mark.parametrize("public", CLASSES, ids=lambda public: public.__name__)
def test_a_public_class_has_an_example(public: type) -> None:
    """One that runs, in a section of its own; a class that is made from values lists them as Args."""
    text = inspect.getdoc(public) or ""
    assert "\nExample:\n    >>> " in text
    assert "\nArgs:\n" in text or public is Scheme
