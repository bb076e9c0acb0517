"""``neardup calibrate`` estimates the fraction of true pairs at a similarity from a field outside the score."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from neardup_textbook.commands.calibrate import calibrate, run
from neardup_workers.outside.options.judging import CalibrateOptions
from neardup_workers.outside.process.exits import Exit, Failure


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def customers(tmp_path):
    """Records of days, and pairs of four similarities; true pairs lie 10 days apart, others 45 on average."""
    rng = np.random.default_rng(3)
    documents, pairs = [], []
    for similarity, true in ((1.0, 1.0), (0.8, 0.9), (0.6, 0.5), (0.4, 0.0)):
        for n in range(400):
            day = int(rng.integers(0, 1000))
            delay = 10 if n < 400 * true else int(rng.integers(0, 91))
            pair = [f"{similarity}-{n}-{side}" for side in "ab"]
            documents += [{"id": pair[0], "day": day}, {"id": pair[1], "day": day + delay}]
            pairs.append({"older": pair[0], "newer": pair[1], "similarity": similarity, "buckets": 1})
    return lines(tmp_path / "pairs.jsonl", pairs), lines(tmp_path / "documents.jsonl", documents)


def test_the_shares_of_the_mixture_are_found(customers):
    """Each interval contains the true fraction (1, .9, .5, 0), with delays of 10 and 45 days."""
    pairs, documents = customers
    found = calibrate(CalibrateOptions(pairs, [documents], "day", bins=5, random_mean=45, difference_max=90))
    assert found.matched.value == 10
    shares = {round(one.low, 1): one for one in found.bins}
    assert list(shares) == [0.4, 0.6, 0.8]
    assert shares[0.6].least <= 0.5 <= shares[0.6].most
    assert shares[0.4].least <= 0.0
    assert shares[0.8].least <= 0.95 <= shares[0.8].most  # 0.8 and 1.0 are in one bin
    assert [one.pairs for one in found.upwards] == [1600, 1200, 800]
    assert found.upwards[1].true_share == pytest.approx(0.8, abs=0.05)
    assert found.left_out == {}


def test_the_difference_at_random_equals_that_of_the_records(customers):
    """Random pairs within the greatest allowed difference are some 45 of 90 days apart."""
    pairs, documents = customers
    found = calibrate(CalibrateOptions(pairs, [documents], "day", difference_max=90))
    assert found.random.value == pytest.approx(45, abs=1.5)
    assert calibrate(CalibrateOptions(pairs, [documents], "day")).random.value > 300


def test_what_cannot_be_used_is_counted(tmp_path):
    """The command reports every record that it cannot use."""
    documents = [
        {"id": "a", "year": "1999"}, {"id": "b", "year": 1999}, {"id": "c"}, {"id": 4, "year": 3},
        {"id": "d", "year": 1990},
    ]  # fmt: skip
    pairs = [
        {"older": "a", "newer": "b", "similarity": 1}, {"older": "a", "newer": "c", "similarity": 1},
        {"older": "a", "newer": "x", "similarity": 1}, {"older": "a", "newer": "b"}, ["a", "b"],
        {"older": "a", "newer": "d", "similarity": 0.5},
    ]  # fmt: skip
    given = CalibrateOptions(
        lines(tmp_path / "p.jsonl", pairs), [lines(tmp_path / "d.jsonl", documents)], "year", random_mean=5
    )
    assert calibrate(replace(given, difference_max=8)).left_out == {
        "documents without a number in year": 1,
        "documents without a text in id": 1,
        "lines that are no JSON object": 1,
        "pairs of a document that has no value or was not given": 2,
        "lines of pairs without a similarity from 0 to 1": 1,
        "pairs that differ by more than --difference-max": 1,
    }


def test_texts_and_dates_are_compared_by_their_kind(tmp_path):
    """Texts differ by 1 or 0, dates by days."""
    documents = [
        {"id": "a", "state": "qld", "born": "1999-12-31"}, {"id": "b", "state": "qld", "born": "20000101"},
        {"id": "c", "state": "nsw", "born": "2001-01-01"},
    ]  # fmt: skip
    pairs = [{"older": "a", "newer": "b", "similarity": 1}, {"older": "a", "newer": "c", "similarity": 0.5}]
    given = CalibrateOptions(
        lines(tmp_path / "p.jsonl", pairs), [lines(tmp_path / "d.jsonl", documents)], "state", "text"
    )
    found = calibrate(given)
    assert (found.matched.value, found.random.value) == (0, 2 / 3)
    assert [one.difference for one in found.bins] == [1, 0]
    assert calibrate(replace(given, field="born", kind="date")).matched.value == 1


def test_without_a_pair_that_is_surely_true_no_result_is_given(tmp_path):
    """The message names the remedy."""
    documents = [{"id": "a", "year": 1}, {"id": "b", "year": 5}]
    pairs = [{"older": "a", "newer": "b", "similarity": 0.9}]
    given = CalibrateOptions(lines(tmp_path / "p.jsonl", pairs), [lines(tmp_path / "d.jsonl", documents)], "year")
    with pytest.raises(Failure, match="lower --sure") as failure:
        calibrate(given)
    assert failure.value.code == Exit.USAGE


def test_inputs_that_cannot_be_read_end_the_command(tmp_path, customers):
    """The input is missing or damaged."""
    pairs, documents = customers
    with pytest.raises(Failure, match="No such file") as failure:
        calibrate(CalibrateOptions(str(tmp_path / "none"), [documents], "day"))
    assert failure.value.code == Exit.INPUT
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(Path(documents).read_bytes())[:-100])
    with pytest.raises(Failure, match="damaged or cut off"):
        calibrate(CalibrateOptions(pairs, [str(cut)], "day"))
    with pytest.raises(
        Failure, match=r"has no pair of two documents with a number in day: give its documents"
    ) as failure:
        calibrate(CalibrateOptions(documents, [pairs], "day"))
    assert failure.value.code == Exit.UNUSABLE
    with pytest.raises(Failure, match="must be one of number, date, text"):
        run(CalibrateOptions(pairs, [documents], "day", "year"))


def test_the_command_prints_a_table_and_json(neardup, customers):
    """Table and JSON have the same fractions, from standard input and compressed documents too."""
    pairs, documents = customers
    packed = Path(documents + ".gz")
    packed.write_bytes(gzip.compress(Path(documents).read_bytes()))
    arguments = ["calibrate", "-", "--documents", packed, "--field", "day", "--random-mean", 45, "--bins", 5]
    shown = neardup(*arguments, stdin=Path(pairs).read_bytes())
    assert (shown.returncode, shown.stderr) == (0, b"")
    as_json = neardup(*arguments, "--json", stdin=Path(pairs).read_bytes())
    rows = json.loads(as_json.stdout)["bins"]
    for row in rows:
        assert f"{row['true_share']:.3f} ({row['least']:.3f} to {row['most']:.3f})".encode() in shown.stdout


def test_clusters_are_judged_by_their_size(tmp_path):
    """Large stories hold others, small ones do not; all pairs of a story lie together, so its interval counts stories.

    The interval holds the true fraction, and is wider than one that takes pairs of a story as independent.
    """
    rng = np.random.default_rng(4)
    documents, verdicts = [], []
    for cluster in range(400):
        size = 2 if cluster < 300 else 12
        day, mixed = int(rng.integers(0, 1000)), size > 2 and rng.random() < 0.4
        for n in range(size):
            id_ = f"{cluster}-{n}"
            delay = 0 if n == 0 else int(rng.integers(0, 91)) if mixed else 10
            documents.append({"id": id_, "day": day + delay})
            verdict = {"id": id_, "status": "duplicate" if n else "original", "cluster": cluster}
            verdicts.append(
                verdict | ({"duplicate_of": f"{cluster}-0", "similarity": 1.0 if size == 2 else 0.9} if n else {})
            )
    verdicts += [{"id": "x", "status": "refused"}, {"id": "y", "cluster": 0, "duplicate_of": "0-0", "similarity": 1}]
    given = CalibrateOptions(
        lines(tmp_path / "verdicts", verdicts), [lines(tmp_path / "d.jsonl", documents)], "day", random_mean=45,
        clusters=True,
    )  # fmt: skip
    found = calibrate(given)
    assert [(one.low, one.pairs) for one in found.bins] == [(2, 299), (3, 1), (9, 1100)]
    assert found.bins[0].true_share == 1
    large = found.bins[2]
    assert large.least <= 0.6 <= large.most
    alone = 1.96 * 22 * 0.63 / 1100**0.5 / 35  # half of the interval of independent pairs
    assert large.most - large.least > 4 * alone
    assert [one.pairs for one in found.upwards] == [1400, 1101, 1100]
    assert found.left_out == {
        "lines that are no verdict with a cluster": 1,
        "duplicates without a similarity, or of a document that has no value or was not given": 1,
    }
    with pytest.raises(Failure, match="holds no cluster"):
        calibrate(replace(given, pairs=lines(tmp_path / "none", [{"id": "x", "status": "refused"}])))
