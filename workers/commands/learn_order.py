"""``neardup learn-order``: which tokens are frequent in a sample, as a file for ``--token-order``.

The tokens are those of scheme prefix under the settings of the text, counted by the number of documents that have each.
Tokens that the sample does not have count as rare, so the frequent ones are what matters, and a part of a stream is
enough of a sample. Memory is bounded: a counter for sixteen times as many tokens as are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import field_validator

from stream.schemes import SCHEMES
from stream.tokens.bags import sorted_sets
from stream.tokens.token_order import NO_FREQUENCIES, counted, most_frequent
from workers.commands.session import Session, SessionOptions
from workers.process.exits import Exit, Failure
from workers.settings.files import Settings
from workers.settings.order_file import written_order

# Tokens counted at once, each time with a merge of all counters: in 32 MiB.
_TOKENS_A_MERGE = 1 << 22
_COUNTERS_EACH = 16


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
    with Session(settings, SessionOptions(paths, quiet)) as session, written_order(output) as write:
        tokens = _frequent(_sets(session, settings), tokens_max)
        if not len(tokens):
            raise Failure(
                Exit.UNUSABLE,
                f"nothing that was read has a token, so {output} is not written: name documents with the field that "
                "scheme prefix compares",
            )
        write(tokens)
        session.report.say(
            f"{len(tokens):,} tokens of {session.report.documents:,} documents, "
            f"{session.report.refused.total():,} refused"
        )
    return session.ended


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


def _sets(session: Session, settings: OrderSettings) -> Iterator[npt.NDArray[np.uint64]]:
    """The tokens of the documents of each chunk, each once a document."""
    for chunk in session.chunks(session.options.paths):
        if chunk is not None:
            reading = SCHEMES["prefix"].features(chunk.documents, settings.plan)
            session.refuse(chunk, reading.refused)
            session.report.documents += len(chunk.documents) - len(reading.refused)
            yield sorted_sets(*reading.features)[0]
            session.report.advance(session.reader.bytes_read)
