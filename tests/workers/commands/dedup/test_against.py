"""``dedup --against OLD`` drops of the new documents what the old ones have, and writes none of the old ones."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pyarrow
import pytest
from command import WORDS
from dedup_outputs import deduplicated
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pyarrow import parquet

from neardup import Config, Deduplicator, Document
from neardup_workers.outside.process.exits import Failure

_RANDOM = random.Random(5)
_TEXTS = [
    " ".join("".join(_RANDOM.choices("abcdefghijkl", k=7)) for _ in range(60)) for _ in range(4)
]  # nothing in common


def _near(text: str, edits: int) -> str:
    """The text with its last words replaced, one for each edit: each edit is further away."""
    words = text.split()
    return " ".join([*words[: len(words) - edits], *(f"other{n}" for n in range(edits))])


def _written(folder: Path, name: str, *documents: tuple[str, str]) -> str:
    path = folder / name
    path.write_text("".join(json.dumps({"id": id_, "text": text}) + "\n" for id_, text in documents))
    return str(path)


def test_only_the_new_documents_are_reduced_and_verdicts_name_the_old_ones(tmp_path: Path) -> None:
    """Also within themselves; the old ones, which repeat each other too, are in no output."""
    one, two, three, _ = _TEXTS
    first = _written(tmp_path, "a.jsonl", ("a", one), ("a2", _near(one, 1)))
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps({"id": "b", "text": two}).encode()))
    new = _written(tmp_path, "new1.jsonl", ("n1", _near(one, 1)), ("n2", three), ("n3", two + " more"))
    more = _written(tmp_path, "new2.jsonl", ("n4", three + " more"), ("n5", _TEXTS[3]))
    out = deduplicated(new, more, folder=tmp_path, against=[first, str(packed)])
    assert [json.loads(line)["id"] for line in out["kept"].splitlines()] == ["n2", "n5"]
    verdicts = [json.loads(line) for line in out["verdicts"].splitlines()]
    assert [(one["id"], one["status"], one.get("duplicate_of")) for one in verdicts] == [
        ("n1", "duplicate", "a2"), ("n2", "original", None), ("n3", "duplicate", "b"),
        ("n4", "duplicate", "n2"), ("n5", "original", None),
    ]  # fmt: skip
    removed = [json.loads(line)["neardup"]["duplicate_of"] for line in out["removed"].splitlines()]
    assert removed == ["a2", "b", "n2"]
    annotated = deduplicated(new, more, folder=tmp_path, against=[first, str(packed)], annotate=True)
    assert [json.loads(line)["neardup"] for line in annotated["kept"].splitlines()] == verdicts
    summary = json.loads(out["summary"])
    assert (summary["documents"], summary["against"], summary["kept"], summary["duplicates"]) == (8, 3, 2, 3)


def test_each_old_document_counts_although_old_ones_repeat_each_other(tmp_path: Path) -> None:
    """In one stream a copy of a copy is further away from what is kept; here every old document is compared with."""
    text = _TEXTS[0]
    old, far = [("a", text), ("b", _near(text, 3)), ("c", _near(text, 6))], ("n", _near(text, 9))
    alone = deduplicated(_written(tmp_path, "all.jsonl", *old, far), folder=tmp_path)
    assert alone["statuses"] == ["original", "duplicate", "duplicate", "original"]
    new, files = _written(tmp_path, "new.jsonl", far), [_written(tmp_path, "old.jsonl", *old)]
    verdict = json.loads(deduplicated(new, folder=tmp_path, against=files)["verdicts"])
    assert (verdict["status"], verdict["duplicate_of"]) == ("duplicate", "c")


_MADE = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.integers(0, 12)), max_size=12)


@hypothesis_settings(max_examples=40, deadline=None)
@given(_MADE, _MADE)
def test_what_is_kept_is_near_no_old_document(old: list[tuple[str, int, int]], new: list[tuple[str, int, int]]) -> None:
    """Whatever repeats what: a new document that makes a pair with an old one of another id is no original."""
    config = Config()
    documents = [[Document(f"{side}{id_}", _near(_TEXTS[n], edits)) for id_, n, edits in made]
                 for side, made in (("old-", old), ("new-", new))]  # fmt: skip
    dedup, pairs = Deduplicator(config), Deduplicator(config)
    assert {
        verdict.duplicate_of for verdict in dedup.decide(documents[0], reference=True) if verdict.similarity != 1
    } <= {None}
    pairs.process(documents[0])
    near = [bool(pairs.probe([document])) for document in documents[1]]
    for document, is_near, verdict in zip(documents[1], near, dedup.decide(documents[1]), strict=True):
        assert not (is_near and verdict.status == "original"), document


@pytest.mark.parametrize("kind", ["csv", "parquet", "text"])
def test_kinds_of_inputs_may_differ(tmp_path: Path, kind: str) -> None:
    """A table and a folder of texts are old documents as lines are."""
    old = tmp_path / "old"
    old.mkdir()
    if kind == "csv":
        (old / "old.csv").write_text(f"id,text\na,{_TEXTS[0]}\n")
    elif kind == "parquet":
        table = pyarrow.table({"id": ["a"], "text": [_TEXTS[0]]})
        parquet.write_table(table, old / "old.parquet")
    else:
        (old / "a.txt").write_text(_TEXTS[0])
    new = _written(tmp_path, "new.jsonl", ("n", _TEXTS[0] + "!"), ("m", _TEXTS[1]))
    out = deduplicated(new, folder=tmp_path, against=[str(old)])
    assert out["statuses"] == ["duplicate", "original"]
    assert json.loads(out["verdicts"].splitlines()[0])["duplicate_of"].endswith("a.txt" if kind == "text" else "a")


def test_a_window_continues_with_the_old_documents(tmp_path: Path) -> None:
    """What ``--keep`` writes holds them; but two sets from before exclude each other."""
    old = _written(tmp_path, "old.jsonl", ("a", WORDS * 3))
    window = str(tmp_path / "window")
    deduplicated(_written(tmp_path, "new.jsonl", ("n", _TEXTS[0])), folder=tmp_path, against=[old], keep=window)
    last = _written(tmp_path, "last.jsonl", ("m", WORDS * 3 + "."), ("o", _TEXTS[0]))
    out = deduplicated(last, folder=tmp_path, window_from=window)
    assert [json.loads(line)["duplicate_of"] for line in out["verdicts"].splitlines()] == ["a", "n"]
    with pytest.raises(Failure, match="both say what came before"):
        deduplicated(last, folder=tmp_path, window_from=window, against=[old])


def test_documents_of_files_name_no_origin(tmp_path: Path) -> None:
    """Their set is that of their file; a service and workers read the field."""
    with pytest.raises(Failure, match="give dedup the old set with --against"):
        deduplicated(_written(tmp_path, "new.jsonl", ("n", WORDS)), folder=tmp_path, fields=("origin=set",))


def test_an_old_file_that_is_missing_ends_the_run_before_anything_is_written(tmp_path: Path) -> None:
    """As a missing new one does."""
    with pytest.raises(Failure, match=r"missing\.jsonl"):
        deduplicated(
            _written(tmp_path, "new.jsonl", ("n", WORDS)), folder=tmp_path, against=[str(tmp_path / "missing.jsonl")]
        )
    assert not (tmp_path / "out-kept").exists()
