"""Entity resolution on real records, through the command: precision and recall against labels, and calibration."""

import json
from typing import NamedTuple

import pytest
from benchmarks.labelled import records

PEOPLE = (
    "--scheme=records:fields=given_name,surname,street_number,address_1,suburb,postcode,date_of_birth,soc_sec_id,"
    "keys=soc_sec_id,date_of_birth,given_name+surname,address_1",
)
# Keys and scores do not use dates of birth, so that calibration can.
PEOPLE_WITHOUT_DATES = (
    "--scheme=records:fields=given_name,surname,street_number,address_1,suburb,postcode,soc_sec_id,"
    "keys=soc_sec_id,given_name+surname,address_1",
)
PUBLICATIONS = ("--scheme=records:fields=title:100:0.1,authors:50:0.02,year:100:100,shingled=title",)
# The same title may be a report, a talk and an article: three publications.
CITATIONS = ("--scheme=records:fields=title:100:0.1,authors:50:0.05,year:20:5,kind:100:100,shingled=title",)
# A missing date must not count as agreement: editions differ in little else.
BOOKS = ("--scheme=records:fields=title:100:1,author:50:0.5,year:100:100,missing=0.5,shingled=title",)


class Quality(NamedTuple):
    """The fraction of the pairs that is true, and the fraction of the true pairs that was found."""

    precision: float
    recall: float


def quality(output, truth):
    found = {frozenset((pair["older"], pair["newer"])) for pair in map(json.loads, output.splitlines())}
    assert len(found) == len(output.splitlines())
    return Quality(len(found & truth) / len(found), len(found & truth) / len(truth))


def write(path, documents):
    rows = (json.dumps({**document.fields, "id": document.id}) for document in documents)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(("number", "matches", "recall"), [(1, 500, 0.99), (2, 1934, 0.98), (3, 6538, 0.97)])
def test_people_typed_in_twice_are_found(neardup, real_data, tmp_path, number, matches, recall):
    """Records have up to ten errors; few found pairs are false, and few true pairs are missed."""
    added, _, truth, *_ = records.people(real_data("er_febrl"), number)
    assert len(truth) == matches
    done = neardup("run", write(tmp_path / "people.jsonl", added), *PEOPLE, "--threshold", 0.6, "-q")
    assert (done.returncode, done.stderr) == (0, b"")
    found = quality(done.stdout, truth)
    assert found.precision >= 0.999, found
    assert found.recall >= recall, found


def test_citations_of_one_publication_are_found(neardup, real_data, tmp_path):
    """A publication has up to 238 different citations, and other publications have the same title."""
    added, _, truth, *_ = records.citations(real_data("er_cora"))
    assert (len(added), len(truth)) == (1879, 64578)
    lines, summary = write(tmp_path / "citations.jsonl", added), tmp_path / "summary.json"
    done = neardup("run", lines, *CITATIONS, "--threshold", 0.75, "-q", "--summary-json", summary)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(summary.read_text())["refused"] == 38  # without a title
    found = quality(done.stdout, truth)
    assert found.precision >= 0.96, found  # .965 to .977 over 17 seeds: few publications have most pairs
    assert found.recall >= 0.95, found


@pytest.mark.parametrize(
    ("read", "folder", "options", "threshold", "matches", "precision", "recall"),
    [
        (records.publications, "er_dblp_acm_leipzig", PUBLICATIONS, 0.75, 2224, 0.945, 0.965),
        (records.books, "join_books", BOOKS, 0.85, 932, 0.96, 0.9),
    ],
    ids=["publications", "books"],
)
def test_records_of_two_sources_are_matched(
    neardup, real_data, tmp_path, read, folder, options, threshold, matches, precision, recall
):
    """One source probes the other; titles match by shingles, authors in any notation."""
    added, probed, truth, *_ = read(real_data(folder))
    assert len(truth) == matches
    one, other = write(tmp_path / "one.jsonl", added), write(tmp_path / "other.jsonl", probed)
    done = neardup("probe", "--index", one, other, *options, "--threshold", threshold, "-q")
    assert (done.returncode, done.stderr) == (0, b"")
    found = quality(done.stdout, truth)
    assert found.precision >= precision, found
    assert found.recall >= recall, found


def test_calibration_tells_the_share_of_true_pairs_without_a_label(neardup, real_data, tmp_path):
    """Calibration uses dates of birth. In each bin of at least a hundred pairs the labelled fraction lies in or next to
    the interval.
    """
    added, _, truth, *_ = records.people(real_data("er_febrl"))
    lines = write(tmp_path / "people.jsonl", added)
    done = neardup("run", lines, *PEOPLE_WITHOUT_DATES, "--threshold", 0.6, "--candidates", "-q")
    pairs = [json.loads(line) for line in done.stdout.splitlines()]
    options = ("--field", "date_of_birth", "--kind", "text", "--bins", 10, "--sure", 0.95, "--json")
    calibrated = neardup("calibrate", "-", "--documents", lines, *options, stdin=done.stdout)
    assert calibrated.returncode == 0, calibrated.stderr
    bins = [one for one in json.loads(calibrated.stdout)["bins"] if one["pairs"] >= 100]
    assert len(bins) >= 8
    shares = []
    for one in bins:
        here = [p for p in pairs if one["low"] <= p["similarity"] < one["high"] or p["similarity"] == one["high"] == 1]
        labelled = sum(frozenset((p["older"], p["newer"])) in truth for p in here) / len(here)
        assert one["least"] - 0.02 <= labelled <= one["most"] + 0.02, (one, labelled)
        shares.append(labelled)
    assert min(shares) == 0
    assert max(shares) == 1
    assert any(0.1 < share < 0.9 for share in shares)
