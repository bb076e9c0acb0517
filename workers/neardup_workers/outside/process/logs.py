"""The log of a worker on standard error: one line for each event, as text or as JSON.

Text is ``2026-03-04 06:00:00,000 INFO sentence``. JSON has ``time`` (ISO 8601, UTC), ``level``, ``message``, the
``worker`` that writes it, and an optional ``traceback``. Both escape control characters of terminals.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from neardup_workers.outside.process.printable import printable

_TEXT = "%(asctime)s %(levelname)s %(message)s"


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _Json(logging.Formatter):
    def __init__(self, worker: str) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": printable(record.getMessage()),
            "worker": self._worker,
        }
        if record.exc_info:
            event["traceback"] = printable(self.formatException(record.exc_info))
        return json.dumps(event, ensure_ascii=False)


def start_log(log_format: str, worker: str) -> None:
    """Write the log of this process to standard error, instead of an earlier log: lines of ``json``, which name the
    worker, or of text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(worker) if log_format == "json" else _Text(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def has_log() -> bool:
    """Return whether this process writes a log."""
    return any(isinstance(handler.formatter, _Text | _Json) for handler in logging.getLogger().handlers)


def log_fatal(sentence: str, error: BaseException | None = None) -> None:
    """Log why the process ends, with a traceback if ``error`` is given."""
    logging.getLogger(__name__).critical("%s", sentence, exc_info=error)
