"""A second process that compiles the kernels of the table while this one compiles those that sign.

The compiler uses one core, and a first run waits for it. The kernels of signing and of the table take about the same
time, so the second process halves the wait. Both processes store compiled kernels in the same folder. ``wait`` returns
when the second process has ended, and this process then loads its kernels. If the second process fails, this process
compiles all kernels.

The kernels of the table have the same types for every scheme, so the second process needs no settings.
"""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType

import numpy as np

from stream.batches import id_columns, make_batch, table_items
from stream.config import Config
from stream.pipeline import Matcher, step
from stream.scheme_interface import fixed_evidence, regular_keys
from stream.table import NO_TIME
from stream.table.step import run as table_kernel
from workers.process.compiling import Compiling
from workers.process.kernel_cache import is_kept


class TableCompiler:
    """The second process, as a context manager. It starts only on a first run, and only with a second core."""

    def __init__(self, compiling: Compiling) -> None:
        self._compiling = compiling
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TableCompiler:
        if is_kept(table_kernel) is False and len(os.sched_getaffinity(0)) > 1:
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

    def wait(self) -> None:
        """Return when the kernels of the table can be loaded, or when the second process has failed."""
        if self._process is not None:
            with self._compiling.waiting():
                self._process.wait()
            self._process = None


def compile_table() -> None:
    """Call the kernels of the table with arguments of their usual types."""
    config = Config()
    table = Matcher(config).table
    evidence = fixed_evidence(np.zeros((1, config.plan.width), np.uint8))
    ids, id_starts = id_columns([b"a"])
    batch = make_batch(ids, id_starts, np.array([NO_TIME]), np.zeros((1, 2), np.uint64), evidence)
    with step(table):
        table.probe_add(table_items(batch, regular_keys(np.zeros((1, 1), np.uint64))))


if __name__ == "__main__":
    compile_table()
