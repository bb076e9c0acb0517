"""The topics of verdicts: messages survive a round trip, settings are checked, lines are printed."""

from __future__ import annotations

import io
from contextlib import nullcontext

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_transport import MemoryCluster, MemoryTransport
from shell_harness import Bench, settings_of

from neardup.errors import ConfigError
from neardup.pairs.batches import id_columns
from neardup.pairs.window_message import WireError
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.fields import Verdicts
from neardup.stories.verdicts.rule import DOCUMENT
from neardup.window import NO_TIME
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.kafka import LIMITS, StreamSettings
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.topics.arrivals import ArrivalRows
from neardup_workers.outside.topics.links import (
    NO_PROGRESS,
    LinkMessage,
    Links,
    decode_links,
    encode_links,
    similarity_steps,
)
from neardup_workers.outside.topics.names import FILTER, LINK, names_of
from neardup_workers.outside.topics.rules import judge, judge_together, refusal, topic_plans
from neardup_workers.outside.topics.shown import NAMES, encode_shown
from neardup_workers.outside.topics.verdicts import DecidedRows, decided_rows, encode_runs, parse_run
from neardup_workers.running.commands.tail import follow
from neardup_workers.running.commands.topics.making import fail_if_lost, grow_partitions
from neardup_workers.running.service.roles import ROLES

FINGERPRINT, OTHER = "0123456789abcdef" * 2, "f" * 32


def message(pairs: int, seed: int = 1) -> LinkMessage:
    rng = np.random.default_rng(seed)
    links = Links(
        rng.integers(0, 2**62, pairs), rng.integers(0, 2**62, pairs), rng.integers(0, 2**64, pairs, np.uint64),
        rng.integers(0, 2**64, pairs, np.uint64), rng.integers(0, 10_001, pairs).astype(np.uint16),
    )  # fmt: skip
    return LinkMessage(links, *rng.integers(0, 2**62, 2).tolist())


@given(st.integers(0, 20), st.integers(0, 2**32))
def test_links_come_back_as_they_were(pairs: int, seed: int) -> None:
    """Progress has a message without pairs, too."""
    sent = message(pairs, seed)
    (value,) = encode_links(sent, FINGERPRINT)
    found = decode_links(value, FINGERPRINT)
    assert found[1:] == sent[1:]
    for one, other in zip(found.links, sent.links, strict=True):
        assert np.array_equal(one, other)


def test_links_round_as_verdicts_of_one_process_do() -> None:
    """These keep ``float32``, in which .44035 is less: they show .4403."""
    similarities = np.array([0.44035, 0.40625, 0.75])
    shown = [round(one, 4) for one in similarities.astype(np.float32).tolist()]
    assert (similarity_steps(similarities) / 10_000).tolist() == shown == [0.4403, 0.4062, 0.75]


def test_progress_follows_the_last_pair() -> None:
    """A reader of progress has read the pairs that it covers, in any number of messages."""
    values = list(encode_links(message(40_000), FINGERPRINT))
    found = [decode_links(value, FINGERPRINT) for value in values]
    assert [each.end == NO_PROGRESS for each in found] == [True] * (len(found) - 1) + [False]
    assert sum(len(each.links.later) for each in found) == 40_000
    assert max(map(len, values)) < 600_000


_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x1f"), max_size=6)
_SHOWN = st.tuples(*[_TEXTS | st.none()] * 3)
_ROWS = st.lists(st.tuples(_TEXTS, _TEXTS | st.none(), _SHOWN, st.floats(-1e17, 1e17) | st.none()), max_size=8)


