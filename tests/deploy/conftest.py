"""Puts this folder and the folder of the broker on the import path, because there is no `__init__.py`; and the shared
fixture.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))
sys.path.insert(0, str(Path(__file__).parent))

from programs import prometheus  # noqa: F401 - a fixture; found by the path above
