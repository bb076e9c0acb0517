"""``neardup size`` says the bytes of a real run within 20 %, and what is needed when a machine is gone."""

from __future__ import annotations

import json
import random
from itertools import islice

import pytest
from shell_harness import Bench
from typer.testing import CliRunner

from neardup import Config, ConfigError, Document
from neardup.pairs.pipeline import Matcher, Signer, match_step
from neardup.pairs.shards import Shard
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.running.cli.app import app
from neardup_workers.running.commands.size.capacity import measured_capacity
from neardup_workers.running.commands.size.model import Load, Sized, size_of
from neardup_workers.running.commands.size.printing import bytes_of
from neardup_workers.running.commands.size.sample import Sample, sampled

CAPACITY = measured_capacity()
OFF_MAX = 0.2
TEXT_BYTES = 400
SAMPLE = Sample(500.0, 20.0, 181.0)
WORDS = [f"{random.Random(n).getrandbits(24):x}" for n in range(5_000)]


def settings_of(**given: object) -> StreamSettings:
    return load_stream(
        {"window_seconds": 259_200.0, "window_documents": 1 << 30, "evidence_bytes_max": 1 << 42, **given}
    )


def load_of(**given: float) -> Load:
    values = {"rate": 2_000.0, "document_bytes": 500.0, "id_bytes": 20, "pairs": 0.5, "memory_max": 16 * 2.0**30}
    return Load(**{**values, **given})


def sized(settings: StreamSettings, load: Load) -> Sized:
    return size_of(settings, load, SAMPLE, CAPACITY, loop=1.0)


