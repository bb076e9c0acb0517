"""Puts this folder and the folders of the broker on the import path, and the shared fixture into this folder."""

from __future__ import annotations

import sys

from import_path import folders

sys.path.extend(folders("deploy", "kafka"))

from programs import prometheus  # noqa: F401 - a fixture; found by the path above
