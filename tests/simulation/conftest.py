"""Puts the folders here on the import path, for the modules that the tests here share."""

from __future__ import annotations

import sys

from import_path import folders

sys.path.extend(folders("simulation"))
