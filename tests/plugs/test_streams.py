"""Engines of streams whose state is the window: what stopped and began again decides as one run does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import ROOT
from plug_blocks import LINES_MAX, block_of, lines_of, needs, run_block

from neardup import Deduplicator, Document

pytestmark = pytest.mark.processes
FLOW = """
import json, sys
import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import TestingSink, TestingSource, cluster_main, run_main
from datetime import timedelta
from pathlib import Path
from neardup import Document

documents = [Document(one["id"], one["text"]) for one in map(json.loads, open("wire.jsonl", encoding="utf-8"))]
Path("state").mkdir()
init_db_dir(Path("state"), 1)
verdicts = []
source = TestingSource([*documents[:60], TestingSource.EOF(), *documents[60:]], batch_size=10)
for turn in range(2):
    flow = Dataflow("flow")
    stream = op.key_on("key", op.input("in", flow, source), lambda document: "all")
    decided = op.stateful_batch("neardup", stream, Window)
    op.output("out", decided, TestingSink(verdicts))
    run_main(flow, epoch_interval=timedelta(0), recovery_config=RecoveryConfig("state"))
print(json.dumps([[verdict.id, verdict.status, verdict.duplicate_of] for _, verdict in verdicts]))
"""


# Three steps of the engine's own state: the second one is not committed, as after a crash, so its documents come again.
QUIX = """
import json
from types import SimpleNamespace
from quixstreams.dataframe import DataFrameRegistry, StreamingDataFrame
from quixstreams.models import MessageContext, Topic, TopicConfig
from quixstreams.state.rocksdb import RocksDBStorePartition

rows = [json.loads(line) for line in open("wire.jsonl", encoding="utf-8")]
steps, answers = [(rows[:40], True), (rows[40:80], False), (rows[40:80], True), (rows[80:], True)], []
for step, is_committed in steps:
    partition = RocksDBStorePartition("state")
    transaction = partition.begin()
    context = SimpleNamespace(
        producer=None, checkpoint=SimpleNamespace(get_store_transaction=lambda **_: transaction),
        state_manager=SimpleNamespace(register_store=lambda **_: None),
    )
    topics = SimpleNamespace(stream_id_from_topics=lambda _: "documents", derive_topic_config=lambda _: None)
    topic = Topic("documents")
    topic.broker_config = TopicConfig(1, 1)
    registry = DataFrameRegistry()
    documents = StreamingDataFrame(topic, topic_manager=topics, registry=registry, processing_context=context)
    registry.register_root(documents)
    decided = documents.apply(quixstreams, stateful=True, expand=True)
    found = decided.test(step, key=b"all", ctx=MessageContext("documents", 0, 0, 1))
    if is_committed:
        transaction.prepare()
        transaction.flush()
        answers += [value for value, *_ in found]
    partition.close()
print(json.dumps([[one["id"], one["status"], one["of"]] for one in answers]))
"""
FAUST = """
import asyncio, json
import faust

app = faust.App("neardup", broker="kafka://127.0.0.1:9", store="memory://")
topic, window, answered = app.topic("documents", value_type=list), app.Table("window", value_type=bytes), []

@app.agent(topic)
async def agent(stream):
    async for rows in stream:
        answers, window["all"] = decide(rows, window.get("all"))
        answered.extend(answers)
        yield

async def main():
    rows = [json.loads(line) for line in open("wire.jsonl", encoding="utf-8")]
    async with agent.test_context() as tested:
        for first in range(0, len(rows), 40):
            await tested.put(rows[first : first + 40])
    print(json.dumps([[one["id"], one["status"], one["of"]] for one in answered]))

asyncio.run(main())
"""


def in_one_run() -> list[list[str | None]]:
    """What one run decides of the documents."""
    lines = (ROOT / "docs" / "examples" / "wire.jsonl").read_text(encoding="utf-8").splitlines()
    documents = [Document(one["id"], one["text"]) for one in map(json.loads, lines)]
    return [[verdict.id, verdict.status, verdict.duplicate_of] for verdict in Deduplicator().decide(documents)]


@pytest.mark.parametrize(("package", "flow"), [("bytewax", FLOW), ("quixstreams", QUIX), ("faust", FAUST)])
def test_an_engine_continues_from_the_window_that_it_saved(package: str, flow: str, tmp_path: Path) -> None:
    """What begins again has the window that was committed: no document is lost or decided twice."""
    needs(package)
    block = block_of("quixstreams" if package == "faust" else package)
    assert lines_of(block) <= LINES_MAX
    assert json.loads(run_block(package, tmp_path, block + flow)) == in_one_run()
