"""The texts of pages: charsets, the processes that extract, and pages that are given up."""

import gzip
import json
import os
import signal
from concurrent.futures import Future
from itertools import groupby

import pytest
from warc_records import PARAGRAPH, page

from neardup.documents.document import Document
from neardup.errors import install_command
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import FILE_REASONS
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading
from neardup_workers.outside.web.charsets import codec_of, decoded
from neardup_workers.outside.web.extraction import PAGE_SECONDS, Extraction, Pending, readable
from neardup_workers.outside.web.extractor import ROWS
from neardup_workers.outside.web.pages import EXTRACTORS, MODES, Page

ARTICLE = PARAGRAPH * 5


def read(path, **options):
    reader = EntryReader(Reading(sign_threads=1, **options), Fields(), Stop(), lambda part: None)
    return [entry for entry in reader.read([str(path)]) if entry is not None]


def texts(extraction, items):
    """What comes out for items: a text, the name of a refusal, or the item itself."""

    def finish(pending, text):
        return text

    return list(extraction.in_order(iter(items), finish))


@pytest.mark.parametrize(
    ("payload", "charset", "text"),
    [
        ("é".encode(), None, "é"),
        (b"caf\xe9", None, "café"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        (b'<meta charset="koi8-r">\xc1', None, '<meta charset="koi8-r">а'),
        (b'<meta charset="koi8-r">' + "é".encode(), "utf-8", '<meta charset="koi8-r">é'),
        (b'<meta charset="iso-8859-1">' + "“é”".encode(), None, '<meta charset="iso-8859-1">“é”'),
        (
            '<?xml version="1.0" encoding="windows-1252"?>“niño”'.encode("cp1252"),
            None,
            '<?xml version="1.0" encoding="windows-1252"?>“niño”',
        ),
        (
            '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1">5€'.encode("cp1252"),
            None,
            '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1">5€',
        ),
        *(
            (
                "<meta charset=utf-8>Погода на севере страны: дождь и снег, ветер слабый до умеренного".encode(
                    "cp1251"
                ),
                charset,
                "<meta charset=utf-8>Погода на севере страны: дождь и снег, ветер слабый до умеренного",
            )
            for charset in (None, "utf-8")
        ),
        (
            "<meta charset=utf-8>Погода на севере".encode() + b"\xff",
            "utf-8",
            "<meta charset=utf-8>Погода на севере\ufffd",
        ),
        (b"<!-- <meta charset=koi8-r> --><p>\xe9", None, "<!-- <meta charset=koi8-r> --><p>é"),
        (b"<meta name=a content='charset=koi8-r'><p>\xe9", None, "<meta name=a content='charset=koi8-r'><p>é"),
        (b"<meta charset=utf-8><p>caf\xe9", None, "<meta charset=utf-8><p>caf\ufffd"),
        (b"<meta charset=utf-16><p>a", None, "<meta charset=utf-16><p>a"),
        (b"\xff\xfea\0", "utf-8", "a"),
        (b"\xfe\xff\0a", None, "a"),
        (b"\xef\xbb\xbfa", "latin-1", "a"),
        (b"a\x80", "iso-8859-1", "a€"),
        ("é".encode(), "no-such-charset", "é"),
        ("é".encode(), "idna", "é"),
        (b"\xff", "utf-8", "\ufffd"),
        (b"", None, ""),
    ],
)
def test_characters_follow_the_charset_of_the_server_then_of_the_page_then_the_bytes(payload, charset, text):
    """As in browsers: ISO-8859-1 is Windows-1252, a byte order mark goes first, a wrong declaration of UTF-8 text does
    no harm."""
    assert decoded(payload, charset) == text


@pytest.mark.parametrize(
    ("label", "payload", "text"),
    [
        ("shift_jis", b"\x87\x40\xfb\xfc", "①髙"),
        ("x-sjis", b"\x81\x60", "～"),
        ("euc-kr", b"\x8c\x63", "똠"),
        ("ks_c_5601-1987", b"\x8c\x63", "똠"),
        ("gb2312", b"\xe9F", "镕"),
        ("gbk", b"\x81\x30\x84\x36", "¥"),
        ("big5", b"\x87\x40\xf9\xd6", "䏰碁"),
        ("euc-jp", b"\xad\xa1", "①"),
        ("iso-2022-jp", b"\x1b$BF|\x1b(I1\x1b(B", "日ｱ"),
        ("iso-8859-1", b"\x80\x93", "€“"),
        ("us-ascii", b"\x80", "€"),
        ("latin5", b"\x80\xfd", "€ı"),
        ("tis-620", b"\x80\xa1", "€ก"),
        ("iso-8859-8-i", b"\xe0", "א"),
        ("x-mac-cyrillic", b"\x80", "А"),
        ("x-user-defined", b"\x80", "€"),
        ("hz-gb-2312", b"~{VP~}", "中"),
        ("utf-7", b"+AOk-", "é"),
        ("  UTF8\n", "é".encode(), "é"),
    ],
)
def test_a_label_means_what_it_means_to_browsers(label, payload, text):
    """Each stands for the larger charset; those that browsers do not know are read by Python's codecs."""
    assert payload.decode(codec_of(label)) == text
    assert decoded(payload, label) == text


@pytest.mark.parametrize("label", ["rot13", "hex", "idna", "punycode", "unicode_escape", "undefined", "x-unknown", ""])
def test_what_is_no_charset_is_none(label):
    """Names of Python's codecs that decode no text of the world."""
    assert codec_of(label) is None


@pytest.mark.parametrize("label", ["iso-8859-1", "windows-1251", "shift_jis", "gb2312", "euc-kr", "big5", "iso-8859-9"])
def test_a_text_that_is_utf8_is_so_whatever_its_server_says(label):
    """A short text in a charset with several bytes a character keeps its name: "联通" of GBK is UTF-8 by accident."""
    text = "Über die Straße nach Süden: größere Höhen, früher Frühling, müßige Grüße"
    assert (
        decoded(text.encode(), label) == decoded(f"<meta charset={label}>{text}".encode(), label)[-len(text) :] == text
    )
    assert decoded("联通".encode("gbk"), "gbk") == "联通"


def test_every_mode_and_library_has_a_row():
    """The mode raw needs none."""
    assert ROWS.keys() == {(mode, library) for mode in MODES[:-1] for library in EXTRACTORS}


VISIBLE = (
    "header", "nav", "main", "aside", "footer", "section", "article", "form", "label", "button", "option", "textarea",
    "summary", "details", "figcaption", "caption", "th", "dt", "dd", "blockquote", "pre", "address", "legend", "dialog",
    "ins", "del", "center", "menu", "output", "search", "h1", "custom-x",
)  # fmt: skip
HIDDEN = (
    "<template>{}</template>", "<template><p>{}</p></template>", "<p hidden>{}</p>",
    "<section hidden=''><p>{}</p></section>",
    "<div style='color:red; Display : none'><p>{}</p></div>", "<div style='display\t:\nNONE !important'>{}</div>",
    "<script>{}</script>", "<style>{}</style>", "<!-- {} -->",
)  # fmt: skip


@pytest.mark.parametrize("library", EXTRACTORS)
def test_all_text_is_that_of_every_visible_element(library):
    """300 articles in an aside next to one notice were 299 copies; what no browser shows is no text."""
    shown = "".join(f"<{tag}>word{n} of it</{tag}>" for n, tag in enumerate(VISIBLE))
    hidden = "".join(HIDDEN).replace("{}", "secret")
    found = ROWS["text", library]()(f"<!doctype html><html><body>{hidden}{shown}<p>end</body></html>")
    assert [n for n in range(len(VISIBLE)) if f"word{n} of it" not in found] == []
    assert "secret" not in found
    assert found.endswith("end")


@pytest.mark.parametrize("library", EXTRACTORS)
@pytest.mark.parametrize("mode", MODES[:-1])
def test_the_main_text_has_no_menu_and_the_text_has_all_words(mode, library):
    """Neither holds markup."""
    text = ROWS[mode, library]()(page(ARTICLE, menu="Home News").decode())
    assert PARAGRAPH.strip() in text
    assert "<p>" not in text
    assert ("Home News" in text) == (mode == "text")


@pytest.mark.processes
@pytest.mark.parametrize(("name", "pack"), [("a.html", bytes), ("a.htm.gz", gzip.compress), ("a.txt", bytes)])
def test_a_page_is_one_document_whose_id_is_its_path(tmp_path, name, pack):
    """Its beginning or its ending identifies it; outputs name its path."""
    path = tmp_path / name
    path.write_bytes(pack(page(ARTICLE)))
    (entry,) = read(path)
    assert (entry.found.id, entry.row, entry.raw) == (str(path), os.fsencode(path), None)
    assert entry.found.text.startswith("A page\nThe harbour")
    (entry,) = read(path, html="raw")
    assert entry.found == Document(str(path), page(ARTICLE).decode())


@pytest.mark.processes
def test_a_field_of_json_may_hold_the_page(tmp_path):
    """The line stays as it is; a line without the field is refused."""
    lines = [json.dumps({"id": "a", "body": page(ARTICLE).decode(), "timestamp": 5}), json.dumps({"id": "b"})]
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(lines))
    first, second = read(path, fields=("html=body",))
    assert (first.found.id, first.found.timestamp) == ("a", 5.0)
    assert "harbour" in first.found.text
    assert "Imprint" not in first.found.text
    assert first.raw == lines[0].encode()
    assert second.found == "no_text"


