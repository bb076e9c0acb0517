"""Subscriptions to feeds: what is asked of hubs, what hubs ask and push, and when a lease is renewed.

A subscription has an address of its own for its hub (``token``), which cannot be guessed: it follows from a key, the
feed and its hub, so a restart with the same key renews what it had subscribed to. The secret that signs what the hub
pushes is another one for each process: what was pushed to the one before, and is sent again, has older texts.

States of a subscription: *asked* (a request is sent; until the hub has asked back it is sent again, later each time),
*live* (the hub has asked back, its lease has not ended), *denied* (asked for again after a day), *over* (not wanted;
the hub is asked to end it, and may ask back). Only ``is_live`` matters to a feed.

Threads of feeds, of requests to hubs and of requests by hubs meet here: one lock.
"""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from threading import Condition

import mmh3

from neardup_workers.outside.feeds import schedule
from neardup_workers.outside.feeds.fetch import Fetched, FetchError
from neardup_workers.outside.feeds.websub.discovery import Offer

# Bytes of what was pushed and is not yet read, at most: hubs send it again.
WAITING_BYTES_MAX = 64 << 20
# The lease that is asked for (10 days, as the recommendation says), the one of a hub that names none, the longest.
_LEASE_SECONDS, _LEASE_UNNAMED, _LEASE_MAX = 864_000, 86_400.0, 2_592_000.0
# A hub has so long to ask back, and no request for the same feed follows sooner.
_AGAIN_SECONDS = 600.0
_DAY = 86_400.0
# Requests to hubs at the same time, and deliveries of one subscription that are known again.
_THREADS_MAX, _REPEATS_MAX = 8, 32
_CHALLENGE_CHARACTERS_MAX = 1_000
_METHODS = frozenset({"sha1", "sha256", "sha384", "sha512"})


class _Subscription:
    """What is subscribed to for a feed, see the module. Times are seconds of a clock that only grows."""

    def __init__(self, feed: str, offer: Offer, key: bytes) -> None:
        self.feed, self.offer = feed, offer
        named = "\0".join((feed, offer.topic, *offer.hubs)).encode("utf-8", "replace")
        self.token, self.secret = hmac.digest(key, named, "sha256").hex(), secrets.token_hex(32)
        self.ends = self.renews = 0.0
        self.failures = self.hub = 0  # requests in a row that brought no lease; which hub is asked
        self.asked = self.is_over = False
        self.turn = ""  # the request that is due for it; others have no effect
        self.repeats = deque[bytes](maxlen=_REPEATS_MAX)
        self.pushed: list[Fetched] = []


