"""Fixtures of the tests of the workers."""

from __future__ import annotations

from command import forked, neardup, python, start  # noqa: F401 - fixtures of all tests here
from memory_harness import cluster, harness, transport  # noqa: F401 - fixtures of the tests of the memory twin
from web_server import web  # noqa: F401 - a fixture of the tests of feeds
