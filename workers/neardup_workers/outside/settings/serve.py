"""Settings of the service, in addition to the settings of the library and of the input.

The token comes from the environment (``NEARDUP_TOKEN``) or from a file that a setting names; the command line has no
option for it, because other users of the machine can read it. The settings file must not contain it.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from pydantic import Field, SecretStr

from neardup.errors import ConfigError
from neardup_workers.outside.settings.declared import ServeOptions
from neardup_workers.outside.settings.files import Settings
from neardup_workers.outside.settings.kafka import StreamSettings


class ServeLimits(NamedTuple):
    """Bounds of the service that no setting changes. Beyond most of them the answer names the bound and the remedy."""

    body_bytes_max: int = 32 << 20  # of a request, one document or a batch. A client divides a larger batch.
    # Of all requests together, so that eight of the largest fit in memory at the same time.
    bodies_bytes_max: int = 256 << 20
    body_seconds_max: float = 30.0  # in which a client sends a request; a slower one holds memory that others need
    batch_lines_max: int = 10_000  # of a batch. Its answer takes seconds, and begins at once.
    queue_documents_max: int = 20_000  # that wait for the writer: some seconds of its work, after which clients give up
    # Clients of ``/v1/events``. Each holds a connection, and reads the database for its backlog.
    event_readers_max: int = 64
    # By which a timestamp may lie ahead of the clock; a later one is none. Clocks differ by less.
    ahead_seconds: float = 300.0
    # In which a request waits for its verdict, of a view; clients wait longer, by default.
    verdict_seconds_max: float = 10.0
    canaries_every: int = 100  # of one document in so many an edited copy is looked up, to measure recall; 0 for none
    canaries_per_second_max: int = 20  # so that canaries take about 1 % of the time however fast documents come


LIMITS = ServeLimits()


class ServeSettings(ServeOptions, Settings):
    """All settings of the service; a ``Config`` as well. Raises ``ConfigError`` like it."""

    token: SecretStr | None = Field(default=None, description="token that clients must send")
    webhook_secret: SecretStr | None = Field(default=None, description="secret that signs the events of the web hook")

    def hook_secret(self) -> str | None:
        """Return the secret of the web hook, ``None`` without a web hook. Raises ``ConfigError`` if it is missing."""
        if self.webhook is None:
            return None
        if self.webhook_secret is None:
            raise ConfigError("webhook has no secret: set NEARDUP_WEBHOOK_SECRET in the environment")
        return self.webhook_secret.get_secret_value()


class ViewSettings(ServeSettings, StreamSettings):
    """All settings of a view of a deployment: of the service, and of the deployment. Raises ``ConfigError``."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or is_socket(host)


def is_socket(host: str) -> bool:
    """Whether an address is a file (``unix:PATH``): the rights of the file say who reaches it."""
    return host.startswith("unix:")
