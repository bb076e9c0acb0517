"""Commands as processes, for the tests of plugs."""

from command import forked, neardup, start

__all__ = ["forked", "neardup", "start"]
