"""The benchmarks run at smoke size, and their results are right. No test asserts a time."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from benchmarks import __main__ as runner
from benchmarks import contenders, peers, real, scripts
from benchmarks.recall import entities, exact, schemes, sets, truncation, verdicts
from benchmarks.report import Result, Target, checksum
from benchmarks.speed import arrow, command, floods, floor, linker, sources, table, vectors
from benchmarks.texts import KINDS, all_pairs, char_shingles, documents, shingle_sets, similar_pairs, word_shingles
from real_sets import needs_data

from neardup import Config, Deduplicator
from neardup.schemes.rows import SCHEMES

ROOT = Path(__file__).resolve().parents[2]


def test_texts_follow_from_their_seed() -> None:
    """The same seed gives the same documents, another seed gives others; ids have 20 bytes and are unique."""
    first, again, other = (documents("5kb", 12, seed) for seed in (1, 1, 2))
    assert first == again
    assert not {d.text for d in first} & {d.text for d in other}
    assert {len(d.id) for d in first} == {20}
    assert len({d.id for d in first}) == len({d.text for d in first}) == 12
    assert checksum((d.id, d.text) for d in first) == "c43de448a0cb36e7"


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_in_normal_form(kind: str) -> None:
    """No contender has to normalise them: ASCII, lower case, single blanks, of the length that their kind says."""
    for document in documents(kind, 20, seed=1):
        assert document.text == " ".join(document.text.lower().split())
        assert document.text.isascii()
        assert abs(len(document.text) - 5000) < 50 if kind == "5kb" else len(document.text.split()) == KINDS[kind].words


@pytest.mark.parametrize(("kind", "cut"), [("20w", char_shingles), ("300w", word_shingles)])
@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_the_oracle_finds_what_brute_force_finds(kind: str, cut: object, threshold: float) -> None:
    """The join over rarest shingles misses no pair and invents none."""
    sets = shingle_sets([d.text for d in documents(kind, 150, seed=9, edited_fraction=0.5)], cut)  # type: ignore[arg-type]
    sets += [sets[3], sets[5][:0], sets[5][:0]]
    found = similar_pairs(sets, threshold)
    assert found == pytest.approx(all_pairs(sets, threshold))
    assert len(found) > 10
    assert found[3, 150] == 1.0


def test_planted_copies_surround_the_threshold() -> None:
    """Edited copies lie on both sides of .8, so that recall and precision say something."""
    sets = shingle_sets([d.text for d in documents("5kb", 120, seed=1)], char_shingles)
    similarities = np.array(list(similar_pairs(sets, 0.6).values()))
    assert (similarities >= 0.8).sum() >= 5
    assert (similarities < 0.8).sum() >= 5


@pytest.mark.parametrize("name", contenders.CONTENDERS)
def test_contenders_meet_copies_and_leave_strangers_alone(name: str) -> None:
    """Every installed contender returns the copy once, the older id first, and no other pair."""
    row = contenders.CONTENDERS[name]
    if row.version is None:
        pytest.skip(f"{row.package} is not installed")
    stream = documents("5kb", 4, seed=11, edited_fraction=0.0)
    copy = stream[1]._replace(id="copy")
    for shingles in row.shingles:
        assert row.start(shingles, *row.shape)([*stream, copy]) == [(stream[1].id, "copy")]
    if row.ready is not None:
        ready = [document._replace(text="", tokens=row.ready(document.text)) for document in [*stream, copy]]
        assert row.start("ready", *row.shape)(ready) == [(stream[1].id, "copy")]


def test_missing_peers_are_reported_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that is not installed is a row that says so, and no error; the others run."""
    ours = contenders.CONTENDERS["neardup"]
    absent = ours._replace(title="absent", package="no-such-distribution")
    monkeypatch.setattr(peers, "CONTENDERS", {"neardup": ours, "absent": absent})
    first, second = peers.run("S2-300w-words3", "smoke")
    assert first.verdict == ""
    assert second.verdict == "absent"
    assert "not installed" in second.details["note"]


