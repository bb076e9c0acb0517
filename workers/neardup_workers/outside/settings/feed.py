"""Settings of ``neardup feed``, in addition to the settings of the input and of the broker."""

from __future__ import annotations

from pydantic import BaseModel, Field

from neardup_workers.outside.settings.kafka import StreamSettings


class FeedOptions(BaseModel):
    """How feeds and pages are fetched."""

    interval_seconds: float = Field(
        default=900.0, ge=1, le=86_400, description="how often --follow asks for a feed; less often after failures"
    )
    blocked: str | None = Field(
        default=None, description="file of ids and content hashes whose items are left out; read at the start"
    )
    allow_private: bool = Field(
        default=False,
        description="fetch from addresses too that are not public, as of this machine or of a local network",
    )
    clock: str | None = Field(
        default=None,
        pattern="^(arrival|event)$",
        description="the time of an item: event, its date; arrival, when it was fetched, its date is in published; by "
        "default arrival with --follow and without --to-serve, else event",
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="port of health_host that /metrics, /healthz and /readyz are served on; 0 takes a free one",
    )


class FeedSettings(FeedOptions, StreamSettings):
    """All settings of a watcher of feeds; a ``Config`` as well. Raises ``ConfigError`` like it."""
