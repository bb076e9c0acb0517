"""A program that adds two fields to the table of verdicts, makes every output, and prints what each shows of them.

It stands for an engineer who adds a field: two rows whose columns are computed already. Nothing else is changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from neardup.stories.verdicts import fields

ADDED = (
    fields.Field("same_text", "flag", "equal", "Whether the text is that of the version that was compared."),
    fields.Field("compared", "place", "matched", "Place of the version that was compared."),
)
TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."
# An original, a near-duplicate and a copy of it.
DOCUMENTS = [("a", TEXT), ("b", TEXT.replace("Sunday", "Monday")), ("c", TEXT)]
Shown = list[tuple[Any, Any]]


def shown(rows: list[dict[str, Any]], prefix: str = "") -> Shown:
    """The two fields of each row; ``absent`` where it has none."""
    return [tuple(row.get(prefix + field.name, "absent") for field in ADDED) for row in rows]


def of_files(folder: Path) -> dict[str, Shown]:
    """What tables and files show: lines and Parquet, of ``dedup`` and of ``batch``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from neardup import Config, Deduplicator
    from neardup_workers.outside.options.documents import BatchOptions, DedupOptions
    from neardup_workers.outside.settings.load import load
    from neardup_workers.running.commands.batch.corpus import run as batch
    from neardup_workers.running.commands.dedup.command import run as dedup

    table = pa.table({"id": [id_ for id_, _ in DOCUMENTS], "text": [text for _, text in DOCUMENTS]})
    out = {"arrow": shown(Deduplicator(Config(threshold=0.7)).decide_table(table).to_pylist())}
    source, settings = folder / "in.parquet", load({"threshold": 0.7}, None)
    pq.write_table(table, source)
    for name, options, run in (("dedup", DedupOptions, dedup), ("batch", BatchOptions, batch)):
        lines, annotated = str(folder / f"{name}.jsonl"), str(folder / f"{name}.parquet")
        run(options([str(source)], verdicts=lines, output=annotated, annotate=True, quiet=True), settings)
        out[f"{name} lines"] = shown([json.loads(line) for line in Path(lines).read_bytes().splitlines()])
        out[f"{name} Parquet"] = shown(pq.read_table(annotated).to_pylist(), "neardup_")
    return out


def of_service(folder: Path) -> dict[str, Shown]:
    """What the service shows: answers, stored versions and events."""
    from service_world import world_in

    events: list[dict[str, Any]] = []
    with world_in(folder / "state") as world:
        world.events.publish = lambda verdicts, *_: events.extend(verdicts)
        answers = [world.check(id_, text) for id_, text in DOCUMENTS]
    with world_in(folder / "state") as world:  # the log is read again
        versions = [world.ask("GET", f"/v1/documents/{id_}").json()["versions"][0] for id_, _ in DOCUMENTS]
    return {"answers": shown(answers), "versions": shown(versions), "events": shown(events)}


def of_topics(folder: Path) -> dict[str, Shown]:
    """What a message shows, what is read back from it, and what a view of the topics shows."""
    import numpy as np
    from view_world import Deployment, until

    from neardup.pairs.batches import id_columns
    from neardup.stories.verdicts.rule import DOCUMENT, DUPLICATE, ORIGINAL
    from neardup_workers.outside.topics.arrivals import ArrivalRows
    from neardup_workers.outside.topics.verdicts import DecidedRows, decided_rows, encode_runs, parse_run

    n, none = np.arange(3), np.full(3, -1)
    rows = ArrivalRows(
        n, np.full(3, DOCUMENT), n, n.astype(np.uint64), *id_columns([b"a", b"b", b"c"]), np.full(3, np.nan), n
    )
    verdicts = fields.Verdicts(
        np.array([ORIGINAL, DUPLICATE, DUPLICATE], np.uint8), np.zeros(3, np.int64), np.array([-1, 0, 0]),
        np.array([0, 0.9, 0.9], np.float32), none, none, np.array([-1, 0, 0]), n == 2, n > 2,
        none, np.zeros(3, np.float32), np.zeros(3, np.int64), np.zeros(3, np.uint8),
    )  # fmt: skip
    [run] = encode_runs(DecidedRows(n, rows, verdicts, [None, b"a", b"a"], n > 2, n, n, np.full(3, np.nan), n))
    lines = parse_run(run.value)
    again = decided_rows(0, lines, 0).verdicts
    deployment = Deployment(folder / "view")
    try:
        deployment.memory.append(deployment.topics.verdicts, 0, run.value, run.key)
        until(lambda: deployment.ask("GET", "/v1/documents/c").status_code == 200)
        versions = [deployment.ask("GET", f"/v1/documents/{id_}").json()["versions"][0] for id_, _ in DOCUMENTS]
    finally:
        deployment.close()
    read = list(zip(again.equal.tolist(), again.matched.tolist(), strict=True))
    return {"messages": shown(lines), "read back": read, "view": shown(versions)}


def of_descriptions() -> dict[str, Any]:
    """What the descriptions say: the schemas of lines and messages, and that of the answers."""
    from verdict_schemas import FOLDER, SCHEMAS, up_to_date

    from neardup_workers.doing.http.described.requests import description

    schemas = {name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in SCHEMAS}
    out = {name: up_to_date(name, schema)["properties"] for name, schema in schemas.items()}
    answers = json.dumps(description())
    return {name: [names.get(field.name) for field in ADDED] for name, names in out.items()} | {
        "OpenAPI": [answers.count(json.dumps(field.says)) for field in ADDED]
    }


def main(folder: Path) -> None:
    """Add the fields, before any module has read the table, and print every output."""
    fields.MESSAGE_FIELDS = (*fields.MESSAGE_FIELDS, *ADDED)
    fields.FIELDS = (*fields.FIELDS, *ADDED)
    fields.NAMES = tuple(field.name for field in fields.FIELDS)
    sys.stdout.write(json.dumps(of_files(folder) | of_service(folder) | of_topics(folder) | of_descriptions()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
