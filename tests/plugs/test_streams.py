"""An operator of Bytewax whose state is the window: what stopped and began again decides as one run does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import ROOT
from plug_blocks import LINES_MAX, block_of, lines_of, run_block

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


def test_an_operator_continues_from_the_window_that_the_engine_saved(tmp_path: Path) -> None:
    """The second run begins behind the first, with its window: no document is lost or decided twice."""
    printed = run_block("bytewax", tmp_path, block_of("bytewax") + FLOW)
    lines = (ROOT / "docs" / "examples" / "wire.jsonl").read_text(encoding="utf-8").splitlines()
    documents = [Document(one["id"], one["text"]) for one in map(json.loads, lines)]
    expected = [[verdict.id, verdict.status, verdict.duplicate_of] for verdict in Deduplicator().decide(documents)]
    assert json.loads(printed) == expected
    assert lines_of(block_of("bytewax")) <= LINES_MAX
