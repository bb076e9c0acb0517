"""What ``--top`` of ``run``, ``probe`` and ``batch`` asks of their other options and of the scheme."""

from __future__ import annotations

from stream.neighbours.nearest import check_ranks
from workers.process.exits import Exit, Failure
from workers.settings.files import Settings


def check_top(top: int, settings: Settings, *, candidates: bool, overview: bool = False) -> None:
    """Raise ``Failure`` for options that mean nothing with ``--top``, ``ConfigError`` if the scheme cannot rank."""
    for name, given in (("--candidates", candidates), ("--overview", overview)):
        if given:
            raise Failure(Exit.USAGE, f"{name} is about pairs, but --top names neighbours: leave one of them out")
    check_ranks(settings, top)
