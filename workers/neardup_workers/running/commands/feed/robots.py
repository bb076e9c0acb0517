"""What a site asks robots to leave alone (``robots.txt``, RFC 9309): pages, and not the feeds that it offers.

The file of a site is read once a day. A site without one allows everything; one that cannot be asked, or answers with
an error of its own, allows nothing until it is asked again, after an hour.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from urllib.parse import urlsplit
from urllib.robotparser import RobotFileParser

from neardup_workers.outside.feeds.fetch import Fetched, FetchError

# Seconds for which an answer counts, and an error; bytes of a file that count, and sites that are remembered.
_DAY, _HOUR = 86_400.0, 3_600.0
_BYTES_MAX, _SITES_MAX = 1 << 19, 10_000
_NAME = "neardup"


class Robots:
    """The rules of sites. Threads may share one. ``get`` gets address and header fields, and raises ``FetchError``;
    ``now`` is a clock that only grows."""

    def __init__(self, get: Callable[[str, Mapping[str, str]], Fetched], now: Callable[[], float]) -> None:
        self._get, self._now, self._lock = get, now, Lock()
        self._sites: OrderedDict[str, tuple[float, RobotFileParser]] = OrderedDict()

    def allow(self, url: str) -> bool:
        """Whether the site of an address lets this program ask for it."""
        parts = urlsplit(url)
        site = f"{parts.scheme}://{parts.netloc}"
        with self._lock:
            ends, rules = self._sites.get(site, (0.0, None))
        if rules is None or self._now() >= ends:
            seconds, rules = self._read(f"{site}/robots.txt")
            with self._lock:
                self._sites[site] = self._now() + seconds, rules
                while len(self._sites) > _SITES_MAX:
                    self._sites.popitem(last=False)
        return rules.can_fetch(_NAME, url)

    def _read(self, url: str) -> tuple[float, RobotFileParser]:
        rules = RobotFileParser()
        try:
            answer = self._get(url, {"Accept": "text/plain"})
            failed = answer.status >= 500 or answer.status == 429
        except FetchError:
            failed = True
        if failed:
            rules.parse(["User-agent: *", "Disallow: /"])
            return _HOUR, rules
        text = answer.body[:_BYTES_MAX].decode("utf-8-sig", "replace") if answer.status == 200 else ""
        rules.parse(text.splitlines())
        return _DAY, rules
