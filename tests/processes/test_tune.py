"""``neardup tune``: the choice as a table, as JSON and as a picture."""

import json
import sys

import pytest

from stream.config import Config
from workers.exits import Failure
from workers.tune import picture, show, summary


def test_everything_that_was_chosen_is_shown(capsys):
    """Bands, rows, candidate probability, margin, cut, recall, and the probabilities around the threshold."""
    config = Config(threshold=0.7)
    show(config, plot=None, as_json=False)
    shown = capsys.readouterr().out
    tuning = config.tuning
    for value in (tuning.candidate_probability, tuning.pass_probability, tuning.recall, tuning.cut, tuning.margin):
        assert f"{value:.4f}" in shown
    for word in ("bands", "rows", "margin", "cut", "overall recall", "0.7 (threshold)", "becomes a candidate"):
        assert word in shown


def test_the_json_says_the_same(capsys):
    """One object, the threshold among the similarities, with at least the recall asked for."""
    config = Config()
    show(config, plot=None, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(summary(config)))
    at = next(row for row in found["around"] if row["similarity"] == config.threshold)
    assert at["emitted_probability"] >= found["recall"] >= config.recall


def test_the_picture_holds_both_curves_and_no_colours_unless_asked():
    """So that it can be put into a file."""
    tuning = Config().tuning
    plain = picture(tuning, colour=False)
    assert "\x1b" not in plain
    assert "becomes a candidate" in plain
    assert "is emitted" in plain
    assert "\x1b" in picture(tuning, colour=True)


@pytest.mark.parametrize(("name", "start"), [("curve.svg", b"<?xml"), ("curve.PNG", b"\x89PNG")])
def test_the_plot_is_what_its_ending_says(tmp_path, capsys, name, start):
    """Vectors or pixels."""
    pytest.importorskip("matplotlib", reason="the optional extra 'plot' is not installed")
    show(Config(), plot=str(tmp_path / name), as_json=True)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_without_matplotlib_the_plot_says_what_to_install(monkeypatch):
    """It is an optional extra."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(Failure, match=r"pip install 'neardup\[plot\]'"):
        show(Config(), plot="x.svg", as_json=False)
