"""Puts this folder and the fixtures on the import path, for the modules that the tests here share.

Test folders have no `__init__.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "fixtures")]
