"""The reports of a run: refusals, progress and summary on standard error, rejects in a file."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

import orjson

from neardup.documents.document import REASONS, Document
from neardup.documents.paths import paths_in
from neardup.pairs.estimates.limits import counted_documents, counted_recall
from neardup.pairs.estimates.loss_accounts import LossAccounts
from neardup.window import COUNTERS
from neardup_workers.outside.feeds.reasons import FEED_REASONS
from neardup_workers.outside.outputs.lines_file import LinesFile
from neardup_workers.outside.outputs.output import Lines
from neardup_workers.outside.process.printable import printable
from neardup_workers.outside.readers.compression import over_file
from neardup_workers.outside.readers.entries import FILE_REASONS, Entry
from neardup_workers.outside.readers.lines import BOM, Line
from neardup_workers.outside.readers.paths import display
from neardup_workers.outside.settings.files import bound_in


def summary_of(counts: Mapping[str, int], accounts: LossAccounts) -> dict[str, Any]:
    """Return what a summary says of limits, besides the counters of the table."""
    figures = {"recall_by_limits": counted_recall(counts), "documents_by_limits": counted_documents(counts)}
    summary: dict[str, Any] = {name: None if one is None else round(one, 4) for name, one in figures.items()}
    values = accounts.values()
    return summary | ({"limits": values} if values["largest"] else {})


def sentences(counts: Mapping[str, int], limits: str, accounts: LossAccounts) -> list[str]:
    """Return a warning for limits that were reached, and the clusters that lose most; nothing if none was.

    ``limits`` names the settings with their values.
    """
    if not counts["truncated"] and not counts["cuts"]:
        return []
    truncated, missed = counts["truncated"], counts["missed_pairs"]
    what = f"{truncated:,} documents" if truncated else f"a bucket, {counts['cuts']:,} times,"
    expected = f"{missed:,} pairs are expected to be missing; " if missed else ""
    if counts["lone_documents"]:
        expected += f"{counts['lone_documents']:,} documents have no pair and may lack all of theirs; "
    lines = [
        f"warning: pairs may be missing: {what} had more candidates than {limits} allows; {expected}"
        "a higher limit finds more and takes longer"
    ]
    largest = [one for one in accounts.values()["largest"] if one["missed_pairs"] >= 1]
    if largest:
        lines.append("pairs expected to be missing, by the oldest document of their cluster that was compared:")
        lines += [f"{one['missed_pairs']:>10,.0f}  {display(one['id'])}" for one in largest]
    return lines


if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_SENTENCES = {**REASONS, **FILE_REASONS, **FEED_REASONS}
# Reasons that the names of the fields of a line explain -> the part of ``fields`` that names another one.
_MISSING = {
    "no_text": "text", "no_tokens": "tokens", "no_vector": "vector", "no_id": "id", "no_key": "", "no_column": "",
}  # fmt: skip
_NOT_UTF8, _NOT_JSON = "not_utf8", "not_json"
# Characters of those names in a report.
_FIELDS_CHARACTERS = 300
# Key of a summary -> its words.
_FOUND = {
    "documents": "documents", "against": "of them only compared with", "pairs": "pairs", "kept": "kept",
    "duplicates": "duplicates", "unchanged": "unchanged", "duplicate_fraction": "fraction dropped",
}  # fmt: skip
# The counts of a table that a summary shows, and their words.
_COUNTS = {name: counter.label for name, counter in COUNTERS.items() if counter.label}
# Refusals of a reason that are reported, so that they do not hide other lines: a user mends the first of them and
# starts again. A folder has files that the user did not name, so fewer show what they are.
REPORTS_MAX = 20
WALK_REPORTS_MAX = 10
# From one line of a reading to the next, where there is no terminal.
_LINE_SECONDS = 10.0


class Rejects:
    """The file of refused input: each refused line unchanged; a refused file or folder as a line of JSON.

    Lines are written byte for byte (see ``Lines``). Without a path, all input is discarded. Raises ``Failure`` if the
    file cannot be written.
    """

    def __init__(self, path: str | None, *, follow: bool = False) -> None:
        self._spilled = False
        self._lines = Lines()
        self._output = None if path is None else LinesFile(path, "the rejects", follow=follow)

    def spill(self, part: Line) -> None:
        """Write a part of a line that is too long to hold; ``write`` ends the line."""
        self._spilled = True
        self._lines.put_part(part)
        self._flow()

    def write(self, entry: Entry, reason: str) -> None:
        """Write one refused entry."""
        if self._output is None:
            return
        spilled, self._spilled = self._spilled, False
        if spilled:
            self._lines.put(b"", entry.end if reason == "line_too_long" else b"\n")
        if entry.raw is not None:
            self._lines.add(entry)
        elif not spilled or reason != "line_too_long":
            origin = {"path": entry.source, "line": entry.line} if entry.line else {"path": entry.source}
            self._lines.put(orjson.dumps({**origin, "reason": reason}))
        self._flow()

    def flush(self) -> None:
        """Flush all output to the system."""
        self._act(lambda file: file.flush())

    def _flow(self) -> None:
        data = self._lines.taken()
        self._act(lambda file: file.write(data))

    def __enter__(self) -> Rejects:
        return self

    def __exit__(self, *failure: Any) -> None:
        """Give the file its name; after an exception, discard it."""
        if self._output is not None:
            self._output.__exit__(*failure)

    def _act(self, action: Callable[[IO[bytes]], object]) -> None:
        if self._output is not None:
            self._output.act(action)


class Report:
    """Counts what happens in a run and reports it on standard error.

    For each reason, ``REPORTS_MAX`` refusals of named input are reported, and ``WALK_REPORTS_MAX`` of files in folders;
    further refusals are only counted. ``quiet`` reports nothing. ``title`` names one of several readings: a bar has it,
    and where there is no terminal a line each ten seconds says how far the reading is.
    """

    def __init__(
        self,
        *,
        quiet: bool,
        total: int | None = None,
        bar: bool = False,
        title: str = "",
    ) -> None:
        self.documents = 0
        self.pairs = 0
        self.refused: Counter[str] = Counter()
        self._seen: Counter[tuple[str, bool]] = Counter()  # by reason, and whether it was found in a folder
        self._quiet = quiet
        self._started = time.monotonic()
        self._run_ended: float | None = None
        self._progress = self._bar(total) if bar else None
        self._title, self._lines, self._total = title, 0, total

    def refuse(self, entry: Entry, reason: str) -> None:
        """Count and report a refusal. The first one says what helps: the fields of a line that lacks one, say."""
        self.refused[str(reason)] += 1  # a plain string: the keys of a JSON object
        self._seen[reason, entry.walked] += 1
        seen, reports_max = self._seen[reason, entry.walked], WALK_REPORTS_MAX if entry.walked else REPORTS_MAX
        if self._quiet or seen > reports_max + 1:
            return
        if seen > reports_max:
            what = "files in folders" if entry.walked else "input"
            self._say(f"further {what} refused as {reason!r} is only counted; --rejects FILE keeps all of it")
            return
        self._say(sentence_of(entry, reason) + (_remedy(entry, reason) if seen == 1 else ""))

    def advance(self, bytes_read: int) -> None:
        """Move the bar; of a reading with a title, say how far it is where there is none."""
        if self._progress is not None:
            done = self._title or f"{self.documents:,} documents, {self.pairs:,} pairs"
            self._progress.update(self._progress.task_ids[0], completed=bytes_read, description=done)
        elif self._title and self._total and time.monotonic() - self._started >= (self._lines + 1) * _LINE_SECONDS:
            self._lines = int((time.monotonic() - self._started) / _LINE_SECONDS)
            self._say(f"{self._title}: {min(100, 100 * bytes_read // self._total)} %")

    def end_run(self) -> None:
        """End the time of the run: what follows, an audit, is not part of its seconds and has its own."""
        self._run_ended = time.monotonic()

    def summary(
        self,
        bytes_read: int,
        blank_lines: int,
        counts: Mapping[str, int],
        ended: str,
        compile_seconds: float = 0.0,
        found: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the summary as plain values; ``ended`` says why the run ended. The rate excludes the compilation.

        ``found``: the results of a command that does not report pairs.
        """
        now = time.monotonic()
        run_ended = now if self._run_ended is None else self._run_ended
        seconds = run_ended - self._started
        working_seconds = max(seconds - compile_seconds, 1e-9)
        return {
            "ended": ended,
            "documents": self.documents,
            **({"pairs": self.pairs} if found is None else found),
            **{name: counts[name] for name in _COUNTS},
            "refused": sum(self.refused.values()),
            "refused_by_reason": dict(self.refused.most_common()),
            "blank_lines": blank_lines,
            "bytes": bytes_read,
            "seconds": round(seconds, 3),
            "compile_seconds": round(compile_seconds, 3),
            "documents_per_second": round(self.documents / working_seconds, 1),
            **({} if self._run_ended is None else {"audit_seconds": round(now - run_ended, 3)}),
        }

    def print_summary(self, summary: dict[str, Any]) -> None:
        """Write the summary to standard error: a table in a terminal, else one line for each fact."""
        self.end_bar()
        if self._quiet:
            return
        rows = _rows(summary)
        if not sys.stderr.isatty():
            self._say("\n".join(f"{name}: {value}" for name, value in rows))
            return
        from rich.table import Table

        table = Table(show_header=False, title=None)
        table.add_column()
        table.add_column(justify="right")
        for row in rows:
            table.add_row(*row)
        _console().print(table)

    def say(self, text: str, *, always: bool = False) -> None:
        """Write a sentence to standard error, unless quiet."""
        if always or not self._quiet:
            self._say(text)

    def end_bar(self) -> None:
        """Remove the progress bar before further output."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _say(self, text: str) -> None:
        safe = printable(text)  # without markup
        if self._progress is not None:
            self._progress.console.print(safe, markup=False, soft_wrap=True)
        else:
            sys.stderr.write(safe + "\n")

    def _bar(self, total: int | None) -> Progress:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TransferSpeedColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        progress = Progress(*columns, TimeElapsedColumn(), console=_console(), transient=True)
        progress.add_task("", total=total)
        progress.start()
        return progress


def _console() -> Console:
    """Return standard error as a console for terminals. The import is late, because most runs do not need it."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False)


