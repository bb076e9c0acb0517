"""``neardup size``: print what a deployment needs, before it exists. No broker is asked."""

from __future__ import annotations

import re
from typing import Any

from rich.table import Table

from neardup.errors import ConfigError
from neardup_workers.outside.display.printing import facts, print_found
from neardup_workers.outside.options.running import SizeOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.running.commands.size.capacity import loop_microseconds_here, measured_capacity
from neardup_workers.running.commands.size.model import Load, Sized, size_of
from neardup_workers.running.commands.size.sample import sampled

# Bytes of a document as JSON apart from its text and its id: names of fields, a time.
_JSON_BYTES = 50
_COLUMNS = 110
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB|TiB|)")


def size(options: SizeOptions, settings: StreamSettings) -> Exit:
    """Print what a stream needs; returns ``Exit.UNFIT`` if that cannot work.

    Raises:
        ConfigError: the sizes cannot be read, or the scheme compares no texts.
    """
    load = Load(
        options.rate, options.text_bytes + options.ids + _JSON_BYTES, options.ids, options.pairs,
        bytes_of("--memory", options.memory),
    )  # fmt: skip
    sample, loop = sampled(settings, options.text_bytes, options.ids), loop_microseconds_here()
    sized = size_of(settings, load, sample, measured_capacity(), loop)
    print_found(values_of(sized, loop), [*_tables(sized)], as_json=options.as_json, columns=_COLUMNS)
    return Exit.UNFIT if sized.problems else Exit.SUCCESS


def bytes_of(name: str, text: str) -> float:
    """Return the bytes of a size such as 16GiB. Raises ``ConfigError`` with the name of the option.

    >>> bytes_of("--memory", "1.5GiB")
    1610612736.0
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{name}={text!r}: must be a number with a unit, one of KiB, MiB, GiB and TiB, as in 16GiB")
    return float(match[1]) * _UNITS[match[2]]


def values_of(sized: Sized, loop: float) -> dict[str, Any]:
    """Return what JSON shows."""
    return {
        "window_documents": sized.window_documents,
        "table_bytes_per_document": sized.table_bytes,
        "shards": sized.shards,
        "streams": sized.streams,
        "restore_seconds": sized.restore_seconds,
        "takeover_seconds": sized.takeover_seconds,
        "loop_microseconds": loop,
        "roles": [role._asdict() for role in sized.roles],
        "topics": [topic._asdict() for topic in sized.topics],
        "problems": [{"what": what, "do": do} for what, do in sized.problems],
    }


def _tables(sized: Sized) -> list[Table]:
    stream = facts("Stream", [
        ("documents in the window", f"{sized.window_documents:,}", ""),
        ("memory of a document", f"{sized.table_bytes:,.0f} B", "over all shards"),
        ("shards", str(sized.shards), "setting shards; neardup topics shards adds some later"),
        ("restore", _seconds(sized.restore_seconds), "of a matcher that takes over the most shards"),
        ("takeover", _seconds(sized.takeover_seconds), "after a death: the session, and without standbys the restore"),
    ])  # fmt: skip
    roles = _table("Roles", ["role", "processes", "cores of each", "memory of each"])
    for role in sized.roles:
        roles.add_row(role.role, str(role.processes), f"{role.cores:.2f}", _bytes(role.memory))
    topics = _table("Topics, before compression", ["topic", "B/document", "kept", "disk, all replicas", "in", "out"])
    for topic in sized.topics:
        topics.add_row(
            topic.topic, f"{topic.document_bytes:,.0f}", _seconds(topic.kept_seconds), _bytes(topic.disk),
            f"{_bytes(topic.written)}/s", f"{_bytes(topic.read)}/s",
        )  # fmt: skip
    tables = [stream, roles, topics]
    if sized.problems:
        problems = Table(title="Problems")
        problems.add_column("what is wrong")
        problems.add_column("what to do")
        for row in sized.problems:
            problems.add_row(*row)
        tables.append(problems)
    return tables


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=title)
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _bytes(value: float) -> str:
    unit = next((name for name, size in reversed(_UNITS.items()) if value >= size and name), "KiB")
    return f"{value / _UNITS[unit]:,.1f} {unit}"


def _seconds(value: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value >= 2 * size:
            return f"{value / size:,.1f} {unit}"
    return f"{value:,.1f} s"
