"""The shell of a worker: it starts over when it must, keeps what it can, ends with a named code."""

import logging

import pytest
from memory_transport import MemoryTransport
from shell_harness import TEXT, Bench, settings_of

from neardup_workers.outside.process.backoff import SECONDS_MAX, backoff_seconds
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.kafka import LIMITS
from neardup_workers.outside.telemetry.metrics import Metrics
from neardup_workers.outside.topics.names import Topics, names_of
from neardup_workers.outside.transport.protocol import (
    FencedError,
    OffsetGoneError,
    OutcomeUnknownError,
    TransportError,
    UnreachableError,
)
from neardup_workers.running.service.roles import ROLES, _warn_unseen, wait_seconds
from neardup_workers.running.service.shell import _FENCED_MAX

OTHER = "quite another matter: figures of the harvest in nine provinces, with tables that few will ever read to the end"


@pytest.fixture
def bench():
    """Two near-duplicates and one other document."""
    made = Bench()
    made.add(("a", TEXT), ("b", TEXT), ("c", "nothing like the others at all, not a word of it, not even nearly so"))
    return made


def test_a_signer_and_a_matcher_find_the_pairs_and_report_their_state(bench):
    """Documents to signed, signed to candidates; then they stop as asked, and say how they stood."""
    assert bench.sign(3) == Exit.SUCCESS
    assert bench.match(1) == Exit.SUCCESS
    assert bench.pairs() == [("a", "b")]
    signer, matcher = bench.metrics["sign"], bench.metrics["match"]
    assert signer.value("documents") == 3
    assert signer.value("transactions", "committed") == 2  # the start position, then the step
    assert signer.value("sent_messages") == 1
    assert (matcher.value("pairs"), matcher.value("end_to_end_seconds")) == (1, 1)
    assert matcher.value("copies") >= 1
    assert matcher.value("assigned_partitions") == 2
    assert bench.health["match"].ready() == (True, "partitions: 0, 1")


def test_numbers_are_reported_at_intervals(bench):
    """Running partitions report tables, buckets and lag, even without a document."""
    bench.sign(3)
    bench.match(1)
    matcher = bench.metrics["match"] = Metrics("match")
    bench.run("match", lambda: matcher.value("table_documents", "0") and matcher.value("table_documents", "1"))
    held = matcher.value("table_documents", "0") + matcher.value("table_documents", "1")
    assert (held, matcher.value("restored_documents")) == (3, 2 * 3)  # each shard reads all
    assert matcher.value("table_bytes", "0") > 0
    assert matcher.value("bucket_length") > 0
    read = matcher.registry.get_sample_value
    bench.run("match", lambda: read("neardup_lag_records", {"partition": "0"}) == 0)
    assert (matcher.value("ready"), matcher.value("restore_progress_ratio", "1")) == (1, 1)


def test_a_broker_that_starts_late_is_waited_for_and_logged_once(bench, caplog):
    """The waits grow; any number of attempts makes one line of the log."""
    refusals = iter([UnreachableError("no broker")] * 5)

    def connect():
        error = next(refusals, None)
        if error is not None:
            raise error
        return MemoryTransport(bench.cluster)

    with caplog.at_level(logging.INFO):
        bench.run("sign", lambda: bench.metrics["sign"].value("documents") == 3, connect)
    assert bench.stop.naps[:5] == sorted(bench.stop.naps[:5])
    assert sum("restarting" in line for line in caplog.messages) == 1
    assert sum("ready" in line for line in caplog.messages) == 1
    assert bench.metrics["sign"].value("restarts", "unreachable") == 5


def test_health_knows_of_a_start_and_of_a_restart(bench):
    """The worker reports its start, and then the turns of its loop."""
    reported = []

    def connect():
        reported.append(bench.health["sign"].alive().text)
        if len(reported) == 1:
            raise UnreachableError("no broker")
        return MemoryTransport(bench.cluster)

    bench.run("sign", lambda: bench.health["sign"].ready().holds, connect)
    assert [text[:15] for text in reported] == ["the start began"] * 2
    assert bench.health["sign"].alive().text.startswith("the loop turned")


def test_during_an_outage_of_the_broker_a_worker_keeps_everything(bench, caplog):
    """The matcher keeps its tables and clients, and restores nothing."""
    bench.sign(3)
    bench.cluster.fail_next("poll", times=4, raises=None)
    with caplog.at_level(logging.INFO):
        bench.match(1)
    assert bench.stop.naps
    assert sum("was not answered" in line for line in caplog.messages) == 1
    assert sum("ready" in line for line in caplog.messages) == 1
    backs = [record.levelname for record in caplog.records if "the broker answers again" in record.getMessage()]
    assert backs == ["INFO"]
    assert bench.metrics["match"].value("restarts", "unreachable") == 0
    assert bench.pairs() == [("a", "b")]