@given(_ROWS, st.sampled_from([None, "", "news"]), st.integers(-(2**62), 2**62))
def test_a_line_is_what_an_encoder_writes_of_its_fields(
    made: list[tuple[str, str | None, tuple[str | None, str | None, str | None], float | None]],
    collection: str | None, time: int,
) -> None:  # fmt: skip
    """Quotes, commas and control characters in ids and sources, any numbers, with collections and without."""
    full = [one if collection is None else f"{collection}\x1f{one}" for one, *_ in made]
    count, places = len(made), np.arange(len(made))
    ranks = np.array([NO_RANK if rank is None else rank for *_, rank in made], np.float64)
    rows = ArrivalRows(
        places, np.full(count, DOCUMENT), np.full(count, time), places.astype(np.uint64),
        *id_columns([one.encode() for one in full]), ranks, places, encode_shown([shown for _, _, shown, _ in made]),
    )  # fmt: skip
    of = [None if one is None else f"{collection or ''}\x1f{one}" for _, one, *_ in made]
    of = of if collection is not None else [one for _, one, *_ in made]
    ids, times = [None if one is None else one.encode() for one in of], np.full(count, NO_TIME)
    none, flags = np.full(count, -1), places % 2 == 1
    verdicts = Verdicts(
        np.zeros(count, np.uint8), places, places, (places / 7).astype(np.float32), none, places, none, flags, ~flags,
        places, (places / 9).astype(np.float32), places, (places % 5).astype(np.uint8),
    )  # fmt: skip
    decided = DecidedRows(places, rows, verdicts, ids, places > 2, times, times, ranks, times)
    lines = [
        line + b"\n"
        for run in encode_runs(decided, separate=collection is not None)
        for line in run.value.split(b"\n")[:-1]
    ]
    found = [orjson.loads(line) for line in lines]
    assert lines == [orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE) for fields in found]
    for fields, whole, (id_, original, shown, rank) in zip(found, full, made, strict=True):
        assert fields.get("id", "") == (id_ if whole else "")
        assert (fields.get("duplicate_of"), fields.get("rank")) == (original, rank)
        assert fields.get("collection") == (collection or None)
        assert tuple(fields.get(name) for name in NAMES) == tuple(said or None for said in shown)
        assert fields["timestamp"] == time / 1e6
    signals = [None, "title", "vector", "picture", "record"] * 2
    assert [fields.get("signal") for fields in found] == signals[:count]
    assert decided_rows(0, found, int(NO_TIME)).verdicts.signals.tolist() == verdicts.signals.tolist()


@given(st.data())
def test_what_is_no_message_of_links_is_refused(data: st.DataObject) -> None:
    """A message that is truncated, joined, of another generation or of another topic is refused."""
    (whole,) = encode_links(message(3), FINGERPRINT)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for wrong in (cut, whole + b"\0", whole + whole, b"NDUS" + whole[4:], data.draw(st.binary(max_size=100))):
        with pytest.raises(WireError):
            decode_links(wrong, FINGERPRINT)
    with pytest.raises(WireError, match=rf"{FINGERPRINT}.*{OTHER}"):
        decode_links(whole, OTHER)


def test_lines_that_no_linker_wrote_are_refused() -> None:
    """The sentence shows how the record begins."""
    with pytest.raises(WireError, match="no linker wrote it"):
        parse_run(b"not a verdict")


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("signed", "retention.ms", "60000"),
        ("links", "retention.ms", "60000"),
        ("links", "retention.bytes", "1000"),
        ("verdicts", "retention.ms", "60000"),
        ("verdicts", "cleanup.policy", "compact"),
        ("verdicts", "retention.bytes", "1000"),
        ("verdicts", "message.timestamp.type", "CreateTime"),
        ("clusters", "cleanup.policy", "delete"),
    ],
)
def test_settings_of_topics_that_lose_verdicts_are_found(topic: str, key: str, value: str) -> None:
    """Only linkers trim links; signed and verdicts are kept for the window; clusters are compacted."""
    settings = settings_of(verdicts=True, window_seconds=1e6)
    (plan,) = [plan for plan in topic_plans(settings) if plan.name.startswith(topic)]
    assert not [finding for finding in judge(plan, plan.partitions, plan.configs) if finding.problem]
    assert [f.key for f in judge(plan, plan.partitions, {**plan.configs, key: value}) if f.problem] == [key]


def test_signed_has_one_partition() -> None:
    """The order of its log is the order of arrival."""
    (plan,) = [plan for plan in topic_plans(settings_of(verdicts=True)) if plan.name.startswith("signed")]
    assert judge(plan, 2, plan.configs)[0].problem == "must be 1: the order of arrival is that of one log"


def test_a_deployment_without_verdicts_has_no_topics_for_them() -> None:
    """The topics would grow, because no linker trims them."""
    assert len(topic_plans(settings_of())) == 6
    assert len(topic_plans(settings_of(verdicts=True))) == 11


