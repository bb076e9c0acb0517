"""``neardup batch --engine spark``: the pairs of a corpus on a cluster of Apache Spark.

Spark reads the lines, signs them, groups them by key and judges the candidates (``spark_tasks``), with the queries of
the database of one machine (``queries``). The machine of the command gets signed documents and pairs, and decides. So
pairs and verdicts are those of ``batch`` on one machine, for any number of partitions.

Which cluster, and how many partitions, is Spark's own configuration (``spark-submit``, ``SPARK_CONF_DIR``). A session
of Spark that this process has already is used, and left as it is. Every
machine needs this package and sees the paths; a path with a scheme (``s3a://``) is read by Spark alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import time
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from neardup.documents.ids import split_id
from neardup.errors import Reason, install_command
from neardup.pairs.batches import Batch
from neardup.pairs.json_lines import encode_matches
from neardup.pairs.shards import table_limits
from neardup.schemes.rows import SCHEMES
from neardup.stories.verdicts.representatives import FIRST
from neardup.window import COUNTERS, NO_TIME, NO_WINDOW
from neardup_workers.doing.session.session import Session
from neardup_workers.doing.session.token_order import with_order
from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.outputs.output import STANDARD, OutputFile
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.blocks import STDIN
from neardup_workers.outside.readers.entries import Entry
from neardup_workers.outside.readers.formats import AUTO, LINES
from neardup_workers.outside.readers.paths import display, walk
from neardup_workers.outside.settings.files import Settings, fields_of
from neardup_workers.running.commands.batch import queries
from neardup_workers.running.commands.batch.corpus import Corpus, check_asked, decide
from neardup_workers.running.commands.batch.found import PairCounts, RowPairs
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
# The widest window for which every difference of times fits in 64 bits.
_ALWAYS = int(NO_WINDOW) - 1
# Each row that asks is looked up among the rows of the content that it asks for, just before its own number.
_NEAREST = """
SELECT n, time, name, other, CASE WHEN last.name = name THEN last.peer ELSE last.n END AS older, last.latest AS latest
FROM (SELECT n, time, name, content AS other, asks,
             last_value(CASE WHEN NOT asks THEN struct(n, name, peer, latest) END) IGNORE NULLS OVER (
                 PARTITION BY content ORDER BY n, asks DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS last
      FROM (SELECT n, time, name, content, peer, latest, false AS asks FROM items
            UNION ALL SELECT n, time, name, other, NULL, NULL, true FROM asked))
WHERE asks AND last IS NOT NULL
"""
# A row without a time gets the stream time at its arrival. ``before`` is the stream time before its split.
_ARRIVALS = f"""
SELECT n, high, low, id, CASE WHEN time <> {NO_TIME} THEN time
       ELSE greatest(before, coalesce(max(nullif(time, {NO_TIME})) OVER (
           PARTITION BY file, block ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), before)) END AS time
FROM rows JOIN splits USING (file, block)
"""
_PAIRS = """
SELECT newer, older, identical, a.fixed AS newer_fixed, a.ragged AS newer_ragged,
       b.fixed AS older_fixed, b.ragged AS older_ragged
FROM found JOIN rows a ON a.n = newer JOIN rows b ON b.n = older
"""


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
    values: dict[str, Any] | None = None
    guards = options.output is not None and not options.allow_loss
    with (
        Session(settings, local) as session,
        tempfile.TemporaryDirectory(prefix="neardup-", dir=options.temporary) as folder,
        OutputFile(STANDARD) as output,
    ):
        settings = with_order(session, options.paths, settings, window_files=options.keep is not None)
        is_given = SparkSession.getActiveSession() is not None
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of a task on this machine
        spark = SparkSession.builder.appName("neardup").config("spark.ui.showConsoleProgress", "false").getOrCreate()
        try:
            preference = Preference(options.prefer or FIRST)
            given = _input(spark, options.paths, settings)
            ranks = options.prefer not in (None, FIRST)
            rows = _signed(given, settings, preference if ranks else None, sources=guards)
            score_min = 0.0 if options.candidates else settings.tuning.score_min
            judge = partial(tasks.judge_rows, settings, score_min, options.decides)
            counts = _join(spark, rows, given, settings, judge)
            with Corpus(Path(folder), settings, options.memory_max) as corpus:
                places = Places(with_sources=guards)
                for part in _parts(rows, "n", given.entries):
                    _take(part, given, corpus, places, preference, session)
                corpus.arrive()
                if options.keep is not None:
                    corpus.keep(options.keep)
                if options.decides:
                    corpus.link()
                place_of = np.frombuffer(places.rows, np.int64) if places.rows else np.empty(0, np.int64)
                for part in _parts(spark.table("pairs"), "newer", given.entries, ("older", False)):
                    numbers, others, similarity, keys = (column.to_numpy() for column in part.columns)
                    newer, older = np.searchsorted(place_of, numbers), np.searchsorted(place_of, others)
                    matches = corpus.matches_of(RowPairs(newer, older, similarity, keys.astype(np.int32)))
                    session.report.pairs += len(matches.older)
                    output.write(encode_matches(matches))
                if options.decides:
                    values = decide(corpus, places, preference, options, session)
        finally:
            if not is_given:
                spark.stop()
    summary = dict.fromkeys(COUNTERS, 0) | counts._asdict()
    return session.end(summary, None if values is None else {"pairs": session.report.pairs, **values})


def _check(options: BatchOptions, settings: Settings) -> None:
    """Raise ``Failure`` for options that this engine does not have, or that exclude each other."""
    for name, value in (("top", options.top), ("truth", options.truth or None), ("sources", options.sources)):
        if value is not None:
            raise Failure(Exit.USAGE, f"--engine spark does not do --{name}: leave it out, or run on one machine")
    check_asked(options, settings)
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


def _join(
    spark: SparkSession,
    signed: DataFrame,
    given: Input,
    settings: Settings,
    judge: Callable[[tasks.Batches], tasks.Batches],
) -> PairCounts:
    """Make the view ``pairs`` of what is judged to be one; returns the counts of the join."""
    scheme, limits = SCHEMES[settings.scheme], table_limits(settings, SCHEMES[settings.scheme])
    window = min(limits.window, _ALWAYS)
    _view(signed.where("reason IS NULL"), "rows")
    # The stream time before each split: of rows before the first time, it is the first time.
    timed = f"FROM rows WHERE time <> {NO_TIME}"
    (first,) = spark.sql(f"SELECT min_by(time, n) {timed}").collect()
    most = {(file, block): time for file, block, time in spark.sql(
        f"SELECT file, block, max(time) {timed} GROUP BY file, block").collect()}  # fmt: skip
    before, rows = int(first[0] or 0), []
    for split in given.begins:
        rows.append((*split, before))
        before = max(before, most.get(split, before))
    spark.createDataFrame(rows, "file string, block long, before long").createOrReplaceTempView("splits")
    _view(spark.sql(_ARRIVALS), "arrivals", kept=False)
    _view(spark.sql(queries.ITEMS.format(content=queries.CONTENT[scheme.by_content])), "items")
    _view(spark.sql(queries.LINKS_ASKED), "asked", kept=False)
    links = _answered(spark, window, identical=True)
    _view(links, "found")
    firsts = spark.sql("SELECT rows.* FROM rows JOIN items USING (n) WHERE items.content = n")
    _view(firsts.mapInArrow(partial(tasks.bucket_rows, settings), tasks.KEYS), "postings")
    ratio = limits.admit_ratio if spark.sql("SELECT 1 FROM postings WHERE payload <> 0 LIMIT 1").count() else None
    _view(spark.sql(queries.SHARED), "shared")
    cap = limits.bucket_candidates
    cuts = spark.sql(f"SELECT 1 FROM shared WHERE number > {cap}").count()
    _view(spark.sql(queries.candidates_query(window, cap, ratio)), "candidates", kept=False)
    _view(spark.sql(queries.PROBES_ASKED), "asked", kept=False)
    probes = _answered(spark, window, identical=False).persist(StorageLevel.DISK_ONLY)
    counts = PairCounts(probes.count(), links.count(), cuts)
    _view(links.unionByName(probes), "found", kept=False)
    _view(spark.sql(_PAIRS).mapInArrow(judge, tasks.PAIRS), "pairs")
    return counts


def _answered(spark: SparkSession, window: int, *, identical: bool) -> DataFrame:
    """Return the nearest row of each content that is ``asked`` for."""
    _view(spark.sql(_NEAREST), "nearest", kept=False)
    _view(spark.sql(queries.JUDGED.format(window=window)), "judged", kept=False)
    inside, outside = (
        spark.sql(query.format(window=window, identical=str(identical).lower()))
        for query in (queries.INSIDE, queries.OUTSIDE)
    )
    return inside.unionByName(outside)


def _view(frame: DataFrame, name: str, *, kept: bool = True) -> None:
    """Name a frame; a kept one is computed once."""
    (frame.persist(StorageLevel.DISK_ONLY) if kept else frame).createOrReplaceTempView(name)


def _parts(frame: DataFrame, column: str, end: int, then: tuple[str, bool] | None = None) -> Iterator[pa.Table]:
    """Yield rows by a column of numbers below ``end``, some at a time; ``then``: a second column, and its direction."""
    order = [f.col(column)] + ([] if then is None else [f.col(then[0]).asc() if then[1] else f.col(then[0]).desc()])
    for first in range(0, end, _ROWS):
        part = frame.where((f.col(column) >= first) & (f.col(column) < first + _ROWS))
        yield part.orderBy(*order).toArrow()


def _take(
    part: pa.Table, given: Input, corpus: Corpus, places: Places, preference: Preference, session: Session
) -> None:
    """Add entries to the corpus, and report the refused ones."""
    accepted = part.filter(part.column("reason").is_null())
    batch: Batch = tasks.batch_of(accepted.combine_chunks())
    corpus.add(batch)
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
