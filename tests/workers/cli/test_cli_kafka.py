"""The commands on Kafka: settings, secrets, topics, load and tail."""

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from command import COMMAND, PROCESS_SECONDS_MAX, clean_environment
from import_path import SOURCES
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench, settings_of
from typer.main import get_command

from neardup.errors import ConfigError
from neardup_workers.doing.session.loader import Loader
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.settings import option_name
from neardup_workers.outside.settings.declared import ConnectionOptions, StreamOptions, TopicOptions, setting_rows
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.outside.topics.rules import MARGIN_SECONDS, judge, judge_wanted, log_milliseconds_min, topic_plans
from neardup_workers.outside.transport.kafka.admin import TopicDescription
from neardup_workers.outside.transport.kafka.connect import kafka_settings
from neardup_workers.running.cli.app import app
from neardup_workers.running.cli.options import TYPED
from neardup_workers.running.commands.tail import follow
from neardup_workers.running.commands.topics.making import describe

GROUP = get_command(app)
NUMBERS = itertools.count()
WORKERS = ("sign", "match", "link", "filter", "up")
TOPICS = (ConnectionOptions, StreamOptions, TopicOptions)
# Runs the program with half a second for the first connection.
IMPATIENT = """
import functools
from neardup_workers.outside.transport.kafka import connect
connect.KafkaSettings = functools.partial(connect.KafkaSettings, connect_timeout_seconds=0.5)
from neardup_workers.main import main
main()
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """Remove the settings of the environment."""
    for name in [name for name in os.environ if name.upper().startswith("NEARDUP_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def options_of(*names):
    """The options of a command, as a user types them."""
    command = GROUP
    for name in names:
        command = command.commands[name]
    params = command.get_params(command.make_context(names[-1], [], resilient_parsing=True))
    return {option: param for param in params for option in (*param.opts, *param.secondary_opts)}


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        *((((name,), (ConnectionOptions, StreamOptions))) for name in WORKERS),
        *((("topics", name), TOPICS) for name in ("create", "describe", "plan", "rights")),
        *(((name,), (ConnectionOptions,)) for name in ("load", "tail")),
    ],
)
def test_a_typed_setting_is_an_option_with_its_help(names, groups):
    """The option shows the sentence of the setting."""
    options = options_of(*names)
    assert all(getattr(param, "help", None) for param in options.values() if param.param_type_name == "option")
    for row in (row for group in groups for row in setting_rows(group)):
        assert row.name not in TYPED or options[option_name(row.name)].help == row.help


@pytest.mark.processes
@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        *((name, number, Exit.SUCCESS) for name in WORKERS for number in (signal.SIGTERM, signal.SIGINT)),
        ("dedup", signal.SIGINT, Exit.INTERRUPTED),
    ],
)
def test_a_program_that_is_stopped_before_it_is_loaded_ends_as_asked(command, number, code, tmp_path):
    """Handlers are installed before slow modules are imported, also if an import catches what a signal raises; no
    program shows a traceback."""
    (tmp_path / "typer.py").write_text(
        "import time\ntry:\n    print('loading', flush=True)\n    time.sleep(600)\n"
        "except BaseException:\n    time.sleep(600)\n"
    )
    environment = clean_environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{SOURCES}")
    words, pipe = [*COMMAND, command], subprocess.PIPE
    with subprocess.Popen(words, env=environment, stdout=pipe, stderr=pipe, cwd=tmp_path) as process:
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(number)
        assert (process.wait(PROCESS_SECONDS_MAX), process.stderr.read()) == (code, b"")


def test_no_secret_is_an_option():
    """Other users of the machine can read command lines."""
    for name in WORKERS:
        assert not {"--sasl-password", "--ssl-password"} & options_of(name).keys()


@pytest.mark.parametrize("name", WORKERS)
def test_the_help_of_workers_says_their_names(name):
    """Two workers must not share a name."""
    assert "{topic-prefix}{group}-" in GROUP.commands[name].help


@pytest.mark.parametrize("arguments", [*([name] for name in WORKERS), ["topics", "create"], ["topics", "describe"]])
def test_workers_need_a_window(neardup, arguments):
    """A command prints one sentence before it connects; a long-running worker logs the sentence as a line."""
    done = neardup(*arguments)
    before = "neardup:" if "topics" in arguments else r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} CRITICAL"
    assert done.returncode == Exit.USAGE
    assert re.match(f"{before} window_seconds is not set", done.stderr.decode())
    assert done.stderr.count(b"\n") == 1


@pytest.mark.processes
def test_a_command_that_does_not_wait_says_that_no_broker_answers():
    """It exits with the code for brokers. The test waits a twentieth of the usual time for a connection."""
    done = subprocess.run(
        [sys.executable, "-c", IMPATIENT, "tail", "--bootstrap-servers", "127.0.0.1:1"],
        env=clean_environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == Exit.BROKER
    assert b"see whether the broker is up" in done.stderr


def test_shared_places_may_have_settings_of_other_commands(monkeypatch, tmp_path):
    """All commands share one file; a setting of no command is refused."""
    from neardup_workers.outside.settings.load import load

    (tmp_path / "neardup.toml").write_text('window_seconds = 9\ngroup = "eu"\n')
    monkeypatch.setenv("NEARDUP_HEALTH_PORT", "7")
    assert load({}).window_seconds == 9
    settings = load_stream({"instance": "2"})
    assert (settings.group, settings.health_port, settings.instance) == ("eu", 7, "2")
    monkeypatch.setenv("NEARDUP_HELTH_PORT", "7")
    with pytest.raises(ConfigError, match="did you mean NEARDUP_HEALTH_PORT"):
        load({})


def test_the_password_of_the_broker_stands_in_a_file_and_is_not_shown(tmp_path):
    """Neither the settings' nor the transport's text shows it."""
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=me\nsasl.password=hunter2\nssl.key.password=of the key\n")
    settings = load_stream({"window_seconds": 9.0, "kafka_config": str(file)})
    client = kafka_settings(settings)
    assert client.client == {
        "sasl_plain_username": "me", "sasl_plain_password": "hunter2", "ssl_password": "of the key"
    }  # fmt: skip
    assert "hunter2" not in f"{settings!r} {settings} {settings.client!r} {client!r} {settings.model_dump()}"


@pytest.mark.parametrize("seconds", [3.0, 15.0, 900.0])
@pytest.mark.parametrize("session", [1.0, 10.0, 300.0])
def test_every_timeout_that_is_allowed_can_work(tmp_path, seconds, session):
    """Longer waits enclose shorter ones; the transport refuses other settings."""
    file = tmp_path / "client.properties"
    file.write_text(f"transaction.timeout.ms={seconds * 1e3:.0f}\nsession.timeout.ms={session * 1e3:.0f}\n")
    found = kafka_settings(settings_of(kafka_config=str(file)))
    assert found.session_timeout_seconds == session
    assert found.transaction_timeout_seconds == seconds
    assert found.flush_timeout_seconds < seconds


def test_the_start_of_a_group_is_one_of_two_words_or_a_generation():
    """Any other word is refused."""
    with pytest.raises(ConfigError, match="start='beginning': must be earliest, latest, or of a filter a generation"):
        StreamSettings(start="beginning")


def test_new_topics_have_safe_settings():
    """New topics pass the check of their settings."""
    assert judge_wanted(settings_of(window_seconds=100.0, verdicts=True)) == []
    assert judge_wanted(settings_of()) == []


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("retention.ms", "60000", "younger records are live"),
        ("retention.bytes", "1000000", "would drop records of the window"),
        ("cleanup.policy", "compact", "compaction removes records"),
        ("cleanup.policy", "compact,delete", "compaction removes records"),
        ("message.timestamp.type", "CreateTime", "late documents would let retention delete fresh data"),
        ("max.message.bytes", "1000", "may be refused"),
        ("unclean.leader.election.enable", "true", "would truncate what is committed"),
    ],
)
def test_settings_that_lose_live_state_are_found(key, value, problem):
    """The message names their effect."""
    plan = topic_plans(settings_of())[2]
    findings = judge(plan, plan.partitions, {**plan.configs, key: value})
    assert [finding.key for finding in findings if finding.problem] == [key]
    assert problem in next(finding.problem for finding in findings if finding.problem)


def test_signed_must_be_kept_for_window_lateness_and_margin():
    """The limit is exact to the millisecond."""
    settings = settings_of(window_seconds=100.0, lateness_seconds=20.0)
    assert log_milliseconds_min(settings) == (120 + MARGIN_SECONDS) * 1000 == 86_520_000
    plan = topic_plans(settings)[2]
    for value, is_safe in (("86519999", False), ("86520000", True), ("-1", True)):
        assert any(finding.problem for finding in judge(plan, 1, {"retention.ms": value})) != is_safe


def test_a_number_of_partitions_that_is_part_of_the_name_must_be_kept():
    """Links have one for each shard or more, and signed is one log; other topics may have any number."""
    documents, _, signed, links, _, _ = topic_plans(settings_of())
    found = [judge(plan, n, {})[0].problem[:18] for plan, n in ((links, 3), (links, 1), (signed, 3), (documents, 3))]
    assert found == ["", "must be at least 2", "must be 1: the ord", ""]


def test_settings_that_may_not_be_seen_are_not_called_safe(monkeypatch, capsys):
    """Each relevant hidden setting is reported as unknown and causes no refusal."""

    def described(name):
        return TopicDescription(name, 1 if name.startswith(("signed", "settings")) else 2, 1, {})

    log = {"bounds": lambda _: {0: (0, 0)}, "group_offsets": lambda *_: {}, "shares": lambda _: {}}
    transport = SimpleNamespace(nodes=lambda: 1, describe=described, close=lambda: None, **log)
    monkeypatch.setattr("neardup_workers.running.commands.topics.making.connect", lambda settings: transport)
    describe(settings_of(shards=2))
    rows = [line for line in capsys.readouterr().out.splitlines() if "retention.ms" in line]
    assert {("unknown" in row, "safe" in row) for row in rows} == {(True, False)}, rows


def test_topics_whose_order_of_time_is_lost_are_refused_before_anything_is_made(neardup):
    """The command asks no broker."""
    done = neardup("topics", "create", "--window-seconds", "1e6", "--lateness-seconds", "10")
    assert done.returncode == Exit.USAGE
    assert b"partitions=8 must be 1 while lateness_seconds is 10" in done.stderr


class Wakeful(Stop):
    """A stop signal whose naps take no time."""

    def sleep(self, seconds): ...


def loader_of(bench, **changes):
    """A loader on the bench's cluster, with its reports."""
    settings = bench.settings.model_copy(update=changes)
    session = Session(settings, SessionOptions([], quiet=True), stop=Wakeful())
    return Loader(MemoryTransport(bench.cluster), settings, session), session.report


