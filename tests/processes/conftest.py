"""Puts this folder on the import path, so that tests here say `from transport_laws import Harness`.

Test folders have no `__init__.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from command import neardup, start  # noqa: F401 - fixtures of all tests here; found by the path above
from memory_harness import cluster, harness, transport  # noqa: F401 - fixtures of the tests of the memory twin
from web_server import web  # noqa: F401 - a fixture of the tests of feeds
