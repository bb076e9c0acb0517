"""``neardup size`` says the bytes of a real run within 20 %, and what is needed when a machine is gone."""

from __future__ import annotations

import json
import random
import re
from itertools import islice

import pytest
from python_files import ROOT
from shell_harness import Bench
from typer.testing import CliRunner

from neardup import Config, ConfigError, Document
from neardup.pairs.pipeline import Matcher, match_step
from neardup.pairs.shards import Shard
from neardup.pairs.signing import Signer
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.process.memory import bytes_of
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.running.cli.app import app
from neardup_workers.running.commands.size import (
    LINKER_RESTORE,
    PROCESS_BYTES,
    SEEN_BYTES,
    SLACK,
    Load,
    sampled,
    size_of,
)

OFF_MAX = 0.2
TEXT_BYTES = 400
WORDS = [f"{random.Random(n).getrandbits(24):x}" for n in range(5_000)]


def settings_of(**given: object) -> StreamSettings:
    return load_stream(
        {"window_seconds": 259_200.0, "window_documents": 1 << 30, "evidence_bytes_max": 1 << 42, **given}
    )


def load_of(**given: float) -> Load:
    values = {"rate": 2_000.0, "memory_max": 16 * 2.0**30, "sent": 500.0, "id": 20, "table": 500.0, "counted": 20.0}
    return Load(**{**values, **given})


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
    table, counted = sampled(settings, TEXT_BYTES, 20)
    found = size_of(settings, load_of(table=table, counted=counted))
    seen = SEEN_BYTES * found.roles[1].processes
    assert found.table_bytes_per_document / SLACK - seen == pytest.approx(used, rel=OFF_MAX)


