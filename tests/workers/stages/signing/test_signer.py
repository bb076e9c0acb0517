"""The signer: every record of ``documents`` becomes rows of ``signed`` or a dead letter, and no record stops it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from unittest import mock

import orjson
import pytest
from cases import SCHEME_REASONS
from hypothesis import given
from hypothesis import strategies as st
from sign_world import SignWorld, plan_of
from topics_world import turns

from neardup import Config, Signer
from neardup.documents.document import REASONS, Document
from neardup.pairs.batches import CONTENT_HALF
from neardup.stories.verdicts.rule import DOCUMENT, REFUSAL, REMOVAL
from neardup_workers.doing.stages.sign_worker import SignWorker
from neardup_workers.doing.stages.signer import SignPlan, sign_records
from neardup_workers.outside.readers.json.columns import decode_columns
from neardup_workers.outside.store.blocked import BlockList
from neardup_workers.outside.topics.signed import decode_signed
from neardup_workers.outside.transport.protocol import Record, UnreachableError, record_bytes

CONFIG = Config(threshold=0.7, recall=0.5, bands=8, rows=4, min_similarity=0.5)
PLAN = plan_of(CONFIG)
TOPICS = PLAN.topics
WORDS = PLAN._replace(config=Config(shingles="words", rows_max=128))
LONG = PLAN._replace(config=CONFIG.model_copy(update={"text_characters_max": 10}))
SIGNER = Signer(CONFIG)
NOW_MS = 1_700_000_000_000
MESSAGE_BYTES = 1_000_000
SIGNS = {DOCUMENT: "", REMOVAL: "-"}
TEXT = '"text": "some words to be read"'
CONTENT = int(SIGNER.sign([Document("any", "some words to be read")]).batch.contents[0, CONTENT_HALF])


def record(value: bytes | str | None, key: bytes | None = b"key", offset: int = 0) -> Record:
    return Record(0, offset, NOW_MS, key, value.encode() if isinstance(value, str) else value)


def rows_of(messages: Sequence[object], plan: SignPlan = PLAN) -> list[str]:
    """The rows of ``signed`` in order: ids, and ``-id`` for removals; without refusals."""
    out: list[str] = []
    for message in messages:
        if message.topic == TOPICS.signed:  # type: ignore[attr-defined]
            rows = decode_signed(message.value, plan.config.signing_fingerprint, plan.config.plan.width)  # type: ignore[attr-defined]
            ids = [rows.ids[a:b].tobytes().decode() for a, b in pairwise(rows.id_starts.tolist())]
            out += [
                f"{SIGNS[kind]}{id_}" for kind, id_ in zip(rows.kinds.tolist(), ids, strict=True) if kind != REFUSAL
            ]
    return out


def times_of(messages: Sequence[object]) -> list[int]:
    """The times of the documents of ``signed``."""
    values = [m.value for m in messages if m.topic == TOPICS.signed]  # type: ignore[attr-defined]
    parts = [decode_signed(value, CONFIG.signing_fingerprint, CONFIG.plan.width) for value in values]
    return [time for part in parts for time in part.times.tolist()]


def letters(messages: Sequence[object]) -> list[dict[str, object]]:
    return [orjson.loads(m.value) for m in messages if m.topic == TOPICS.dead]  # type: ignore[attr-defined]


# Records that must be refused: (plan, key, value, reason).
REFUSED = [
    (PLAN, b"key", b"{", "not_json"),
    (PLAN, b"key", b'{"text": "a"} {"text": "b"}', "several_values"),
    (PLAN, b"key", b"\xff", "not_utf8"),
    (PLAN, b"key", b"[" * 2000 + b"]" * 2000, "too_deep"),
    (PLAN, b"key", b"[]", "not_object"),
    (PLAN, b"key", b"{}", "no_text"),
    (PLAN, b"key", b'{"text": null}', "text_type"),
    (PLAN, None, f"{{{TEXT}}}".encode(), "no_id"),
    (PLAN, None, None, "no_id"),
    (PLAN, b"\xff", None, "id_not_utf8"),
    (PLAN, b"key", f'{{"id": [], {TEXT}}}'.encode(), "id_type"),
    (PLAN, b"key", f'{{"id": "\\udfff", {TEXT}}}'.encode(), "id_surrogate"),
    (PLAN, b"k" * 1_025, f"{{{TEXT}}}".encode(), "id_too_long"),
    (PLAN, b"k" * 70_000, None, "id_too_long"),
    (PLAN, b"key", f'{{{TEXT}, "timestamp": 1700000000000}}'.encode(), "timestamp_unit"),
    (PLAN, b"key", b'{"text": " \\n "}', "empty"),
    (PLAN, b"key", b'{"text": "\\ud800"}', "surrogate"),
    (LONG, b"key", f"{{{TEXT}}}".encode(), "text_too_long"),
    (WORDS, b"key", b'{"text": "!?"}', "no_shingles"),
    (PLAN._replace(blocked=BlockList(None, ["key"])), b"key", f"{{{TEXT}}}".encode(), "blocked"),
    (
        PLAN._replace(fields=PLAN.fields._replace(origin="set")),
        b"key",
        f'{{"set": "older", {TEXT}}}'.encode(),
        "origin",
    ),
    (PLAN._replace(blocked=BlockList(None, ["own"])), b"key", f'{{"id": "own", {TEXT}}}'.encode(), "blocked"),
    (PLAN._replace(blocked=BlockList(None, (), [CONTENT])), b"key", f"{{{TEXT}}}".encode(), "blocked"),
]


@pytest.mark.parametrize(("plan", "key", "value", "reason"), REFUSED, ids=lambda value: str(value)[:20])
def test_what_cannot_be_read_is_a_dead_letter_with_its_reason_and_origin(
    plan: SignPlan, key: bytes | None, value: bytes | None, reason: str
) -> None:
    """The reason is counted and ``signed`` gets no row; the records around it are signed."""
    good = record(f'{{"id": "good", {TEXT.replace("some words to be read", "read a b")}}}', offset=1)
    done = sign_records([Record(1, 77, NOW_MS, key, value), good], Signer(plan.config), plan)
    [letter] = letters(done.messages)
    assert (letter["reason"], letter["topic"], letter["partition"], letter["offset"]) == (reason, "documents", 1, 77)
    assert done.report.refused == {reason: 1}
    assert rows_of(done.messages, plan) == ["good"]


def test_every_reason_of_a_signer_is_tested() -> None:
    """Other reasons belong to files and columns, or have their own test."""
    met = {row[3] for row in REFUSED} | set(SCHEME_REASONS)
    of_others = {"line_too_long", "file_too_large", "no_time", "text_not_utf8", "collection", "collection_off"}
    of_others |= {"timestamp_type", "timestamp_range"}  # the document has the time of its record
    assert set(REASONS) - met == of_others


def test_a_document_whose_message_has_no_time_needs_one_of_its_own() -> None:
    """Without a time it is refused, and never gets one of 1970; its own time is compared with the signer's clock."""
    own = NOW_MS / 1000
    values = [f"{{{TEXT}}}", f'{{{TEXT}, "timestamp": {own}}}', f'{{{TEXT}, "timestamp": {own + 1e6}}}']
    records = [Record(0, i, -1, f"d{i}".encode(), value.encode()) for i, value in enumerate(values)]
    done = sign_records(records, SIGNER, PLAN, now_seconds=own + 5)
    assert [(letter["reason"], letter["offset"]) for letter in letters(done.messages)] == [("no_time", 0)]
    assert (done.report.refused, done.report.counts["clamped"]) == ({"no_time": 1}, 1)
    assert times_of(done.messages) == [round(own * 1e6), round((own + 5) * 1e6)]


