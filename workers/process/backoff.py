"""How long to wait before the next try: longer each time, up to a limit, and not all processes at once."""

from __future__ import annotations

import mmh3

FIRST_SECONDS = 0.5
MOST_SECONDS = 20.0
_DOUBLINGS_MAX = 30


def backoff_seconds(attempt: int, name: str) -> float:
    """Seconds before try number ``attempt`` (from 1) of ``name``: doubled each time, between half and the whole of it.

    The share follows from name and attempt alone, so that a run can be repeated.

    >>> [round(backoff_seconds(attempt, "sign-0"), 2) for attempt in (1, 2, 3)]
    [0.42, 0.79, 1.19]
    """
    whole = min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(attempt - 1, _DOUBLINGS_MAX))
    share = mmh3.hash(f"{name}/{attempt}", signed=False) / 2**32
    return float(whole * (1 + share) / 2)