def test_load_sends_lines_as_they_are_and_files_as_objects_keyed_by_id(tmp_path):
    """Signers read both forms."""
    (tmp_path / "lines.jsonl").write_text(json.dumps({"id": "a", "text": TEXT, "x": 1}) + "\n\nnot json\n")
    (tmp_path / "file.txt").write_text(TEXT)
    bench = Bench()
    loader, report = loader_of(bench)
    loader.load(["lines.jsonl", "file.txt"])
    loader.close()
    found = {record.key: json.loads(record.value) for record in bench.cluster.records(bench.names.topics.documents)}
    assert found == {b"a": {"id": "a", "text": TEXT, "x": 1}, b"file.txt": {"id": "file.txt", "text": TEXT}}
    assert (report.documents, dict(report.refused)) == (2, {"not_json": 1})
    bench.sign(2)
    bench.match(1)
    assert bench.pairs() == [("a", "file.txt")]


def test_a_loaded_document_has_its_own_time_or_now(tmp_path):
    """Signers align an archive by this time; load refuses documents that Kafka would delete before they are read."""
    now, week = time.time(), 7 * 86_400
    seconds = {"archived": now - week + 3_600, "gone": now - week - 3_600, "ahead": now + 9e6, "none": None}
    lines = [{"id": name, "text": TEXT, **({} if at is None else {"timestamp": at})} for name, at in seconds.items()]
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    bench = Bench()
    loader, report = loader_of(bench)
    loader.load(["lines.jsonl"])
    found = {record.key: record.timestamp_ms for record in bench.cluster.records(bench.names.topics.documents)}
    assert found.pop(b"archived") == int(seconds["archived"] * 1000)
    assert all(now * 1000 - 1 <= found.pop(name) <= time.time() * 1000 for name in (b"ahead", b"none"))
    assert (found, dict(report.refused)) == ({}, {"past_retention": 1})