def test_the_id_is_the_key_where_the_document_has_none() -> None:
    """A document's own id has priority over any key."""
    records = [record(f"{{{TEXT}}}"), record(f'{{"id": "own", {TEXT}}}'), record(f'{{"id": "bare", {TEXT}}}', b"\xff")]
    assert rows_of(sign_records(records, SIGNER, PLAN).messages) == ["key", "own", "bare"]


@pytest.mark.parametrize("inputs", ["-key", "a -a", "-a a", "a -a a -a a", "-a -a a", "a -b b -a a", "a -a b"])
def test_documents_and_removals_keep_their_order(inputs: str) -> None:
    """Each record is a row, in the order of ``documents``."""
    names = inputs.split()
    records = [
        record(None if name[0] == "-" else f"{{{TEXT}}}", name.strip("-").encode(), i) for i, name in enumerate(names)
    ]
    assert rows_of(sign_records(records, SIGNER, PLAN).messages) == names


@pytest.mark.parametrize("timestamp", ['"soon"', "[]", "1e400", "-1e300", '"3/4/2016"'])
def test_a_time_that_cannot_be_read_costs_no_document(timestamp: str) -> None:
    """The document has the time of its record, and is counted."""
    done = sign_records([record(f'{{"id": "a", {TEXT}, "timestamp": {timestamp}}}')], Signer(PLAN.config), PLAN)
    assert times_of(done.messages) == [NOW_MS * 1000]
    assert (done.report.refused, done.report.counts["undated"], done.report.counts["clamped"]) == ({}, 1, 0)


