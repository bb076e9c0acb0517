"""Parts that are no quotes: the sentences of a form, and names of bodies."""

from __future__ import annotations

import random

import pytest
from benchmarks.recall.passages import SCRIPTS, shared_run

from neardup import Config, Deduplicator, Document

CONFIG = Config(scheme="parts")


def pairs(texts: list[str], config: Config = CONFIG) -> set[tuple[int, int]]:
    """The numbers of the texts of each pair."""
    found = Deduplicator(config).process([Document(str(n), text) for n, text in enumerate(texts)])
    return {(int(pair.older), int(pair.newer)) for pair in found}


def report(rng: random.Random, names: str) -> str:
    """A report in the form of all others, with its own names and figures."""
    figures = [rng.randint(1, 999) for _ in range(5)]
    return (
        f"{names} is issuing a {figures[0]} mln sterling eurobond due April {figures[1]} paying {figures[2]} pct, the "
        f"lead manager said. The bond is available in denominations of {figures[3]} and {figures[4]} pounds and will "
        "be listed on the exchange."
    )


def test_reports_of_one_form_share_no_part_unless_their_figures_do() -> None:
    """Numbers that stand for others count against a part."""
    forms = [report(random.Random(n), f"{name} Holdings") for n, name in enumerate(("Alpha", "Beta", "Gamma"))]
    forms.append(report(random.Random(1), "The other bank"))
    assert pairs(forms) == {(1, 3)}


def test_a_table_with_a_few_other_figures_is_found() -> None:
    """Two reports of one result differ in a figure or two: up to a third may."""
    rng = random.Random(11)
    kinds = "profit", "net loss", "revenues", "shares", "nine months profit", "nine months revenues"
    rows = [f"{kind} {rng.randint(10, 999)} against {rng.randint(10, 999)} a year before" for kind in kinds]
    corrected = [*rows[:-1], "revenues of nine months 7 against 8"]
    others = [f"{kind} {rng.randint(10, 999)} against {rng.randint(10, 999)} a year before" for kind in kinds]
    assert pairs([". ".join(one) for one in (rows, corrected, others)]) == {(0, 1)}


@pytest.mark.parametrize(
    ("said", "is_found"),
    [
        ("Federal Reserve Board Vice Chairman Manuel Johnson said", False),
        ("the London International Financial Futures Exchange", False),
        ("House Ways and Means Committee Chairman Dan Rostenkowski", False),
        ("has urged his ruling party to come up with a plan for growth", True),
    ],
)
def test_a_name_is_no_part(said: str, is_found: bool) -> None:
    """A part has ten words that match; a lower score asks for fewer."""
    texts = [f"one text: {said}. Its end", f"and another one, {said}, ends here"]
    assert bool(pairs(texts)) is is_found
    assert pairs(texts, Config(scheme="parts:score=8"))


def test_a_run_is_found_among_figures_that_differ() -> None:
    """150 characters without a change, with a form of other figures before and behind them."""
    for n in range(20):
        run = shared_run(random.Random(n), SCRIPTS["Latin"], 150)
        first, second = (
            f"{report(random.Random(f'{n} {side}'), 'Alpha')} {run} {report(random.Random(side), 'Beta')}"
            for side in "ab"
        )
        assert pairs([first, second]) == {(0, 1)}
