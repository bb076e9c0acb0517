"""``neardup audit`` against a comparison of all documents with all, in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from neardup_workers.doing.audit import measuring
from neardup_workers.doing.audit.measuring import audit, line_of, sentence_of, summary_of
from neardup_workers.doing.audit.sample import signing_of
from neardup_workers.doing.session import report
from neardup_workers.outside.options.documents import BatchOptions, DedupOptions, RunOptions
from neardup_workers.outside.options.judging import AuditOptions
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.settings.files import Settings
from neardup_workers.running.commands.batch.corpus import run as batch
from neardup_workers.running.commands.dedup.command import run as dedup
from neardup_workers.running.commands.run import run

THRESHOLD, WINDOW_SECONDS, WINDOW_DOCUMENTS = 0.5, 40, 30


class Row:
    """A document of a generated stream, with its bag of shingles as content."""

    def __init__(self, place: int, id_: str, text: str) -> None:
        self.place, self.id, self.text = place, id_, text
        bag = Counter(text[i : i + 3] for i in range(len(text) - 2))
        self.content, self.shingles = tuple(sorted(bag.items())), frozenset(bag)

    def reaches(self, other: Row) -> bool:
        return len(self.shingles & other.shingles) / len(self.shingles | other.shingles) >= THRESHOLD

    def near(self, other: Row, windowed: bool) -> bool:
        return not windowed or (
            abs(self.place - other.place) < WINDOW_DOCUMENTS and abs(self.place - other.place) <= WINDOW_SECONDS
        )


def stream(seed: int, tmp_path: Path) -> tuple[list[Row], str]:
    """Eighty documents: fresh ones, edits and copies of earlier ones, some ids twice; a second apart."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for place in range(80):
        text = "".join(rng.choices("abcdef", k=20))
        if rows and rng.random() < 0.6:
            text = rng.choice(rows).text
            if rng.random() < 0.7:
                at = rng.randrange(18)
                text = text[:at] + rng.choice("abcdef") + text[at + 1 :]
        rows.append(Row(place, rng.choice(rows).id if rows and rng.random() < 0.05 else f"d{place}", text))
    lines = (json.dumps({"id": row.id, "text": row.text, "timestamp": row.place}) for row in rows)
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    return rows, str(tmp_path / "in.jsonl")


def settings_of(*, windowed: bool) -> Settings:
    window = {"window_seconds": WINDOW_SECONDS, "window_documents": WINDOW_DOCUMENTS} if windowed else {}
    return Settings(threshold=THRESHOLD, k=3, sketch_bits=16, **window)


def written(tmp_path: Path, rows: list[dict[str, Any]]) -> str:
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "out.jsonl")


@pytest.mark.parametrize("windowed", [False, True])
def test_the_figures_of_pairs_are_those_of_all_with_all(tmp_path: Path, windowed: bool) -> None:
    """Copies folded, versions, a window by time and number, and pairs of any part of the documents."""
    for seed in range(6):
        rows, path = stream(seed, tmp_path)
        rng = random.Random(seed)
        every = [(a, b) for a, b in product(rows, rows) if a.place < b.place and a.id != b.id and a.reaches(b)]
        said = {(a.id, b.id) for a, b in every if rng.random() < 0.4}
        output = written(tmp_path, [{"older": a, "newer": b, "similarity": 0.9} for a, b in sorted(said)])
        first: dict[object, Row] = {}
        for row in rows:
            first.setdefault(row.content, row)
        true = joined = units = found = 0
        for x in first.values():
            partners = {b for a, b in said if a == x.id} | {a for a, b in said if b == x.id}
            near = [row for row in rows[: x.place] if row.reaches(x) and row.near(x, windowed)]
            true += len({row.content for row in near})
            joined += len({row.content for row in near if row.id in partners})
            units += bool(near)
            found += bool(near) and any(row.id in partners for row in rows[: x.place])
        result = audit(AuditOptions([path], pairs=output, sample=1_000), settings_of(windowed=windowed))
        assert (result.contents, result.units) == (len(first), units)
        assert units <= result.sampled <= len(first)
        assert result.recall.value == pytest.approx(found / units)
        assert result.recall.low <= found / units <= result.recall.high <= result.recall.low + 0.1
        assert result.pairs.value == pytest.approx(joined / true)
        assert 0 < len(result.misses) <= 10
        for miss in result.misses:
            assert miss.similarity >= THRESHOLD
            assert not {(miss.older.id, miss.newer.id), (miss.newer.id, miss.older.id)} & said