def test_peers_scenarios_find_the_planted_pairs() -> None:
    """Recall over the planted pairs is what 18 bands of 7 rows promise; the answers have a fixed checksum."""
    results = {result.name: result for result in peers.run("S2-300w-words3", "smoke")}
    ours = results["neardup"]
    assert ours.details["recall"] == 1.0
    assert ours.details["pairs"] == 4
    assert ours.details["checksum"] == "81a7395328c7502c"
    assert {result.value is None for name, result in results.items() if "neardup" in name} == {False}


def test_table_scenarios_keep_count() -> None:
    """Random keys have no candidates; a full window evicts one document for each new one."""
    growth = list(table.SCENARIOS[table.GROWTH]("smoke"))
    assert [r.details["items"] for r in growth if "cost" in r.name] == list(table.GROWTH_SIZES["smoke"])
    assert {r.details["candidates"] for r in growth if "cost" in r.name} == {0}
    cost, live, ratio = table.SCENARIOS[table.WINDOW]("smoke")
    size = table.WINDOW_SIZES["smoke"][0]
    assert cost.details["evicted"] == cost.details["items"] - size
    assert live.value is not None
    assert ratio.value is not None
    assert ratio.value >= 1.0


def test_copies_cost_one_pair_each() -> None:
    """n copies of one document are n - 1 pairs."""
    rate, pairs = floods.SCENARIOS[floods.COPIES]("smoke")
    assert rate.value is not None
    assert pairs.verdict == "reached"
    assert pairs.details["distinct documents' pairs"] == 0
    assert pairs.details["checksum"] == "80eecc3a1669a21a"


def test_buckets_of_documents_that_differ_in_a_word_are_truncated_and_counted() -> None:
    """No two of them are equal, each pairs with the newest ones, and the cuts of the buckets are counted."""
    _, cuts = floods.SCENARIOS[floods.ONE_WORD]("smoke")
    assert cuts.details["copies"] == 0
    assert cuts.details["candidates"] > 320 * 100
    dedup = Deduplicator()
    pairs = dedup.process(floods.one_word_apart(300, floods.SEED))
    assert dedup.counts()["cuts"] > 0
    assert len({frozenset(pair[:2]) for pair in pairs}) == len(pairs)


def test_the_bare_loops_compute_the_shingles() -> None:
    """The floor sums the same hashes as the shingles (the scenario asserts it); sketches have a fixed checksum."""
    results = {result.name: result for result in floor.run("smoke")}
    assert results["shingles and signatures"].details["checksum"] == "eea2b3869afc1fc9"


def test_recall_scenarios_reach_their_targets() -> None:
    """Recall at the threshold and bias lie within binomial bounds, for a fixed seed."""
    results = list(sets.run("smoke"))
    assert {result.verdict for result in results} == {"reached"}
    assert {result.name.partition(",")[0] for result in results} == set(sets.ROWS)


def test_the_recall_of_every_scheme_has_a_scenario() -> None:
    """No scheme is without one."""
    assert set(schemes.RECALL) == set(SCHEMES)
    assert set(schemes.RECALL.values()) <= set(runner.SCENARIOS)


def test_verified_recall_reaches_its_targets() -> None:
    """If similarity is measured, at thresholds .5, .8 and .95."""
    results = list(sets.run_exact("smoke"))
    assert [result.verdict for result in results] == ["reached"] * 6


def test_recall_of_vectors_reaches_its_targets() -> None:
    """The recall of every measure at the threshold, for a fixed seed."""
    results = list(vectors.run_recall("smoke"))
    assert [result.verdict for result in results] == ["reached"] * len(vectors.SETTINGS)


@pytest.mark.processes
def test_signing_vectors_has_a_fixed_checksum() -> None:
    """Next to its rate against a plain product: sketches of 128 and of 784 components are the same everywhere."""
    results = list(vectors.run_speed("smoke"))
    assert [result.name.rpartition(": ")[2] for result in results] == ["signing", "documents to matches"] * 2
    assert [result.details["checksum"] for result in results[::2]] == ["bc16d4e4a0bff331", "a4605af3973e9f80"]


