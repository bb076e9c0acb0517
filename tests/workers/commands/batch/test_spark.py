"""``neardup batch --engine spark``: pairs and verdicts of the machine alone, for any number of partitions."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.recall.passages import prose
from command import WORDS

from neardup import Config, Document, Signer
from neardup.pairs.json_lines import Fields
from neardup.window import NO_TIME
from neardup_workers.outside.options.documents import BatchOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.batch import corpus

pytestmark = [pytest.mark.processes, pytest.mark.long]
# A proof with 1, 7 and 64 takes minutes: make torture.
PARTITIONS = [int(number) for number in os.environ.get("NEARDUP_SPARK_PARTITIONS", "3").split()]
# A tenth of the processor time is the check of classes that come from Spark's own jars, and collections for classes.
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote"
)
# Some hundred rows are done before a query is compiled: make torture compiles.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILES = "NEARDUP_SPARK_PARTITIONS" in os.environ
REFUSED = [b"{", b'{"id":"\xff","text":"x"}', b'{"id":"bad","text":"\xff"}', b'{"id":"e","text":""}', b"", b"  "]


def run_with(engine: str, options: BatchOptions, settings: Any) -> Exit:
    """Run ``batch`` with an engine, which is loaded when it is chosen."""
    from neardup_workers.running.commands.batch import spark

    return {"local": corpus, "spark": spark}[engine].run(options, settings)


def stream(count: int, *, timed: bool) -> list[bytes]:
    """Lines with near-copies, copies, versions, refused and blank ones; some with a time, out of order."""
    rng = random.Random(3)
    words = WORDS.split()
    texts = [" ".join(rng.choice(words) + rng.choice("abcdef") for _ in range(40)) for _ in range(count // 4)]
    lines = []
    for n in range(count):
        document: dict[str, Any] = {
            "id": f"doc-{rng.randrange(count)}",
            "text": rng.choice(texts) + rng.choice("..!?;"),
        }
        if timed and rng.random() < 0.8:
            document["timestamp"] = 1_700_000_000 + 60 * n + rng.randrange(-3600, 3600)
        if timed and n % 100 == 7:
            document["timestamp"] = ["2100-01-01", "soon"][n // 100 % 2]
        if rng.random() < 0.1:
            document["tags"] = ["not flat"]
        lines.append(json.dumps(document).encode() if rng.random() < 0.97 else rng.choice(REFUSED))
    return lines


@pytest.fixture(scope="module")
def spark() -> Generator[Any]:
    """One session of Spark on two cores of this machine."""
    session = pytest.importorskip("pyspark.sql").SparkSession
    if shutil.which("java") is None:
        pytest.skip("no java on the path: Spark needs it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # A session of a minute ends before the second compiler of Java has paid for itself.
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--driver-java-options '{JAVA}' pyspark-shell")
        settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"} | ({} if COMPILES else INTERPRETED)
        made = session.builder.master("local[2]").config(map=settings).getOrCreate()
        made.sparkContext.setLogLevel("ERROR")
        yield made
        made.stop()


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> Callable[..., tuple[bytes, ...]]:
    """Run the command with an engine; return its pairs, its verdicts, what it keeps, its window, and what it says of
    times that are none."""
    monkeypatch.chdir(tmp_path)

    def run(engine: str, *paths: str, **settings: Any) -> tuple[bytes, ...]:
        options = BatchOptions(
            list(paths), engine=engine, verdicts="verdicts", output="kept", annotate=True, keep="window",
            summary_json="summary",
        )  # fmt: skip
        capfdbinary.readouterr()
        assert run_with(engine, options, load(settings, None)) == Exit.SUCCESS
        written = [(tmp_path / name).read_bytes() for name in ("verdicts", "kept", "window")]
        found, said = capfdbinary.readouterr()
        notes = sorted(line for line in said.splitlines() if b"have no time" in line)
        unread = json.loads((tmp_path / "summary").read_bytes()).get("times_unread", 0)
        return found, *written, b"\n".join((b"%d" % unread, *notes))

    return run


@pytest.mark.filterwarnings("ignore")
def test_pairs_and_verdicts_do_not_depend_on_the_engine(spark: Any, batch: Any, tmp_path: Path) -> None:
    """With splits of 16 kB, over a file and a folder, with a window; of documents without a collection, and of equal
    ids and texts in two. Times that lie ahead or cannot be read are none; the note of each is the same."""
    (tmp_path / "folder").mkdir()
    lines, rng = stream(600, timed=True), random.Random(6)
    for n in rng.sample(range(600), 200):
        named = rng.choice([b'{"lang": "de", ', b'{"lang": 7, ', b'{"lang": "", ', b'{"lang": ["x"], '])
        lines[n] = lines[n].replace(b'{"id"', named + b'"id"', 1)
    for name, part in {"b.jsonl": lines[:250], "folder/2.jsonl": lines[250:400], "folder/1.jsonl": lines[400:]}.items():
        (tmp_path / name).write_bytes(b"\n".join(part) + b"\n" * (name != "b.jsonl"))
    given = ["b.jsonl", "folder"]
    settings = {"window_seconds": 7200.0, "input_format": "lines", "fields": ("collection=lang",)}
    wanted = batch("local", *given, **settings)
    assert len(wanted[0].splitlines()) > 150
    assert b'"not_utf8"' in wanted[1]
    found = [json.loads(line) for line in wanted[1].splitlines()]
    assert {line.get("collection") for line in found} == {"de", "7", None}
    assert {line.get("collection") for line in map(json.loads, wanted[0].splitlines())} == {"de", "7", None}
    assert [line for line in found if line.get("reason") == "collection"]
    unread, *notes = wanted[4].splitlines()
    assert (len(notes), int(unread)) == (2, sum(int(note.split()[1]) for note in notes))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "16384")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    for partitions in PARTITIONS:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        assert batch("spark", *given, **settings) == wanted, partitions


@pytest.mark.parametrize("more", [{}, {"tags": ["not flat"]}])
def test_a_task_names_the_times_that_are_none(more: dict[str, Any]) -> None:
    """Of lines in columns, and one by one: their documents have none, and the reason and what was given stay."""
    tasks, pa = (
        pytest.importorskip("neardup_workers.running.commands.batch.spark_tasks"),
        pytest.importorskip("pyarrow"),
    )
    times = [1_700_000_000, "2100-01-01", "soon", None, 1e300]
    values = [{"id": f"d{n}", "text": WORDS[:200], "timestamp": time, **more} for n, time in enumerate(times)]
    raws = [json.dumps(value).encode() for value in values]
    rows = pa.record_batch([pa.array(raws, pa.binary()), ["f"] * 5, [0] * 5], ["value", "file", "block"])
    begins = {("f", 0): tasks.SplitBegin(1, 0)}
    task = tasks.SignTask(Config(), Fields(), {"f": "f"}, begins, True, None, False, 1_800_000_000.0)
    (made,) = tasks.sign_lines(task, iter([rows]))
    ahead, unread, infinite = ("timestamp_ahead", "2100-01-01T00:00:00 (d1)"), ("timestamp_type", "soon"), "1e+300"
    assert list(zip(made["untimed"].to_pylist(), made["given"].to_pylist(), strict=True)) == [
        (None, None), ahead, unread, (None, None), ("timestamp_range", infinite),
    ]  # fmt: skip
    assert made["time"].to_pylist() == [1_700_000_000_000_000, *[NO_TIME] * 4]


@pytest.mark.filterwarnings("ignore")
def test_passages_do_not_depend_on_the_engine(spark: Any, batch: Any, tmp_path: Path) -> None:
    """Pairs say what the texts share, and verdicts to which earlier text they stand in a relation."""
    rng = random.Random(1)
    reports = [prose(rng, "az", 900) for _ in range(6)]
    with (tmp_path / "in.jsonl").open("w") as file:
        for n in range(60):
            report = rng.choice(reports)
            text = rng.choice([report, report[:600], f"{prose(rng, 'az', 300)} {report} {prose(rng, 'az', 900)}"])
            file.write(json.dumps({"id": f"d{n}", "text": text}) + "\n")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    settings = {"scheme": "passages:part_min=0.7"}
    wanted = batch("local", "in.jsonl", **settings)
    assert batch("spark", "in.jsonl", **settings) == wanted
    assert all(b'"relation"' in lines and b'"passages"' in lines for lines in wanted[:3])


@pytest.mark.filterwarnings("ignore")
def test_a_source_that_repeats_itself_is_named_by_every_engine(spark: Any, batch: Any, tmp_path: Path) -> None:
    """The documents to keep are not written, with the same sentence."""
    rows = ({"id": f"d{n}", "text": WORDS[:200] + str(n % 3), "url": f"https://a.example/{n}"} for n in range(250))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    said = []
    for engine in ("local", "spark"):
        with pytest.raises(Failure, match=r"24\d of 250 documents of 'a\.example'") as refused:
            batch(engine, "in.jsonl")
        said.append((refused.value.code, str(refused.value)))
        assert not (tmp_path / "kept").exists()
    assert said[0] == said[1]


@pytest.mark.filterwarnings("ignore")
def test_a_function_of_spark_signs(spark: Any) -> None:
    """A UDF that holds a signer."""
    functions, types = (pytest.importorskip(f"pyspark.sql.{name}") for name in ("functions", "types"))
    signer = Signer(Config())
    rows = spark.createDataFrame([("a", "some text"), ("b", "")], ["id", "text"])
    sign = functions.udf(lambda id_, text: signer.sign([Document(id_, text)]).batch.size, types.IntegerType())
    assert [row[0] for row in rows.select(sign("id", "text")).collect()] == [1, 0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"top": 3}, "--top: leave it out"),
        ({"truth": 3}, "--truth: leave it out"),
        ({"output": "x.parquet"}, "JSON Lines"),
    ],
)
def test_what_needs_one_machine_is_refused(given: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sentence that says what to do, before Spark starts; so are rows of Parquet, which lines do not become."""
    pytest.importorskip("pyspark")
    monkeypatch.setattr("neardup_workers.running.commands.batch.corpus.run", None)
    options = BatchOptions(["in.jsonl"], engine="spark", **given)
    with pytest.raises(Failure, match=said) as refused:
        run_with("spark", options, load({}, None))
    assert refused.value.code == Exit.USAGE
