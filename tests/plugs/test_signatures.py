"""Signatures as a table: known answers, another language, and datasketch in both directions."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from command import ROOT
from plug_blocks import block_of, needs, run_block
from pyarrow import json as arrow_json
from pyarrow import parquet

from neardup import Config, ConfigError, Deduplicator, Document, Matcher, Pair, sign_table
from neardup.pairs.pipeline import match_step
from neardup.stories.arrow.signatures import batch_of_signatures

EXAMPLES = ROOT / "docs" / "examples"
FOX = "The quick brown fox jumps over the lazy "


def wire() -> Any:
    """The documents of an example as a table."""
    return arrow_json.read_json(EXAMPLES / "wire.jsonl")


def pairs_of_texts() -> list[Pair]:
    """The pairs that a stream of the same documents has."""
    lines = map(json.loads, (EXAMPLES / "wire.jsonl").read_text(encoding="utf-8").splitlines())
    return Deduplicator().process([Document(one["id"], one["text"]) for one in lines])


def test_rows_and_keys_have_known_answers() -> None:
    """They are a format that others read, so they last from release to release."""
    one, other = sign_table([{"id": "a", "text": FOX + "dog"}, {"id": "b", "text": FOX + "cat"}]).to_pylist()
    assert [one[f"band_1_row_{n}"] for n in range(1, 8)] == [96, 79, 155, 66, 46, 110, 236]
    assert (one["band_1"], one["band_18"]) == (12571427307518320995, 17602467638914613738)
    rows = [name for name in one if "_row_" in name]
    assert sum(one[name] == other[name] for name in rows) == 109
    assert len(rows) == 126


def test_a_matcher_takes_signatures_from_a_file(tmp_path: Path) -> None:
    """Parquet: the pairs are those of the texts, with their similarity; a refused document has no row."""
    signed = sign_table(
        pyarrow.concat_tables([wire().select(["id", "text"]), pyarrow.table({"id": ["x"], "text": [""]})])
    )
    parquet.write_table(signed, tmp_path / "signed.parquet")
    batch = batch_of_signatures(parquet.read_table(tmp_path / "signed.parquet"))
    assert (batch.size, signed.num_rows) == (110, 111)
    assert match_step(Matcher(Config()), batch).pairs() == pairs_of_texts()
    for config, sentence in (
        (Config(threshold=0.5), "has no column"),
        (Config(verify="exact"), "set verify to sketch"),
        (Config(scheme="prefix"), "has no signature"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            batch_of_signatures(signed, config)


@pytest.mark.processes
def test_another_language_has_the_keys_and_the_similarities(tmp_path: Path) -> None:
    """It derives every key from the rows, and finds each pair with the similarity that it has here; another engine
    reads the file."""
    node, duckdb = shutil.which("node"), pytest.importorskip("duckdb")
    if node is None:
        pytest.skip("no node on the path")
    parquet.write_table(sign_table(wire()), tmp_path / "signed.parquet")
    duckdb.execute(f"COPY '{tmp_path}/signed.parquet' TO '{tmp_path}/signed.jsonl'")
    words = [node, EXAMPLES / "signatures.mjs", tmp_path / "signed.jsonl"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = {(one["older"], one["newer"]): one["similarity"] for one in map(json.loads, done.stdout.splitlines())}
    expected = {(pair.older, pair.newer): pair.similarity for pair in pairs_of_texts()}
    assert {ids: found.get(ids) for ids in expected} == pytest.approx(expected)
    assert len((EXAMPLES / "signatures.mjs").read_text().splitlines()) <= 30
    (tmp_path / "signed.jsonl").write_text((tmp_path / "signed.jsonl").read_text().replace('"band_3":1', '"band_3":2'))
    assert "another key of band 3" in subprocess.run(words, capture_output=True, text=True, check=False).stderr


@pytest.mark.processes
def test_datasketch_looks_up_signatures_of_here(tmp_path: Path) -> None:
    """Its index finds the nearest copies of a story: it misses a pair now and then, as any index of bands does."""
    found = run_block("datasketch", tmp_path).strip()
    near = {
        pair.newer for pair in pairs_of_texts() if pair.older == "harbour-post/night-ferry" and pair.similarity > 0.9
    }
    assert near
    assert near <= set(json.loads(found.replace("'", '"')))


def test_signatures_of_datasketch_are_matched_here() -> None:
    """Texts of which nine tenths are equal are a pair, with nearly that similarity; others are none."""
    needs("datasketch")
    from datasketch import LeanMinHash, MinHash

    def signed(words: range) -> Any:
        made = MinHash(num_perm=126, seed=1)
        made.update_batch([str(word).encode() for word in words])
        return LeanMinHash(made)

    values: dict[str, Any] = {}
    exec(block_of("batch_of_signatures"), values)
    hashes = {"a": signed(range(1000)), "b": signed(range(50, 1000)), "c": signed(range(5000, 6000))}
    (pair,), _ = values["pairs"](hashes)
    assert pair[:2] == ("a", "b")
    assert pair.similarity == pytest.approx(0.95, abs=0.06)
    assert np.isclose(pair.similarity, hashes["a"].jaccard(hashes["b"]), atol=0.02)
