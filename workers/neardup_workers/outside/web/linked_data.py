"""The article that a page holds as data (JSON-LD of schema.org, ``articleBody``), where scripts show it to readers.

Such a page shows a notice or a menu to those who run no scripts, and hundreds of different articles would be copies of
one notice.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from neardup_workers.outside.web.markup import text_of_markup

# A script begins, with its attributes; no attribute of this element has an angle bracket.
_SCRIPT = re.compile(r"<script\s([^<>]*)>", re.IGNORECASE)
_SCRIPT_END = re.compile("</script", re.IGNORECASE)
_TYPE = "application/ld+json"
_BODY = "articleBody"
# A text of a page that has more characters is its article.
_SHORT_CHARACTERS = 2_000


def with_article(text: str, markup: str) -> str:
    """Return the text of a page, or the article in its data if the text is short and the article twice as long.

    >>> with_article("Cookies?", '<script type="application/ld+json">{"articleBody": "All ferries leave."}</script>')
    'All ferries leave.'
    """
    if len(text) > _SHORT_CHARACTERS or _BODY not in markup:
        return text
    article = max(_articles(markup), key=len, default="")
    return article if len(article) > 2 * len(text) else text


def _articles(markup: str) -> list[str]:
    found: list[str] = []
    at = 0
    while (script := _SCRIPT.search(markup, at)) is not None:
        end = _SCRIPT_END.search(markup, script.end())
        if end is None:
            break
        at = end.end()
        if _TYPE not in script[1].lower():
            continue
        try:
            values: list[Any] = [orjson.loads(markup[script.end() : end.start()])]
        except orjson.JSONDecodeError:
            continue
        while values:
            value = values.pop()
            if isinstance(value, dict):
                body = value.get(_BODY)
                if isinstance(body, str):
                    found.append(text_of_markup(body) if "<" in body or "&" in body else body.strip())
                values += value.values()
            elif isinstance(value, list):
                values += value
    return found
