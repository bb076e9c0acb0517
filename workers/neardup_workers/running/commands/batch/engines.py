"""Where ``batch`` joins: each engine is loaded when it is chosen, because each needs packages of its own."""

from __future__ import annotations

from collections.abc import Callable

from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.files import Settings


def _local(options: BatchOptions, settings: Settings) -> Exit:
    from neardup_workers.running.commands.batch.corpus import run

    return run(options, settings)


def _spark(options: BatchOptions, settings: Settings) -> Exit:
    from neardup_workers.running.commands.batch.spark import run

    return run(options, settings)


ENGINES: dict[str, Callable[[BatchOptions, Settings], Exit]] = {"local": _local, "spark": _spark}
