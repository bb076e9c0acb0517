"""Settings of ``neardup feed``, in addition to the settings of the input and of the broker."""

from __future__ import annotations

from pydantic import BaseModel, Field

from neardup_workers.outside.settings.kafka import StreamSettings


class FeedOptions(BaseModel):
    """How feeds and pages are fetched, and the limits of it."""

    interval_seconds: float = Field(
        default=900.0, ge=1, le=86_400, description="how often --follow asks for a feed; less often after failures"
    )
    fetch_seconds_max: float = Field(
        default=30.0, gt=0, le=3600, description="how long an answer may take, with all its redirects"
    )
    fetch_bytes_max: int = Field(
        default=8 << 20,
        ge=1 << 10,
        le=1 << 30,
        description="bytes of an answer at most, unpacked; larger ones are given up",
    )
    parse_seconds_max: float = Field(default=20.0, gt=0, le=3600, description="how long the reading of a feed may take")
    redirects_max: int = Field(default=5, ge=0, le=50, description="redirects of a request at most")
    blocked: str | None = Field(
        default=None, description="file of ids and content hashes whose items are left out; read at the start"
    )
    allow_private: bool = Field(
        default=False,
        description="fetch from addresses too that are not public, as of this machine or of a local network",
    )
    user_agent: str = Field(
        default="",
        max_length=200,
        pattern="^[ -~]*$",
        description="how requests name the program; neardup/VERSION by default",
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
    feed_items_max: int = Field(
        default=10_000, ge=1, le=10_000_000, description="items of a feed that are remembered, so that each comes once"
    )


class FeedSettings(FeedOptions, StreamSettings):
    """All settings of a watcher of feeds; a ``Config`` as well. Raises ``ConfigError`` like it."""