@pytest.mark.parametrize("role", [LINK, FILTER])
def test_a_role_that_has_nothing_to_read_says_what_to_set(role: str) -> None:
    """Without ``verdicts`` no matcher writes links."""
    transport = MemoryTransport(MemoryCluster())
    with pytest.raises(ConfigError, match="set verdicts for every role"):
        ROLES[role].make(WorkerMember(transport, None, None, Observer()), settings_of(), LIMITS)  # type: ignore[arg-type]


@pytest.mark.parametrize("forward", [(), ("duplicate",), ("original", "removed")])
def test_only_documents_that_may_be_kept_can_be_forwarded(forward: tuple[str, ...]) -> None:
    """A removal is always forwarded, a duplicate never."""
    with pytest.raises(ConfigError, match="must be some of original, update, unchanged"):
        StreamSettings(window_seconds=1.0, forward=forward)


def test_tail_prints_each_verdict_of_a_record() -> None:
    """Tail prints one line a verdict, with its partition, and at most the requested number."""
    cluster = MemoryCluster()
    cluster.create("verdicts", 1)
    for run in (b'{"offset":0}\n{"offset":1}\n', b'{"offset":3}\n{"offset":4}\n'):
        cluster.append("verdicts", 0, run, b"key")
    transport, output = MemoryTransport(cluster), io.BytesIO()
    consumer = transport.consumer("verdicts", "readers", "")
    written = follow(transport, consumer, "verdicts", "earliest", output, lambda: False, lines_max=3)
    assert written == 3
    assert output.getvalue() == b"".join(b'{"partition":0,"offset":%d}\n' % offset for offset in (0, 1, 3))


@pytest.mark.parametrize("kind", ["documents", "signed", "links", "originals", "sources", "verdicts"])
def test_a_lost_topic_is_not_made_empty_next_to_records(kind: str) -> None:
    """The command ends with a code of its own, unless an empty topic is wanted; no offset may be given again."""
    settings = settings_of(verdicts=True)
    bench, topics = Bench(verdicts=True), names_of(settings).topics
    transport = MemoryTransport(bench.cluster)
    other = {"documents": topics.signed, "signed": topics.links, "links": topics.signed}.get(kind, topics.clusters)
    del bench.cluster._topics[getattr(topics, kind)]
    fail_if_lost(transport, settings)
    bench.cluster.append(other, 0, b"1", b"1", None)
    with pytest.raises(Failure, match=f"^{getattr(topics, kind)} is missing, and {other} ") as failure:
        fail_if_lost(transport, settings)
    assert failure.value.code == Exit.LOST
    settings = settings.model_copy(update={"allow_gap": True})
    with pytest.raises(Failure) if kind in ("documents", "signed") else nullcontext():
        fail_if_lost(transport, settings)


def test_verdicts_can_begin_next_to_a_log_with_records() -> None:
    """Their topics are made together, later than signed and links."""
    bench = Bench()
    bench.cluster.append(bench.names.topics.signed, 0, b"1", b"1", None)
    fail_if_lost(MemoryTransport(bench.cluster), settings_of(verdicts=True))


def test_topics_of_verdicts_have_as_many_partitions_as_documents() -> None:
    """A linker would end at a document of a partition that they lack; the finding names the command that grows all."""
    settings = settings_of(verdicts=True)
    topics = names_of(settings).topics
    judged = {
        plan.name: judge(plan, 16 if plan.name == topics.documents else plan.partitions, plan.configs)
        for plan in topic_plans(settings)
    }
    wrong = {name for name, rows in judge_together(settings, judged).items() if any(row.problem for row in rows)}
    assert wrong == {topics.verdicts, topics.unique}
    assert "neardup topics create --grow --documents-partitions 16" in refusal(judge_together(settings, judged))


def test_topics_grow_together_and_documents_last() -> None:
    """Those that have as many keep them."""
    settings, made = settings_of(verdicts=True, documents_partitions=5), []
    topics = names_of(settings).topics

    class Admin:
        def partitions(self, topic: str) -> int:
            return 6 if topic == topics.candidates else 2

        def set_partitions(self, topic: str, count: int) -> None:
            made.append((topic, count))

    grow_partitions(Admin(), settings)  # type: ignore[arg-type]
    assert made == [(topics.verdicts, 5), (topics.unique, 5), (topics.documents, 5)]