def name_of(entry: Entry) -> str:
    """Return the position of an entry: ``file:line``, or the file."""
    return f"{entry.source}:{entry.line}" if entry.line else entry.source


def sentence_of(entry: Entry, reason: str) -> str:
    """Return the position of a refused entry, and the reason."""
    return f"{name_of(entry)}: {entry.says or _SENTENCES[reason]}"


def with_bound(entry: Entry, reason: str, settings: object) -> Entry:
    """Return a refused entry whose sentence has the bound of the setting that it ends with, and what a text has."""
    sentence = _SENTENCES.get(reason, "")
    text = entry.found.text if isinstance(entry.found, Document) else ""
    bound = bound_in(sentence, settings, text)
    return entry if entry.says or not bound else entry._replace(says=f"{sentence} ({bound})")


def _remedy(entry: Entry, reason: str) -> str:
    """Return what helps against a refusal, for the end of its sentence: the names in a line or in the header of a
    table, and how to name one of them; how to read another encoding, or what is no JSON from its first line on."""
    if reason == _NOT_UTF8:
        if entry.header is not None:
            return ": --set table=encoding=cp1252 names another encoding"
        return f": {over_file('iconv -f cp1252 -t utf-8', entry.source)} converts one of Windows"
    if reason == _NOT_JSON and entry.line == 1:
        made = over_file("jq -cR '{text: .}'", entry.source)
        return f": --input-format csv reads a table, and {made} makes a document of each line of text"
    if reason not in _MISSING:
        return ""
    header = entry.header.row if entry.header is not None else b""
    raw = (entry.raw or header).removeprefix(BOM)
    try:
        value = orjson.loads(raw)
        names = ", ".join(_first(paths_in(value))) if isinstance(value, dict) else ""
    except orjson.JSONDecodeError:
        names = raw.decode(errors="replace").strip()
    has = f" (it has: {names[:_FIELDS_CHARACTERS]})" if names else ""
    return f"{has}: --fields {_MISSING[reason]}=NAME names another" if has and _MISSING[reason] else has


