"""What the program says about its own results."""

from __future__ import annotations

import json
import re
from pathlib import Path

from command import Run

# So many shingles that a text with one character more has the same sketch.
LONG = " ".join(str(n * n * 7919) for n in range(4_000))
NEWS = (
    "the minister said on monday that the new law of the north would not be passed before the end of the year",
    "a storm of the last night has damaged the roofs of the old houses near the river, the police said",
    "the team of the south won the last game of the year and will play against the champion on monday",
    "the price of oil has risen for the third day, and the banks said that it would not fall before the year ends",
    "the new museum of the town opens on monday with a show of paintings of the last century",
    "the court said that the old contract of the bank would not be valid after the end of the year",
)
COUNTING = """
import sys
from types import SimpleNamespace
from neardup import Document
from neardup_workers.doing.session import token_order as learn_order
from neardup_workers.outside.settings.files import Settings
calls, plain = [], learn_order.wrong_values
learn_order.wrong_values = lambda *given, **named: calls.append(1) or plain(*given, **named)
chunk = SimpleNamespace(documents=[Document(str(n), "some words and the number %d" % n) for n in range(300)])
session = SimpleNamespace(look_ahead=lambda paths, follow: iter([chunk, None]), notes=[])
order = learn_order.with_order(session, ["x"], Settings(scheme="prefix")).scheme_options.token_order
print(len(calls), len(order.tokens) > 10)
"""
RAND = """
import numpy as np
from neardup.pairs.evaluation.clusters import counts_of_pairs, quality
# a~b and b~c: the three are one class, and so is their cluster.
found = quality(counts_of_pairs(np.array([0, 0, 0, 1, 2]), np.array([0, 1]), np.array([1, 2])))
print(found.adjusted_rand.value, round(found.precision.value, 3))
"""


def lines(path: Path, texts: list[str]) -> Path:
    """Write documents named by their number."""
    path.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))
    return path


def test_an_estimate_of_one_between_different_texts_is_no_copy(neardup: Run, tmp_path: Path) -> None:
    """``evaluate`` counts only documents of equal content as copies; a pair of two contents is no link between them."""
    texts = lines(tmp_path / "texts.jsonl", [LONG, LONG + "!", LONG])
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_bytes(neardup("run", texts, "-q").stdout)
    found = [json.loads(line) for line in pairs.read_text().splitlines()]
    assert [(pair["older"], pair["newer"]) for pair in found] == [("0", "1"), ("0", "2")]
    (tmp_path / "truth.csv").write_text("a,b,jaccard\n0,1,0.9999\n")
    judged = neardup("evaluate", pairs, "--truth", tmp_path / "truth.csv", "--json")
    result = json.loads(judged.stdout)
    assert (result["copies"], result["confusion"]["true_positives"]) == (1, 1)


def test_the_adjusted_rand_index_of_pairs_compares_with_what_they_join(python: Run) -> None:
    """A cluster that holds exactly what chains of known pairs join has an index of 1; pairs count as they are."""
    assert python("-c", RAND).stdout.split() == [b"1.0", b"0.667"]


def test_the_advice_on_shingles_claims_nothing_about_pairs_of_real_texts(neardup: Run, tmp_path: Path) -> None:
    """``tune --sample`` says what independent characters would do, and how many pairs of the sample share a shingle."""
    shown = neardup("tune", "--sample", lines(tmp_path / "news.jsonl", list(NEWS))).stdout.decode()
    flat = re.sub(r"[│┃\s]+", " ", shown)
    assert "unrelated pairs" not in flat
    assert "if characters were independent; 100% do in the sample" in flat


def test_the_documents_read_ahead_are_checked_once(python: Run) -> None:
    """An order is learned from a sample without checking the whole sample once a document."""
    assert python("-c", COUNTING).stdout.split() == [b"1", b"True"]