@pytest.mark.parametrize(
    ("call", "cause", "raises"),
    [
        ("send_offsets", "fenced", FencedError("another member took the place")),
        ("commit_before", "unknown", None),
        ("commit_after", "unknown", None),
    ],
)
@pytest.mark.parametrize("role", ["sign", "match"])
def test_a_step_that_is_fenced_or_unknown_is_done_again_and_counts_once(bench, role, call, cause, raises):
    """This holds for any action of the broker before the response is lost."""
    if role == "match":
        bench.sign(3)
    # The first two transactions commit the start offsets.
    bench.run(role, lambda: bench.metrics[role].value("transactions", "committed") >= 2)
    bench.add(("d", OTHER), ("e", OTHER))
    if role == "match":
        bench.sign(5)
    bench.cluster.fail_next(call, transactional_id=bench.names.worker(role, "0"), raises=raises)
    bench.run(role, lambda: bench.has_taken_all(role), start=None)
    bench.run("match", lambda: bench.has_taken_all("match"))
    assert [bench.metrics[role].value(name, cause) for name in ("restarts", "transactions")] == [1, 1]
    assert bench.pairs() == [("a", "b"), ("d", "e")]


@pytest.mark.parametrize(
    ("call", "cause"), [("send_offsets", "fenced"), ("commit_before", "unknown"), ("commit_after", "unknown")]
)
def test_a_matcher_that_starts_over_restores_nothing_that_it_holds(bench, call, cause):
    """The next worker of the process gets its tables, at the committed offsets of the group."""
    bench.sign(3)
    matcher, topic = bench.metrics["match"], bench.names.topics.signed
    raises = FencedError("the partitions have moved") if cause == "fenced" else None
    again = []

    def came_again():
        if matcher.value("pairs") == 1 and not again:
            again.append(True)
            matcher.set("table_documents", 3, "7")  # a partition that it owned, and does not get again
            bench.cluster.fail_next(call, raises=raises)
            for record in bench.cluster.records(topic):
                bench.cluster.append(topic, record.partition, record.value)
        return matcher.value("restarts", cause) and bench.has_taken_all("match")

    bench.run("match", came_again)
    assert matcher.value("restarts", cause) == 1
    assert (matcher.value("restored_documents"), matcher.value("table_documents", "7")) == (0, 0)
    assert len(bench.pairs()) > 1


def test_a_step_that_is_aborted_is_tried_again_slower_each_time(bench, caplog):
    """The worker does not restart; a success resets the wait."""
    bench.run("sign", lambda: bench.metrics["sign"].value("documents") == 3)
    bench.add(("d", "more"))
    bench.cluster.fail_next("flush", times=4)
    with caplog.at_level(logging.INFO):
        bench.sign(4)
    assert sum("transactions are aborted" in line for line in caplog.messages) == 1
    assert len(bench.stop.naps) == 4
    assert bench.stop.naps == sorted(bench.stop.naps)
    assert bench.metrics["sign"].value("transactions", "aborted") == 4
    assert bench.metrics["sign"].value("documents") == 4


def ends(bench, role, **changes):
    """Return the exit code and the sentence of a worker."""
    with pytest.raises(Failure) as failure:
        bench.run(role, lambda: False, **changes)
    return failure.value.code, str(failure.value)


def test_a_group_without_offsets_has_a_start_in_its_settings_or_ends(bench):
    """The worker never chooses a start silently."""
    code, sentence = ends(bench, "sign", start=None)
    assert code == Exit.USAGE
    assert "--from earliest or --from latest" in sentence


def test_a_topic_that_is_missing_or_has_other_partitions_ends_the_worker(bench):
    """The names of signed and links contain the number of shards."""
    assert ends(bench, "match", shards=3) == (
        Exit.TOPIC,
        f"topic {names_of(settings_of(shards=3)).topics.links!r} does not exist; create it first",
    )
    other = names_of(settings_of(shards=5)).topics.links
    bench.cluster.create(other, 4)
    code, sentence = ends(bench, "match", shards=5)
    assert code == Exit.TOPIC
    assert f"{other} has 4 partitions, but its generation begins with 5" in sentence


