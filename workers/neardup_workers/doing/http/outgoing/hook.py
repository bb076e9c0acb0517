"""A web hook: one request with one event, signed so that the receiver knows who sent it.

The headers are those of Standard Webhooks 1.0.0 (standardwebhooks.com): ``webhook-id`` is the id of the event, the same
each time it is sent; ``webhook-timestamp`` the seconds since the epoch of this attempt; ``webhook-signature`` is
``v1,`` and the base64 of the HMAC-SHA256 of ``id.timestamp.body`` under the secret.
"""

from __future__ import annotations

import base64
import hmac
from importlib.metadata import version
from typing import NamedTuple

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.util import parse_url

from neardup.errors import ConfigError
from neardup_workers.outside.feeds.addresses import addresses_of, is_public
from neardup_workers.outside.feeds.fetch import FetchError, FetchLimits, fetch
from neardup_workers.outside.settings.serve import ServeSettings

_PREFIX = "whsec_"
# Bytes of a secret: as the standard says.
_BYTES_MIN, _BYTES_MAX = 24, 64
_SECONDS_MAX = 10.0
# Bytes of an answer that are read, so that its connection can be used again.
_ANSWER_BYTES_MAX = 1 << 16
# Why an address that a person gave has taken nothing, where it is not silent.
_WHY = {
    "fetch_private": "the server has no public address, and not host and port of the web hook",
    "fetch_redirects": "it redirects",
    "fetch_url": "it is no address of http or https without user and password",
}


class Failed(NamedTuple):
    """An event was not taken: why, the status or ``None`` without an answer, and the field Retry-After."""

    why: str
    status: int | None = None
    retry_after: str = ""


def secret_of(text: str) -> bytes:
    """Return the bytes of a secret, base64 behind ``whsec_``. Raises ``ConfigError``."""
    try:
        secret = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
    except ValueError:
        secret = b""
    if not _BYTES_MIN <= len(secret) <= _BYTES_MAX:
        raise ConfigError(
            f"webhook_secret is not the base64 of {_BYTES_MIN} to {_BYTES_MAX} bytes: make one with "
            '"openssl rand -base64 32"'
        )
    return secret


def signed(secret: bytes, id_: str, time: int, body: bytes) -> dict[str, str]:
    """Return the headers of an event.

    >>> signed(b"\\0" * 24, "evt_1", 1700000000, b"{}")["webhook-signature"]
    'v1,Tl45gvLbEPPYsV9QDG3WIp1ABXkp0RLS1ZDAAAAAAAA='
    """
    content = b".".join((id_.encode(), str(time).encode(), body))
    signature = base64.b64encode(hmac.digest(secret, content, "sha256")).decode()
    return {"webhook-id": id_, "webhook-timestamp": str(time), "webhook-signature": f"v1,{signature}"}


class Hook:
    """Sends events to an address, over a connection that stays open."""

    def __init__(self, url: str, secret: bytes) -> None:
        self._url, self._secret = url, secret
        self._pool = urllib3.PoolManager(retries=False, timeout=_SECONDS_MAX)
        self._header = {"Content-Type": "application/json", "User-Agent": f"neardup/{version('neardup')}"}

    def send(self, id_: str, body: bytes, time: float, to: str | None = None) -> Failed | None:
        """Send an event once; returns why it was not taken. Every status of 200 to 299 means that it was. ``to``: the
        address, if it is another one, which a person gave."""
        header = {**self._header, **signed(self._secret, id_, int(time), body)}
        if to is not None:
            return self._given(to, header, body)
        try:
            answer = self._pool.request(
                "POST", self._url, body=body, headers=header, redirect=False, preload_content=False
            )
            answer.read(_ANSWER_BYTES_MAX)
            answer.release_conn() if not answer.read(1) else answer.close()
        except (HTTPError, OSError) as error:
            return Failed(f"no answer: {error}"[:500])
        if 200 <= answer.status < 300:
            return None
        return Failed(f"status {answer.status}", answer.status, answer.headers.get("Retry-After", ""))

    def _given(self, to: str, header: dict[str, str], body: bytes) -> Failed | None:
        """Send to an address that a person gave: a public one, or one with host and port of the web hook."""
        try:
            allowed = (lambda number: True) if _is_own(to, self._url) else is_public
            limits = FetchLimits(_ANSWER_BYTES_MAX, _SECONDS_MAX, 0, allowed)
            answer = fetch(to, header, limits, body=body)
        except (FetchError, LocationParseError) as error:
            return Failed(_WHY.get(getattr(error, "reason", "fetch_url"), "no answer"))
        if 200 <= answer.status < 300:
            return None
        return Failed(f"status {answer.status}", answer.status, answer.header.get("retry-after", ""))

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def _is_own(to: str, url: str) -> bool:
    return parse_url(to).netloc == parse_url(url).netloc


def refusal_of(to: str, url: str) -> str | None:
    """Return why no event reaches an address that a person gives, as far as is known now. ``url``: of the web hook."""
    try:
        given = parse_url(to)
        if given.auth is not None or not given.host:
            return _WHY["fetch_url"]
        found = () if _is_own(to, url) else addresses_of(given.host.strip("[]"), given.port or 443)
    except LocationParseError:
        return _WHY["fetch_url"]
    except (OSError, UnicodeError):  # the name may have an address later
        return None
    return _WHY["fetch_private"] if found and not any(is_public(one.number) for one in found) else None


def hook_of(settings: ServeSettings) -> Hook | None:
    """Return the web hook that the settings describe, ``None`` without one. Raises ``ConfigError``, ``Failure``."""
    secret = settings.hook_secret()
    return None if settings.webhook is None or secret is None else Hook(settings.webhook, secret_of(secret))