def test_several_partitions_of_documents_need_a_lateness_that_aligns_them():
    """One partition needs no lateness; for more, the refusal gives reason and remedy."""
    for lateness, partitions, is_safe in ((0.0, 1, True), (59.0, 2, False), (60.0, 2, True)):
        plan = topic_plans(settings_of(lateness_seconds=lateness))[0]
        problem = judge(plan, partitions, {})[0].problem
        assert (problem == "") == is_safe
        assert is_safe or "set lateness_seconds to 60 or more" in problem


def test_documents_keep_the_times_of_their_producers():
    """With the broker's times, all documents of a loaded backlog would have one time."""
    plan = topic_plans(settings_of())[0]
    findings = judge(plan, 1, {**plan.configs, "message.timestamp.type": "LogAppendTime"})
    assert ["align partitions" in finding.problem for finding in findings if finding.problem] == [True]


def test_load_refuses_what_no_message_can_hold(tmp_path):
    """Load sends the other documents."""
    lines = [{"id": "big", "text": "x" * 1_100_000}, {"id": "\ud800", "text": "y"}, {"id": "small", "text": "z"}]
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    bench = Bench()
    loader, report = loader_of(bench)
    loader.load(["lines.jsonl"])
    assert report.documents == 1
    assert report.refused["message_too_large"] == 1
    assert sum(report.refused.values()) == 2


