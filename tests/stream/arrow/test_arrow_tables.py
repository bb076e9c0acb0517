"""Tables in, verdicts and pairs out: what ``decide`` and ``process`` give for the same documents."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from quick_parameters import quick_first

from neardup import Config, ConfigError, Deduplicator, Document
from neardup.stories.arrow.columns import CHUNK_ROWS

WORDS = re.findall(
    r"\w+", "the ferry leaves harbour at seven and returns before noon unless fog holds it in port é ü 茶"
)
# Some of the documents have an infinite time, which is none.
pytestmark = pytest.mark.filterwarnings("ignore:.* documents have no time, such as one of inf")

VERDICT = (
    "id", "status", "duplicate_of", "similarity", "cluster", "related", "previous", "matched", "late", "against",
    "said", "new_numbers", "signal", "new",
)  # fmt: skip


def documents(count: int, seed: int = 1) -> list[Document]:
    """Some of them copies with a small change, versions of an id, refused or without a time."""
    rng = np.random.default_rng(seed)
    found: list[Document] = []
    for n in range(count):
        text = " ".join(rng.choice(WORDS, 30))
        if n > 3 and rng.random() < 0.5:
            text = found[int(rng.integers(len(found)))].text + "." * int(rng.integers(3))
        if rng.random() < 0.05:
            text = ""
        id_ = f"é{rng.integers(count)}" if rng.random() < 0.5 else f"d{n}"
        time = [None, 1.7e9 + n / 8, float("inf")][rng.choice(3, p=(0.2, 0.78, 0.02))]
        found.append(Document(id_, text, time))
    return found


def table(rows: list[Document], chunk: int = 1_000_000) -> pa.Table:
    columns = {"id": [d.id for d in rows], "text": [d.text for d in rows], "timestamp": [d.timestamp for d in rows]}
    whole = pa.table(columns, pa.schema({"id": pa.string(), "text": pa.string(), "timestamp": pa.float64()}))
    return pa.Table.from_batches(whole.to_batches(chunk), whole.schema)


def verdicts(found: Any) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in VERDICT) for row in found.to_pylist()]


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow table": lambda given: given,
    "record batch": lambda given: given.combine_chunks().to_batches()[0],
    "stream of batches": lambda given: given.to_reader(7),
    "slice": lambda given: pa.concat_tables([given.slice(0, 5), given])[5:],
    "64-bit offsets": lambda given: given.cast(pa.schema([
        ("id", pa.large_string()), ("text", pa.large_binary()), ("timestamp", pa.float64()),
    ])),
    "Polars": pl.from_arrow,
    "Polars, categories": lambda given: pl.DataFrame(given).with_columns(pl.col("id").cast(pl.Categorical)),
    "pandas": lambda given: given.to_pandas(),
    "DuckDB": lambda given: duckdb.sql("SELECT * FROM given"),
}  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES)
def test_any_table_of_arrow_gets_the_verdicts_of_its_documents(frame: str) -> None:
    """In one call or in several; refused rows have their reason."""
    rows = documents(200)
    by_documents, by_table = Deduplicator(), Deduplicator()
    expected = [verdict[:-3] for verdict in by_documents.decide(rows)]
    reasons = {refusal.position: refusal.reason for refusal in by_documents.refusals}
    found = by_table.decide_table(FRAMES[frame](table(rows)))
    assert isinstance(found, pa.Table)
    assert verdicts(found) == expected
    assert {place: row["reason"] for place, row in enumerate(found.to_pylist()) if row["reason"]} == reasons
    assert by_table.refusals == by_documents.refusals
    again = by_table.decide_table(FRAMES[frame](table(rows[:50])))
    assert verdicts(again) == [verdict[:-3] for verdict in by_documents.decide(rows[:50])]
    assert by_table.counts() == by_documents.counts()


@pytest.mark.parametrize("seed", quick_first(range(5), 2))
@pytest.mark.parametrize(
    "settings", [{}, {"scheme": "identical"}, {"shingles": "words", "verify": "exact"}, {"scheme": "prefix"}]
)
def test_the_pairs_of_a_table_are_those_of_its_documents(seed: int, settings: dict[str, Any]) -> None:
    """Whatever the scheme of texts, and however the table is divided."""
    rows = documents(150, seed)
    expected = Deduplicator(Config(threshold=0.7, **settings)).process(rows)
    found = Deduplicator(Config(threshold=0.7, **settings)).process_table(table(rows, 1 + seed * 30))
    assert [tuple(row.values()) for row in found.to_pylist()] == [tuple(pair) for pair in expected]
    assert found.column_names == ["older", "newer", "similarity", "buckets"]


def test_many_rows_and_large_texts_are_signed_in_parts() -> None:
    """A chunk ends at its rows or its bytes, also inside a record batch."""
    rows = [Document(f"d{n}", f"text {n // 2} of many") for n in range(2 * CHUNK_ROWS + 3)]
    rows += [Document(f"l{n}", " ".join([*WORDS, str(n // 3)] * 4_000)) for n in range(4)]
    expected = [verdict[:-3] for verdict in Deduplicator().decide(rows)]
    assert verdicts(Deduplicator().decide_table(table(rows))) == expected


def test_ids_may_be_integers_and_stay_as_they_are() -> None:
    """The original is named by its id; to remove it, give its digits."""
    given = pa.table({"key": pa.array([10, 20], pa.uint16()), "body": [" ".join(WORDS)] * 2, "at": [5, 6]})
    dedup = Deduplicator(Config(window_seconds=10))
    found = dedup.decide_table(given, id_field="key", text_field="body", timestamp_field="at", timestamp_unit="ms")
    assert found.to_pylist()[1] == {
        "key": 20, "status": "duplicate", "duplicate_of": 10, "similarity": 1.0, "cluster": 0, "related": None,
        "previous": None, "matched": 0, "late": False, "against": None, "said": None, "new_numbers": None,
        "signal": None, "new": None, "reason": None,
    }  # fmt: skip
    assert dedup.remove("10") == 1


def test_a_row_without_a_text_is_refused() -> None:
    """So are bytes that are not UTF-8, each with its row and its reason."""
    text = " ".join(WORDS).encode()
    given = pa.table({"id": [b"a", b"b", b"c", b"\xff", b"e", b"f"], "text": [text, None, None, text, b"\xffx", text]})
    dedup = Deduplicator()
    found = dedup.decide_table(given).to_pylist()
    assert [row["reason"] for row in found] == [None, "no_text", "no_text", "id_not_utf8", "text_not_utf8", None]
    assert [row["status"] for row in found] == ["original", *["refused"] * 4, "duplicate"]
    assert [refusal[::2] for refusal in dedup.refusals] == [
        (1, "no_text"), (2, "no_text"), (3, "id_not_utf8"), (4, "text_not_utf8"),
    ]  # fmt: skip


def test_a_row_without_an_id_is_named_by_its_number() -> None:
    """As on the command line. No two rows of a deduplicator have one number, also after its window was loaded."""
    first, second = ([*WORDS[:5], str(n) * 9] for n in (1, 2))
    texts = [" ".join(words) for words in (first, second, first)]
    dedup = Deduplicator()
    (*_, copy) = dedup.decide_table(pa.table({"text": texts})).to_pylist()
    assert (copy["id"], copy["status"], copy["duplicate_of"]) == ("row:3", "duplicate", "row:1")
    given = pa.table({"id": pa.array([7, None], pa.int64()), "text": texts[:2]})
    assert [row["duplicate_of"] for row in dedup.decide_table(given).to_pylist()] == ["row:1", "row:2"]
    assert dedup.remove("row:5") == dedup.remove("7") == 1
    loaded = Deduplicator()
    loaded.load(dedup.save())
    assert [row["id"] for row in loaded.decide_table(pa.table({"text": texts[:1]})).to_pylist()] == ["row:6"]
    assert [pair["newer"] for pair in Deduplicator().process_table(pa.table({"text": texts})).to_pylist()] == ["row:3"]
    assert Deduplicator().decide_table(pa.table({"text": pa.array([], pa.string())})).column_names[0] == "id"


def test_an_empty_table_has_no_verdicts() -> None:
    """It has the columns."""
    found = Deduplicator().decide_table(table([]))
    assert (found.num_rows, found.column_names) == (0, [*VERDICT, "reason"])
    assert Deduplicator().process_table(pl.DataFrame({"id": [], "text": []})).num_rows == 0


@pytest.mark.parametrize(
    ("given", "named", "sentence"),
    [
        ([Document("a", "b")], {}, "a list is no table: give"),
        (pa.table({"a": [1]}), {"text_field": "body"}, "no column 'body' (it has: a)"),
        (pa.table({"text": ["x"]}), {"id_field": "key"}, "no column 'key' (it has: text)"),
        ([{"id": 1, "body": "x"}], {}, "no column 'text' (it has: id, body)"),
        (pa.table({"id": ["a"], "text": [1]}), {}, "column 'text' is int64, but must hold strings"),
        (pa.table({"id": [True], "text": ["x"]}), {}, "column 'id' is bool, but must hold strings, whole numbers or"),
        (pa.table({"id": ["a"], "text": ["x"], "timestamp": [True]}), {}, "column 'timestamp' is bool"),
        (pa.table({"id": ["a"], "text": ["x"]}), {"timestamp_unit": "h"}, "timestamp_unit='h'"),
        (pa.table([["a"], ["x"], ["y"]], ["id", "text", "text"]), {}, "2 columns 'text'"),
    ],
)
def test_a_table_that_cannot_be_documents_is_refused_by_a_sentence(
    given: Any, named: dict[str, str], sentence: str
) -> None:
    """Before anything is added."""
    dedup = Deduplicator()
    for method in (dedup.decide_table, dedup.process_table):
        with pytest.raises(ConfigError) as refused:
            method(given, **named)
        assert sentence in str(refused.value)
    assert dedup.counts()["items"] == 0


def test_a_scheme_that_compares_no_texts_takes_no_table() -> None:
    """The sentence names what it compares."""
    with pytest.raises(ConfigError, match="bring vector"):
        Deduplicator(Config(scheme="hyperplane:dimension=2")).decide_table(table(documents(3)))


def test_an_exception_of_the_stream_carries_the_verdicts_before_it() -> None:
    """As of ``decide``: the rows before it are added."""
    rows = documents(40)

    def batches() -> Iterator[pa.RecordBatch]:
        yield table(rows[:30]).combine_chunks().to_batches()[0]
        raise RuntimeError("no more")

    dedup = Deduplicator()
    with pytest.raises(pa.ArrowInvalid, match="no more") as failed:
        dedup.decide_table(pa.RecordBatchReader.from_batches(table(rows).schema, batches()))
    expected = Deduplicator()
    assert verdicts(failed.value.verdicts) == [verdict[:-3] for verdict in expected.decide(rows[:30])]
    assert verdicts(dedup.decide_table(table(rows[30:]))) == [verdict[:-3] for verdict in expected.decide(rows[30:])]


def test_threads_share_a_deduplicator() -> None:
    """Each row gets one verdict, and of equal texts one is the original."""
    rows = [Document(f"d{n}", f"{' '.join(WORDS)} {n % 50} " * 3) for n in range(400)]
    dedup = Deduplicator(Config(scheme="identical"))
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda n: dedup.decide_table(table(rows[n::4], 25)).to_pylist(), range(4)))
    found = [row for part in parts for row in part]
    assert len(found) == len(rows)
    assert sum(row["status"] == "original" for row in found) == 50
    assert dedup.counts()["items"] == len(rows)


def test_offsets_outside_of_the_data_are_refused() -> None:
    """They are bytes of another library: no kernel reads beyond the buffer."""
    offsets = pa.py_buffer(np.array([0, 1 << 20, 5], np.int32))
    texts = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"hello"))
    with pytest.raises(ValueError, match="offsets"):
        Deduplicator().decide_table(pa.table({"id": ["a", "b"], "text": texts}))


@pytest.mark.processes
def test_the_library_is_imported_without_pyarrow() -> None:
    """Only a table needs it, and the sentence names what to install."""
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from neardup import *\n"
        "class Table:\n    def __arrow_c_stream__(self, requested_schema=None): pass\n"
        "try: Deduplicator().decide_table(Table())\n"
        "except ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'pyarrow>=" in done.stdout
