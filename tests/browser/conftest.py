"""Puts this folder on the import path, and the shared fixture into it."""

import sys

from import_path import folders

sys.path.extend(folders("browser"))

from chromium import chromium  # noqa: F401 - a fixture; found by the path above