def _first(names: Iterable[str]) -> Iterator[str]:
    """Yield as many names as a report shows: a line may have very many, each as long as a line."""
    characters = 0
    for name in names:
        yield name[:_FIELDS_CHARACTERS]
        characters += len(name)
        if characters >= _FIELDS_CHARACTERS:
            return


def _rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the names and values of the facts that a summary shows."""
    rows = [(label, f"{summary[name]:,}") for name, label in _FOUND.items() if name in summary]
    rows += [(label, f"{summary[name]:,}") for name, label in _COUNTS.items() if summary[name]]
    rows += [("refused", f"{summary['refused']:,}")]
    rows += [(f"  {reason}", f"{count:,}") for reason, count in summary["refused_by_reason"].items()]
    if "ids_changed" in summary:
        rows.append(("ids changed to canonical URLs", f"{summary['ids_changed']:,}"))
    if summary["blank_lines"]:
        rows.append(("blank lines", f"{summary['blank_lines']:,}"))
    if summary.get("missed_pairs"):
        rows.append(("recall by limits", f"{summary['recall_by_limits']:.4f}"))
        if summary.get("documents_by_limits") is not None:
            rows.append(("documents with a pair", f"at least {summary['documents_by_limits']:.4f}"))
    rows += [(name, f"{summary[name]:,}") for name in ("bytes", "seconds")]
    if summary["compile_seconds"]:
        rows.append(("of them compiling, once", f"{summary['compile_seconds']:,}"))
    rows.append(("documents a second", f"{summary['documents_per_second']:,.0f}"))
    if "audit_seconds" in summary:
        rows.append(("seconds of the audit", f"{summary['audit_seconds']:,}"))
    if summary["ended"] != "success":
        rows.append(("ended", summary["ended"]))
    return rows
