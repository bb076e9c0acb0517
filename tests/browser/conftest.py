"""Puts this folder on the import path, and the shared fixture into it."""

import sys

from import_path import folders

sys.path.extend(folders("browser"))

from axe import axe  # noqa: F401 - fixtures; found by the path above
from chromium import chromium  # noqa: F401
from open_page import page, serving  # noqa: F401
