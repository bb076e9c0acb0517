"""The process that extracts: pages in by standard input, texts out by standard output, one at a time.

A page may take forever, take all memory or crash the parser, which is written in C. So extraction has a process of its
own, which the caller ends after the time of a page, and a limit on its memory. The process ends with its input.

A request is a head and the page: bytes of the page, bytes of the name of its charset. An answer is a head and the text
in UTF-8: its kind (``TEXT`` or a letter of ``REFUSED``) and its bytes. The first answer says that the libraries are
loaded, or by ``UNLOADED`` why one of them is not.
"""

from __future__ import annotations

import logging
import resource
import struct
import sys
from collections.abc import Callable

from neardup_workers.outside.web.charsets import decoded
from neardup_workers.outside.web.linked_data import with_article
from neardup_workers.outside.web.markup import text_of_markup

# Elements that no browser shows.
_HIDDEN = (
    "//body//*[@hidden and not(@hidden='until-found')] | //body//template"
    " | //body//*[contains(translate(@style, 'DISPLAYNOE \t\r\n', 'displaynoe'), 'display:none')]"
)
# Markup -> text.
Extract = Callable[[str], str | None]


def _main_trafilatura() -> Extract:
    from trafilatura import extract

    # On real pages with known articles, the texts are nearer to the articles (GUARANTEES, "Pages of a crawl").
    return lambda markup: extract(markup, include_comments=False, favor_precision=True)


def _text() -> Extract:
    from lxml import etree, html

    # The functions of the libraries for all text leave out elements: aside and footer, or captions and forms.
    hidden = etree.XPath(_HIDDEN)

    def extract(markup: str) -> str:
        parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True)
        try:
            root = html.document_fromstring(markup.encode(errors="replace"), parser=parser)
        except etree.ParserError:  # there is no element
            return ""
        for element in hidden(root):
            element.drop_tree()
        return text_of_markup(etree.tostring(root, encoding="unicode", method="html"))

    return extract


def _main_resiliparse() -> Extract:
    from resiliparse.extract.html2text import extract_plain_text

    return lambda markup: extract_plain_text(markup, main_content=True, comments=False, alt_texts=False)


# Mode and library -> what loads the library and returns the function. The function returns nothing if the page holds
# no such text.
ROWS: dict[tuple[str, str], Callable[[], Extract]] = {
    ("main", "trafilatura"): _main_trafilatura,
    ("text", "trafilatura"): _text,
    ("main", "resiliparse"): _main_resiliparse,
    ("text", "resiliparse"): _text,
}
REQUEST = struct.Struct("<IH")
ANSWER = struct.Struct("<cI")
TEXT, UNLOADED, _NOTHING, _FAILED = b"t", b"u", b"n", b"f"
# The kind of an answer -> the reason of the refusal.
REFUSED: dict[bytes, str] = {_NOTHING: "html_no_text", _FAILED: "html_failed"}


def main(mode: str, extractor: str, memory_bytes: int) -> None:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    logging.disable(logging.CRITICAL)
    source, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        extract = ROWS[mode, extractor]()
    except ImportError as error:
        reason = str(error).partition("\n")[0].encode(errors="replace")
        answers.write(ANSWER.pack(UNLOADED, len(reason)) + reason)
        return
    answers.write(ANSWER.pack(TEXT, 0))
    answers.flush()
    while len(head := source.read(REQUEST.size)) == REQUEST.size:
        size, charset_size = REQUEST.unpack(head)
        charset = source.read(charset_size).decode(errors="replace")
        kind, text = answer(extract, source.read(size), charset)
        answers.write(ANSWER.pack(kind, len(text)) + text)
        answers.flush()


def answer(extract: Extract, payload: bytes, charset: str) -> tuple[bytes, bytes]:
    """Return the kind and the text of the answer to a request. What a library raises is a refusal of the page."""
    try:
        markup = decoded(payload, charset or None)
        text = with_article(extract(markup) or "", markup).encode(errors="replace")
    except Exception:  # the next page is read
        return _FAILED, b""
    return (TEXT, text) if text.strip() else (_NOTHING, b"")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
