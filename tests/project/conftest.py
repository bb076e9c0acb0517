"""Fixtures of the tests that start the whole program."""

from __future__ import annotations

from command import forked, neardup, start  # noqa: F401 - fixtures of all tests here