@pytest.mark.parametrize(
    ("timestamp", "kept", "clamped"),
    [
        (None, NOW_MS / 1000, 0),
        (NOW_MS / 1000 - 1e6, NOW_MS / 1000 - 1e6, 0),
        (NOW_MS / 1000 + 60, NOW_MS / 1000 + 60, 0),
        (NOW_MS / 1000 + 61, NOW_MS / 1000, 1),
    ],
)
@pytest.mark.parametrize("late_ms", [0, 10**12])
def test_a_time_far_ahead_of_its_record_is_clamped(
    timestamp: float | None, kept: float, clamped: int, late_ms: int
) -> None:
    """One wrong clock cannot end every window, neither that of a document nor that of its record; a late time stays,
    and a missing time becomes the record's."""
    value = json.dumps({"text": "some words to be read", "timestamp": timestamp})
    given = record(value)._replace(timestamp_ms=NOW_MS + late_ms)
    for columns in (decode_columns, lambda *given, **named: None):
        with mock.patch("neardup_workers.doing.stages.signer.decode_columns", columns):
            done = sign_records([given], SIGNER, PLAN, now_seconds=NOW_MS / 1000)
        assert times_of(done.messages) == [round(kept * 1e6)]
        assert done.report.counts["clamped"] == (clamped or late_ms > 0)


def test_a_message_is_split_before_it_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any poll, no message exceeds the broker's limit, no row is lost, and the order stays."""
    for module in ("neardup.pairs.values", "neardup_workers.doing.stages.signer"):
        monkeypatch.setattr(f"{module}.ID_BYTES_MAX", 60_000)
    plan = PLAN
    names = [f"{i:05}" + "x" * 50_000 for i in range(60)]
    records = [record(f"{{{TEXT}}}", name.encode(), i) for i, name in enumerate(names)]
    records += [record(None, name.encode(), 100 + i) for i, name in enumerate(names)]
    done = sign_records(records, Signer(plan.config), plan)
    assert max(len(message.value) for message in done.messages) < MESSAGE_BYTES
    assert rows_of(done.messages, plan) == [*names, *(f"-{name}" for name in names)]


@pytest.mark.parametrize("seed", range(5))
def test_small_messages_have_the_content_of_large_ones(seed: int) -> None:
    """The split of messages changes no row."""
    rng = random.Random(seed)
    records = []
    for i in range(80):
        text = " ".join(rng.choices(["red", "green", "blue", "grey"], k=9))
        value = None if rng.random() < 0.2 else json.dumps({"text": text})
        records.append(record(value, rng.choice("abcdefgh").encode(), i))
    whole = rows_of(sign_records(records, SIGNER, PLAN).messages)
    with mock.patch("neardup_workers.outside.topics.signed.BYTES_MAX", 150):
        cut = sign_records(records, SIGNER, PLAN).messages
    assert len(cut) > 30
    assert rows_of(cut) == whole