def test_bias_of_families_is_reported() -> None:
    """Linear functions are worst at the ends of 0 to 9; families that promise to be min-wise keep it."""
    results = {result.name: result for result in sets.run_minwise("smoke")}
    assert {result.verdict for result in results.values()} == {"reached", ""}
    assert results["a x + b mod 101, 0 to 9: least share"].details["bias"] == pytest.approx(0.362, abs=0.001)
    assert results["minhash, 0 to 9: bias"].value > 0.2


@needs_data
def test_recall_on_real_sets_reaches_its_target() -> None:
    """Every smoke set is found, or says that it is not there."""
    results = list(real.run("smoke"))
    assert {result.verdict for result in results} == {"reached"}
    assert {result.details["edge"] for result in results} == {0}


def test_exact_rows_miss_no_pair_and_invent_none() -> None:
    """On generated sets, and on real texts if they are present."""
    for result in [*exact.run("smoke"), *exact.recall("smoke")]:
        if "missed" in result.details and "prefix" in result.name:
            assert (result.details["missed"], result.details["below the threshold"]) == (0, 0)
            assert result.details["pairs"] == result.details["true pairs"]
        if result.scenario == exact.RECALL:
            assert result.verdict == "reached"


def test_absent_real_data_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Without the folder each set is a row that says so."""
    monkeypatch.setattr(real, "DATA", tmp_path)
    assert {result.verdict for result in real.run("smoke")} == {"absent"}


def test_fingerprints_of_one_finger_are_candidates_as_often_as_they_should() -> None:
    """Both targets are reached, and no print of another finger is as similar."""
    results = list(entities.run_fingerprints("smoke"))
    assert [result.verdict for result in results] == ["reached", "", "reached", ""]
    assert [result.details["false"] for result in results[::2]] == [0, 0]
    assert [result.details["checksum"] for result in results[::2]] == ["6ca07d90de8b880a", "6c745d646a3f267a"]


def test_records_are_found_or_reported_as_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Precision and recall reach their targets where the labelled sets are there."""
    if entities.DATA.exists():
        verdicts = [result.verdict for result in entities.run_records("smoke")]
        assert verdicts == ["reached", "reached", ""] * 4
    monkeypatch.setattr(entities, "DATA", tmp_path)
    assert [result.verdict for result in entities.run_records("smoke")] == ["absent"] * 4


def test_texts_of_scripts_have_as_many_code_points_as_ascii() -> None:
    """Only the set named ASCII is ASCII; sets of marked scripts have marks."""
    texts = {name: scripts.generated(name, 2)[1].text for name in scripts.SCRIPTS}
    assert {name for name, text in texts.items() if text.isascii()} == {"ASCII"}
    assert all(abs(len(text) - 5000) < 50 for text in texts.values())
    for name in ("decomposed Latin", "vocalised Arabic"):
        assert sum(map(bool, map(unicodedata.combining, texts[name]))) > 300


def test_scripts_are_measured_or_reported_as_absent() -> None:
    """Every script has a row for signing and one for each peer; four have rows for words too."""
    results = list(scripts.run("smoke"))
    names = [result.name for result in results]
    assert [f"{name}: signing" for name in scripts.SCRIPTS] == names[: len(scripts.SCRIPTS)]
    words = [name for name in names if ", words: " in name]
    assert len(words) == 4 * 3
    assert len(names) == 4 * sum(name.endswith(": signing") for name in names) + len(words)


@pytest.mark.processes
def test_the_command_finds_what_the_library_finds() -> None:
    """The pairs are compared within the scenario."""
    (result,) = command.run("smoke")
    if result.verdict == "absent":
        pytest.skip(str(result.details["note"]))
    assert result.details["pairs"] > 0


def test_tables_and_lines_get_the_same_verdicts() -> None:
    """The scenario fails by itself if they differ; it measures both lengths of texts."""
    results = list(arrow.run("smoke"))
    assert [result.name for result in results] == ["texts of 200 characters", "texts of 5,000 characters"]
    assert all(
        {"table, times", "arrow file, times", "parquet file, times"} <= result.details.keys() for result in results
    )