@pytest.mark.long
def test_bytes_of_a_document_in_each_topic_are_those_of_the_page() -> None:
    """The table in OPERATIONS. Every second document is the one before with another word."""
    bench = Bench(verdicts=True)
    made = documents(1_200)
    rows = [(f"document-{i:011d}", made[i // 2].text[: TEXT_BYTES - 5 * (i % 2)]) for i in range(2_400)]
    bench.add(*rows)
    for role in ("sign", "match", "link"):
        bench.run(role, lambda role=role: bench.has_taken_all(role))
    pairs = len(bench.pairs())
    assert pairs > 1_080
    page = (ROOT / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")
    for name, ids in {"signed": 0, "candidates": 2, "links": 0, "verdicts": 1}.items():
        records = bench.cluster.records(getattr(bench.names.topics, name))
        taken = sum(len(record.value or b"") + len(record.key or b"") for record in records)
        [said] = re.findall(rf"^\| `{name}` \| (\d+) bytes", page, re.M)
        of = pairs if name in ("candidates", "links") else len(rows)
        assert int(said) + ids * 20 == pytest.approx(taken / of, rel=OFF_MAX), name


@pytest.mark.parametrize("hours", [1, 24, 72, 720])
@pytest.mark.parametrize("rate", [10.0, 2_000.0, 20_000.0])
def test_memory_holds_every_shard_when_one_matcher_is_gone(rate: float, hours: int) -> None:
    """The matchers that are left have room for all shards, whatever rate and window are."""
    settings = settings_of(window_seconds=hours * 3_600.0)
    found, load = size_of(settings, load_of(rate=rate)), load_of(rate=rate)
    match = next(role for role in found.roles if role.role == "match")
    held = -(-found.shards // (match.processes - 1))
    bytes_held = found.window_documents * found.table_bytes_per_document * held / found.shards
    assert match.memory == pytest.approx(PROCESS_BYTES + bytes_held)
    assert match.memory <= load.memory_max
    assert found.shards >= 2 * match.processes
    fewer = size_of(settings, load_of(rate=rate, memory_max=2 * load.memory_max))
    assert fewer.roles[1].processes <= match.processes


@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_standbys_take_the_memory_of_the_tables_once_more(standbys: int) -> None:
    """With as many matchers as shards, and one of them gone; a takeover is then only the session."""
    settings = settings_of(window_seconds=86_400.0, shards=24, standbys=standbys)
    load = load_of(rate=2_000.0, memory_max=1.0)  # nothing fits: as many matchers as are of use
    found = size_of(settings, load)
    match = found.roles[1]
    tables = (match.memory - PROCESS_BYTES) / (found.window_documents * found.table_bytes_per_document / found.shards)
    assert (match.processes, round(tables, 6)) == (24 * (1 + standbys) + 1, 1)
    roomy = size_of(settings, load_of(rate=2_000.0))
    left = roomy.roles[1].processes - 1
    held = (roomy.roles[1].memory - PROCESS_BYTES) / (roomy.window_documents * roomy.table_bytes_per_document / 24)
    assert round(held) >= 24 * (1 + min(standbys, left - 1)) / left
    replayed = roomy.takeover_seconds - settings.client.session_timeout_seconds
    assert replayed == (0.0 if standbys else pytest.approx(roomy.restore_seconds))


def test_memory_of_a_linker_has_its_messages_its_stories_and_its_ledger() -> None:
    """Messages up to half of memory_max or the window, stories with the evidence of documents up to theirs."""

    def memory(rate: float = 2_000.0, evidence: float = 20.0, **given: object) -> float:
        found = size_of(settings_of(verdicts=True, **given), load_of(rate=rate, counted=evidence))
        return next(role for role in found.roles if role.role == "link").memory

    more = memory(memory_max=6 << 30) - memory(memory_max=2 << 30)
    assert more == pytest.approx((2 << 30) + 100 * (1 << 30) // 128)  # and what may wait: a quarter, by 128 bytes
    window = {"window_seconds": 1_000.0, "lateness_seconds": 0.0}
    waiting = 100 * (1 << 30) // 128
    assert memory(memory_max=6 << 30, **window) - memory(memory_max=2 << 30, **window) == pytest.approx(waiting)
    assert memory(evidence=120.0, **window) - memory(evidence=20.0, **window) == pytest.approx(2e6 * 0.1 * 100)
    assert memory(evidence_bytes_max=1 << 36) - memory(evidence_bytes_max=1 << 35) < 1 << 35
    singles = memory(rate=0.02, **window) - memory(rate=0.01, **window)
    assert singles / 10 > 500  # a document takes columns, its message, a tenth of a story, and its line in the ledger


def test_what_does_not_fit_is_said_with_its_remedy() -> None:
    """A load that is too large, a window that is cut and too few shards each have a sentence."""
    fits = size_of(settings_of(verdicts=True, window_seconds=3_600.0), load_of())
    assert (fits.streams, fits.problems) == (1, ())
    too_fast = size_of(settings_of(verdicts=True), load_of(rate=1e6))
    assert too_fast.streams > 1
    assert "too large for one stream" in too_fast.problems[-1][0]
    assert f"over {too_fast.streams} streams" in too_fast.problems[-1][1]
    cut = size_of(settings_of(window_documents=1_000, evidence_bytes_max=1 << 20), load_of())
    assert ["window_documents" in cut.problems[0][0], "evidence_bytes_max" in cut.problems[1][0]] == [True, True]
    assert cut.window_documents == 1_000
    few = size_of(settings_of(shards=2), load_of(rate=20_000.0))
    assert any("shards=2" in what for what, _ in few.problems)
    signers = size_of(settings_of(documents_partitions=2, window_seconds=1.0), load_of(rate=3e5, sent=50_000.0))
    assert any("role sign are needed and documents_partitions=2" in what for what, _ in signers.problems)


@pytest.mark.parametrize(("standbys", "names"), [(0, ["link", "minutes", "linker"]), (1, ["link"])])
def test_a_linker_without_room_and_a_long_takeover_are_named(standbys: int, names: list[str]) -> None:
    """The example of docs/OPERATIONS.md: a linker has the window of the whole stream in one process."""
    found = size_of(settings_of(verdicts=True, standbys=standbys), load_of())
    assert [name for (what, _), name in zip(found.problems, names, strict=True) if name in what] == names
    needed = next(role for role in found.roles if role.role == "link").memory
    assert f"needs {needed / 2**30:,.1f} GiB, and --memory is 16.0 GiB" in found.problems[0][0]
    roomy = size_of(settings_of(verdicts=True, standbys=standbys), load_of(memory_max=needed))
    session = roomy.linker_takeover_seconds - (0 if standbys else roomy.linker_restore_seconds)
    assert session == pytest.approx(settings_of().client.session_timeout_seconds)
    waits = [problem for problem in roomy.problems if "reads the whole window for 76 minutes" in problem[0]]
    assert [do for _, do in waits] == [
        "set standbys to 1: the second linker then keeps all that the first one holds"
    ] * (1 - standbys)
    small = size_of(settings_of(verdicts=True, window_seconds=3_600.0), load_of())
    assert small.linker_restore_seconds == pytest.approx(small.window_documents * LINKER_RESTORE / 1e6)
    assert size_of(settings_of(), load_of()).linker_restore_seconds == 0.0


@pytest.mark.long
def test_the_command_prints_one_json_object_and_tables() -> None:
    """The command needs no broker; the roles of verdicts come with the setting."""
    given = ["size", "--rate", "50", "--window", "2h", "--text-bytes", "300"]
    shown = json.loads(CliRunner().invoke(app, [*given, "--json"]).stdout)
    assert shown["window_documents"] == 50 * (7_200 + int(Config().lateness_seconds))
    assert [role["role"] for role in shown["roles"]] == ["sign", "match"]
    assert shown["problems"] == []
    short = CliRunner().invoke(app, [*given, "--window-documents", "1000"])
    assert (short.exit_code, "Problems" in short.stdout) == (Exit.UNFIT, True)
    printed = CliRunner().invoke(app, [*given, "--verdicts"]).stdout
    assert all(name in printed for name in ("Stream", "Roles", "filter", "takeover"))


def test_a_preset_is_sized_as_its_settings_are() -> None:
    """It is the only setting of the input that a command about topics takes."""
    given = ["size", "--rate", "50", "--window", "2h", "--text-bytes", "300", "--json"]
    preset, scheme, other = (
        json.loads(CliRunner().invoke(app, [*given, *more]).stdout)
        for more in (["--preset", "quotes"], ["--scheme", "parts"], [])
    )
    assert preset == scheme != other
    refused = CliRunner().invoke(app, [*given, "--set", "strict=true"])
    assert "unknown setting strict" in str(refused.exception)


def test_what_cannot_be_sized_is_refused_by_a_sentence() -> None:
    """A size without a unit that is known, and a scheme that compares no texts."""
    with pytest.raises(ConfigError, match=r"--memory='16 apples'.*as in 16GiB"):
        bytes_of("--memory", "16 apples")
    with pytest.raises(ConfigError, match=r"compares vector.*neardup_table_bytes"):
        sampled(settings_of(scheme="hyperplane:dimension=8"), 400, 20)
