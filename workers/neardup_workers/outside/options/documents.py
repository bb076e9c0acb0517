"""The options of the commands that read documents: ``run``, ``probe``, ``dedup``, ``batch``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from neardup_workers.outside.options.shared import (
    CANDIDATES,
    FOLLOW,
    KEEP_FILE,
    SALVAGE,
    TOP,
    TRUTH,
    WINDOW_FILE,
    SessionOptions,
    option,
)


@dataclass(kw_only=True, repr=False, eq=False)
class RunOptions(SessionOptions):
    """The arguments of ``run``."""

    candidates: bool = CANDIDATES
    top: int | None = TOP
    follow: bool = FOLLOW
    window_from: str | None = WINDOW_FILE
    salvage: bool = SALVAGE
    keep: str | None = KEEP_FILE
    output: str | None = option(
        None, "write the pairs to a file instead of standard output", short="-o", metavar="FILE"
    )
    overview: bool = option(False, "end with the documents of the most pairs and a histogram of similarities")
    truth: bool = TRUTH
    across: bool = option(False, "write pairs of documents of different collections only (part collection of --fields)")


@dataclass(kw_only=True, repr=False, eq=False)
class ProbeOptions(SessionOptions):
    """The arguments of ``probe``."""

    index: list[str] = option(..., "documents to compare with; may stand several times", metavar="PATH")
    candidates: bool = CANDIDATES
    top: int | None = TOP


SOURCES_FILE: Any = option(
    None, "write what each source published, as JSON Lines, or as a table (.csv)", metavar="FILE"
)
ALLOW_LOSS: Any = option(
    False, "write the kept documents also if nearly all of a source, or of all, repeat one another"
)


@dataclass(kw_only=True, repr=False, eq=False)
class DedupOptions(SessionOptions):
    """The arguments of ``dedup``."""

    against: list[str] | None = option(
        None, "drop what repeats these documents too, which are not written; repeat it", metavar="PATH"
    )
    output: str | None = option(None, "write the kept documents to a file", short="-o", metavar="FILE")
    removed: str | None = option(None, "write the dropped lines, each with its verdict", metavar="FILE")
    verdicts: str | None = option(None, "write a verdict for each document, as JSON Lines", metavar="FILE")
    clusters: str | None = option(None, "write the clusters of two documents or more, as JSON Lines", metavar="FILE")
    warc_out: str | None = option(
        None,
        "write the records of WARC input as an archive: identical "
        "payloads as revisits, near-duplicates with their verdicts",
        metavar="FILE",
    )
    warc_drop: bool = option(False, "leave near-duplicates out of the archive")
    annotate: bool = option(False, "write the dropped lines too, and with each line its verdict")
    allow_loss: bool = ALLOW_LOSS
    sources: str | None = SOURCES_FILE
    truth: bool = TRUTH
    follow: bool = FOLLOW
    window_from: str | None = WINDOW_FILE
    salvage: bool = SALVAGE
    keep: str | None = KEEP_FILE

    @property
    def loses(self) -> str | None:
        """The option of the output that lacks what is dropped, ``None`` if none does; ``--output`` may be standard
        output."""
        if self.warc_out is not None and (self.warc_drop or self.output is None):
            return "--warc-out" if self.warc_drop else None
        return None if self.annotate or self.follow else "--output"


@dataclass(kw_only=True, repr=False, eq=False)
class BatchOptions(SessionOptions):
    """The arguments of ``batch``."""

    engine: Literal["local", "spark"] = option(
        "local", "where documents are read and signed: on this machine, or on a cluster of Spark"
    )
    candidates: bool = CANDIDATES
    top: int | None = TOP
    keep: str | None = KEEP_FILE
    memory_max: str = option("1GB", "memory of the table, as 512MB; the rest is on disk", metavar="SIZE")
    temporary: str | None = option(None, "where the corpus is kept meanwhile, emptied at the end", metavar="FOLDER")
    sources: str | None = SOURCES_FILE
    verdicts: str | None = option(None, "write a verdict for each document too, as dedup does", metavar="FILE")
    prefer: str | None = option(
        None,
        "which documents to keep: the first (the default), the longest, or those with the greatest number in a field",
        metavar="first|longest|FIELD",
    )
    output: str | None = option(None, "write the documents to keep, as dedup does", short="-o", metavar="FILE")
    annotate: bool = option(False, "write the dropped lines to --output too, and with each line its verdict")
    allow_loss: bool = ALLOW_LOSS
    truth: bool = TRUTH

    @property
    def decides(self) -> bool:
        """Whether documents are decided."""
        return any(path is not None for path in (self.verdicts, self.output, self.sources))
