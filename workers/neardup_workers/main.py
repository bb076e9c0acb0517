"""The program: the command ``neardup``, which is also ``python -m neardup``.

Loading the command line and the library takes up to some seconds. A process that gets a signal during this time has no
work to finish, so it ends at once, a worker with the exit code of a stop. Later
``neardup_workers.outside.process.stop.Stop`` handles signals. Without a handler, the exit code would say that the
worker was killed, the first process of a container would ignore the signal, and an import could."""

from __future__ import annotations

import gc
import os
import signal
import sys

# The commands that SIGTERM and Ctrl-C end in order.
_WORKERS = ("sign", "match", "link", "filter", "up")
# New objects until the garbage collector runs. Loading makes some hundred thousand objects that stay; with the default
# of 700 the collector would visit all of them repeatedly, for a tenth of the start.
COLLECT_OBJECTS = 200_000
# What libraries do at their import: threads for large matrices, of which there are none here; a look at each installed
# package for what adds to pydantic.
_LIBRARIES = {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "1"}


def main() -> None:
    """Run the command line."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # which would raise in an import: a traceback, or nothing at all
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    gc.set_threshold(COLLECT_OBJECTS)
    for name, value in _LIBRARIES.items():
        os.environ.setdefault(name, value)
    from neardup_workers.outside.process.exits import Exit
    from neardup_workers.outside.process.stop import leave, leave_at_once

    is_worker = sys.argv[1:2] and sys.argv[1] in _WORKERS
    if is_worker:
        leave_at_once()
    try:
        from neardup.kernel_folder import ensure_kernel_folder
    except ImportError as error:
        sys.exit(f"neardup: {error}")

    ensure_kernel_folder()
    from neardup_workers.running.cli.app import main as run

    try:
        if not is_worker:
            signal.signal(signal.SIGINT, before)
        code = run()
    except KeyboardInterrupt:  # before the command line looks
        code = Exit.INTERRUPTED
    leave(code)


if __name__ == "__main__":
    main()
