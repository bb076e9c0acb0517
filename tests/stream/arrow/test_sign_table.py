"""Signatures and keys as columns: with SQL they lead to the candidates of the stream."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from neardup import Config, ConfigError, Deduplicator, Document, sign_table

pa = pytest.importorskip("pyarrow", reason="the optional extra 'arrow' is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

# The last slide has five bands of four rows.
SLIDE = {"bands": 5, "rows": 4, "threshold": 0.8, "recall": 0.5}
BANDS, ROWS = range(1, 6), range(1, 5)
# The chain of edits of a text: neighbours are similar, the ends are not.
WORDS = [f"word{n * n}" for n in range(60)]
TEXTS = {f"d{n}": " ".join(WORDS[n : n + 30]) for n in range(0, 30, 2)}


def signed(config: Config, texts: dict[str, str | None] = TEXTS) -> pa.Table:
    return sign_table(pa.table({"id": list(texts), "text": list(texts.values())}), config)


def where(row: dict[str, int]) -> str:
    """The condition of the last slide: for each band, all its rows are those of a document."""
    bands = [" AND ".join(f"band_{b}_row_{r} = {row[f'band_{b}_row_{r}']}" for r in ROWS) for b in BANDS]
    return " OR ".join(f"({band})" for band in bands)


@pytest.mark.parametrize(
    "settings", [{}, {"scheme": "minhash", "sketch_bits": 16}, {"scheme": "permutation", "verify": "exact"}]
)
def test_the_condition_of_the_last_slide_selects_the_candidates_of_a_document(settings) -> None:
    """(band 1 AND its rows) OR (band 2 ...): the documents are those that a probe of the stream meets, and those with
    an equal key."""
    config = Config(**{**SLIDE, **settings})
    documents = signed(config)
    pairs = Deduplicator(config, candidates=True).process(Document(id_, text) for id_, text in TEXTS.items())
    met = {frozenset(pair[:2]) for pair in pairs}
    assert 5 < len(met) < 90
    by_rows, by_keys = set(), set()
    for row in documents.to_pylist():
        keys = " OR ".join(f"band_{band} = {row[f'band_{band}']}" for band in BANDS)
        for found, condition in ((by_rows, where(row)), (by_keys, keys)):
            ids = duckdb.sql(f"SELECT id FROM documents WHERE {condition}").fetchall()
            found |= {frozenset((row["id"], id_)) for (id_,) in ids if id_ != row["id"]}
    assert by_rows == by_keys == met


def test_a_key_is_equal_where_all_rows_of_its_band_are() -> None:
    """For each pair and each band, and for no other pair."""
    rows = signed(Config(**SLIDE)).to_pylist()
    for one, other in combinations(rows, 2):
        for band in BANDS:
            alike = all(one[name] == other[name] for name in (f"band_{band}_row_{row}" for row in ROWS))
            assert alike == (one[f"band_{band}"] == other[f"band_{band}"])


def test_the_share_of_equal_rows_estimates_the_similarity() -> None:
    """256 whole rows of MinHash: 24 of 36 words are common to d0 and d6, two thirds; the estimate is within .15."""
    config = Config(
        scheme="minhash", shingles="words", k=1, bands=32, rows=8, rows_max=256, threshold=0.8, sketch_bits=32
    )
    one, other = (row for row in signed(config).to_pylist() if row["id"] in ("d0", "d6"))
    names = [name for name in one if "_row_" in name]
    assert len(names) == 256
    assert np.mean([one[name] == other[name] for name in names]) == pytest.approx(2 / 3, abs=0.15)


def test_a_row_without_a_signature_is_null_in_its_place() -> None:
    """No condition selects it. The types are those of the sketch; ids keep theirs."""
    found = signed(Config(**SLIDE), {"empty": "", "none": None, "long": TEXTS["d0"], "again": TEXTS["d0"]})
    rows = found.to_pylist()
    assert [row["id"] for row in rows] == ["empty", "none", "long", "again"]
    assert [set(list(row.values())[1:]) == {None} for row in rows] == [True, True, False, False]
    assert list(rows[2].values())[1:] == list(rows[3].values())[1:]
    assert [str(found.schema.field(name).type) for name in ("id", "band_5", "band_5_row_4")] == [
        "string", "uint64", "uint8",
    ]  # fmt: skip
    assert str(sign_table(pa.table({"id": [7], "text": ["one text"]})).schema.field("id").type) == "int64"
    assert sign_table(pa.table({"id": pa.array([], pa.int64()), "text": pa.array([], pa.string())})).num_rows == 0


@pytest.mark.parametrize(
    "settings", [{"scheme": "prefix"}, {"scheme": "grouped"}, {"scheme": "bit_sampling:dimension=8"}]
)
def test_a_scheme_without_rows_in_bands_is_refused(settings) -> None:
    """Tokens in order, rows that may be missing, vectors."""
    with pytest.raises(ConfigError, match="has no signature of a text with rows in bands: use one_permutation"):
        signed(Config(**settings))
