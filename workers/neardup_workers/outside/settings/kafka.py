"""Settings of the workers on Kafka, in addition to the settings of the library and of the input.

Passwords of the broker stand in the file of ``kafka_config``, never on the command line, which other users of the
machine can read.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pydantic import Field, field_validator, model_validator

from neardup.errors import ConfigError
from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.settings.client_properties import ClientProperties, read_properties
from neardup_workers.outside.settings.declared import (
    MEMORY_MAX,
    ConnectionOptions,
    FeedOptions,
    StreamOptions,
    TopicOptions,
)
from neardup_workers.outside.settings.files import Settings

# Of the memory of a worker in addition to its tables, a step has an eighth, and so has a compressed batch of a
# producer, unpacked: a batch has a megabyte in the log by default, and text compresses to a fifth or a tenth. A linker
# has a half for the contents of signed, and a quarter for documents that wait.
STEP_PART, MESSAGES_PART, UNDECIDED_PART = 8, 2, 4
BATCH_BYTES_MAX = MEMORY_MAX // STEP_PART
# Bytes of documents in a message of signed, and of a document that waits for its verdict, with its pairs.
_MESSAGE_BYTES, _UNDECIDED_BYTES = 512 << 10, 128
# Of a request: batch header (61), record header with lengths and offsets (at most 36), some room.
MESSAGE_OVERHEAD_BYTES = 256
STARTS = ("earliest", "latest")
GENERATION = re.compile(r"[0-9a-f]{12}")
# Verdicts whose documents may be forwarded.
FORWARDED = ("original", "update", "unchanged")


class StreamLimits(NamedTuple):
    """Bounds of the workers that no setting names."""

    # From one commit of a signer to the next while documents come; in other roles a quarter of it. A transaction takes
    # some milliseconds, and a pair is published within half a second.
    commit_seconds: float = 0.2
    step_documents_max: int = 5_000  # of a signer. A transaction of 5,000 documents costs less than a microsecond each.
    # Of a matcher or linker; as many as fill the bytes of a step.
    step_messages_max: int = BATCH_BYTES_MAX // _MESSAGE_BYTES
    # Of the messages that a step reads, and, in a matcher, of the pairs that they make.
    step_bytes_max: int = BATCH_BYTES_MAX
    # Of a matcher, about. The producer sends them in about a second, so a slow broker has time before the transaction
    # timeout. Where a step is aborted, the next ones are smaller.
    step_pairs_max: int = 20_000
    # Documents that wait for a verdict in a linker, before it reads no more.
    undecided_max: int = MEMORY_MAX // UNDECIDED_PART // _UNDECIDED_BYTES
    # Of signed, which a linker holds to compare documents; it reads others again.
    messages_bytes_max: int = MEMORY_MAX // MESSAGES_PART
    # By which the time of a document may lie ahead of its message's, which a later one becomes. Clocks differ by less.
    skew_seconds: float = 300.0
    # After which a step ends the process. A step takes about a second, and kernels compile in less than a minute.
    turn_seconds_max: float = 120.0
    # In which a growing partition advances, or the process ends; in which a committed offset is decided, or the worker
    # restarts, and then ends. A broker restarts in less.
    stall_seconds_max: float = 120.0
    # From one removal to the next of what has left the windows. Kafka deletes whole segments, so a shorter time frees
    # no disk.
    trim_seconds: float = 60.0
    canaries_every: int = 100  # of one document in so many an edited copy is looked up, to measure recall; 0 for none
    canaries_per_second_max: float = 20.0  # so that canaries take about 1 % of the time however fast documents come


# The limits at the default of ``memory_max``.
LIMITS = StreamLimits()


def limits_of(memory_max: int) -> StreamLimits:
    """Return the limits of a worker with this memory.

    >>> limits_of(512 << 20) == LIMITS
    True
    """
    step_bytes = memory_max // STEP_PART
    return LIMITS._replace(
        step_messages_max=step_bytes // _MESSAGE_BYTES,
        step_bytes_max=step_bytes,
        undecided_max=memory_max // UNDECIDED_PART // _UNDECIDED_BYTES,
        messages_bytes_max=memory_max // MESSAGES_PART,
    )


class StreamSettings(TopicOptions, StreamOptions, ConnectionOptions, Settings):
    """All settings of a worker on Kafka; a ``Config`` as well. Raises ``ConfigError`` like it."""

    start: str | None = Field(
        default=None,
        description="earliest or latest: where a group without offsets begins (--from); of a filter also a generation: "
        "where the filters of that one stopped",
    )

    @field_validator("start")
    @classmethod
    def _known_start(cls, value: str | None) -> str | None:
        if value is not None and value not in STARTS and not GENERATION.fullmatch(value):
            raise ValueError(f"must be {', '.join(STARTS)}, or of a filter a generation of 12 hexadecimal digits")
        return value

    @model_validator(mode="after")
    def _matches_in_parts(self) -> StreamSettings:
        part_min = SCHEMES[self.scheme].part_min(self.plan)
        if part_min is not None:
            raise ConfigError(
                f"{self.scheme}:part_min={part_min}, but verdicts on Kafka drop copies only: leave it out, or use "
                "dedup, batch or serve"
            )
        return self

    @field_validator("forward")
    @classmethod
    def _known_statuses(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if not values or not set(values) <= set(FORWARDED):
            raise ValueError(
                f"must be some of {', '.join(FORWARDED)}: a removal is always forwarded, a duplicate never"
            )
        return values

    @property
    def client(self) -> ClientProperties:
        """What the file of ``kafka_config`` says now. Raises ``ConfigError`` and ``Failure`` like
        ``read_properties``."""
        return read_properties(self.kafka_config)


class FeedSettings(FeedOptions, StreamSettings):  # type: ignore[misc]  # a feed may have no health_port
    """All settings of a watcher of feeds; a ``Config`` as well. Raises ``ConfigError`` like it."""
