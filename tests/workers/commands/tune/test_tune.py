"""``neardup tune`` shows its choice as a table, as JSON and as a picture."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from neardup.errors import ConfigError
from neardup.schemes.config import Config
from neardup.schemes.theory.curves import candidate_probability, error_areas
from neardup.schemes.theory.tuning import choose
from neardup_workers.outside.display.pictures import in_characters
from neardup_workers.outside.process.exits import Failure
from neardup_workers.running.cli.app import app
from neardup_workers.running.commands.tune.curve import picture, show, summary


def test_everything_that_was_chosen_is_shown(capsys):
    """Bands, rows, candidate probability, margin, cut, recall, and the probabilities around the threshold."""
    config = Config(threshold=0.7)
    show(config, plot=None, as_json=False)
    shown = capsys.readouterr().out
    tuning = config.tuning
    chances = tuning.candidate_probability, tuning.pass_probability, tuning.recall
    for value in (*chances, tuning.score_min, tuning.margin):
        assert f"{value:.4f}" in shown
    for word in ("bands", "rows", "margin", "cut", "overall recall", "0.7 (threshold)", "becomes a candidate"):
        assert word in shown


def test_the_json_says_the_same(capsys):
    """The JSON is one object; the threshold is among the similarities and has at least the requested recall."""
    config = Config()
    show(config, plot=None, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(summary(config)))
    at = next(row for row in found["around"] if row["similarity"] == config.threshold)
    assert at["emitted_probability"] >= found["recall"] >= config.recall


def test_the_curve_is_described_by_its_half_point_its_steep_point_and_its_errors(capsys):
    """Half of the pairs are candidates at the half point; the errors are the areas on either side of the threshold."""
    found = summary(Config(bands=20, rows=5))
    assert float(candidate_probability(found["half_point"], 20, 5, 8)) == pytest.approx(0.5)
    assert (found["false_candidates_area"], found["missed_area"]) == error_areas(20, 5, 0.8, 8)
    assert round(found["steep_point"], 3) == round((20 ** (-1 / 5) - 1 / 256) / (255 / 256), 3)
    show(Config(bands=20, rows=5), plot=None, as_json=False)
    shown = capsys.readouterr().out
    for name in ("half_point", "steep_point", "false_candidates_area", "missed_area"):
        assert f"{found[name]:.4f}" in shown


def test_given_bands_and_rows_show_the_s_curve_of_the_book():
    """20 bands of 5 rows: .006 .047 .186 .470 .802 .975 .9996 at .2 to .8, from the settings alone; the stored rows of
    8 bits agree a little more often. Without both there is no such table."""
    curve = summary(Config(bands=20, rows=5))["s_curve"]
    assert [row["similarity"] for row in curve] == [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    book = [0.006, 0.047, 0.186, 0.470, 0.802, 0.975, 0.9996]
    assert [row["whole_rows"] for row in curve] == pytest.approx(book, abs=0.0005)
    assert all(row["whole_rows"] < row["candidate_probability"] < row["whole_rows"] + 0.007 for row in curve)
    assert "s_curve" not in summary(Config(bands=20))


def test_bands_and_rows_below_the_recall_are_shown_with_a_warning():
    """At threshold .5 20 bands of 5 rows find every second pair: the command shows them with the recall that they
    reach, and the warning names it. These settings with this recall are not refused."""
    done = CliRunner().invoke(app, ["tune", "--threshold", ".5", "--bands", "20", "--rows", "5"])
    assert done.exception is None
    assert all(figure in done.stdout for figure in ("0.0064", "0.0475", "0.1860", "0.4701", "0.8019", "0.9748"))
    assert done.stderr == (
        "warning: 20 bands of 5 rows reach recall 0.4767 at threshold 0.5, not 0.95: run refuses them without "
        "--recall 0.4767\n"
    )
    with pytest.raises(ConfigError, match=r"recall 0\.95 at threshold 0\.5 is out of reach"):
        Config(threshold=0.5, bands=20, rows=5)
    assert Config(threshold=0.5, bands=20, rows=5, recall=0.4767).tuning.bands == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--threshold", ".3", "--bands", "2"), "is out of reach"),
        (("--threshold", ".5", "--bands", "50", "--rows", "5"), "but rows_max is 128"),
    ],
)
def test_other_settings_that_cannot_work_are_refused(arguments, message):
    """A recall that no chosen number of rows reaches, and a shape that does not fit, have no curve to show."""
    refused = CliRunner().invoke(app, ["tune", *arguments]).exception
    assert isinstance(refused, ConfigError)
    assert message in str(refused)


def test_a_scheme_that_misses_nothing_has_no_curve_but_a_step(capsys):
    """It emits no pair below the threshold and every pair from it on; it has neither bands nor rows."""
    config = Config(scheme="prefix")
    show(config, plot=None, as_json=False)
    shown = capsys.readouterr().out
    assert "is emitted" in shown
    assert "candidate probability" not in shown
    values = summary(config)
    assert (values["exact"], values["recall"], "half_point" in values) == (True, 1.0, False)
    drawn = picture(config.tuning)
    assert [curve.label for curve in drawn.curves] == ["is emitted"]
    assert set(drawn.curves[0].y) == {0.0, 1.0}
    assert not drawn.areas


def test_a_scheme_without_a_law_of_its_similarity_tells_its_guarantee_and_no_chances(capsys, tmp_path):
    """Two fingerprints match by their common squares: the command claims no recall and draws no curve."""
    config = Config(scheme="grid")
    show(config, plot=None, as_json=True)
    values = json.loads(capsys.readouterr().out)
    assert values["guarantee"].startswith("candidate with about")
    assert values["around"] == []
    assert "recall" not in values
    show(config, plot=None, as_json=False)
    out = capsys.readouterr().out
    assert "A pair of this similarity" not in out
    assert "0.004096" in out
    with pytest.raises(Failure, match="--plot draws the S-curve, but grid has none: leave it out"):
        show(config, plot=str(tmp_path / "x.svg"), as_json=False)


def test_the_rates_of_a_grid_are_those_of_the_textbook():
    """Example 3.23 for independent functions: .985 and .063 in one group, .970 and .0040 in two."""
    one, two = summary(Config(scheme="grid"))["rates"]
    assert (one["one_finger_function"], one["two_fingers_function"]) == pytest.approx((0.004096, 0.000064))
    assert (one["one_finger_independent"], one["two_fingers_independent"]) == pytest.approx((0.985, 0.063), abs=0.0005)
    assert (two["one_finger_independent"], two["two_fingers_independent"]) == pytest.approx((0.970, 0.004), abs=0.0005)
    assert two["one_finger"] < two["one_finger_independent"] < one["one_finger_independent"]
    (row,) = summary(Config(scheme="grid:functions=1030,groups=1"))["rates"]
    assert row["one_finger_independent"] == pytest.approx(1 - (1 - 0.004096) ** 1030)
    assert "rates" not in summary(Config())


def test_a_scheme_with_an_exact_score_has_no_margin(capsys):
    """``score_min`` is the threshold, no estimate is mentioned, and the law of its rows is no plain value."""
    tuning = choose(0.8, 0.95, sketch_bits=1, agreement=np.square, exact_score=True)
    config = SimpleNamespace(
        tuning=tuning,
        recall=0.95,
        false_weight=None,
        scheme="minhash",
        bands=None,
        rows=None,
        signing_fingerprint="s",
        matching_fingerprint="m",
    )
    show(config, plot=None, as_json=False)
    shown = capsys.readouterr().out
    assert "the score is no" in shown
    assert "rows agree" not in shown
    assert [mark.label for mark in picture(tuning).marks] == ["threshold 0.8"]
    values = json.loads(json.dumps(summary(config)))
    assert (values["cut"], values["exact_score"], "agreement" in values) == (0.8, True, False)


def test_the_picture_holds_both_curves_and_no_colours_unless_asked():
    """Without colours it can be written to a file."""
    drawn = picture(Config().tuning)
    plain = in_characters(drawn, colour=False)
    assert "\x1b" not in plain
    assert "becomes a candidate" in plain
    assert "is emitted" in plain
    assert "dotted: threshold 0.8, cut 0.737" in plain
    assert "\x1b" in in_characters(drawn, colour=True)


@pytest.mark.parametrize(("name", "start"), [("curve.svg", b"<?xml"), ("curve.PNG", b"\x89PNG")])
def test_the_plot_is_what_its_ending_says(tmp_path, capsys, name, start):
    """The ending selects vectors or pixels."""
    pytest.importorskip("matplotlib", reason="the optional extra 'plot' is not installed")
    show(Config(), plot=str(tmp_path / name), as_json=True)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_without_matplotlib_the_plot_says_what_to_install(monkeypatch):
    """matplotlib is an optional extra."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(Failure, match="pip install 'matplotlib"):
        show(Config(), plot="x.svg", as_json=False)
