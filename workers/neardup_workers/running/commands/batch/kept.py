"""The documents to keep, written by a second reading of the input: a batch decides after it has read all of it.

With annotations, the documents that are not kept are written too, and each document has its verdict.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from neardup.pairs.explanations.given_texts import GivenTexts
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.rule import IS_KEPT_STATUS, REFUSED
from neardup_workers.doing.session.session import Session, chunked
from neardup_workers.outside.outputs.falls import Fall, beginning, text_of
from neardup_workers.outside.outputs.lines_file import LinesFile, is_table
from neardup_workers.outside.outputs.output import Lines
from neardup_workers.outside.outputs.table_file import TableFile, columns_of
from neardup_workers.outside.outputs.verdict_lines import VERDICT_KEY, annotated, verdict_lines
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.entries import LineRows, TableRows
from neardup_workers.outside.readers.paths import display
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.remote.stores import is_address
from neardup_workers.outside.settings.files import fields_of

_KEPT = "the kept documents"


def check_twice(path: str, paths: Sequence[str]) -> None:
    """Raise ``Failure`` if the input cannot be read twice, which the output ``path`` needs."""
    for one in paths:
        if not _is_stored(one):
            raise Failure(
                Exit.USAGE,
                f"--output {display(path)} reads the input a second time, but {display(one)} can be read once: name "
                "files",
            )


def write_kept(
    path: str,
    session: Session,
    statuses: npt.NDArray[np.uint8],
    decided_between: Callable[[int, int], Decided] | None = None,
) -> None:
    """Write the documents to keep in order of arrival, unchanged; or all documents, each with its verdict. The file is
    of rows (Parquet) by its name, or else of lines.

    ``session`` is that of the first reading; ``statuses`` has that of each entry, refused ones included.
    ``decided_between`` gives the verdicts of the entries from one place up to another; without it, none is written.

    Raises ``Failure`` if the input has changed since it was read, or the file cannot be written.
    """
    settings, paths = session.settings, session.options.paths
    annotates = decided_between is not None
    reader = EntryReader(settings, fields_of(settings), session.stop, lambda part: None)
    lines, at, texts = Lines(VERDICT_KEY if annotates else ""), 0, GivenTexts.of(settings)
    with ExitStack() as stack:
        table, file = None, None
        if is_table(path):
            adds = columns_of(settings.scheme) if annotates else ()
            table = stack.enter_context(TableFile(path, "--output", _KEPT, adds))
        else:
            file = stack.enter_context(LinesFile(path, _KEPT))
        for chunk in chunked(reader.parts(paths)):
            entries = () if chunk is None else chunk.entries
            first, at = at, at + len(entries)
            span = statuses[first:at]
            if len(span) < len(entries):
                break
            chosen = span != REFUSED if annotates else IS_KEPT_STATUS[span]
            decided = None if decided_between is None else decided_between(first, at)
            if table is None and decided is None and isinstance(entries, LineRows):
                lines.add_lines(entries.run, chosen)
            elif table is None:
                verdicts = [] if decided is None else list(verdict_lines(entries, {}, decided, texts))
                for n in np.flatnonzero(chosen).tolist():
                    lines.add(entries[n], annotated(entries[n], verdicts[n]) if verdicts else None)
            elif isinstance(entries, TableRows):
                table.add(entries, chosen, decided)
            else:
                table.check(entries)
            if file is not None:
                file.write(lines.taken())
        if at != len(statuses) and not session.stop.signal:
            raise Failure(
                Exit.INPUT,
                f"the input changed while batch was running: it had {len(statuses):,} entries, and then {at:,}; "
                f"{display(path)} is not written",
            )


def _is_stored(path: str) -> bool:
    return is_address(path) or os.path.isfile(path) or os.path.isdir(path)


def with_texts(falls: list[Fall], session: Session) -> list[Fall]:
    """Return falls with the beginnings of texts in place of the places of documents: input that can be read twice is
    read again, up to them."""
    wanted, texts, at = {int(fall.text) for fall in falls if fall.text}, dict[str, str](), 0
    paths = session.options.paths if all(map(_is_stored, session.options.paths)) else []
    reader = EntryReader(session.settings, fields_of(session.settings), session.stop, lambda part: None)
    for chunk in chunked(reader.parts(paths)) if wanted else ():
        entries = () if chunk is None else chunk.entries
        texts |= {str(n): beginning(text_of(entries, n - at)) for n in wanted if at <= n < at + len(entries)}
        at += len(entries)
        if len(texts) == len(wanted):
            break
    reader.close()
    return [fall._replace(text=texts.get(fall.text, "")) for fall in falls]