def test_the_cost_of_sources_is_measured_for_two_lengths() -> None:
    """The scenario runs the command with and without them."""
    results = list(sources.run("smoke"))
    assert [result.name for result in results] == ["texts of 1,000 characters", "texts of 5,000 characters"]
    assert all(result.details["microseconds a document"] > 0 for result in results)


def test_packed_shingles_are_distinct_hashes() -> None:
    """Packing five characters loses nothing."""
    text = documents("5kb", 1, seed=1)[0].text
    hashes = contenders.packed(text)
    assert len(hashes) == len(char_shingles(text))
    assert len(set(hashes.tolist())) == len(set(char_shingles(text)))


def test_contenders_differ_in_nothing_but_the_shape() -> None:
    """The timed configuration is the default: it has the same signing fingerprint."""
    assert contenders.config("chars", 18, 7).signing_fingerprint == Config().signing_fingerprint


@pytest.mark.parametrize(
    ("target", "value", "reached"),
    [
        (Target("at least", 4), 4.0, True),
        (Target("at least", 4), 3.9, False),
        (Target("at least", 0.95, 0.02), 0.94, True),
        (Target("at most", 2), 2.1, False),
        (Target("at most", 0.0, 0.01), 0.009, True),
        (Target("equal to", 3), 3, True),
    ],
)
def test_targets_are_reached_or_missed(target: Target, value: float, reached: bool) -> None:
    """A bound is inclusive, and chance is allowed for on the right side of it."""
    assert Result("id", "what", value, "", target).verdict == ("reached" if reached else "missed")


