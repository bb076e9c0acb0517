"""What an operator looks at: what was left out or refused, the disk, and the last checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from neardup_workers.outside.telemetry.metrics import Metrics


def operation(observer: Metrics, refused: Mapping[str, int], path: Path) -> dict[str, Any]:
    """Return counts since the start, the bytes of the store at ``path`` and of its disk, and the time of the last
    checkpoint: the only change of the database file itself."""
    errors = {4: 0, 5: 0}
    for status in HTTPStatus:
        if status // 100 in errors:
            errors[status // 100] += int(observer.value("service_requests", str(int(status))))
    files = [each for each in path.parent.glob(f"{path.name}*") if each.is_file()]
    used, written = 0, None
    with suppress(OSError):  # a file may go meanwhile
        used, written = sum(each.stat().st_size for each in files), path.stat().st_mtime
    return {
        **{name: int(observer.value(name)) for name in ("late", "truncated", "evicted")},
        "refused": dict(refused),
        "client_errors": errors[4],
        "server_errors": errors[5],
        "store_bytes": used,
        "free_bytes": shutil.disk_usage(path.parent).free,
        "checkpoint_time": written,
    }