def test_load_sends_again_what_is_known_to_have_failed_and_ends_when_the_outcome_is_unknown(tmp_path):
    """No document is sent twice, and none is skipped silently."""
    (tmp_path / "lines.jsonl").write_text(json.dumps({"id": "a", "text": TEXT}))
    bench = Bench()
    loader, report = loader_of(bench)
    bench.cluster.fail_next("send", times=2)
    loader.load(["lines.jsonl"])
    assert (report.documents, len(bench.cluster.records(bench.names.topics.documents))) == (1, 1)
    bench.cluster.fail_next("commit_after")
    with pytest.raises(Failure, match="1 documents are loaded, then a transaction was not confirmed") as failure:
        loader.load(["lines.jsonl"])
    assert failure.value.code == Exit.BROKER


def tailed_lines(bench, start, **options):
    """The lines that tail prints until it is idle."""
    transport, output = MemoryTransport(bench.cluster), io.BytesIO()
    looks = iter([False] * 20 + [True])
    topic = bench.names.topics.candidates
    consumer = transport.consumer(topic, f"tail-{next(NUMBERS)}", "")
    follow(transport, consumer, topic, start, output, lambda: next(looks), **options)
    return output.getvalue().splitlines()


def tailed(bench, start, **options):
    """The printed lines, parsed."""
    return [json.loads(line) for line in tailed_lines(bench, start, **options)]


def test_tail_prints_what_is_committed_from_the_requested_start():
    """From the beginning, or from now on; at most the requested number."""
    bench = Bench()
    bench.add(("a", TEXT), ("b", TEXT), ("c", TEXT))
    bench.sign(3)
    bench.match(2)
    found = [tuple(sorted((line["older"], line["newer"]))) for line in tailed(bench, "earliest")]
    assert sorted(found) == bench.pairs()
    assert len(tailed(bench, "earliest", lines_max=1)) == 1
    assert tailed(bench, "latest") == []


def test_tail_prints_removals_only_when_asked_to():
    """A removal notice is not a pair."""
    bench = Bench()
    bench.add(("a", TEXT), ("b", TEXT))
    bench.sign(2)
    bench.match(1)
    bench.cluster.append(bench.names.topics.documents, 0, None, b"a")
    bench.run("sign", lambda: bench.metrics["sign"].value("removals") == 1)
    bench.run("match", lambda: bench.metrics["match"].value("removals") == 1)
    assert len(tailed(bench, "earliest")) == 1
    shown = tailed(bench, "earliest", removals=True)
    assert [line["removed"] for line in shown if "removed" in line] == ["a"]


def test_tail_prints_nothing_that_a_terminal_obeys():
    """An id may contain anything. Tail escapes controls and direction marks; parsers read the same id back."""
    bench = Bench()
    id_ = "\x9b2J\u202egpj.exe\x7f"
    bench.add((id_, TEXT), ("b", TEXT))
    bench.sign(2)
    bench.match(1)
    [line] = tailed_lines(bench, "earliest")
    assert {json.loads(line)["older"], json.loads(line)["newer"]} == {id_, "b"}
    assert line.decode().isprintable()


def test_the_command_under_test_is_the_one_that_up_starts():
    """Both use the same interpreter."""
    from neardup_workers.running.service.supervisor import child_specs

    assert child_specs({"sign": 1}, {}, None, 1)[0].command[:3] == COMMAND
