"""``neardup learn-order``: which tokens are frequent in a sample, as a file for ``--token-order``.

The tokens are those of scheme prefix under the settings of the text, counted by the number of documents that have each.
Tokens that the sample does not have count as rare, so the frequent ones are what matters, and a part of a stream is
enough of a sample. Memory is bounded: a counter for sixteen times as many tokens as are kept.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import field_validator

from stream.documents import Features
from stream.schemes import SCHEMES
from stream.tokens.bags import sorted_sets
from stream.tokens.token_order import NO_FREQUENCIES, counted, most_frequent
from workers.commands.report import Report
from workers.commands.run import Chunk, chunked
from workers.process.exits import Exit
from workers.process.stop import Stop
from workers.settings.files import Settings, fields_of
from workers.settings.order_file import written_order
from workers.sources.paths import Reader, check_paths, total_bytes

# Tokens counted at once, each time with a merge of all counters: in 32 MiB.
_TOKENS_A_MERGE = 1 << 22
_COUNTERS_EACH = 16
_ENDED: dict[int, Exit] = {0: Exit.SUCCESS, signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


class OrderSettings(Settings):
    """The settings without an order of tokens: the file of it may be the one that is to be written."""

    @field_validator("token_order", mode="before")
    @classmethod
    def _read_order(cls, value: Any) -> Any:
        del value


def learn(paths: Sequence[str], settings: OrderSettings, *, output: str, tokens_max: int, quiet: bool) -> Exit:
    """Count, and write the order of the ``tokens_max`` most frequent tokens; returns how it ended. Raises ``Failure``.

    ``settings`` are those of scheme prefix. After a first signal the order is that of what was read by then.
    """
    check_paths(paths)
    stop = Stop()
    stop.install()
    bar = sys.stderr.isatty() and not quiet
    total = total_bytes(paths, hidden=settings.hidden) if bar else None
    report = Report(quiet=quiet, walk_reports_max=settings.walk_reports_max, total=total, bar=bar)
    try:
        with written_order(output) as write:
            reader = Reader(settings, fields_of(settings), stop, lambda _: None)
            tokens = _frequent(_sets(reader, paths, settings, report), tokens_max)
            write(tokens)
    except KeyboardInterrupt:  # the second signal: at once
        return _ENDED[stop.signal]
    finally:
        report.end_bar()
    if not quiet:
        refused = sum(report.refused.values())
        sys.stderr.write(f"{len(tokens):,} tokens of {report.documents:,} documents, {refused:,} refused\n")
    return _ENDED[stop.signal]


def _frequent(sets: Iterator[npt.NDArray[np.uint64]], tokens_max: int) -> npt.NDArray[np.uint64]:
    frequencies, waiting, count = NO_FREQUENCIES, [], 0
    for values in sets:
        waiting.append(values)
        count += len(values)
        if count >= _TOKENS_A_MERGE:
            frequencies = counted(frequencies, np.concatenate(waiting), _COUNTERS_EACH * tokens_max)
            waiting, count = [], 0
    if waiting:
        frequencies = counted(frequencies, np.concatenate(waiting), _COUNTERS_EACH * tokens_max)
    return most_frequent(frequencies, tokens_max)


def _sets(
    reader: Reader, paths: Sequence[str], settings: OrderSettings, report: Report
) -> Iterator[npt.NDArray[np.uint64]]:
    """The tokens of the documents of each chunk, each once a document."""
    for chunk in chunked(reader.read(paths)):
        if chunk is not None:
            yield sorted_sets(*_features(chunk, settings, report))[0]
            report.advance(reader.bytes)


def _features(chunk: Chunk, settings: OrderSettings, report: Report) -> Features:
    """What the documents of a chunk become; what is refused is reported in the order of the input."""
    reading = SCHEMES["prefix"].features(chunk.documents, settings.plan)
    place = 0
    for entry in chunk.entries:
        reason = entry.found if isinstance(entry.found, str) else reading.refused.get(place)
        place += not isinstance(entry.found, str)
        if reason is not None:
            report.refuse(entry, reason)
    report.documents += len(chunk.documents) - len(reading.refused)
    return reading.features
