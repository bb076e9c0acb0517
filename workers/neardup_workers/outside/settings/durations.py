"""Durations as people write them: ``48h``, ``2d``, ``1h30m``, or a number of seconds."""

from __future__ import annotations

import re

from neardup.errors import ConfigError

# Unit -> seconds.
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")


def is_duration(name: str) -> bool:
    """Whether a setting is a number of seconds, by its name."""
    return name.endswith(("_seconds", "_seconds_max"))


def seconds_of(name: str, text: str) -> float:
    """Return the seconds of a duration. Raises ``ConfigError`` with the name of the setting for any other text.

    >>> seconds_of("window_seconds", "1d12h")
    129600.0
    """
    parts = _PART.findall(text.lower())
    if parts and not _PART.sub("", text.lower()).strip():
        return float(sum(float(number) * UNITS[unit] for number, unit in parts))
    try:
        return float(text)
    except ValueError:
        raise ConfigError(
            f"{name}={text!r}: must be a number of seconds, or numbers with units ({', '.join(UNITS)}) as in 48h or "
            "1h30m"
        ) from None
