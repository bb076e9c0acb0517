"""Puts this folder and the folder of the service on the import path, because there is no `__init__.py`; and the shared
fixture.
"""

import sys
from pathlib import Path

for name in ("support/workers", "browser"):
    sys.path.insert(0, str(Path(__file__).parents[1] / name))

from chromium import chromium  # noqa: E402, F401 - a fixture; found by the path above
