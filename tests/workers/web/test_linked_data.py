"""The article that a page holds as data, where its own text is short."""

import json

import pytest
from warc_records import PARAGRAPH, page

from neardup_workers.outside.web.extractor import ROWS, TEXT, answer
from neardup_workers.outside.web.linked_data import with_article
from neardup_workers.outside.web.pages import EXTRACTORS, MODES

NOTICE = "We and our partners store and access information on a device, such as cookies, to show you what you like. "
BODY = (
    "The ferry to the island sails again on Friday, after eleven weeks of repairs to its hull; tickets are on sale. "
    * 8
)
SHAPES = {
    "article": {"@type": "NewsArticle", "articleBody": BODY},
    "graph": {"@graph": [{"@type": "Person", "name": "A"}, {"@type": "Article", "articleBody": BODY}]},
    "list": [{"@type": "Organization"}, {"@type": "BlogPosting", "articleBody": BODY}],
    "nested": {"@type": "WebPage", "mainEntity": {"@type": "Article", "articleBody": BODY}},
    "two": [{"articleBody": "A teaser."}, {"articleBody": BODY}, {"articleBody": 7}],
    "markup": {"articleBody": f"<p>{BODY}</p>"},
}


def with_data(markup, data, kind="application/ld+json"):
    return markup.replace("</body>", f"<script async type='{kind}'>{data}</script></body>")


@pytest.mark.parametrize("library", EXTRACTORS)
@pytest.mark.parametrize("mode", MODES[:-1])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_article_in_the_data_of_a_page_is_its_text(library, mode, shape):
    """Pages with one notice of consent and different articles in their data were copies of each other."""
    made = with_data(page(NOTICE).decode(), json.dumps(SHAPES[shape]), "application/LD+JSON; charset=utf-8")
    assert answer(ROWS[mode, library](), made.encode(), "utf-8") == (TEXT, BODY.strip().encode())


@pytest.mark.parametrize(
    ("text", "data", "kind"),
    [
        (PARAGRAPH * 30, json.dumps({"articleBody": BODY * 9}), "application/ld+json"),
        (PARAGRAPH * 9, json.dumps({"articleBody": BODY}), "application/ld+json"),
        (NOTICE, json.dumps({"articleBody": BODY}), "application/json"),
        (NOTICE, '{"articleBody": ', "application/ld+json"),
        (NOTICE, json.dumps({"articleBody": [], "x": "articleBody"}), "application/ld+json"),
        (NOTICE, "[" * 100_000, "application/ld+json"),
    ],
)
def test_a_page_with_its_article_keeps_it(text, data, kind):
    """A long text, one that is about as long as the data, other scripts, and data that is damaged."""
    made = with_data(f"<body>{text}</body>", data, kind)
    assert with_article(text, made + '<script type="application/ld+json">"articleBody"') == text