@pytest.mark.processes
def test_texts_come_in_the_order_of_the_pages_whatever_each_takes():
    """Items without a page stay in their places; at an empty input everything before it is finished."""
    items = []
    for i in range(20):
        items += [i, Pending(i, Page("", page(f"{i} " + ARTICLE * (1 + i % 3 * 40)))), None]
    found = texts(Extraction(Reading(sign_threads=3)), items)
    assert found[::3] == list(range(20))
    assert found[2::3] == [None] * 20
    assert [text.split()[2] for text in found[1::3]] == [str(i) for i in range(20)]


class Unfinished(Future):
    """A text that is there when it is waited for, and not before."""

    def result(self, timeout=None):
        return "text"


def test_pages_are_read_several_at_once(monkeypatch):
    """When as many pages as allowed are in progress, half of them are finished before the next ones are read."""
    extraction = Extraction(Reading(sign_threads=1))
    monkeypatch.setattr(extraction, "_begin", lambda page: Unfinished())
    events = []

    def pages():
        for number in range(20):
            events.append("read")
            yield Pending(number, Page("a", b"<p>"))

    for _ in extraction.in_order(pages(), lambda pending, text: text):
        events += ["text"]
    assert [(event, len(list(run))) for event, run in groupby(events)] == [
        ("read", 9), ("text", 5), ("read", 5), ("text", 5), ("read", 5), ("text", 5), ("read", 1), ("text", 5),
    ]  # fmt: skip


