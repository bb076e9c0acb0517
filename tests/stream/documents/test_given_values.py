"""What programs give as ids, texts and times: taken as it is meant, or refused with its reason."""

from datetime import date, datetime, timedelta, timezone
from functools import partial
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from neardup import Config, Deduplicator, Document

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. " * 3


@pytest.mark.parametrize(
    "timestamp",
    [
        1_767_225_600,
        np.int64(1_767_225_600),
        datetime(2026, 1, 1),
        datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        date(2026, 1, 1),
        np.datetime64("2026-01-01T00:00:00", "ns"),
        "2026-01-01T00:00:00Z",
        "Thu, 01 Jan 2026 01:00:00 +0100",
    ],
)
def test_a_document_takes_each_form_of_one_time(timestamp):
    """The time decides the order: it lies between those of the two other documents."""
    dedup = Deduplicator(Config(window_seconds=10.0))
    assert dedup.process([Document("a", TEXT, 1_767_225_595.0), Document("b", TEXT, timestamp)])[0].newer == "b"
    assert dedup.process([Document("c", TEXT, 1_767_225_606.0)])[0].older in ("a", "b")
    assert not dedup.refusals


def test_ids_that_are_whole_numbers_are_their_digits():
    """A number of Python or of numpy names the same document as its text does in a line of JSON."""
    verdicts = Deduplicator().decide([Document(7, TEXT), Document(np.uint64(2**64 - 1), TEXT)])
    assert [(verdict.id, verdict.duplicate_of) for verdict in verdicts] == [("7", None), (str(2**64 - 1), "7")]


def test_a_refused_document_has_its_reason_in_the_verdict():
    """What cannot be read is never silent: bytes are no text, a list no time, a truth value no id."""
    given = [Document("a", b"bytes"), Document("b", TEXT, []), Document(True, TEXT), Document("d", TEXT)]
    verdicts = Deduplicator().decide(given)
    assert [verdict.reason for verdict in verdicts] == ["text_type", "timestamp_type", "id_type", None]
    assert [verdict.status for verdict in verdicts] == ["refused"] * 3 + ["original"]


def test_a_missing_time_of_numpy_is_none():
    """NaT, NaN and an empty text are no times, and no reason to refuse the document."""
    dedup = Deduplicator()
    times = (np.datetime64("NaT"), "", float("nan"), np.float32("nan"))
    verdicts = dedup.decide([Document(str(n), TEXT, time) for n, time in enumerate(times)])
    assert [verdict.status for verdict in verdicts] == ["original", *["duplicate"] * 3]
    assert dedup.decide([Document("x", TEXT, float("nan"))])[0].status == "duplicate"


@pytest.mark.parametrize("wrong", ["3/4/2016", "soon", float("inf"), -1e300, 10**400])
@pytest.mark.parametrize("form", ["documents", "table"])
def test_a_date_that_cannot_be_read_costs_no_document(wrong, form):
    """It has none, as in files: the first is warned of, at the caller's line, and all are counted."""
    if form == "table" and isinstance(wrong, int):
        pytest.skip("no column of Arrow holds such a number")
    dedup = Deduplicator(Config(window_seconds=10.0))

    def decide(*times):
        ids = [f"{time}{n}" for n, time in enumerate(times)]
        if form == "documents":
            return [one.status for one in dedup.decide(map(Document, ids, [TEXT] * len(ids), times))]
        table = pa.table({"id": ids, "text": [TEXT] * len(ids), "timestamp": times})
        return dedup.decide_table(table)["status"].to_pylist()

    first = "2026-01-01" if isinstance(wrong, str) else 1_767_225_600.0
    with pytest.warns(UserWarning, match=r"2 documents have no time, such as one of ") as said:
        assert decide(first, wrong, wrong) == ["original", "duplicate", "duplicate"]
    assert [warning.filename for warning in said] == [__file__]
    assert decide(wrong) == ["duplicate"]
    assert (dedup.counts()["undated"], dedup.refused) == (3, 0)


@pytest.mark.parametrize("ask", [Deduplicator.process, Deduplicator.probe, partial(Deduplicator.nearest, k=1)])
def test_a_refusal_of_a_wrong_type_is_said(ask):
    """An answer of pairs has no place for it; the caller's line is warned of, and the refusals have each."""
    dedup = Deduplicator()
    with pytest.warns(UserWarning, match=r"2 documents .* 'a' at position 0: the text field is not a string") as said:
        ask(dedup, [Document("a", b"bytes"), Document("b", 7), Document("c", ""), Document("d", TEXT)])
    assert [warning.filename for warning in said] == [__file__]
    assert [refusal.reason for refusal in dedup.refusals] == ["text_type", "text_type", "empty"]


def test_a_stream_without_an_end_answers_as_it_goes():
    """The pair of a document is there before the next document is asked for."""
    asked = []

    def endless():
        for n in count():
            asked.append(n)
            yield Document(str(n), TEXT)

    pairs = Deduplicator().process_stream(endless())
    assert [next(pairs)[:2], len(asked)] == [("0", "1"), 2]
    assert [next(pairs)[1], len(asked)] == ["2", 3]


def test_with_a_clock_a_time_far_ahead_counts_as_none():
    """One document that is dated 2100 makes no later one late."""
    times = (1_767_225_600, 4_102_444_800, 1_767_225_601, 1_767_225_602)
    texts = (TEXT, "Snow fell in the mountains of the north, and the road was closed until noon.", TEXT, TEXT)
    given = [Document(id_, text, time) for id_, text, time in zip("abcd", texts, times, strict=True)]
    config = Config(window_seconds=86_400.0)
    dedup = Deduplicator(config, now=lambda: 1_767_225_610.0)
    with pytest.warns(UserWarning, match=r"1 documents have no time, .* '2100-01-01T00:00:00 \(b\)': it lies"):
        assert len(dedup.process(given)) == 2
    assert dedup.counts()["undated"] == 1
    apart = Deduplicator(Config(window_seconds=86_400.0, collection_field="desk"), now=lambda: 1_767_225_610.0)
    with pytest.warns(UserWarning, match=r"'2100-01-01T00:00:00 \(news / b\)': it lies"):
        apart.process([given[1]._replace(collection="news")])
    assert Deduplicator(config).process(given) == []
