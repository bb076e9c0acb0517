"""Entity resolution on real records, through the command: precision and recall against labels, and calibration."""

import csv
import json
from collections import defaultdict
from itertools import combinations
from typing import NamedTuple

import pytest

PEOPLE = (
    "--scheme=records",
    "--record-fields=given_name,surname,street_number,address_1,suburb,postcode,date_of_birth,soc_sec_id",
    "--record-keys=soc_sec_id,date_of_birth,given_name+surname,address_1",
)
# Dates of birth are kept out of keys and scores, to calibrate by them.
PEOPLE_WITHOUT_DATES = (
    "--scheme=records",
    "--record-fields=given_name,surname,street_number,address_1,suburb,postcode,soc_sec_id",
    "--record-keys=soc_sec_id,given_name+surname,address_1",
)
PUBLICATIONS = (
    "--scheme=records",
    "--record-fields=title:100:0.1,authors:50:0.02,year:100:100",
    "--record-shingled=title",
)


class Quality(NamedTuple):
    """How many of the pairs are true, how many of the true pairs were found."""

    precision: float
    recall: float


def quality(output, truth):
    found = {frozenset((pair["older"], pair["newer"])) for pair in map(json.loads, output.splitlines())}
    assert len(found) == len(output.splitlines())
    return Quality(len(found & truth) / len(found), len(found & truth) / len(truth))


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def table(path, encoding="utf-8"):
    with path.open(encoding=encoding, newline="") as file:
        return [
            {name.strip(): value.strip() for name, value in row.items()}
            for row in csv.DictReader(file, skipinitialspace=True)
        ]


def people(folder, number, tmp_path):
    """Lines of a set of people, and its true pairs: ids tell the person, rec-7-org and rec-7-dup-0."""
    rows = table(folder / f"dataset{number}.csv")
    same = defaultdict(list)
    for row in rows:
        row["id"] = row.pop("rec_id")
        same[row["id"].split("-")[1]].append(row["id"])
    truth = {frozenset(pair) for ids in same.values() for pair in combinations(ids, 2)}
    return write(tmp_path / "people.jsonl", rows), truth


@pytest.mark.parametrize(("number", "matches", "recall"), [(1, 500, 0.99), (2, 1934, 0.98), (3, 6538, 0.97)])
def test_people_typed_in_twice_are_found(neardup, real_data, tmp_path, number, matches, recall):
    """With up to ten errors a record: hardly a false pair, and nearly all of the true ones."""
    lines, truth = people(real_data("er_febrl"), number, tmp_path)
    assert len(truth) == matches
    done = neardup("run", lines, *PEOPLE, "--threshold", 0.6, "-q")
    assert (done.returncode, done.stderr) == (0, b"")
    found = quality(done.stdout, truth)
    assert found.precision >= 0.999, found
    assert found.recall >= recall, found


def test_publications_of_two_sources_are_matched(neardup, real_data, tmp_path):
    """One source is probed against the other, titles by their shingles, authors however they are written."""
    folder, sources = real_data("er_dblp_acm_leipzig"), {}
    for name in ("DBLP2", "ACM"):
        rows = [{**row, "id": f"{name}/{row['id']}"} for row in table(folder / f"{name}.csv", "latin-1")]
        sources[name] = write(tmp_path / f"{name}.jsonl", rows)
    mapping = table(folder / "DBLP-ACM_perfectMapping.csv", "latin-1")
    truth = {frozenset((f"DBLP2/{row['idDBLP']}", f"ACM/{row['idACM']}")) for row in mapping}
    assert len(truth) == 2224
    done = neardup("probe", "--index", sources["DBLP2"], sources["ACM"], *PUBLICATIONS, "--threshold", 0.75, "-q")
    assert (done.returncode, done.stderr) == (0, b"")
    found = quality(done.stdout, truth)
    assert found.precision >= 0.945, found
    assert found.recall >= 0.965, found


def test_calibration_tells_the_share_of_true_pairs_without_a_label(neardup, real_data, tmp_path):
    """By dates of birth: in each bin of a hundred pairs and more the labelled share lies in or next to the interval."""
    lines, truth = people(real_data("er_febrl"), 3, tmp_path)
    done = neardup("run", lines, *PEOPLE_WITHOUT_DATES, "--threshold", 0.6, "--candidates", "-q")
    pairs = [json.loads(line) for line in done.stdout.splitlines()]
    options = ("--field", "date_of_birth", "--kind", "text", "--bins", 10, "--sure", 0.95, "--json")
    told = neardup("calibrate", "-", "--documents", lines, *options, stdin=done.stdout)
    assert told.returncode == 0, told.stderr
    bins = [one for one in json.loads(told.stdout)["bins"] if one["pairs"] >= 100]
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
