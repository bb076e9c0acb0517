"""Settings of the transport on Kafka, the limit of every wait, and the meaning of the client's errors.

The limits are nested, and ``KafkaSettings`` refuses other values. A request can be lost and repeated before ``flush``
gives up. ``flush`` gives up before the broker ends the transaction. The loss of one heartbeat does not end the session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaConsumer
from kafka import errors as client_errors

from neardup.errors import ConfigError
from neardup_workers.outside.settings.client_properties import (
    REQUEST_BYTES_MAX,
    SESSION_TIMEOUT_SECONDS,
    TRANSACTION_TIMEOUT_SECONDS,
)
from neardup_workers.outside.settings.kafka import BATCH_BYTES_MAX, MESSAGE_OVERHEAD_BYTES
from neardup_workers.outside.transport.kafka.client_internals.connections import LOGIN_REFUSALS, Tokens, connections
from neardup_workers.outside.transport.protocol import FencedError, TransportError, UnreachableError

# With the client's default of 30 s a worker would stay away long after the broker is back.
_RECONNECT_BACKOFF_MILLISECONDS_MAX = 1_000
# A replica answers one request at a time, and the client asks it again after each answer of a leader: partitions with
# records would wait for those without, by default for 500 ms.
_REPLICA_WAIT_MILLISECONDS = 50
# Security options are passed on; every other option of the client is set here.
_SECURITY_OPTIONS = tuple(
    name
    for name in KafkaConsumer.DEFAULT_CONFIG
    if name.startswith(("ssl_", "sasl_")) or name in ("security_protocol", "proxy_url")
)
# Another producer with the same transactional id has fenced this one, or the broker has, because the transaction took
# too long.
_PRODUCER_FENCED = (client_errors.ProducerFencedError, client_errors.InvalidProducerEpochError)
_FENCED = (
    *_PRODUCER_FENCED,
    client_errors.FencedInstanceIdError,
    client_errors.CommitFailedError,
    client_errors.UnknownMemberIdError,
    client_errors.IllegalGenerationError,
)
# The client's text for a request of its producer without a response. It keeps only the text of the cause, for instance
# "RequestTimedOutError".
_NO_RESPONSE = "Could not execute transactional request for unknown reasons"
_CHAIN_LENGTH_MAX = 16


@dataclass(frozen=True)
class KafkaSettings:
    """Addresses, limits and sizes; ``client`` holds the security options: ``security_protocol``, ``ssl_*``, ``sasl_*``.

    Of these ``sasl_oauth_token_provider`` is a function that returns a token.
    ``repr`` leaves ``client`` out and no message shows a value of it. Raises ``ConfigError``.
    """

    bootstrap_servers: str
    session_timeout_seconds: float = SESSION_TIMEOUT_SECONDS
    heartbeat_seconds: float = 3.0
    # Maximum time between two polls; a rebalance waits this long for a member. Kernels may compile in the first step.
    poll_interval_seconds_max: float = 60.0
    request_timeout_seconds: float = 6.0
    flush_timeout_seconds: float = 13.0  # also the delivery timeout of each record
    transaction_timeout_seconds: float = TRANSACTION_TIMEOUT_SECONDS
    commit_timeout_seconds: float = 15.0  # for each of sending offsets, commit and abort
    committed_timeout_seconds: float = 5.0
    connect_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 30.0  # without progress
    # A new partition of a topic is noticed after this time, and read after the rebalance that follows.
    metadata_age_seconds: float = 15.0
    close_timeout_seconds: float = 2.0
    batch_bytes: int = 512 << 10
    compression: str | None = "lz4"
    request_bytes_max: int = REQUEST_BYTES_MAX
    # With twice as much, the allocator returns the memory of each response and requests it again: a third of a poll.
    fetch_bytes_max: int = 16 << 20
    fetch_partition_bytes_max: int = 2 << 20
    # Maximum unpacked bytes of a compressed batch. A larger batch is refused, so that 60 kB in the log cannot fill the
    # memory.
    batch_bytes_max: int = BATCH_BYTES_MAX
    # On: members of groups read the headers of records. Readers without a group always do.
    with_headers: bool = False
    client_rack: str = ""  # consumers read from a replica of this rack, if the brokers choose one
    client: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    # The options of the login that hold now, which replace those of ``client`` at each connection.
    secrets: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in self.client:
            if name not in _SECURITY_OPTIONS:
                raise ConfigError(
                    f"{name!r} is no security option of the Kafka client: use {', '.join(sorted(_SECURITY_OPTIONS))}"
                )
        rising = (
            ("heartbeat_seconds", "session_timeout_seconds"),
            ("request_timeout_seconds", "flush_timeout_seconds"),
            ("flush_timeout_seconds", "transaction_timeout_seconds"),
            ("session_timeout_seconds", "poll_interval_seconds_max"),
        )
        for lower, upper in rising:
            if not 0 < getattr(self, lower) <= getattr(self, upper):
                raise ConfigError(
                    f"{lower} is {getattr(self, lower)} and {upper} is {getattr(self, upper)}: "
                    "the first must be above 0 and not above the second"
                )
        if self.request_bytes_max <= MESSAGE_OVERHEAD_BYTES:
            raise ConfigError(f"request_bytes_max is {self.request_bytes_max}: it must exceed {MESSAGE_OVERHEAD_BYTES}")
        if self.batch_bytes_max < self.request_bytes_max:
            raise ConfigError(
                f"batch_bytes_max (an eighth of memory_max) is {self.batch_bytes_max}: it must not be below "
                f"request_bytes_max (max.request.size of kafka_config, {self.request_bytes_max}), or readers refuse "
                "what was sent"
            )

    @property
    def message_bytes_max(self) -> int:
        """Bytes of key, value and headers that one record may have together; see ``sent_bytes``."""
        return self.request_bytes_max - MESSAGE_OVERHEAD_BYTES

    def options(self) -> dict[str, Any]:
        """Return the options of every client."""
        provider = "sasl_oauth_token_provider"
        return {
            **self.client,
            **({provider: Tokens(self.client[provider])} if provider in self.client else {}),
            "kafka_client": connections(is_fast=False, secrets=self.secrets),
            "bootstrap_servers": self.bootstrap_servers,
            "bootstrap_timeout_ms": milliseconds(self.connect_timeout_seconds),
            "request_timeout_ms": milliseconds(self.request_timeout_seconds),
            "metadata_max_age_ms": milliseconds(self.metadata_age_seconds),
            "reconnect_backoff_max_ms": _RECONNECT_BACKOFF_MILLISECONDS_MAX,
        }

    def consumer_options(self) -> dict[str, Any]:
        """Return the options of every consumer, in a group or not: read-committed, without deserializers (rule 3).

        After an exception in a deserializer, the next ``poll`` of the client never returns. So values stay bytes.
        """
        return {
            **self.options(),
            "kafka_client": connections(is_fast=True, secrets=self.secrets),
            "client_rack": self.client_rack,
            **({"fetch_max_wait_ms": _REPLICA_WAIT_MILLISECONDS} if self.client_rack else {}),
            "isolation_level": "read_committed",
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "retry_backoff_ms": 50,
            "fetch_max_bytes": self.fetch_bytes_max,
            "max_partition_fetch_bytes": self.fetch_partition_bytes_max,
            "metrics_enabled": False,
        }


def milliseconds(seconds: float) -> int:
    """Convert to whole milliseconds, at least one."""
    return max(1, round(seconds * 1000))


def is_fenced(error: BaseException | None) -> bool:
    """Whether an error, or an error that it wraps, says that another member or producer has taken over."""
    return is_producer_fenced(error) or any(isinstance(one, _FENCED) for one in _chain(error))


def is_producer_fenced(error: BaseException | None) -> bool:
    """Whether an error says that the producer's epoch is over; the client often keeps only its text."""
    return _names_one_of(_PRODUCER_FENCED, error)


