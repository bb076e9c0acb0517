"""``neardup learn-order``: learns the frequent tokens of a sample, and writes a file for ``prefix:token_order=FILE``.

The tokens are those of scheme prefix under the settings of the text, counted by the number of documents that have each.
Tokens outside the sample count as rare. So only frequent tokens matter, and a part of a stream suffices as a sample.
Memory is bounded by counters for sixteen times the number of tokens in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from neardup.features.tokens.bags import sorted_sets
from neardup.schemes.rows import SCHEMES
from neardup_workers.doing.session.session import Session
from neardup_workers.doing.session.token_order import frequent
from neardup_workers.outside.options.judging import LearnOrderOptions
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.outputs.output import OutputFile
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.files import Settings
from neardup_workers.outside.settings.value_files import write_order


class OrderSettings(Settings):
    """The settings without an order of tokens: its file may be the output of the command."""

    option_files: ClassVar[Mapping[str, Callable[[str], Any]]] = {"token_order": lambda path: None}


def learn(options: LearnOrderOptions, settings: OrderSettings) -> Exit:
    """Count, and write the order of the most frequent tokens; returns the exit code. Raises ``Failure``.

    ``settings`` are for scheme prefix. After a first signal, the order covers the input read so far.
    """
    with (
        Session(settings, SessionOptions(paths=options.paths, quiet=options.quiet), prints=False) as session,
        OutputFile(options.output, "the token order") as written,
    ):
        tokens = frequent(_sets(session, settings), options.order_tokens)
        if not len(tokens):
            raise Failure(
                Exit.UNUSABLE,
                f"nothing that was read has a token, so {options.output} is not written: name documents with the "
                "field that scheme prefix compares",
            )
        written.act(lambda file: write_order(file, tokens))
        session.report.say(
            f"{len(tokens):,} tokens of {session.report.documents:,} documents, "
            f"{session.report.refused.total():,} refused"
        )
    return session.ended


def _sets(session: Session, settings: OrderSettings) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the tokens of the documents of each chunk, each token once for each document."""
    for chunk in session.chunks(session.options.paths):
        if chunk is not None:
            reading = SCHEMES["prefix"].features(chunk.documents, settings.plan)
            session.refuse(chunk, reading.refused)
            session.report.documents += len(chunk.documents) - len(reading.refused)
            yield sorted_sets(*reading.features)[0]
            session.report.advance(session.reader.bytes_read)