class Subscriber:
    """Subscribes to feeds, and takes what hubs push. Hubs reach this process by the address ``public``; what follows it
    names a subscription, by a key of 32 random bytes. ``post`` posts a form, and raises ``FetchError``; ``now`` is a
    clock that only grows, ``random`` in [0, 1)."""

    def __init__(
        self,
        public: str,
        key: bytes,
        post: Callable[[str, Mapping[str, str]], Fetched],
        now: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._public, self._key, self._post, self._now, self._random = public.rstrip("/"), key, post, now, random
        self._lock = Condition()
        self._feeds, self._tokens, self._turns = (dict[str, _Subscription]() for _ in range(3))
        self._numbers, self._waiting_bytes = count(), 0
        self._asking = schedule.Asking(self._ask, _THREADS_MAX)
        self._wake: Callable[[str], None] = lambda feed: None

    def listen(self, wake: Callable[[str], None]) -> None:
        """Call ``wake`` with the address of a feed that something is pushed for."""
        self._wake = wake

    def offered(self, feed: str, offer: Offer | None, seconds: float = 0.0) -> None:
        """Subscribe to what a feed offers, after some seconds; nothing changes if that is as before."""
        with self._lock:
            known = self._feeds.get(feed)
            if (known and known.offer) == offer:
                return
            self._end(feed)
            if offer is not None:
                one = self._feeds[feed] = _Subscription(feed, offer, self._key)
                self._tokens[one.token] = one
                self._due(one, seconds)

    def missed(self, feed: str) -> None:
        """Subscribe again: a hub has not pushed what it should have."""
        with self._lock:
            if (one := self._feeds.get(feed)) is not None:
                one.renews = 0.0
                self._due(one, 0.0)

    def is_live(self, feed: str) -> bool:
        """Whether a hub has promised to push a feed."""
        with self._lock:
            one = self._feeds.get(feed)
            return one is not None and self._now() < one.ends

    def take(self, feed: str) -> list[Fetched]:
        """Return what was pushed for a feed since the last call."""
        with self._lock:
            if (one := self._feeds.get(feed)) is None:
                return []
            taken, one.pushed = one.pushed, []
            self._waiting_bytes -= sum(len(each.body) for each in taken)
            return taken

    def knows(self, token: str) -> bool:
        """Whether what is pushed to an address is wanted."""
        with self._lock:
            one = self._tokens.get(token)
            return one is not None and not one.is_over

    def answer(self, token: str, query: Mapping[str, str]) -> str | None:
        """Return the answer to what a hub asks or says, ``None`` if that was not asked for."""
        mode, challenge = query.get("hub.mode", ""), query.get("hub.challenge", "")
        is_sound = challenge.isascii() and challenge.isprintable() and 0 < len(challenge) <= _CHALLENGE_CHARACTERS_MAX
        with self._lock:
            one = self._tokens.get(token)
            if one is None or query.get("hub.topic") != one.offer.topic:
                return None
            now = self._now()
            if mode == "denied" and not one.is_over:
                one.asked, one.ends, one.renews = False, 0.0, now + _DAY
                return ""
            if not is_sound or mode != ("unsubscribe" if one.is_over else "subscribe"):
                return None
            if one.is_over:
                self._drop(one)
                return challenge
            named = query.get("hub.lease_seconds", "")
            lease = min(float(named[:12]), _LEASE_MAX) if named.isascii() and named.isdigit() else _LEASE_UNNAMED
            one.asked, one.failures, one.ends = False, 0, now + lease
            one.renews = now + max(_AGAIN_SECONDS, lease * (0.7 + 0.2 * self._random()))
            return challenge

    def push(self, token: str, signature: str, kind: str, body: bytes) -> bool:
        """Take what a hub pushes, of a content type; returns whether there was room for it. What has a wrong signature
        (``METHOD=HEXADECIMAL``), or was pushed before, counts as taken: a hub that sends it again has no later news,
        and those were replaced meanwhile."""
        with self._lock:
            one = self._tokens.get(token)
        if one is None:
            return True
        method, _, given = signature.partition("=")
        if method not in _METHODS:
            return True
        right = hmac.digest(one.secret.encode(), body, method).hex()
        if not hmac.compare_digest(right.encode(), given.lower().encode(errors="replace")):
            return True
        digest = mmh3.hash_bytes(body)
        with self._lock:
            if one.is_over or digest in one.repeats:
                return True
            if self._waiting_bytes + len(body) > WAITING_BYTES_MAX:
                return False
            one.repeats.append(digest)
            one.pushed.append(Fetched(200, {"content-type": kind}, body, ""))
            self._waiting_bytes += len(body)
        self._wake(one.feed)
        return True

    def close(self, seconds: float) -> None:
        """End all subscriptions, as far as hubs answer in some seconds."""
        with self._lock:
            for feed in list(self._feeds):
                self._end(feed)
            self._lock.wait_for(lambda: not self._tokens, seconds)
        self._asking.close(waits=False)

    def _end(self, feed: str) -> None:
        """Want the subscription of a feed no more."""
        if (one := self._feeds.pop(feed, None)) is not None:
            self._waiting_bytes -= sum(len(each.body) for each in one.pushed)
            if one.asked or one.ends > self._now():
                one.is_over, one.asked = True, False
                self._due(one, 0.0)
            else:
                self._drop(one)

    def _drop(self, one: _Subscription) -> None:
        one.turn = ""
        if self._tokens.get(one.token) is one:
            del self._tokens[one.token]
        self._lock.notify_all()

    def _due(self, one: _Subscription, seconds: float) -> None:
        """Send its next request after some seconds, instead of when that was due."""
        # The number behind the hub's address makes it a name of its own, whose host has turns.
        one.turn = f"{one.offer.hubs[0]}#{next(self._numbers)}"
        self._turns[one.turn] = one
        self._asking.add(one.turn, seconds)

    def _ask(self, turn: str) -> float | None:
        """Send a request for a subscription; returns the seconds until it is looked at again, ``None`` for never."""
        with self._lock:
            one = self._turns[turn]
            if one.turn == turn and one.is_over and one.asked:
                self._drop(one)  # the hub did not ask back
            if one.turn != turn:
                del self._turns[turn]
                return None
            if not one.is_over and (rests := one.renews - self._now()) > 0:
                return min(rests, _AGAIN_SECONDS)  # what the hub says meanwhile may change it
            if one.asked:  # the hub has not asked back
                one.failures, one.hub = one.failures + 1, (one.hub + 1) % len(one.offer.hubs)
            one.asked = True
            hub, mode = one.offer.hubs[one.hub], "unsubscribe" if one.is_over else "subscribe"
            form = {
                "hub.mode": mode,
                "hub.topic": one.offer.topic,
                "hub.callback": f"{self._public}/{one.token}",
                "hub.lease_seconds": str(_LEASE_SECONDS),
                "hub.secret": one.secret,
            }
        try:
            answer = self._post(hub, form)
            is_taken, later = (
                200 <= answer.status < 300,
                schedule.retry_after(answer.header.get("retry-after", ""), 0.0),
            )
        except FetchError:
            is_taken, later = False, 0.0
        with self._lock:
            if mode == "unsubscribe" and not is_taken:
                self._drop(one)
            return schedule.wait_seconds(_AGAIN_SECONDS, one.failures, later, self._random())
