"""A signer with a block list, started as its process starts it, on a cluster in memory."""

import json
import random
from string import ascii_lowercase

import pytest
from shell_harness import TEXT, Bench

from neardup import Document, Signer
from neardup.pairs.batches import CONTENT_HALF
from neardup_workers.outside.process.exits import Exit, Failure

OWN = "nothing like the others at all, not a word of it, not even nearly so"


def test_blocked_documents_become_dead_letters(tmp_path):
    """By id and by content; the document between them is signed, and has a verdict to come. The file of the setting is
    read at the start."""
    bench = Bench(verdicts=True)
    content = int(Signer(bench.settings).sign([Document("any", OWN)]).batch.contents[0, CONTENT_HALF])
    path = tmp_path / "blocked.jsonl"
    path.write_text(json.dumps({"id": "é\n"}) + "\n" + json.dumps({"content": f"{content:016x}"}) + "\n")
    bench.add(("é\n", TEXT), ("b", TEXT), ("c", OWN))
    bench.sign(1, blocked=str(path))
    letters = [json.loads(record.value) for record in bench.cluster.records(bench.names.topics.dead)]
    assert sorted((letter["partition"], letter["offset"], letter["reason"]) for letter in letters) == [
        (0, 0, "blocked"),
        (0, 1, "blocked"),
    ]
    assert bench.metrics["sign"].value("refused", "blocked") == 2
    assert bench.metrics["sign"].value("documents") == 1
    assert bench.has_taken_all("sign")


def test_a_damaged_list_ends_the_signer_before_it_signs(tmp_path):
    """Else it would let documents through that should be blocked."""
    bench = Bench()
    bench.add(("a", TEXT))
    path = tmp_path / "blocked.jsonl"
    path.write_text("a\n")
    with pytest.raises(Failure, match="line 1 of the block list") as failure:
        bench.sign(1, blocked=str(path))
    assert failure.value.code == Exit.USAGE
    assert bench.metrics["sign"].value("documents") == 0


def test_a_text_whose_evidence_no_message_can_hold_is_a_dead_letter():
    """Exact evidence of a text may be eight times as long as the text. The signer goes on."""
    bench = Bench(verify="exact", threshold=0.45)
    bench.cluster.record_bytes_max = bench.settings.client.request_bytes_max - 256  # as the producer on Kafka
    large = "".join(random.Random(1).choices(ascii_lowercase, k=150_000))
    bench.add(("a", TEXT), ("large", large), ("b", OWN))
    bench.sign(1)
    letters = [json.loads(record.value) for record in bench.cluster.records(bench.names.topics.dead)]
    assert [letter["reason"] for letter in letters] == ["evidence_too_large"]
    assert bench.metrics["sign"].value("documents") == 2
    assert bench.has_taken_all("sign")