def documents(count: int) -> list[Document]:
    rng = random.Random(7)
    texts = (" ".join(rng.choices(WORDS, k=TEXT_BYTES // 6 + 1))[:TEXT_BYTES] for _ in range(count))
    return [Document(f"document-{i:011d}", text) for i, text in enumerate(texts)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "shards", "count"), [({}, 1, 30_000), ({}, 2, 60_000), ({"verify": "exact"}, 1, 8_000)]
)
def test_memory_of_a_document_is_that_of_real_tables(given: dict, shards: int, count: int) -> None:
    """What is said of a sample holds for tables that are filled with other texts, one and two shards."""
    config, stream = Config(**given), iter(documents(count))
    tables = [Matcher(config, shard=Shard(n, shards)) for n in range(shards)]
    while batch := list(islice(stream, 2_000)):
        signed = Signer(config).sign(batch).batch
        for table in tables:
            match_step(table, signed)
    used = sum(table.table.memory_bytes()[0] for table in tables) / count
    settings = settings_of(shards=shards, **given)
    found = size_of(settings, load_of(), sampled(settings, TEXT_BYTES, 20), CAPACITY, 1.0)
    assert found.table_bytes / CAPACITY.slack == pytest.approx(used, rel=OFF_MAX)


@pytest.mark.long
def test_bytes_of_a_document_in_each_topic_are_those_of_a_run() -> None:
    """Every second document is the one before with another word."""
    bench = Bench(verdicts=True)
    made = documents(1_200)
    rows = [(f"document-{i:011d}", made[i // 2].text[: TEXT_BYTES - 5 * (i % 2)]) for i in range(2_400)]
    bench.add(*rows)
    pairs = 1_200
    for role in ("sign", "match", "link"):
        bench.run(role, lambda role=role: bench.has_taken_all(role))
    assert len(bench.pairs()) > 0.9 * pairs
    load, sample = load_of(pairs=len(bench.pairs()) / len(rows)), sampled(bench.settings, TEXT_BYTES, 20)
    found = size_of(bench.settings, load, sample, CAPACITY, 1.0)
    expected = {topic.topic: topic.document_bytes for topic in found.topics}
    for name in ("signed", "candidates", "links", "verdicts"):
        records = bench.cluster.records(getattr(bench.names.topics, name))
        taken = sum(len(record.value or b"") + len(record.key or b"") for record in records) / len(rows)
        assert expected[name] == pytest.approx(taken, rel=OFF_MAX), name


@pytest.mark.parametrize("hours", [1, 24, 72, 720])
@pytest.mark.parametrize("rate", [10.0, 2_000.0, 20_000.0])
def test_memory_holds_every_shard_when_one_matcher_is_gone(rate: float, hours: int) -> None:
    """The matchers that are left have room for all shards, whatever rate and window are."""
    settings = settings_of(window_seconds=hours * 3_600.0)
    found, load = sized(settings, load_of(rate=rate)), load_of(rate=rate)
    match = next(role for role in found.roles if role.role == "match")
    held = -(-found.shards // (match.processes - 1))
    bytes_held = found.window_documents * found.table_bytes * held / found.shards
    assert match.memory == pytest.approx(CAPACITY.process_bytes + bytes_held)
    assert match.memory <= load.memory_max
    assert found.shards >= 2 * match.processes
    fewer = size_of(settings, load_of(rate=rate, memory_max=2 * load.memory_max), SAMPLE, CAPACITY, 1.0)
    assert fewer.roles[1].processes <= match.processes


@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_standbys_take_the_memory_of_the_tables_once_more(standbys: int) -> None:
    """With as many matchers as shards, and one of them gone; a takeover is then only the session."""
    settings = settings_of(window_seconds=86_400.0, shards=24, standbys=standbys)
    load = load_of(rate=2_000.0, memory_max=1.0)  # nothing fits: as many matchers as are of use
    found = size_of(settings, load, SAMPLE, CAPACITY, 1.0)
    match = found.roles[1]
    tables = (match.memory - CAPACITY.process_bytes) / (found.window_documents * found.table_bytes / found.shards)
    assert (match.processes, round(tables, 6)) == (24 * (1 + standbys) + 1, 1)
    roomy = size_of(settings, load_of(rate=2_000.0), SAMPLE, CAPACITY, 1.0)
    left = roomy.roles[1].processes - 1
    held = (roomy.roles[1].memory - CAPACITY.process_bytes) / (roomy.window_documents * roomy.table_bytes / 24)
    assert round(held) >= 24 * (1 + min(standbys, left - 1)) / left
    replayed = roomy.takeover_seconds - settings.session_timeout_seconds
    assert replayed == (0.0 if standbys else pytest.approx(roomy.restore_seconds))


def test_memory_of_a_linker_has_its_messages_its_stories_and_its_ledger() -> None:
    """Messages up to their setting or the window, stories with the evidence of documents up to theirs."""

    def memory(rate: float = 2_000.0, evidence: float = SAMPLE.counted, **given: object) -> float:
        sample = SAMPLE._replace(counted=evidence)
        found = size_of(settings_of(verdicts=True, **given), load_of(rate=rate), sample, CAPACITY, 1.0)
        return next(role for role in found.roles if role.role == "link").memory

    more = memory(messages_bytes_max=3 << 30) - memory(messages_bytes_max=1 << 30)
    assert more == pytest.approx(2 << 30)
    window = {"window_seconds": 1_000.0, "lateness_seconds": 0.0}
    assert memory(messages_bytes_max=3 << 30, **window) == memory(messages_bytes_max=1 << 30, **window)
    assert memory(evidence=120.0, **window) - memory(evidence=20.0, **window) == pytest.approx(2e6 * 0.1 * 100)
    assert memory(evidence_bytes_max=1 << 36) - memory(evidence_bytes_max=1 << 35) < 1 << 35
    singles = memory(rate=0.02, **window) - memory(rate=0.01, **window)
    assert singles / 10 > 500  # a document takes columns, its message, a tenth of a story, and its line in the ledger


def test_what_does_not_fit_is_said_with_its_remedy() -> None:
    """A load that is too large, a window that is cut and too few shards each have a sentence."""
    fits = sized(settings_of(verdicts=True, window_seconds=3_600.0), load_of())
    assert (fits.streams, fits.problems) == (1, ())
    too_fast = sized(settings_of(verdicts=True), load_of(rate=1e6))
    assert too_fast.streams > 1
    assert "too large for one stream" in too_fast.problems[-1][0]
    assert f"over {too_fast.streams} streams" in too_fast.problems[-1][1]
    cut = sized(settings_of(window_documents=1_000, evidence_bytes_max=1 << 20), load_of())
    assert ["window_documents" in cut.problems[0][0], "evidence_bytes_max" in cut.problems[1][0]] == [True, True]
    assert cut.window_documents == 1_000
    few = sized(settings_of(shards=2), load_of(rate=20_000.0))
    assert any("shards=2" in what for what, _ in few.problems)
    signers = sized(settings_of(documents_partitions=2, window_seconds=1.0), load_of(rate=3e5, document_bytes=50_000.0))
    assert any("role sign are needed and documents_partitions=2" in what for what, _ in signers.problems)


@pytest.mark.parametrize(("standbys", "names"), [(0, ["link", "minutes"]), (1, ["link"])])
def test_a_linker_without_room_and_a_long_takeover_are_named(standbys: int, names: list[str]) -> None:
    """The example of docs/OPERATIONS.md: a linker has the window of the whole stream in one process."""
    found = sized(settings_of(verdicts=True, standbys=standbys), load_of())
    assert [name for (what, _), name in zip(found.problems, names, strict=True) if name in what] == names
    needed = next(role for role in found.roles if role.role == "link").memory
    assert f"needs {needed / 2**30:,.1f} GiB, and --memory is 16.0 GiB" in found.problems[0][0]
    roomy = sized(settings_of(verdicts=True, standbys=1), load_of(memory_max=needed))
    assert roomy.problems == ()


@pytest.mark.long
def test_the_command_prints_one_json_object_and_tables() -> None:
    """The command needs no broker; roles and topics of verdicts come with the setting."""
    given = ["size", "--rate", "50", "--window", "2h", "--text-bytes", "300"]
    shown = json.loads(CliRunner().invoke(app, [*given, "--json"]).stdout)
    assert shown["window_documents"] == 50 * (7_200 + int(Config().lateness_seconds))
    assert [role["role"] for role in shown["roles"]] == ["sign", "match"]
    assert [topic["topic"] for topic in shown["topics"]] == ["documents", "signed", "candidates"]
    assert shown["problems"] == []
    short = CliRunner().invoke(app, [*given, "--window-documents", "1000"])
    assert (short.exit_code, "Problems" in short.stdout) == (Exit.UNFIT, True)
    printed = CliRunner().invoke(app, [*given, "--verdicts"]).stdout
    assert all(name in printed for name in ("Stream", "Roles", "Topics", "filter", "clusters", "takeover"))


def test_what_cannot_be_sized_is_refused_by_a_sentence() -> None:
    """A size without a unit that is known, and a scheme that compares no texts."""
    with pytest.raises(ConfigError, match=r"--memory='16 apples'.*as in 16GiB"):
        bytes_of("--memory", "16 apples")
    with pytest.raises(ConfigError, match=r"compares vector.*neardup_table_bytes"):
        sampled(settings_of(scheme="hyperplane", dimension=8), 400, 20)
