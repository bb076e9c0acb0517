"""The benchmarks of pages and of a crawl, on small sizes."""

import pytest
from benchmarks.pages import crawl, extraction, quotes
from benchmarks.report import Result
from command import ROOT
from real_sets import needs_data


@needs_data
@pytest.mark.processes
def test_pages_of_one_story_are_pairs_by_their_articles() -> None:
    """Through archives and the command; the small size has mirrors, print versions, session ids and other templates."""
    results = {result.name.rpartition(": ")[2]: result for result in crawl.run("smoke")}
    assert results["precision"].verdict == results["recall"].verdict == "reached"


@needs_data
def test_the_main_text_of_real_pages_is_nearer_to_their_articles_than_all_text() -> None:
    """And pairs of pages with one article are found by it."""
    values = {result.name: result.value or 0.0 for result in extraction.run("smoke")}
    assert values["main, trafilatura: F1"] > 0.9 > values["text, trafilatura: F1"]
    assert values["main, resiliparse: F1"] > values["text, resiliparse: F1"]
    found, raw = values["main, trafilatura, characters: recall of pairs"], values["raw, characters: recall of pairs"]
    assert found > raw


def test_the_table_of_quotes_is_what_make_results_writes() -> None:
    """A row of it comes out again, with each program; the others stay."""
    page = (ROOT / "docs" / "RESULTS.md").read_text(encoding="utf-8")
    table = page.partition("<!-- quotes -->\n")[2].partition("<!-- end -->")[0].splitlines()
    cells = [cell.strip() for cell in table[2].strip("|").split("|")]
    details = dict(zip([cell.strip() for cell in table[0].strip("|").split("|")][1:], cells[1:], strict=True))
    result = Result("S30", "found", 1.0, "", None, {quotes.ROW: cells[0], **details})
    others = page.replace(table[2], table[2].replace("1.00", "0.00"))
    assert others != page
    assert quotes.written(others, [result]) == page
