"""The program with other limits of its workers: ``limited.py ARGUMENT...``.

``STREAM_LIMITS`` in the environment holds them as JSON.
"""

from __future__ import annotations

import json
import os
import sys

from neardup_workers.outside.settings import kafka
from neardup_workers.running.cli import app


def apply() -> None:
    """Change the limits of the workers of this process."""
    given, usual = json.loads(os.environ["STREAM_LIMITS"]), kafka.limits_of
    kafka.limits_of = lambda memory_max: usual(memory_max)._replace(**given)


if __name__ == "__main__":
    apply()
    sys.exit(app.main())