def test_results_are_written_as_json_lines(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for the environment with the seeds, one a result, each with id, value, target and verdict."""
    path = f"{tmp_path}/deep/results.jsonl"
    assert runner.main(["--size", "smoke", "--only", "S4-copies", "--json", path]) == 0
    with open(path, encoding="utf-8") as file:
        about, *rows = [json.loads(line) for line in file]
    assert about["environment"]["seeds"]["floods"] == floods.SEED
    assert [row["scenario"] for row in rows] == ["S4-copies", "S4-copies"]
    assert rows[1]["value"] == rows[1]["target"]["bound"]
    assert rows[1]["verdict"] == "reached"
    assert "S4-copies" in capsys.readouterr().out


def test_unknown_scenarios_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists all scenarios."""
    with pytest.raises(SystemExit):
        runner.main(["--only", "S99"])
    assert "S1-5kb-chars5" in capsys.readouterr().err


def test_scenario_ids_are_permanent() -> None:
    """An id always names the same measurement: ids are added and never renamed."""
    assert list(runner.SCENARIOS) == [
        "S1-5kb-chars5", "S2-300w-words3", "S29-lengths", "S3-table-growth", "S3-table-window", "S4-copies",
        "S4-one-word", "S5-floor", "S6-recall-generated", "S6-recall-exact", "S6-minwise", "S6-recall-real",
        "S7-command", "S7-first-run",
        "S8-records", "S8-prints", "S9-exact-short-texts", "S9-exact-recall", "S10-vectors-speed", "S10-vectors-recall",
        "S11-scripts", "S12-truncation", "S13-verdicts", "S14-linker", "S15-arrow",
        "S16-pages", "S17-crawl", "S18-whole-run", "S19-sources", "S21-search", "S23-serve", "S20-passages",
        "S20-passages-pages", "S20-passages-code", "S20-passages-speed", "S20-passages-files", "S20-templates-code",
        "S20-templates-pages", "S22-shards", "S22-shards-texts", "S24-faults", "S24-canaries-cost",
        "S24-shard-faults", "S24-shard-cost", "S25-audit", "S26-novelty-templates", "S26-novelty-corrections",
        "S26-novelty-floods", "S26-novelty-cuts", "S26-novelty-judged", "S26-novelty-stories", "S30-quotes",
        "S30-quotes-planted", "S30-quotes-blogs", "S30-quotes-chance", "S30-quotes-cost", "S30-quotes-books",
    ]  # fmt: skip


@needs_data
def test_no_document_of_a_real_set_is_dropped_without_one_that_is_kept() -> None:
    """With exact scores, a kept content reaches the threshold; connected components also drop other documents."""
    results = {result.name: result for result in verdicts.run("smoke")}
    name = "itn_multilingual char5, exact"
    assert results[f"{name}, verdicts: unsupported"].verdict == "reached"
    assert results[f"{name}, verdicts: unsupported"].details["dropped"] > 500
    components = results[f"{name}, components: unsupported"]
    assert (components.value or 0.0) > 0.05
    assert components.details["b3_precision"] < results[f"{name}, verdicts: unsupported"].details["b3_precision"]
    (row,) = (
        line for line in (ROOT / "docs" / "GUARANTEES.md").read_text(encoding="utf-8").splitlines()
        if line.strip().startswith(f"| {name} | components |")
    )  # fmt: skip
    assert f"| {components.value:.4f} |" in row


def test_a_linker_decides_restores_and_stays_within_bounds_while_a_matcher_is_down() -> None:
    """Every document is decided; with a matcher down no more than ``undecided_max`` wait, and memory stands still."""
    _, decided, restored, down, counted = linker.run("smoke")
    assert decided.details["documents"] == 10_000
    assert 2_000 < decided.details["duplicates"] < 3_000
    assert decided.details["checksum"] == "b92f08baedf0ce5a"
    assert restored.value is not None
    assert down.verdict == "reached"
    assert down.details["documents that arrived"] == 4 * down.details["undecided_max"]
    assert down.details["documents read"] <= down.details["undecided_max"] + linker.STEP
    assert 0 < counted.details["records a document"] < 1


def test_truncation_costs_pairs_and_no_clusters() -> None:
    """On generated clusters, fewer candidates lose more pairs, and each document stays in its cluster."""
    results = {result.name: result for result in truncation.run("smoke")}
    flood = "one word apart, 120: clusters lost"
    lost = [float(results[f"{flood}, {n} a probe"].details["pairs lost"]) for n in truncation.PROBE_LIMITS]
    assert lost == sorted(lost, reverse=True)
    assert lost[0] > 0.5 > lost[-1] == 0.0
    assert {result.value for result in results.values()} == {0.0}


def test_b_cubed_recall_is_the_fraction_of_a_cluster_that_stays_together() -> None:
    """Four documents in one cluster of four, found as three and one: (3 x 3/4 + 1/4) / 4."""
    wanted, found = dict.fromkeys("abcd", "a"), {**dict.fromkeys("abc", "a"), "d": "d"}
    assert truncation.b_cubed_recall(found, wanted) == pytest.approx(0.625)
    assert (
        truncation.components("abcd", [("a", "b"), ("c", "b")])["c"] == truncation.components("ab", [("a", "b")])["b"]
    )


def test_the_table_of_the_readme_has_a_row_for_each_contender_that_is_installed(monkeypatch):
    """neardup is the measure of all columns."""
    monkeypatch.setattr(scripts, "_PEERS", ())
    monkeypatch.setitem(scripts.CONTENDERS, "datasketch", scripts.CONTENDERS["neardup"]._replace(package="absent"))
    for rows, first in zip(scripts.TABLES, ("| chars | ASCII |", "| words | English |"), strict=True):
        head, line, row = scripts.table(rows._replace(documents=2, repeats=1))
        assert head.startswith(first)
        assert head.count("|") == line.count("|") == row.count("|")
        assert row.startswith("| neardup | 1 |")


def test_the_table_of_scripts_names_the_cost_of_each(monkeypatch):
    """ASCII is the measure."""
    monkeypatch.setattr(scripts, "_SIGNED_DOCUMENTS", 2)
    monkeypatch.setitem(scripts._REPEATS, "default", 1)
    head, line, ascii_row, *rows = scripts.signing_table()
    assert head.count("|") == line.count("|") == ascii_row.count("|")
    assert (ascii_row.startswith("| ASCII |"), ascii_row.endswith("| 1.00 |")) == (True, True)
    assert len(rows) >= len(scripts.SCRIPTS) - 1