@given(st.lists(st.tuples(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=60)), max_size=8))
def test_no_bytes_stop_a_signer(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    """Every record of any bytes is a row, a removal or a dead letter."""
    records = [Record(0, i, NOW_MS, key, value) for i, (key, value) in enumerate(pairs)]
    done = sign_records(records, SIGNER, PLAN)
    report = done.report
    assert report.counts["documents"] + sum(report.refused.values()) <= len(records)
    removals = {record.key for record in records if record.value is None} - {None}
    assert report.counts["documents"] + sum(report.refused.values()) >= len(records) - sum(
        r.value is None for r in records
    )
    assert report.counts["removals"] >= bool(removals) - len(letters(done.messages))


def hostile(folder: Path) -> list[bytes]:
    if folder.name == "blns":
        texts = json.loads((folder / "blns.json").read_text(encoding="utf-8"))
        return [json.dumps({"text": text}).encode() for text in texts] + (folder / "blns.txt").read_bytes().splitlines()
    return [path.read_bytes() for path in sorted(folder.rglob("*.json"))]


@pytest.mark.parametrize("name", ["blns", "jsontestsuite"])
def test_hostile_inputs_are_signed_or_dead_and_stop_nothing(name: str, real_data: Callable[[str], Path]) -> None:
    """Each input is a value, a text, an id and a key: each record has an outcome, and the next one is signed."""
    inputs = hostile(real_data(name))
    assert len(inputs) > 200
    records = []
    for value in inputs:
        text = value.decode("utf-8", "surrogateescape")
        for made in (value, json.dumps({"text": text}), json.dumps({"id": text, "text": "some words to be read"})):
            records.append(record(made, b"key", len(records)))
        records.append(record(f"{{{TEXT}}}", value[:500], len(records)))
        records.append(record(None, value[:500], len(records)))
    done = sign_records(records, SIGNER, PLAN)
    origins = Counter(letter["offset"] for letter in letters(done.messages))
    assert set(origins.values()) == {1}
    tombstones = sum(r.value is None for r in records)
    assert done.report.counts["documents"] + len(origins) >= len(records) - tombstones
    assert max(len(message.value) for message in done.messages) < MESSAGE_BYTES


def seconds_pass(world: SignWorld, *workers: SignWorker, seconds: int = 4) -> None:
    """Give every worker two turns a second, so that claims are renewed and read."""
    for _ in range(2 * seconds):
        world.memory.advance(0.5)
        turns(*workers, count=1)


@pytest.mark.parametrize(("start", "signed"), [("earliest", ["new", "old"]), ("latest", ["new"])])
def test_its_start_is_kept_for_its_successor(start: str, signed: list[str]) -> None:
    """The start is the end of the log at the first start, so the second signs the documents written between them."""
    world = SignWorld(PLAN)
    world.document("old")
    turns(world.worker(start=start), count=1)  # it gets its partitions, and dies
    world.document("new")
    turns(world.worker(start=start), count=4)
    assert world.signed() == signed


def test_a_record_at_hand_survives_a_partition_that_cannot_start_yet() -> None:
    """A predecessor's transaction is pending in one partition; the records of the other are signed meanwhile."""
    world = SignWorld(PLAN)
    one = world.worker("one")
    turns(one, count=4)
    two = world.worker("two")
    turns(one, two, count=4)  # each has one partition
    seconds_pass(world, one, two)  # each knows that the other's partition is empty
    world.document("first", 0)
    world.document("second", 1)
    world.memory.fail_next("commit_before", transactional_id="two")
    with pytest.raises(Exception, match="not answered"):
        turns(two, count=4)
    two.member.consumer.close()
    for _ in range(12):  # the session of the dead signer ends before its transaction
        world.memory.advance(1.0)
        turns(one, count=1)
    assert one.member.waiting
    assert not one.ready
    world.document("third", 0)
    world.document("fourth", 1)
    turns(one, count=4)
    world.memory.advance(world.memory.transaction_timeout_seconds)
    turns(one, count=4)
    assert one.ready
    assert world.signed() == ["first", "fourth", "second", "third"]


def test_an_aborted_step_is_done_again() -> None:
    """The signer polls its records again, and ``signed`` has each once."""
    world = SignWorld(PLAN)
    for i in range(5):
        world.document(f"d{i}", i % 2)
    world.memory.fail_next("flush", times=2)
    world.memory.fail_next("send_offsets_after")
    turns(world.worker(), count=8)
    assert world.signed() == [f"d{i}" for i in range(5)]


def test_a_step_is_bounded_in_bytes() -> None:
    """With any number of waiting documents, the document that reaches the limit ends the step."""
    world = SignWorld(PLAN)
    for i in range(12):
        world.document(f"d{i}", i % 2)
    size = max(record_bytes(one) for one in world.memory.records(TOPICS.documents))
    worker = world.worker(step_bytes_max=2 * size)
    turns(worker, count=1)
    with mock.patch("neardup_workers.doing.stages.sign_worker.sign_records", side_effect=sign_records) as signed:
        turns(worker, count=9)
        worker.plan = worker.plan._replace(step_bytes_max=1)
        world.document("long")
        turns(worker, count=4)
    steps = [call.args[0] for call in signed.call_args_list]
    assert all(sum(map(record_bytes, step)) <= 3 * size for step in steps)
    assert [record.key for record in steps[-1]] == [b"long"]
    assert len(steps) <= 7
    assert world.signed() == sorted(["long", *(f"d{i}" for i in range(12))])


def test_partitions_that_wait_are_asked_for_in_turns() -> None:
    """Each turn asks one unavailable partition, another one first each time, so no turn waits for all of them."""
    world = SignWorld(PLAN)
    worker = world.worker()
    asked = []

    def committed(partition: int) -> None:
        asked.append(partition)
        raise UnreachableError("pending")

    with mock.patch.object(worker.member.consumer, "committed", committed):
        turns(worker, count=4)
    assert asked == [0, 1, 0, 1]
    turns(worker, count=1)
    assert worker.ready


def test_an_id_that_is_not_the_key_is_counted_and_warned_of() -> None:
    """A tombstone has only a key, so it would not reach the document."""
    pairs = [(b"a", "a"), (b"other", "b"), (b"7", 7), (None, "c")]
    records = [record(json.dumps({"id": id_, "text": f"words {key!r}"}))._replace(key=key) for key, id_ in pairs]
    assert sign_records(records, SIGNER, PLAN).report.counts["misnamed"] == 1