def is_forbidden(error: BaseException) -> bool:
    """Whether the broker knows this user and does not allow what it asked for; the client may keep only the text."""
    return _names_one_of(tuple(client_errors.AuthorizationError.__subclasses__()), error)


def is_passing(error: BaseException) -> bool:
    """Whether a retry may succeed: the broker is away, busy or moving, or its response is missing."""
    # A response named a leader that is not among the known brokers: it died, or has just returned.
    passing = (client_errors.RetriableError, client_errors.UnknownBrokerIdError, OSError)
    return isinstance(error, passing) or _NO_RESPONSE in str(error)


def as_transport_error(what: str, error: BaseException) -> TransportError:
    """Convert an error of the client to an error of the protocol; ``what`` names the attempted action and its
    object."""
    if is_fenced(error):
        return FencedError(f"{what}: another process took over ({error}); restart from the committed offsets")
    if isinstance(error, LOGIN_REFUSALS):
        return TransportError(
            f"{what}: the broker refuses the login ({error}); see sasl.mechanism, sasl.username and "
            "sasl.password, or the function that returns a token, in the file of kafka_config"
        )
    if is_forbidden(error):
        return TransportError(
            f"{what}: the broker does not allow it ({error}); give this user the rights that neardup topics rights "
            "prints for its role"
        )
    if is_passing(error):
        return UnreachableError(f"{what}: no answer in time ({error}); see whether the broker is up and try again")
    return TransportError(f"{what}: {error}")


def _names_one_of(kinds: tuple[type[BaseException], ...], error: BaseException | None) -> bool:
    """Whether an error, or one that it wraps, is of one of these kinds or has its name in its text."""
    names = [kind.__name__ for kind in kinds]
    return any(isinstance(one, kinds) or any(name in str(one) for name in names) for one in _chain(error))


def _chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and len(chain) < _CHAIN_LENGTH_MAX:
        chain.append(error)
        chain += [argument for argument in error.args if isinstance(argument, BaseException)]
        error = error.__cause__
    return chain
