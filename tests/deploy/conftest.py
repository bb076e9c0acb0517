"""Puts this folder and that of the broker on the import path, for there is no `__init__.py`; and the fixture of all."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))
sys.path.insert(0, str(Path(__file__).parent))

from programs import prometheus  # noqa: F401 - a fixture; found by the path above
