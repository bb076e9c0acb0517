"""The text of HTML in messages and feeds, in one pass over it: tags are dropped, elements of blocks become line feeds.

Comments, and the content of script, style and title, are dropped; one that does not end drops the rest. The parser of
the standard library needs time that grows with the square of such content.
"""

from __future__ import annotations

import html
import re

# Elements whose content is no text.
_HIDDEN = frozenset(("script", "style", "title", "template"))
# Elements that stand in a line of text; all others end a line.
_INLINE = frozenset((
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "em", "font", "i", "img", "ins", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var", "wbr", "o:p",
))  # fmt: skip
_TAG = re.compile(r"</?([A-Za-z][^\s/>]{0,40})")
# The rest of a tag up to its end; quotes may hold ">".
_REST = re.compile(r"""[^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*>""")
# Numbers of characters too long to be any: the standard library converts them in a time that grows with their square.
_LONG_NUMBER = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,});?")
# Whether bytes look like a page: comments and white space may come first. No repeat gives back what it took, because
# consecutive comments could be divided in exponentially many ways.
LOOKS_LIKE_HTML = re.compile(
    rb"\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!--(?>.*?-->)\s*+)*+<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL
)


def text_of_markup(markup: str) -> str:
    """Return the text of HTML.

    >>> text_of_markup("<p>One &amp;<br>two</p><style>p {}</style><p>th<b>re</b>e")
    'One &\\ntwo\\nthree'
    """
    parts: list[str] = []
    at, begin, quotes = 0, 0, True
    while (begin := markup.find("<", at)) >= 0:
        parts.append(markup[at:begin])
        tag = _TAG.match(markup, begin)
        if markup.startswith("<!--", begin):
            at = _end(markup, "-->", begin + 4)
        elif markup.startswith(("<!", "<?"), begin):
            at = _end(markup, ">", begin)
        elif tag is None:
            parts.append("<")
            at = begin + 1
        else:
            name = tag[1].lower()
            parts.append("" if name in _INLINE else "\n")
            rest = _REST.match(markup, tag.end()) if quotes else None
            # Without an end outside of quotes, the quotes are damaged from here on. Each further search would read on
            # to the end of the content.
            quotes = rest is not None
            at = rest.end() if rest else _end(markup, ">", tag.end())
            if name in _HIDDEN and markup[begin + 1] != "/":
                closing = re.compile(f"</{name}", re.IGNORECASE).search(markup, at)
                at = _end(markup, ">", closing.end()) if closing else len(markup)
    parts.append(markup[at:])
    text = html.unescape(_LONG_NUMBER.sub("\ufffd", "".join(parts)))
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def _end(markup: str, what: str, at: int) -> int:
    """Return the index after the next occurrence of ``what``, or the end."""
    end = markup.find(what, at)
    return len(markup) if end < 0 else end + len(what)
