"""The parts of the web hook, as the settings of the service describe them."""

from __future__ import annotations

from collections.abc import Callable

from neardup_workers.doing.http.outgoing.hook import Hook, secret_of
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.extra.outbox import Rules


def hook_of(settings: ServeSettings) -> Hook | None:
    """Return the web hook, ``None`` without one. Raises ``ConfigError``, ``Failure``."""
    secret = settings.hook_secret()
    return None if settings.webhook is None or secret is None else Hook(settings.webhook, secret_of(secret))


def rules_of(settings: ServeSettings, now: Callable[[], float]) -> Rules | None:
    """Return which events there are, ``None`` without a web hook. ``now``: seconds since the epoch."""
    return None if settings.webhook is None else Rules(now)
