"""The whole program, as its users meet it."""

from __future__ import annotations

from command import forked, neardup, python  # noqa: F401 - fixtures of all tests here