@pytest.mark.processes
def test_a_page_that_takes_too_long_is_given_up_and_the_next_one_is_read():
    """Its process is ended and another one starts."""
    calls = []

    def wait(descriptor, seconds):
        calls.append(seconds)
        return readable(descriptor, 60) if len(calls) != 3 else False  # a start, a page, the late page

    extraction = Extraction(Reading(sign_threads=1), wait)
    found = texts(extraction, [Pending(0, Page("", page(ARTICLE))) for _ in range(3)])
    assert [text[:6] for text in found] == ["A page", "html_t", "A page"]
    assert found[1] in FILE_REASONS
    assert calls[1] == PAGE_SECONDS


@pytest.mark.processes
def test_a_process_that_dies_costs_its_page_only():
    """For example a parser that crashes, or a system that is out of memory."""
    extraction = Extraction(Reading(sign_threads=1))
    killed = []

    def wait(descriptor, seconds):
        ready = readable(descriptor, 60)
        if not killed:  # the answer to the start: the process is there, and gets a page next
            (process,) = extraction._processes
            os.kill(process._process.pid, signal.SIGKILL)
            process._process.wait()
            killed.append(process)
        return ready

    extraction._wait = wait
    found = texts(extraction, [Pending(0, Page("", page(ARTICLE))) for _ in range(2)])
    assert [text[:6] for text in found] == ["html_f", "A page"]
    assert not extraction._processes


@pytest.mark.processes
def test_a_page_larger_than_the_memory_of_a_process_is_refused():
    """The parser's memory is bounded; the next page is read."""
    options = Reading(sign_threads=1)
    large = Page("", b"<html><body>" + b"<p>a<b>b" * 1_500_000)
    found = texts(
        Extraction(options, memory_bytes_max=400 << 20), [Pending(0, large), Pending(0, Page("", page(ARTICLE)))]
    )
    assert found[0] in FILE_REASONS
    assert found[1].startswith("A page")


@pytest.mark.processes
def test_an_extractor_that_does_not_start_is_one_sentence():
    """It names the time and the remedy."""
    extraction = Extraction(Reading(sign_threads=1), lambda descriptor, seconds: False)
    with pytest.raises(Failure, match="does not start within 60 seconds: free memory for it"):
        texts(extraction, [Pending(0, Page("", b"<p>"))])


@pytest.mark.processes
def test_a_library_that_the_extractor_cannot_load_is_one_sentence(tmp_path, monkeypatch, capfd):
    """The process that extracts reports what the import said, without a traceback and without advice about memory."""
    (tmp_path / "trafilatura.py").write_text(
        "raise ImportError('lxml.html.clean is a project of its own now\\nmore')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    extraction = Extraction(Reading(sign_threads=1), lambda descriptor, seconds: True)
    with pytest.raises(Failure, match=r"cannot load a library: lxml[.]html[.]clean is a project of its own now"):
        texts(extraction, [Pending(0, Page("", b"<p>"))])
    assert capfd.readouterr().err == ""


def test_a_missing_extra_is_one_sentence_that_names_it(tmp_path, monkeypatch):
    """Pages and archives are refused, other files are read."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in ("a.html", "a.warc"):
        (tmp_path / name).write_bytes(b"<html>")
        (entry,) = read(tmp_path / name)
        assert install_command("web") in FILE_REASONS[entry.found]