def test_the_figures_of_verdicts_are_those_of_all_with_all(tmp_path: Path) -> None:
    """Recall is about earlier kept documents; precision about the original that a verdict names."""
    for seed in range(6):
        rows, path = stream(seed, tmp_path)
        rows = [Row(row.place, f"d{row.place}", row.text) for row in rows]
        Path(path).write_text("\n".join(json.dumps({"id": row.id, "text": row.text}) for row in rows))
        rng = random.Random(seed)
        verdicts: list[dict[str, Any]] = []
        for row in rows:
            kept = [rows[n] for n, verdict in enumerate(verdicts) if verdict["status"] == "original"]
            named = rng.choice(kept) if kept and rng.random() < 0.5 else None
            verdicts.append(
                {"id": row.id, "status": "original"}
                if named is None
                else {"id": row.id, "status": "duplicate", "duplicate_of": named.id}
            )
        seen: set[object] = set()
        units = found = dropped = confirmed = 0
        for row, verdict in zip(rows, verdicts, strict=True):
            if row.content in seen:
                continue
            seen.add(row.content)
            earlier = [
                other
                for other, said in zip(rows[: row.place], verdicts, strict=False)
                if other.reaches(row) and said["status"] == "original"
            ]
            units += bool(earlier)
            found += bool(earlier) and verdict["status"] == "duplicate"
            if verdict["status"] == "duplicate":
                dropped += 1
                confirmed += rows[int(verdict["duplicate_of"][1:])].reaches(row)
        result = audit(
            AuditOptions([path], verdicts=written(tmp_path, verdicts), sample=1_000), settings_of(windowed=False)
        )
        assert result.units == units
        assert result.recall.value == pytest.approx(found / units)
        assert (result.dropped, result.precision.value) == (dropped, confirmed / dropped)


@pytest.mark.parametrize(
    ("given", "has_keys"),
    [
        ({}, True), ({"verify": "exact"}, True), ({"false_weight": 0.01}, True), ({"measure": "jaccard_bag"}, True),
        ({"buckets_shared_min": 2, "min_similarity": 0.3}, True), ({"scheme": "prefix"}, False),
        ({"verify": "exact", "measure": "containment"}, False), ({"threshold": 0.3, "recall": 0.5}, True),
        ({"threshold": 0.2, "recall": 0.5}, False),
    ],
)  # fmt: skip
def test_whatever_the_settings_the_units_are_those_of_all_with_all(
    tmp_path: Path, given: dict[str, Any], has_keys: bool
) -> None:
    """Buckets of the audit's own where their law holds, with hash functions of their own; else all documents are
    compared. Nothing was found, so the interval is a point."""
    rows, path = stream(3, tmp_path)
    settings = Settings(**{"threshold": THRESHOLD, "k": 3, **given})
    signing = signing_of(settings, 0)
    assert signing.has_keys == has_keys
    assert (signing.settings.signing_fingerprint != settings.signing_fingerprint) == has_keys
    result = audit(AuditOptions([path], pairs=written(tmp_path, []), sample=1_000), settings)
    first = {row.content: row for row in reversed(rows)}.values()
    if given.get("threshold", THRESHOLD) == THRESHOLD and "measure" not in given:
        assert result.units == sum(any(row.reaches(x) for row in rows[: x.place]) for x in first)
    assert result.units > 20
    assert result.recall == (0, 0, 0)


def test_a_draw_is_repeated_by_its_number_and_another_number_draws_others(tmp_path: Path) -> None:
    """So a figure can be checked, and a second sample taken."""
    _, path = stream(1, tmp_path)
    output = written(tmp_path, [{"older": "d0", "newer": "d1"}])

    def misses(draw: int) -> list[str]:
        options = AuditOptions([path], pairs=output, sample=20, draw=draw)
        return [miss.newer.id for miss in audit(options, settings_of(windowed=False)).misses]

    assert misses(1) == misses(1)
    assert misses(1) != misses(2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "give --pairs of run, or --verdicts of dedup"),
        ({"pairs": "a", "verdicts": "b"}, "one output"),
        ({"paths": ["-"], "pairs": "a"}, "twice"),
        ({"verdicts": "out.jsonl"}, "has no verdict about 'd0'"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], sentence: str
) -> None:
    """No output or two, standard input, and verdicts about other documents."""
    monkeypatch.chdir(tmp_path)
    _, path = stream(1, tmp_path)
    written(tmp_path, [])
    with pytest.raises(Failure, match=sentence):
        audit(AuditOptions(**{"paths": [path], **options}), settings_of(windowed=False))
    with pytest.raises(Failure, match="compares none"):
        audit(
            AuditOptions([path], pairs="x"),
            Settings(scheme="p_stable:dimension=2,distance_scale=1.0", measure="euclidean", threshold=0.5),
        )


