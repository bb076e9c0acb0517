"""The judgement of verdicts and tables after a torture: a model over what is committed, against what was published.

The order of ``signed`` and the pairs of ``links`` decide every verdict. So each record of ``documents`` must have
exactly one line in its partition of ``verdicts``, in order, equal to the model's; and ``documents.unique`` must hold
the documents whose line says ``original``, and the tombstones, byte for byte and in order. The last record of each
cluster in ``clusters`` must be the one that follows from the verdicts. Of ``signed`` and ``links`` all records are
needed, also those that were trimmed. They also say what the table of each shard holds at the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cluster_oracle import expected_clusters, wrong_clusters
from torture_oracle import Verdict
from torture_reader import Read
from verdict_oracle import expected_lines

from neardup.pairs.batches import CONTENT_HALF
from neardup.pairs.shards import shards_of
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.places import place_name
from neardup_workers.outside.topics.signed import decode_signed
from neardup_workers.outside.topics.verdicts import parse_run

KEPT = ("original", "update", "removed")


class Published(NamedTuple):
    """The committed records of the topics that verdicts are made of and go to."""

    signed: Sequence[Read]
    links: Sequence[Read]
    verdicts: Sequence[Read]
    unique: Sequence[Read]
    clusters: Sequence[Read]


def judge_held(
    out: Verdict, signed: Sequence[Read], held: Mapping[int, Sequence[tuple[int, int]]], settings: StreamSettings
) -> None:
    """Compare how many documents the tables hold with the log: one member has the table of a shard, and in it is what
    is of that shard from the first row on that the window has. After a growth, marks of later copies may be there."""
    times, contents, owners, shards = [], [], [], settings.shards
    for record in signed:
        rows = decode_signed(record.value or b"", settings.signing_fingerprint, settings.plan.width)
        shards = shards if rows.growth is None else rows.growth[1]
        times += rows.times.tolist()
        contents += rows.contents[:, CONTENT_HALF].tolist()
        owners += shards_of(rows.contents[:, CONTENT_HALF], shards).tolist()
    since = max(times) - round((settings.window_seconds or 0.0) * 1e6) - round(settings.lateness_seconds * 1e6)
    homes: dict[int, set[int]] = defaultdict(set)
    own: dict[int, list[int]] = defaultdict(list)
    own_or_mark: dict[int, list[int]] = defaultdict(list)
    for time, content, owner in zip(times, contents, owners, strict=True):
        homes[content].add(owner)
        own[owner].append(time)
        for shard in homes[content]:
            own_or_mark[shard].append(time)
    for shard in range(shards):
        fewest, most = (_since_first(rows[shard], since) for rows in (own, own_or_mark))
        found = [documents for documents, _ in held.get(shard, ())]
        is_right = len(found) == 1 and fewest <= found[0] <= most
        what = f"tables of shard {shard} hold {found} documents; the window has {fewest} to {most}"
        out.fault("wrong", what, int(not is_right))
    out.seen["live"] = sum(time >= since for time in times)
    out.seen["held"] = sum(documents for tables in held.values() for documents, _ in tables)
    out.seen["table bytes"] = sum(size for tables in held.values() for _, size in tables)


def _since_first(times: Sequence[int], since: int) -> int:
    """How many rows there are from the first on that is of ``since`` or later: rows leave in order of arrival."""
    return len(times) - next((i for i, time in enumerate(times) if time >= since), len(times))


def judge_verdicts(out: Verdict, documents: Sequence[Read], published: Published, settings: StreamSettings) -> None:
    """Count what verdicts and clusters were seen, and the faults in them and in what was forwarded."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for record in published.verdicts:
        found[record.partition] += parse_run(record.value)
    sent = [(record.partition, record.offset) for record in documents]
    _judge_sequence(
        out, "verdicts", sent, [(s, line["offset"]) for s in sorted(found) for line in found[s]],
    )  # fmt: skip
    lines = {(s, line["offset"]): line for s in sorted(found) for line in found[s]}
    places = published.signed, published.links
    placed = expected_lines(*places, settings)  # type: ignore[arg-type]
    expected = {(at >> 48, line["offset"]): line for at, line in placed}
    _judge_sequence(out, "signed", sorted(sent), sorted(expected))
    for place in expected.keys() & lines.keys():
        if lines[place] != expected[place]:
            out.fault("wrong", f"verdict of {place}: {lines[place]}; expected {expected[place]}")
    out.seen.update(f"verdict {line['status']}" for line in lines.values())
    kept = [record for record in documents if lines.get(record[:2], {}).get("status") in KEPT]
    out.seen["forwarded"] = len(kept)
    _judge_sequence(out, "documents.unique", map(_content, kept), map(_content, published.unique))
    clusters = expected_clusters([line for _, line in placed], [place_name(at) for at, _ in placed])
    stream = max((line["timestamp"] for _, line in placed if "timestamp" in line), default=0.0)
    horizon = stream - (settings.window_seconds or 0.0) - settings.lateness_seconds
    for kind, what in wrong_clusters(published.clusters, clusters, horizon):  # type: ignore[arg-type]
        out.fault(kind, what)
    out.seen["clusters"] = len(clusters)


def _content(record: Read) -> tuple[int, int, bytes | None, bytes | None]:
    """All of a record but its offset."""
    return record.partition, record.timestamp_ms, record.key, record.value


def _judge_sequence(out: Verdict, what: str, expected: Iterable[Any], found: Iterable[Any]) -> None:
    """Both in order of partitions and offsets; each thing as often as expected, in that order."""
    wanted, there = list(expected), list(found)
    counts, seen = Counter(wanted), Counter(there)
    missing, surplus = counts - seen, seen - counts
    for one, count in missing.items():
        out.fault("lost", f"{what}: {one}", count)
    for one, count in surplus.items():
        out.fault("repeated" if one in counts else "wrong", f"{what}: {one}", count)
    if not missing and not surplus and wanted != there:
        at = next(i for i, pair in enumerate(zip(wanted, there, strict=True)) if pair[0] != pair[1])
        out.fault("wrong", f"{what}: out of order from {there[at]} on, where {wanted[at]} belongs")
