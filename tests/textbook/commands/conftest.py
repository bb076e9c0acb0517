"""Fixtures of the tests of the commands."""

from __future__ import annotations

from command import forked, neardup  # noqa: F401 - fixtures of all tests here
