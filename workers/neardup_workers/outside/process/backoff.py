"""The wait before the next attempt: it grows up to a limit, and differs between processes."""

from __future__ import annotations

import mmh3

FIRST_SECONDS = 0.5
SECONDS_MAX = 20.0
_DOUBLINGS_MAX = 30


def backoff_seconds(attempt: int, name: str, seconds_max: float = SECONDS_MAX) -> float:
    """Return the seconds before attempt number ``attempt`` (from 1) of ``name``.

    The limit doubles with each attempt, up to ``seconds_max``. The result lies between half the limit and the limit. It
    is a deterministic function of name and attempt, so runs are repeatable.

    >>> [round(backoff_seconds(attempt, "sign-0"), 2) for attempt in (1, 2, 3)]
    [0.42, 0.79, 1.19]
    """
    limit = min(seconds_max, FIRST_SECONDS * 2 ** min(attempt - 1, _DOUBLINGS_MAX))
    fraction = mmh3.hash(f"{name}/{attempt}", signed=False) / 2**32
    return float(limit * (1 + fraction) / 2)
