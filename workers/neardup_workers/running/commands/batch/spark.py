"""``neardup batch --engine spark``: a corpus that a cluster of Apache Spark reads and signs.

Spark reads the lines and signs them (``spark_tasks``), which takes nearly all of the time. The machine of the command
gets signed documents, and finds the pairs and decides as ``batch`` does without Spark (``corpus``), for any number of
partitions.

Which cluster, and how many partitions, is Spark's own configuration (``spark-submit``, ``SPARK_CONF_DIR``). A session
of Spark that this process has already is used, and left as it is. Every machine needs this package and sees the paths;
a path with a scheme (``s3a://``) is read by Spark alone.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import time
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from neardup.documents.ids import split_id
from neardup.errors import Reason, install_command
from neardup.pairs.batches import Batch
from neardup.stories.sources.representatives import FIRST
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.outputs.lines_file import is_table
from neardup_workers.outside.outputs.table_file import not_a_row
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.blocks import STDIN
from neardup_workers.outside.readers.entries import Entry
from neardup_workers.outside.readers.formats import AUTO, LINES
from neardup_workers.outside.readers.paths import display, walk
from neardup_workers.outside.settings.files import Settings, fields_of
from neardup_workers.running.commands.batch import corpus
from neardup_workers.running.commands.batch.verdicts import Places, Preference

try:
    import pyarrow as pa
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as f

    from neardup_workers.running.commands.batch import spark_tasks as tasks
except ImportError:
    raise Failure(
        Exit.USAGE, f"--engine spark needs pyspark, which is not installed: {install_command('spark')}"
    ) from None

# Rows that the machine of the command gets at a time.
_ROWS = 1 << 17


class Input(NamedTuple):
    """The lines of the input, the names of its files in reports, and where its splits begin, in order."""

    lines: DataFrame
    names: dict[str, str]
    begins: dict[tasks.Split, tasks.SplitBegin]
    entries: int


def run(options: BatchOptions, settings: Settings) -> Exit:
    """Run to the end; returns the exit code. Raises ``Failure`` for what this engine does not do or cannot read."""
    _check(options, settings)
    local = replace(options, paths=[path for path in options.paths if "://" not in path])
    return corpus.run(local, settings, partial(_fill, options.paths))


def _fill(
    paths: list[str], options: BatchOptions, session: Session, filled: corpus.Corpus, places: Places,
    preference: Preference,
) -> None:  # fmt: skip
    """Read and sign the documents of all paths with Spark."""
    is_given = SparkSession.getActiveSession() is not None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of a task on this machine
    spark = SparkSession.builder.appName("neardup").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    try:
        given = _input(spark, paths, filled.settings)
        ranks = options.prefer not in (None, FIRST)
        rows = _signed(given, filled.settings, preference if ranks else None, sources=places.with_sources)
        for first in range(0, given.entries, _ROWS):
            part = rows.where((f.col("n") >= first) & (f.col("n") < first + _ROWS)).orderBy("n").toArrow()
            _take(part, given, filled, places, preference, session)
    finally:
        if not is_given:
            spark.stop()


def _check(options: BatchOptions, settings: Settings) -> None:
    """Raise ``Failure`` for options that this engine does not have, or that exclude each other."""
    for name, value in (("top", options.top), ("truth", options.truth or None), ("sources", options.sources)):
        if value is not None:
            raise Failure(Exit.USAGE, f"--engine spark does not do --{name}: leave it out, or run on one machine")
    if options.output is not None and is_table(options.output):
        raise not_a_row(options.output, "--output", "what --engine spark reads (JSON Lines)")
    corpus.check_asked(options, settings)
    if settings.input_format not in (AUTO, LINES) or settings.field_names.html is not None or STDIN in options.paths:
        raise Failure(Exit.USAGE, "--engine spark reads files of JSON Lines: name files or folders of them")


def _input(spark: SparkSession, paths: list[str], settings: Settings) -> Input:
    """Count the lines of every split, and number the entries in the order of paths, files and lines."""
    files: list[str] = []
    for path in paths:
        folder = "://" not in path and os.path.isdir(path)
        files += [one for one, reason in walk(path) if not reason] if folder else [path]
    texts = spark.read.option("lineSep", "\n").text(
        [one if "://" in one else str(Path(one).resolve()) for one in files]
    )
    lines = texts.select(
        f.col("value").cast("binary").alias("value"),
        f.col("_metadata.file_path").alias("file"),
        f.col("_metadata.file_block_start").alias("block"),
    )
    counted = lines.mapInArrow(tasks.count_lines, tasks.COUNTED).groupBy("file", "block").sum("lines", "entries")
    ranks = {str(Path(one).resolve()): i for i, one in enumerate(files)}
    sizes = sorted((_rank(row[0], ranks, files), *row) for row in counted.collect())
    names, begins, entries, line, last = {}, {}, 0, 1, None
    for rank, file, block, line_count, entry_count in sizes:
        line = line if file == last else 1
        names[file] = display(files[rank]) if rank < len(files) and "://" not in files[rank] else file
        begins[file, block] = tasks.SplitBegin(line, entries)
        line, last, entries = line + line_count, file, entries + entry_count
    return Input(lines, names, begins, entries)


def _rank(file: str, ranks: dict[str, int], files: list[str]) -> int:
    """Return the index of the path that names a file, or that holds it."""
    known = ranks.get(unquote(urlsplit(file).path))
    if known is not None:
        return known
    return next((i for i, path in enumerate(files) if file.startswith(path)), len(files))


def _signed(given: Input, settings: Settings, preference: Preference | None, *, sources: bool) -> DataFrame:
    """Return a row for each entry of the input."""
    value = None if preference is None else preference.value_of
    fields = fields_of(settings, sources=sources)
    task = tasks.SignTask(settings, fields, given.names, given.begins, settings.line_ids, value, sources, time())
    return given.lines.mapInArrow(partial(tasks.sign_lines, task), tasks.SIGNED).persist(StorageLevel.DISK_ONLY)


def _take(
    part: pa.Table, given: Input, filled: corpus.Corpus, places: Places, preference: Preference, session: Session
) -> None:
    """Add entries to the corpus, and report the refused ones."""
    accepted = part.filter(part.column("reason").is_null())
    batch: Batch = tasks.batch_of(accepted.combine_chunks())
    filled.add(batch)
    session.report.documents += batch.size
    untimed = part.filter(part.column("untimed").is_valid())
    for row in untimed.select(["untimed", "given"]).to_pylist():
        session.reader.unread(row["untimed"], row["given"])
    columns = (part.column(name).to_pylist() for name in ("file", "line", "reason", "id", "value", "source", "raw"))
    for file, line, reason, id_, value, source, raw in zip(*columns, strict=True):
        name = given.names[file]
        if places.with_sources:
            places.add_source(source)
        if reason is None:
            places.add_document(name, line)
            preference.add(value)
        else:
            collection, named = (None, None) if id_ is None else split_id(id_.decode())
            places.add_refused(name, line, reason, named, collection)
            session.refuse_entry(Entry(name, line, raw, Reason(reason)), reason)
