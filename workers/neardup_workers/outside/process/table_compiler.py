"""A second process that compiles the kernels of the table while this one compiles all others.

The compiler uses one core, and a first run waits for it. Signing, pairs and verdicts take about as long as the table,
so the second process halves the wait. Both processes store compiled kernels in the same folder. While the second
process works, ``wait`` lets this process compile what it needs after the table. ``wait`` returns when the second
process has ended, and this process then loads its kernels. If the second process fails, this process compiles all
kernels.

The kernels of the table have the same types for every scheme, so the second process needs no settings.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from neardup.kernel_folder import can_write, kernel_folder
from neardup.pairs.batches import Batch, bucket_keys, table_items
from neardup.pairs.pipeline import Matcher, table_limits
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup.window import NO_TIME, Items
from neardup.window.step import run as table_kernel
from neardup.window.steps import step
from neardup_workers.outside.process.compiling import Compiling
from neardup_workers.outside.process.stop import leave


class TableCompiler:
    """The second process, as a context manager. It starts only on a first run, and only with a second core."""

    def __init__(self, compiling: Compiling, *further: Any) -> None:
        """``further`` kernels will be called besides those of the table: they count in the progress."""
        self._compiling, self._further = compiling, further
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TableCompiler:
        lacks = self._compiling.expect(table_kernel, *self._further)
        if table_kernel in lacks and can_write(kernel_folder()) and len(os.sched_getaffinity(0)) > 1:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches only this process, which ends the other
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait(self, *meanwhile: Callable[[], None]) -> None:
        """Return when the kernels of the table can be loaded, or when the second process has failed.

        ``meanwhile`` compile what this process needs afterwards. They run only if there is a second process.
        """
        if self._process is not None:
            with self._compiling.waiting():
                for compile_some in meanwhile:
                    compile_some()
                self._process.wait()
            self._process = None


def compile_table() -> None:
    """Call the kernels of the table with arguments of their usual types."""
    config = Config()
    table = Matcher(config).table
    starts = np.zeros(2, np.int64)
    # The columns of a batch, which are read-only; the others are made for the table.
    columns = (np.array([NO_TIME]), np.zeros(0, np.uint8), starts, np.zeros((1, config.plan.width), np.uint8),
               np.zeros(0, np.uint8), starts.copy())  # fmt: skip
    for column in columns:
        column.flags.writeable = False
    kinds, contents, no_payloads = np.zeros(1, np.uint8), np.zeros(1, np.uint64), np.zeros(0, np.uint64)
    items = Items(kinds, np.zeros(3, np.uint64), np.array([0, 3]), no_payloads, contents, *columns)
    with step(table):
        table.probe_add(items)


def compile_pairs(config: Config, batch: Batch) -> None:
    """Call the kernels that prepare a batch for the table and that compare its candidates."""
    if batch.size:
        scheme, plan = SCHEMES[config.scheme], config.plan
        table_items(batch, bucket_keys(batch, config))
        one = batch.evidence.select(np.zeros(1, np.int64))
        scheme.common(one, one, plan)


def compile_verdicts(config: Config) -> None:
    """Call the kernels that decide documents."""
    from neardup.stories.verdicts.decisions import Decisions, Found, VerdictLimits
    from neardup.stories.verdicts.rule import REFUSAL, Arrivals

    decisions = Decisions(VerdictLimits.of(table_limits(config, SCHEMES[config.scheme])))
    hashes, times = np.zeros(1, np.uint64), np.zeros(1, np.int64)
    arrivals = Arrivals(times, np.array([REFUSAL], np.uint8), hashes, times, hashes, times)
    with step(decisions):
        decisions.decide(arrivals, Found(times[:0], times[:0], np.empty(0, np.float32)))


if __name__ == "__main__":
    with Compiling(lambda line: None):
        compile_table()
    leave(0)
