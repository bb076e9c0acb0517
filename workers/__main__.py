"""The program: the command ``neardup``, and ``python -m workers``.

Loading the command line and the library takes up to some seconds. A worker that is asked to end meanwhile has nothing
to end yet, so it leaves at once, as stopped; ``workers.process.stop.Stop`` takes the signals over when there is.
Without a handler the exit code would say that it was killed, and the first process of a container would not hear of it
at all.
"""

from __future__ import annotations

import gc
import sys

from workers.process.stop import leave, leave_at_once

# The commands that SIGTERM and Ctrl-C end as asked for.
_WORKERS = ("sign", "match", "link", "filter", "up")
# Objects that may come to be before the garbage collector looks at them. Loading makes some hundred thousand that stay,
# and with the default of 700 it looks at all of them again and again: a tenth of a start.
_COLLECT_OBJECTS = 50_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_COLLECT_OBJECTS)
    if sys.argv[1:2] and sys.argv[1] in _WORKERS:
        leave_at_once()
    from workers.process.kernel_cache import ensure_kernel_cache

    ensure_kernel_cache()
    from workers.cli.app import main as run

    leave(run())


if __name__ == "__main__":
    main()
