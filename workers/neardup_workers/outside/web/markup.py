"""Markup -> text: one row for each mode and library. The libraries are loaded when a row is used."""

from __future__ import annotations

from collections.abc import Callable

Extract = Callable[[str], str | None]


def _main_trafilatura() -> Extract:
    from trafilatura import extract

    # On real pages with known articles, the texts are nearer to the articles (GUARANTEES, "Pages of a crawl").
    return lambda markup: extract(markup, include_comments=False, favor_precision=True)


def _text_trafilatura() -> Extract:
    from trafilatura import html2txt

    return html2txt


def _main_resiliparse() -> Extract:
    from resiliparse.extract.html2text import extract_plain_text

    return lambda markup: extract_plain_text(markup, main_content=True, comments=False, alt_texts=False)


def _text_resiliparse() -> Extract:
    from resiliparse.extract.html2text import extract_plain_text

    return lambda markup: extract_plain_text(markup, alt_texts=False)


# Mode and library -> what loads the library and returns the function. The function returns nothing if the page holds
# no such text.
ROWS: dict[tuple[str, str], Callable[[], Extract]] = {
    ("main", "trafilatura"): _main_trafilatura,
    ("text", "trafilatura"): _text_trafilatura,
    ("main", "resiliparse"): _main_resiliparse,
    ("text", "resiliparse"): _text_resiliparse,
}
