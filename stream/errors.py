"""The failures of the library that a caller can act on. A broken invariant is an ``AssertionError`` instead."""

from __future__ import annotations


class NeardupError(Exception):
    """Base of every error the project raises on purpose; its text is one sentence with the remedy."""


class ConfigError(NeardupError, ValueError):
    """A configuration that cannot work: says the value, the rule it breaks and what to set instead."""


class CapacityError(NeardupError):
    """A structure reached a limit that its design fixes: says which, and how to stay below it."""
