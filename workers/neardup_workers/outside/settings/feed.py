"""Settings of ``neardup feed``, in addition to the settings of the input and of the broker."""

from __future__ import annotations

from neardup_workers.outside.settings.declared import FeedOptions
from neardup_workers.outside.settings.kafka import StreamSettings


class FeedSettings(FeedOptions, StreamSettings):  # type: ignore[misc]  # a feed may have no health_port
    """All settings of a watcher of feeds; a ``Config`` as well. Raises ``ConfigError`` like it."""