@pytest.mark.parametrize(
    ("role", "topic", "key", "value", "problem"),
    [
        ("match", "signed", "cleanup.policy", "compact", "compaction removes records"),
        ("match", "signed", "retention.ms", "1000", "younger records are live"),
        ("sign", "signed", "retention.bytes", "1000", "would drop records of the window"),
        ("sign", "documents", "cleanup.policy", "compact,delete", "compaction removes records"),
        ("sign", "documents", "message.timestamp.after.max.ms", "9223372036854775807", "would expire the windows"),
        ("match", "candidates", "cleanup.policy", "compact", "compaction removes records"),
        ("match", "candidates", "unclean.leader.election.enable", "true", "would truncate what is committed"),
    ],
)
def test_a_topic_whose_settings_could_lose_something_ends_the_worker(bench, role, topic, key, value, problem):
    """The sentence names setting, effect and remedy; the other role does not check the topic."""
    name = getattr(bench.names.topics, topic)
    topic_of = bench.cluster._topic(name)
    topic_of.configs = {**topic_of.configs, key: value}
    code, sentence = ends(bench, role)
    assert code == Exit.TOPIC
    assert f"{name}: {key}={value} " in sentence
    assert problem in sentence
    assert "alter it with the tools of Kafka" in sentence
    if topic != "signed":
        other = {"sign": "match", "match": "sign"}[role]
        bench.run(other, lambda: bench.health[other].ready().holds)


def test_settings_that_a_user_may_not_see_are_logged_once(bench, caplog):
    """Any number of restarts makes one line of the log."""
    _warn_unseen.cache_clear()
    bench.cluster._topic(bench.names.topics.dead).configs = {}
    bench.cluster.fail_next("commit_before", times=3)
    with caplog.at_level(logging.INFO):
        bench.sign(3)
    assert bench.metrics["sign"].value("restarts", "unknown") == 3
    assert [line for line in caplog.messages if "DescribeConfigs" in line] == [
        line for line in caplog.messages if bench.names.topics.dead in line
    ]
    assert sum("DescribeConfigs" in line for line in caplog.messages) == 1


def test_a_message_of_another_generation_ends_the_worker(bench):
    """The worker would misread the message."""
    bench.cluster.append(
        bench.names.topics.signed, 0, b"NDUP of another kind, long enough for a header, or so it was said"
    )
    assert ends(bench, "match")[0] == Exit.GENERATION


def test_a_window_that_is_gone_ends_the_worker_unless_a_gap_is_allowed(bench):
    """The worker never skips a gap silently."""
    bench.sign(3)
    bench.match(1)
    for partition, (_, end) in MemoryTransport(bench.cluster).bounds(bench.names.topics.signed).items():
        MemoryTransport(bench.cluster).trim(bench.names.topics.signed, {partition: end})
    code, sentence = ends(bench, "match")
    assert code == Exit.GAP
    assert "--allow-gap" in sentence
    ready = bench.health["match"].ready
    bench.run("match", lambda: ready().text == "partitions: 0, 1", allow_gap=True)


def test_what_the_broker_refuses_for_good_ends_the_worker(bench):
    """The refusal is not transient and concerns no partition; a new process may try again."""

    def refuse():
        raise TransportError("not authorised")

    with pytest.raises(Failure, match="not authorised") as failure:
        bench.run("sign", lambda: False, refuse)
    assert failure.value.code == Exit.BROKER


def test_two_processes_of_one_name_do_not_fight_forever(bench):
    """Fenced many times in a row, the worker ends and names the setting to change."""
    bench.cluster.fail_next("poll", times=_FENCED_MAX, raises=FencedError("replaced by another of the same instance"))
    code, sentence = ends(bench, "sign")
    assert code == Exit.FENCED
    assert "another process uses the same --instance: give each worker of a role its own" in sentence
    assert len(bench.stop.naps) == _FENCED_MAX - 1


def test_a_bug_is_not_taken_for_a_failure(bench):
    """A broken invariant raises through the shell with its traceback."""
    bench.cluster.fail_next("poll", raises=AssertionError("a bug"))
    with pytest.raises(AssertionError, match="a bug"):
        bench.run("sign", lambda: False)


def test_everything_is_closed_after_any_end(bench):
    """The shell also closes what it made before a failed start."""
    closed = []

    class Noting(MemoryTransport):
        def close(self):
            closed.append("transport")

        def consumer(self, topic, group, instance):
            raise OutcomeUnknownError("the start fails here")

    made = iter([Noting(bench.cluster)])
    bench.run("sign", lambda: bool(closed), lambda: next(made))
    assert closed == ["transport"]


