"""``neardup tune --family``: the proposed cascade and the tables of a probe, as tables, as JSON and as a picture."""

import json

import pytest
from typer.testing import CliRunner

from neardup.errors import ConfigError
from neardup_workers.outside.process.exits import Failure
from neardup_workers.running.cli.app import app

BOOK = ("tune", "--family", "minhash", "--d1", "0.2", "--d2", "0.6", "--p1", "0.87", "--p2", "0.1")


def shown_by(*arguments):
    """The output of a command."""
    done = CliRunner().invoke(app, arguments)
    assert done.exception is None, done.exception
    return done.stdout


def json_of(*arguments):
    """The JSON of a command."""
    return json.loads(shown_by(*arguments, "--json"))


def test_the_cascade_of_the_book_is_proposed_with_its_table():
    """4-way AND, then 4-way OR: (.2,.6,.8,.4) becomes (.2,.6,.8785,.0985); the fixed point; the settings."""
    found = json_of(*BOOK)
    assert found["one_function"] == pytest.approx({"d1": 0.2, "d2": 0.6, "p1": 0.8, "p2": 0.4})
    assert found["cascade"] == [{"kind": "and", "ways": 4}, {"kind": "or", "ways": 4}]
    assert (found["functions"], found["settings"]) == (16, {"rows": 4, "bands": 4})
    assert {name: round(value, 4) for name, value in found["made"].items()} == {
        "d1": 0.2, "d2": 0.6, "p1": 0.8785, "p2": 0.0985,
    }  # fmt: skip
    (fixed,) = found["fixed_points"]
    assert (round(fixed["chance"], 4), round(fixed["distance"], 4)) == (0.7245, 0.2755)
    assert round(found["steepest"]["slope"], 2) == 2.45
    table = {round(row["distance"], 6): round(row["cascade"], 4) for row in found["around"]}
    assert [table[d] for d in (0.2, 0.3, 0.4, 0.5, 0.6)] == [0.8785, 0.6666, 0.426, 0.2275, 0.0985]


def test_the_tables_and_the_picture_say_it_in_words():
    """They show steps, functions, both sensitivities, settings, a row for each distance, and two curves."""
    shown = shown_by(*BOOK)
    for words in (
        "4-way AND, then 4-way OR",
        "16",
        "--set rows=4 --set bands=4",
        "(0.2, 0.6, 0.8, 0.4)",
        "0.8784974",
        "0.2 (d1)",
        "0.6 (d2)",
        "fixed point",
        "2.45",
        "one function agrees",
        "the cascade agrees",
    ):
        assert words in shown


def test_an_aim_for_three_steps_tells_what_bands_of_rows_would_take():
    """Angles of 30 and 60 degrees to .95 and .01: 1,242 functions in three steps, 8,892 in bands of rows."""
    found = json_of("tune", "--family", "cosine", "--d1", "30", "--d2", "60", "--p1", "0.95", "--p2", "0.01")
    assert ([step["ways"] for step in found["cascade"]], found["functions"]) == ([9, 23, 6], 1242)
    assert found["settings"] == {"rows": 26, "bands": 342}


def test_a_probe_among_many_documents_is_planned():
    """A family of p1 .9 and p2 .5 among 1,000: rho, ten rows, three tables, a chance above 1 - 1/e, stop at six."""
    arguments = ("tune", "--family", "hamming", "--scale", "10", "--d1", "1", "--d2", "5", "--documents", "1000")
    found = json_of(*arguments)
    assert found["cascade"] == []
    probe = found["probing"]
    assert (probe["rows"], probe["tables"], probe["items_max"], round(probe["rho"], 4)) == (10, 3, 6, 0.152)
    assert probe["found"] > 1 - 2.718281828**-1
    shown = shown_by(*arguments)
    for words in ("A probe among 1,000 documents", "rho", "0.1520", "rows (k)", "tables (L)", "stop (2 L)"):
        assert words in shown


def test_the_picture_is_saved(tmp_path):
    """The format is the same as for the S-curve."""
    pytest.importorskip("matplotlib", reason="the optional extra 'plot' is not installed")
    json_of(*BOOK, "--plot", str(tmp_path / "family.svg"))
    assert (tmp_path / "family.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--d1", "0.2"), "--d1 is about a family of functions: name one with --family"),
        (("--family", "minhash"), "--family needs --d1 and --d2"),
        (("--family", "minhash", "--d1", "0.2", "--d2", "0.6", "--p1", "0.9"), "--p1 with --p2"),
        (("--family", "minhash", "--d1", "0.2", "--d2", "0.6"), "or --documents"),
        (("--family", "simhash", "--d1", "1", "--d2", "2", "--documents", "9"), "must be one of minhash, hamming"),
        (("--family", "l1", "--d1", "1", "--d2", "2", "--documents", "9"), "needs one above 0: the width of a segment"),
        (("--family", "minhash", "--sample", "x", "--d1", "0", "--d2", "1", "--documents", "9"), "--sample stands for"),
    ],
)
def test_half_a_question_is_refused(arguments, message):
    """The message names the given and the missing options."""
    refused = CliRunner().invoke(app, ["tune", *arguments]).exception
    assert isinstance(refused, (ConfigError, Failure))
    assert message in str(refused)