def test_a_run_measures_itself_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence under the summary, and the figures that ``audit`` gives, in the summary as JSON."""
    _, path = stream(2, tmp_path)
    settings, summary = settings_of(windowed=False), tmp_path / "summary.json"
    pairs, verdicts = str(tmp_path / "pairs.jsonl"), str(tmp_path / "verdicts.jsonl")
    given: dict[str, Any] = {"truth": True, "summary_json": str(summary)}
    figures = []
    run(RunOptions([path], output=pairs, **given), settings)
    figures.append(json.loads(summary.read_text())["audit"]["documents"]["recall"]["value"])
    dedup(DedupOptions([path], output=str(tmp_path / "kept.jsonl"), verdicts=verdicts, **given), settings)
    figures.append(json.loads(summary.read_text())["audit"]["verdicts"]["recall"]["value"])
    batch(BatchOptions([path], verdicts=str(tmp_path / "batch.jsonl"), **given), settings)
    assert json.loads(summary.read_text())["audit"]["verdicts"]["units"] > 0
    assert figures == [
        audit(AuditOptions([path], pairs=pairs), settings).recall.value,
        audit(AuditOptions([path], verdicts=verdicts), settings).recall.value,
    ]
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("audit of")]
    assert len(said) == 3
    assert "with an earlier neighbour" in said[0]
    assert all("with an earlier kept neighbour" in line for line in said[1:])


def test_a_miss_by_a_limit_is_explained_by_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two documents alone share a bucket; when the newer one came, a limit of candidates hid the older one. The third
    reading that finds it out says how far it is, too."""
    monkeypatch.setattr(report, "_LINE_SECONDS", 1e-9)
    base = [f"w{n}" for n in range(60)]
    crowd = [" ".join([*base[:n], f"x{n}", *base[n + 1 :]]) for n in range(40)]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"id": f"d{n}", "text": text}) + "\n" for n, text in enumerate(crowd)))
    settings = Settings(threshold=0.6, sketch_bits=16, bucket_candidates_max=2, probe_candidates_max=2)
    output = written(tmp_path, [])
    found = audit(AuditOptions([str(path)], pairs=output, sample=1_000), settings, quiet=False).misses
    readings = [line.partition(":")[0] for line in capsys.readouterr().err.splitlines() if "audit, " in line]
    assert list(dict.fromkeys(readings)) == [
        "audit, reading 1 of 2", "audit, reading 2 of 2", "audit, why 10 were missed"
    ]  # fmt: skip
    assert len(found) == 10
    assert "truncated" in {miss.reason for miss in found} <= {"truncated", "pair"}
    for miss in found:
        sentence = sentence_of(miss)
        assert ("limit of candidates" in sentence) == (miss.reason == "truncated")
        assert "are found" not in sentence


def test_a_run_that_cannot_be_audited_says_so_before_it_begins(tmp_path: Path) -> None:
    """Without a file, in a stream without an end, and of standard input; no output is touched."""
    _, path = stream(2, tmp_path)
    output = tmp_path / "pairs.jsonl"
    for options, sentence in (
        (RunOptions([path], truth=True), "give --output FILE"),
        (RunOptions([path], truth=True, output=str(output), candidates=True), "--candidates are both given"),
        (RunOptions(["-"], truth=True, output=str(output)), "twice"),
    ):
        with pytest.raises(Failure, match=sentence):
            run(options, settings_of(windowed=False))
    assert not output.exists()