def test_a_partition_that_grows_and_does_not_advance_ends_the_process(bench):
    """The client looks healthy but fetches nothing."""

    class Deaf(MemoryTransport):
        def bounds(self, topic, *, written=False):
            grown.append(1)
            more = len(grown) if topic == bench.names.topics.documents else 0
            return {p: (first, end + more) for p, (first, end) in super().bounds(topic, written=written).items()}

    grown: list[int] = []
    bench.run("sign", lambda: bool(bench.stuck), lambda: Deaf(bench.cluster), stall_seconds_max=30.0)
    assert "stays at" in bench.stuck[0]


def test_the_log_is_trimmed_to_the_beginning_of_the_window():
    """The worker trims expired records at intervals; a new matcher restores from the rest."""
    bench = Bench(window_seconds=10.0, lateness_seconds=60.0, trim_seconds=1.0, shards=1)
    for i in range(4):
        bench.add((f"{i}", f"{TEXT} {i}"), timestamp=1_600_000_000 - 400 + i * 100)
        bench.sign(i + 1)
    topic = bench.names.topics.signed
    bench.run("match", lambda: bench.cluster.log(topic, 0).first > 0)
    first = bench.cluster.log(topic, 0).first
    assert [record.offset for record in bench.cluster.records(topic)] == [first]
    bench.run("match", lambda: bench.metrics["match"].value("restored_documents") == 1)
    assert bench.metrics["match"].value("expired") == 3


def test_start_up_objects_are_frozen_once_and_cycles_are_collected_at_intervals(bench):
    """The freeze comes after the kernels are loaded; the collector runs in the first turn and then each minute."""
    bench.run("sign", lambda: bench.collected.count("collect") == 3)
    assert bench.collected == ["loaded", *["collect"] * 3]


def test_the_waits_grow_to_a_limit_and_differ_between_workers():
    """The same name and attempt give the same wait, so that a run can be repeated."""
    waits = [backoff_seconds(attempt, "sign-0") for attempt in range(1, 40)]
    assert waits == [backoff_seconds(attempt, "sign-0") for attempt in range(1, 40)]
    assert all(0 < wait <= SECONDS_MAX for wait in waits)
    assert waits[10] > SECONDS_MAX / 2
    assert len({backoff_seconds(3, f"sign-{i}") for i in range(20)}) == 20


def test_names_are_stable_and_tell_deployments_generations_and_roles_apart():
    """Two of them on one cluster never share a name."""
    names = names_of(settings_of(topic_prefix="news.", group="eu"))
    again = names_of(settings_of(topic_prefix="news.", group="eu", window_seconds=5.0))
    other = names_of(settings_of(topic_prefix="news.", group="eu", threshold=0.9))
    assert names == again
    assert names.worker("sign", "3") == f"news.eu-sign-{names.generation}-3"
    assert names.topics == Topics(
        "news.documents",
        "news.documents.dead",
        f"news.signed-{names.generation}",
        "news.candidates",
        *(f"news.{name}-{names.generation}" for name in ("links", "verdicts", "clusters", "originals", "sources")),
        "news.documents.unique",
        "news.settings",
    )
    assert names.generation != other.generation
    assert issubclass(OffsetGoneError, TransportError)


def test_a_worker_that_is_stopped_leaves_its_group(bench):
    """Then others take over at once."""
    bench.run("sign", lambda: bench.has_taken_all("sign"))
    assert not bench.cluster.group(bench.names.group("sign"), bench.names.topics.documents).members


@pytest.mark.parametrize(
    ("role", "waited", "turn", "expected"),
    [
        ("sign", 0.0, 0.0, 0.2),  # no step before this one
        ("sign", 0.2, 0.2, 0.2),  # no record arrived
        ("sign", 0.2, 0.25, 0.15),  # a step of 0.05 s
        ("sign", 0.15, 0.2, 0.15),  # further steps at the same pace
        ("sign", 0.2, 3.0, 0.02),  # a step longer than the interval
        ("sign", 0.2, 0.1, 0.2),  # a poll that returned at once
        ("match", 0.0, 0.0, 0.05),
        ("match", 0.05, 0.07, 0.03),
    ],
)
def test_a_poll_waits_for_what_the_step_before_it_left_of_the_interval(
    role: str, waited: float, turn: float, expected: float
) -> None:
    """Commits follow one another at the interval; a matcher's interval is a quarter of a signer's."""
    assert wait_seconds(ROLES[role], LIMITS, waited, turn) == pytest.approx(expected)


def test_an_interval_shorter_than_the_least_wait_is_kept() -> None:
    """Without documents a commit is not delayed by the least wait."""
    assert wait_seconds(ROLES["sign"], LIMITS._replace(commit_seconds=0.005), 0.005, 9.0) == pytest.approx(0.005)
