"""The program: the command ``neardup``, and ``python -m workers``.

Loading the command line and the library takes up to some seconds. A worker that is asked to end meanwhile has nothing
to end yet, so it leaves at once, as stopped; ``workers.stop.Stop`` takes the signals over when there is. Without a
handler the exit code would say that it was killed, and the first process of a container would not hear of it at all.
"""

from __future__ import annotations

import sys

from workers.stop import leave_at_once

# The commands that SIGTERM and Ctrl-C end as asked for.
_WORKERS = ("sign", "match", "up")


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] and sys.argv[1] in _WORKERS:
        leave_at_once()
    from workers.cli import main as run

    run()


if __name__ == "__main__":
    main()