def test_files_that_do_not_belong_together_end_with_code_12_and_a_sentence(tmp_path: Path) -> None:
    """Verdicts named as pairs and pairs as verdicts; pairs and verdicts of another corpus, of more and of less."""
    _, path = stream(1, tmp_path)
    pair, verdict = {"older": "x0", "newer": "x1"}, {"id": "x0", "status": "original"}
    every = [{"id": f"d{n}", "status": "original"} for n in range(80)]
    for kind, rows, sentence in (
        ("pairs", [verdict], "no line of .* has older and newer"),
        ("pairs", [pair], "has a pair of 'x0', which the documents do not have: give all"),
        ("verdicts", [pair], "no line of .* has id and status"),
        ("verdicts", [verdict], "has no verdict about 'd0'"),
    ):
        with pytest.raises(Failure, match=sentence) as ended:
            audit(AuditOptions([path], **{kind: written(tmp_path, rows)}), settings_of(windowed=False))
        assert ended.value.code == 12
    (tmp_path / "two.jsonl").write_text('{"id": "d0", "text": "one text"}\n{"id": "d1", "text": "another one"}\n')
    with pytest.raises(Failure, match="a verdict about 'd2', which the documents do not have") as ended:
        audit(
            AuditOptions([str(tmp_path / "two.jsonl")], verdicts=written(tmp_path, every)), settings_of(windowed=False)
        )
    assert ended.value.code == 12


def test_the_seconds_of_a_run_are_those_without_its_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the run stands while the audit works, which has a line of its own."""
    _, path = stream(2, tmp_path)
    summary, now = tmp_path / "summary.json", [0.0]
    monkeypatch.setattr(report.time, "monotonic", lambda: now[0])
    audited = measuring.audit

    def slow(options: AuditOptions, settings: Settings, *, quiet: bool) -> measuring.Audit:
        now[0] += 100
        return audited(options, settings, quiet=quiet)

    monkeypatch.setattr(measuring, "audit", slow)
    options: dict[str, Any] = {"output": str(tmp_path / "pairs.jsonl"), "summary_json": str(summary)}
    run(RunOptions([path], truth=True, **options), settings_of(windowed=False))
    values = json.loads(summary.read_text())
    assert values["seconds"] < 100
    assert values["audit_seconds"] >= 100
    run(RunOptions([path], **options), settings_of(windowed=False))
    assert "audit_seconds" not in json.loads(summary.read_text())


def test_an_audit_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads the documents twice: each reading has an end, also where there is no terminal; a quiet run says
    nothing."""
    _, path = stream(2, tmp_path)
    monkeypatch.setattr(report, "_LINE_SECONDS", 1e-9)
    options: dict[str, Any] = {"output": str(tmp_path / "pairs.jsonl"), "truth": True}
    run(RunOptions([path], **options), settings_of(windowed=False))
    said = [line for line in capsys.readouterr().err.splitlines() if "reading" in line]
    assert [said[0], said[-1]] == ["audit, reading 1 of 2: 100 %", "audit, reading 2 of 2: 100 %"]
    run(RunOptions([path], quiet=True, **options), settings_of(windowed=False))
    assert capsys.readouterr().err == ""


def test_what_says_something_new_is_no_miss_with_novelty(tmp_path: Path) -> None:
    """A bulletin with another toll is kept on purpose; a copy that was cut is missed if it is kept."""
    body = "Rescue teams searched the ruins of the market after the fire in the old town, officials said on Monday."
    texts = [f"{toll} dead in market fire. {body}" for toll in range(20, 60)]
    texts += [text.removesuffix(" on Monday.") for text in texts[:25]]
    path, verdicts = tmp_path / "in.jsonl", tmp_path / "verdicts.jsonl"
    path.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))
    settings = Settings(threshold=0.6, novelty="words", verify="exact")
    dedup(DedupOptions([str(path)], output=str(tmp_path / "kept"), verdicts=str(verdicts), quiet=True), settings)
    found = audit(AuditOptions([str(path)], verdicts=str(verdicts)), settings)
    assert (found.units, found.recall.value, found.precision.value) == (25, 1.0, 1.0)
    lines = [json.loads(line) for line in verdicts.read_text().splitlines()]
    for line in lines[-5:]:
        line |= {"status": "original", "duplicate_of": None}
    missing = audit(AuditOptions([str(path)], verdicts=written(tmp_path, lines)), settings)
    assert (missing.units, missing.recall.value) == (25, 0.8)
    assert len(missing.misses) == 5
    assert found.new == missing.new == 39  # all bulletins but the first
    assert summary_of(found, "verdicts", settings)["verdicts"]["new"] == 39
    assert line_of(found, "verdicts").endswith("; 39 others are near one and new")
