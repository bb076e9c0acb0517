"""The clock of arrivals: the machine's, of which no jump is believed.

Times of arrival decide what leaves a window, so one reading of a clock that is a year ahead would empty it. The clock
of the machine is compared with the time since its boot, which cannot be set: if they differ by more than
``STEP_SECONDS_MAX``, the clock has jumped. Then time goes on from the last one that was believed, at the pace of the
boot clock, until both agree again. A process that starts while the machine runs on goes on with the time that the one
before it believed (``kept``), if the clock differs by more than ``START_SECONDS_MAX``. After a start of the machine
the first reading is believed, unless the window has a later time: then time goes on from that one, so that what was
dated by a clock that was ahead still leaves the window in time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# Time services set a clock by less than this, or change its pace instead.
STEP_SECONDS_MAX = 60.0
# A start heals what many such steps, or a pause of a virtual machine, make.
START_SECONDS_MAX = 3_600.0
# Where the clock is, and what helps if it is right: a window cannot forget its latest time.
_AHEAD = "ahead of", "start the service with --clock event, stop it, and start it as before"
_BEHIND = "behind", "documents still leave the window in time, and only one in a new folder (--state) has right dates"
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot() -> float:
    """Return the seconds since the machine started, those of its sleep included where the system counts them."""
    return time.clock_gettime(_CLOCK)


def boot_id() -> str:
    """Return the name of the start of the machine; empty where the system does not say."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


class ArrivalClock:
    """Returns the present time, in seconds since the epoch. Several threads may call it.

    ``latest`` is the time of the window, ``None`` if it has none; ``wall`` and ``elapsed`` are the clock of the machine
    and the time since its boot; ``kept`` is what a process before had as ``kept``, empty for nothing.
    """

    def __init__(
        self,
        latest: float | None = None,
        wall: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = since_boot,
        kept: str = "",
    ) -> None:
        self._wall, self._elapsed = wall, elapsed
        present, (boot, _, booted) = wall(), kept.partition(" ")
        with suppress(ValueError):
            expected = elapsed() + float(booted)
            if boot == boot_id() and abs(present - expected) > START_SECONDS_MAX:
                present = expected
        self._believed = max(present, latest or 0.0), elapsed()
        self.jump_seconds = 0.0
        self()

    def __call__(self) -> float:
        """Return the present time. It never falls."""
        seconds, at = self._believed
        now, wall = self._elapsed(), self._wall()
        expected = seconds + now - at
        jump = wall - expected
        is_jump = abs(jump) > STEP_SECONDS_MAX
        if is_jump != (self.jump_seconds != 0.0):
            self._say(jump, is_jump)
        self.jump_seconds = jump if is_jump else 0.0
        believed = expected if is_jump else max(wall, seconds)
        self._believed = believed, now
        return believed

    @property
    def kept(self) -> str:
        """The start of the machine, and its time as it is believed, for the next process."""
        seconds, at = self._believed
        return f"{boot_id()} {seconds - at!r}"

    def _say(self, jump: float, is_jump: bool) -> None:
        log = logging.getLogger(__name__)
        if is_jump:
            log.warning(
                "the clock of this machine is %.0f seconds %s the window's; documents arrive by the window's. If the "
                "machine's is right, %s",
                abs(jump), *(_AHEAD if jump > 0 else _BEHIND),
            )  # fmt: skip
        else:
            log.warning("the clock of this machine agrees with the window's again")
