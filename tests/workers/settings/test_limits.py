"""How the memory of a worker divides into its limits."""

from __future__ import annotations

import pytest

from neardup.errors import ConfigError
from neardup_workers.outside.settings.kafka import LIMITS, StreamLimits, StreamSettings, limits_of
from neardup_workers.outside.transport.kafka.connect import kafka_settings

_WAITING_BYTES = 128


@pytest.mark.parametrize("memory_max", [8 << 20, 100_000_000, 512 << 20, 3 << 30])
def test_the_parts_of_memory_max_fit_in_it(memory_max: int) -> None:
    """A step, the contents that a linker compares and the documents that wait take seven eighths; none is nothing."""
    limits = limits_of(memory_max)
    parts = (limits.step_bytes_max, limits.messages_bytes_max, limits.undecided_max * _WAITING_BYTES)
    assert 0.99 * 7 / 8 * memory_max <= sum(parts) <= 7 / 8 * memory_max
    assert limits.step_messages_max == limits.step_bytes_max // (512 << 10) >= 2
    assert kafka_settings(StreamSettings(memory_max=memory_max)).batch_bytes_max == limits.step_bytes_max


def test_other_limits_do_not_follow_from_memory() -> None:
    """At the default of the setting all limits are those of ``LIMITS``."""
    assert limits_of(StreamSettings().memory_max) == LIMITS == StreamLimits()
    follows = {"step_messages_max", "step_bytes_max", "undecided_max", "messages_bytes_max"}
    more = limits_of(2 * StreamSettings().memory_max)
    assert {name for name in StreamLimits._fields if getattr(more, name) != getattr(LIMITS, name)} == follows


def test_less_memory_than_a_message_needs_is_refused(tmp_path) -> None:
    """The least is 8 MiB; an eighth holds the largest message."""
    with pytest.raises(ConfigError, match="memory_max=8388607"):
        StreamSettings(memory_max=(8 << 20) - 1)
    (tmp_path / "client.properties").write_text("max.request.size=3000000\n")
    settings = StreamSettings(memory_max=16 << 20, kafka_config=str(tmp_path / "client.properties"))
    with pytest.raises(ConfigError, match=r"an eighth of memory_max\) is 2097152: it must not be below .*3000000"):
        kafka_settings(settings)
