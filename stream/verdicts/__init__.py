"""From pairs to decisions: which documents are kept, and which are dropped for the sake of which."""

from stream.verdicts.decisions import Arrivals, Decisions, Found, VerdictLimits, Verdicts

__all__ = ["Arrivals", "Decisions", "Found", "VerdictLimits", "Verdicts"]
