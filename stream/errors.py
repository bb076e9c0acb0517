"""Errors that a caller can act on. A broken invariant raises ``AssertionError`` instead."""

from __future__ import annotations


class NeardupError(Exception):
    """Base class of all errors of the project. The text is one sentence: the value, the rule, the remedy."""


class ConfigError(NeardupError, ValueError):
    """A configuration cannot work. The text names the value, the rule it breaks and what to set instead."""


class CapacityError(NeardupError):
    """A structure reached a limit of its design. The text names the limit and how to stay below it."""
