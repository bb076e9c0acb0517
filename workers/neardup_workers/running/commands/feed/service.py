"""Items to a running service: lines to ``/v1/check:batch``, in order, sent again until they are answered; and how the
feeds are, to ``/v1/feeds``.

The service gives a document that it has already the same verdict once more, so a repeated line does no harm.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import orjson
import urllib3
from urllib3.exceptions import HTTPError

from neardup.documents.document import REASONS
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.feeds.condition import Condition
from neardup_workers.outside.feeds.reasons import FEED_REASONS
from neardup_workers.outside.feeds.schedule import retry_after
from neardup_workers.outside.process.backoff import backoff_seconds
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.entries import Entry

# Lines of a request at most. They are held in memory until the service has answered.
_LINES_MAX = 500
_BYTES_MAX = 1 << 20
_SECONDS_MAX, _TELL_SECONDS_MAX = 60.0, 10.0
# After a report that failed, so long none is tried.
_TELL_AGAIN_SECONDS = 10.0
_RETRIED = frozenset({429, 500, 502, 503, 504, 507})


class Checking:
    """Sends entries to a service at an address, with the token of ``NEARDUP_TOKEN``, and counts what it says of them.
    The session reports what it refuses, and its signal ends the waits; ``now`` is a clock that only grows."""

    def __init__(self, url: str, session: Session, now: Callable[[], float] = time.monotonic) -> None:
        self._url, self._feeds_url = (f"{url.rstrip('/')}/v1/{name}" for name in ("check:batch", "feeds"))
        self._session, self._now, self._tells_from = session, now, -math.inf
        self._pool = urllib3.PoolManager(retries=False, timeout=_SECONDS_MAX)
        self._header = {"Content-Type": "application/x-ndjson"}
        if token := os.environ.get("NEARDUP_TOKEN"):
            self._header["Authorization"] = f"Bearer {token}"
        self._entries: list[Entry] = []
        self._untold: dict[str, Condition | None] = {}
        self.statuses: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        """Take an entry to send."""
        self._entries.append(entry)

    def send(self) -> bool:
        """Send what was taken; returns whether all of it was answered, which a signal prevents.

        Raises:
            Failure: the service refuses the requests for a reason that does not pass.
        """
        entries, self._entries = self._entries, []
        for part in _parts(entries):
            answers = self._answers(b"".join((entry.raw or b"") + b"\n" for entry in part))
            if answers is None:
                return False
            for entry, answer in zip(part, answers, strict=True):
                self._count(entry, answer)
        return True

    def tell(self, url: str, condition: Condition | None) -> None:
        """Tell the service how a feed is, ``None`` if it is watched no longer. If that fails, a call some seconds later
        tells it, too: items are more urgent, and thousands of feeds wait for one that tells all of them again."""
        self._untold[url] = condition
        if self._now() >= self._tells_from:
            self.tell_rest()

    def tell_rest(self) -> None:
        """Tell the service what it has not heard."""
        if not self._untold:
            return
        feeds = [{"url": name, **known._asdict()} for name, known in self._untold.items() if known is not None]
        unlisted = [name for name, known in self._untold.items() if known is None]
        body, header = orjson.dumps({"feeds": feeds, "unlisted": unlisted}), {"Content-Type": "application/json"}
        with suppress(HTTPError):
            header = {**self._header, **header}
            response = self._pool.request("POST", self._feeds_url, body=body, headers=header, timeout=_TELL_SECONDS_MAX)
            if response.status not in _RETRIED:
                self._untold.clear()
                return
        self._tells_from = self._now() + _TELL_AGAIN_SECONDS

    def _count(self, entry: Entry, answer: dict[str, object]) -> None:
        error = answer.get("error")
        if isinstance(error, dict):
            reason = str(error["reason"])
            if reason not in REASONS:
                reason = "service_refused"
                entry = entry._replace(says=f"{FEED_REASONS[reason]}: {error['title']}")
            self._session.refuse_entry(entry, reason)
            return
        status = "repeated" if answer["repeated"] else str(answer["status"])
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self._session.report.documents += 1

    def _answers(self, body: bytes) -> list[dict[str, object]] | None:
        """Return an answer for each line, ``None`` after a signal."""
        attempt = 0
        while not self._session.stop.signal:
            attempt += 1
            wait = backoff_seconds(attempt, self._url)
            try:
                response = self._pool.request("POST", self._url, body=body, headers=self._header)
            except HTTPError as error:
                why = str(error)
            else:
                if response.status == 200 and (answers := _complete(response.data)) is not None:
                    return answers  # else the answer was cut, or a line of it says to try again
                if response.status not in _RETRIED and response.status != 200:
                    raise Failure(
                        Exit.OUTPUT, f"{self._url} answered {response.status} {_detail(response.data)}: see its log"
                    )
                why = f"status {response.status}" if response.status != 200 else "it cannot take all items now"
                wait = max(wait, retry_after(response.headers.get("Retry-After", ""), 0.0))
            self._session.report.say(f"{self._url} does not answer ({why}); trying again in {wait:.0f} s")
            self._session.stop.sleep(wait)
        return None


def _parts(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Divide entries into requests."""
    part: list[Entry] = []
    size = 0
    for entry in entries:
        length = len(entry.raw or b"")
        if part and (len(part) == _LINES_MAX or size + length > _BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(entry)
        size += length
    if part:
        yield part


def _complete(data: bytes) -> list[dict[str, object]] | None:
    """Return the lines of an answer but the last, ``None`` if it was cut or a line says to try again."""
    try:
        *answers, done = map(orjson.loads, data.splitlines())
    except (ValueError, orjson.JSONDecodeError):
        return None
    waits = any(answer.get("error", {}).get("status") in _RETRIED for answer in answers)
    return answers if done == {"done": len(answers)} and not waits else None


def _detail(data: bytes) -> str:
    try:
        return str(orjson.loads(data)["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
