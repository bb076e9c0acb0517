"""The documents to keep, written by a second reading of the input: a batch decides after it has read all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stream.verdicts.rule import ORIGINAL
from workers.commands.dedup.table_file import TableFile, is_table
from workers.commands.output import Lines, output_file, write_pairs
from workers.commands.session import Session, chunked
from workers.process.exits import Exit, Failure
from workers.settings.files import fields_of
from workers.sources.entries import TableRows
from workers.sources.paths import display
from workers.sources.reader import Reader

_KEPT = "the kept documents"


def check_twice(path: str, paths: Sequence[str]) -> None:
    """Raise ``Failure`` if the input cannot be read twice, or if the output is a part of it."""
    for one in paths:
        if not os.path.isfile(one) and not os.path.isdir(one):
            raise Failure(
                Exit.USAGE,
                f"--output {display(path)} reads the input a second time, but {display(one)} can be read once: name "
                "files",
            )
        if os.path.exists(path) and os.path.samefile(path, one):
            raise Failure(Exit.USAGE, f"--output {display(path)} is also an input: name another file")


def write_kept(path: str, session: Session, statuses: npt.NDArray[np.uint8]) -> None:
    """Write the documents to keep, unchanged and in order of arrival.

    ``statuses``: the status of each entry of the input, refused ones included. Raises ``Failure`` for an input that has
    changed since it was read.
    """
    settings, paths = session.settings, session.options.paths
    reader = Reader(settings, fields_of(settings), session.stop, lambda part: None)
    table = TableFile(path, "--output", _KEPT) if is_table(path) else None
    file = output_file(path, _KEPT) if table is None else None
    lines, at = Lines(), 0
    try:
        for chunk in chunked(reader.parts(paths)):
            entries = () if chunk is None else chunk.entries
            chosen = statuses[at : at + len(entries)] == ORIGINAL
            at += len(entries)
            if len(chosen) < len(entries):
                break
            if table is not None and isinstance(entries, TableRows):
                table.add(entries, chosen)
                continue
            for n in np.flatnonzero(chosen).tolist():
                if table is not None:
                    table.refuse(entries[n].source)
                lines.add(entries[n])
            if file is not None:
                write_pairs(file, lines.taken(), f"{_KEPT} to {path}")
        if at != len(statuses) and not session.stop.signal:
            raise Failure(
                Exit.INPUT,
                f"the input changed while batch was running: it had {len(statuses):,} entries, and then {at:,}; "
                f"{display(path)} is not complete",
            )
    finally:
        if table is not None:
            table.close()
        if file is not None:
            file.close()
