"""The folders whose modules tests and scripts import by name: test folders have no ``__init__.py``."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
# The roots of the product: a package each.
ROOTS = ("stream", "textbook", "workers")
CLONE = os.pathsep.join(str(TESTS.parent / root) for root in ROOTS)
# The same as PYTHONPATH takes them: a process of the tests runs this tree, whatever is installed. ``make machine``
# names another one, which has machine code and no compiler.
SOURCES = os.environ.get("TESTED_TREE", CLONE)


def folders(*names: str) -> list[str]:
    """These folders of ``tests`` with all folders inside them, for ``sys.path``."""
    found = [folder for name in names for folder in [TESTS / name, *sorted((TESTS / name).rglob("*/"))]]
    return [str(folder) for folder in found if folder.is_dir() and folder.name != "__pycache__"]
