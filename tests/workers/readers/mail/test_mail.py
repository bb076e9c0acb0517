"""Mail: messages and mboxes as documents; what is refused, and that hostile messages cost no more than their size."""

import json
import mailbox
import re
import subprocess
import sys
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default

import pytest
from command import clean_environment
from read_entries import found

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.formats import FORMATS
from neardup_workers.outside.readers.mail.limits import HEADER_BYTES_MAX, LEVELS_MAX, PARTS_MAX
from neardup_workers.outside.readers.mail.mbox import mbox_lines
from neardup_workers.outside.readers.mail.message import read_mail
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading
from neardup_workers.outside.web.markup import text_of_markup

STORY = "The harbour was closed on Monday after a storm damaged the northern breakwater, the port authority said."
TIME = 1_700_000_000.0
DATE = "Tue, 14 Nov 2023 22:13:20 +0000"


def message(text=STORY, name="1@news.example", **headers):
    made = EmailMessage()
    made["Message-ID"] = f"<{name}>"
    made["Date"] = DATE
    for header, value in headers.items():
        made[header] = value
    made.set_content(text)
    return made


def mbox(*messages):
    return b"".join(b"From a@b.example Tue Nov 14 22:13:20 2023\n" + bytes(one) + b"\n" for one in messages)


def raw(body, **headers):
    """A message with these headers, given with underscores for hyphens."""
    lines = {"Message_ID": "<1@news.example>", "Date": DATE, **headers}
    return "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in lines.items()).encode() + b"\n" + body


def test_a_message_is_a_document(tmp_path):
    """Its id is the Message-ID, its timestamp the Date, its text the plain text of the body, not the attachments."""
    made = message(STORY + " Grüße, €", Subject="Storm")
    made.add_alternative("<p>other</p>", subtype="html")
    made.add_attachment(b"attached", maintype="application", subtype="pdf", filename="a.pdf")
    made.add_attachment("attached text", filename="a.txt")
    document = Document("1@news.example", STORY + " Grüße, €\n", TIME)
    for name in ("a.eml", "b.EML"):
        assert found(tmp_path / name, bytes(made)) == [document]


def test_the_text_equals_that_of_the_standard_library():
    """For messages of ordinary forms, ``get_body`` finds the same part."""
    mixed = message()
    mixed.add_attachment(b"x", maintype="image", subtype="png")
    related = EmailMessage()
    related["Message-ID"] = "<r@x>"
    related.set_content("<b>only markup</b>", subtype="html")
    related.add_related(b"x", maintype="image", subtype="png", cid="<i@x>")
    for one in (message(), mixed, message("naïve " * 400), message("x" * 2000 + "\nFrom here\n.\n")):
        body = BytesParser(policy=default).parsebytes(bytes(one)).get_body(("plain", "html"))
        assert read_mail(bytes(one)).text == body.get_content()
    assert read_mail(bytes(related)).text == "only markup"


def test_a_blank_plain_text_gives_way_to_the_markup():
    """As many newsletters have it."""
    made = message(" \n")
    made.add_alternative("<style>p{}</style><h1>Storm</h1><p>caf&eacute; <b>open</b>ed<br>again", subtype="html")
    assert read_mail(bytes(made)).text == "Storm\ncafé opened\nagain"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 1 << 18])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_an_mbox_is_divided_at_its_from_lines_for_any_end_of_blocks(size, newline):
    """Messages come in order with their numbers and bytes; joined again, they are the content."""
    texts = ["one\n", ">From the start\n\nFrom, quoted not\n", "three\n"]
    content = mbox(*(raw(text.encode(), Message_ID=f"<{n}>") for n, text in enumerate(texts)))
    content = content.replace(b"\n", newline)
    lines = list(mbox_lines([content[at : at + size] for at in range(0, len(content), size)], Fields(), 9999))
    assert [line.number for line in lines] == [1, 2, 3]
    assert b"".join(line.row + line.end for line in lines) == content
    values = [json.loads(line.raw) for line in lines]
    assert [value["id"] for value in values] == ["0", "1", "2"]
    assert [value["text"].replace("\r", "") for value in values] == [text.replace(">", "") for text in texts]


def test_the_mbox_of_the_standard_library_is_read(tmp_path):
    """Ids, texts and times are those that it holds; an mbox needs no ending in its name."""
    box = mailbox.mbox(tmp_path / "inbox", create=True)
    for n in range(3):
        box.add(message(f"From us: {STORY} {n}\n", f"{n}@x"))
    box.flush()
    box.close()
    content = (tmp_path / "inbox").read_bytes()
    documents = found(tmp_path / "copy", content)
    assert documents == [Document(f"{n}@x", f"From us: {STORY} {n}\n", TIME) for n in range(3)]


def test_a_folder_of_delivered_mail_is_read(tmp_path):
    """A Maildir has names without endings; the first field of a delivered message identifies it."""
    for n, field in enumerate(("Return-Path: <a@b>\n", "Delivered-To: a@b\n", "Received: from a by b; now\n")):
        (tmp_path / f"{n}.M1P2.host:2,S").write_bytes(field.encode() + bytes(message(name=f"{n}@x")))
    (tmp_path / "notes").write_text("From: me\nReturn-Path: is a header of mail\n")
    reader = EntryReader(Reading(), Fields(), Stop(), lambda part: None)
    ids = [entry.found.id for entry in reader.read([str(tmp_path)])]
    assert ids == ["0@x", "1@x", "2@x", str(tmp_path / "notes")]


@pytest.mark.processes
def test_a_kept_mbox_is_an_mbox_again(tmp_path):
    """``dedup`` writes kept messages byte for byte with their lines From; a message without Message-ID has a place."""
    one, two = message(STORY + " It opens on Friday."), message("Another story. " * 9, "2@x")
    copy = raw((STORY + " It opens on Friday.\n").encode())
    copy = copy.partition(b"\n")[2]  # without its Message-ID
    (tmp_path / "in.mbox").write_bytes(mbox(one, copy, two))
    command = [sys.executable, "-m", "neardup", "dedup", "in.mbox", "-q", "--removed", "removed.jsonl"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=clean_environment(), check=True)
    assert done.stdout == mbox(one, two)
    removed = json.loads((tmp_path / "removed.jsonl").read_bytes())
    assert removed["neardup"].items() >= {"id": "in.mbox:2", "duplicate_of": "1@news.example"}.items()


@pytest.mark.processes
def test_files_of_mail_are_named_by_their_paths(tmp_path):
    """``dedup`` writes the paths of the kept messages, as for all files that are one document."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.eml").write_bytes(bytes(message(name=name)))
    command = [sys.executable, "-m", "neardup", "dedup", "a.eml", "b.eml", "-q"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=clean_environment(), check=True)
    assert done.stdout == b"a.eml\n"


def test_the_last_message_of_an_mbox_gets_its_empty_line():
    """So that the messages of another mbox may follow."""
    for ending in (b"", b"\n", b"\n\n"):
        content = b"From a 2023\nMessage-ID: <1>\n\nHello" + ending
        (line,) = mbox_lines([content], Fields(), 999)
        assert (line.row + line.end, line.reason) == (content.rstrip(b"\n") + b"\n\n", "")


def test_a_message_that_is_too_long_is_one_refusal_and_the_next_is_read(tmp_path):
    """In memory of the bound; its bytes go to the rejects in parts."""
    content = mbox(raw(b"x\n" * 3_000, Message_ID="<0>"), raw(b"short\n", Message_ID="<1>"))
    kinds = [
        (line.number, line.is_part, line.ended, line.reason)
        for size in (100, 1 << 20)
        for line in mbox_lines([content[at : at + size] for at in range(0, len(content), size)], Fields(), 1_000)
        if line.ended
    ]
    assert kinds == [(1, True, True, ""), (2, False, True, "")] * 2
    results = found(tmp_path / "in.mbox", content, line_bytes_max=1_000)
    assert [one if isinstance(one, str) else one.id for one in results] == ["line_too_long", "1"]
    assert found(tmp_path / "in.eml", raw(b"x" * 2_000), line_bytes_max=1_000) == ["file_too_large"]


@pytest.mark.parametrize(
    ("headers", "body", "text"),
    [
        ({"Content_Type": "text/plain; charset=iso-8859-1"}, b"caf\xe9 \x93x\x94", "café “x”"),
        ({"Content_Type": "text/plain; charset=utf-8"}, b"caf\xe9", "caf\N{REPLACEMENT CHARACTER}"),
        ({}, "café".encode(), "café"),
        ({"Content_Type": "text/plain"}, "café".encode(), "café"),
        ({"Content_Type": "text/plain; charset=us-ascii"}, "café".encode(), "café"),
        ({"Content_Type": "text/plain; charset=us-ascii"}, b"caf\xe9 \x93x\x94", "café “x”"),
        ({"Content_Type": "text/plain; charset=gb2312"}, "镕".encode("gb18030"), "镕"),
        ({"Content_Type": "text/plain; charset=x-unknown"}, "café".encode(), "café"),
        ({"Content_Type": "text/plain; charset=x-unknown"}, b"caf\xe9 \x93x\x94", "café “x”"),
        ({"Content_Type": "text/plain; charset=rot13"}, b"abc", "abc"),
        ({"Content_Type": "text/plain; charset=shift_jis"}, b"\x87\x40", "①"),
        ({"Content_Type": "text/plain; charset=ks_c_5601-1987"}, b"\x8c\x63", "똠"),
        ({"Content_Type": "text/plain; charset=iso-8859-8-i"}, b"\xe0", "א"),
        ({"Content_Type": "text/html; charset=iso-8859-1"}, "größer".encode(), "größer"),
        ({"Content_Type": "text/plain; charset=punycode"}, b"abc", "abc"),
        ({"Content_Type": "text/plain; charset=utf-7"}, b"a+2AA-b", "a?b"),
        ({"Content_Type": 'text/plain; charset="ut\0f-8"'}, b"abc", "abc"),
        ({"Content_Transfer_Encoding": "base64"}, b"SGVsbG8gd29ybGQ", "Hello wor"),
        ({"Content_Transfer_Encoding": "base64"}, b"SGVs\r\nbG8=\r\n", "Hello"),
        ({"Content_Transfer_Encoding": "Quoted-Printable"}, b"a=\nb=3D", "ab="),
        ({"Content_Transfer_Encoding": "7bit"}, b"abc", "abc"),
        ({"Content_Type": "nonsense"}, b"abc", "abc"),
    ],
)
def test_a_body_is_decoded_as_far_as_it_can_be(headers, body, text):
    """Charsets are read as browsers read them; what does not fit is replaced."""
    assert read_mail(raw(body, **headers)).text == text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "mail_no_header"),
        (b"\n\nHello", "mail_no_header"),
        (b"not a header\n\nHello", "mail_no_header"),
        (raw(b"x", Content_Type="application/pdf"), "mail_no_text"),
        (raw(b"x", Content_Type="text/plain", Content_Disposition="attachment; filename=x"), "mail_no_text"),
        (raw(b"x", Content_Type="multipart/mixed"), "mail_no_text"),
        (raw(b"x", X_Long="y" * HEADER_BYTES_MAX), "mail_header_too_long"),
        (raw(b"x", Content_Type="text/plain" + ';"' * 400_000), "mail_header_too_long"),
    ],
)
def test_a_message_that_cannot_be_read_is_refused_with_its_reason(tmp_path, content, reason):
    """From a file as from an mbox; the message after it is read."""
    assert found(tmp_path / "in.eml", content) == [reason]
    content = b"From a 2023\n" + content + b"\n\n" + mbox(message())
    if not content.startswith(b"From a 2023\n\n"):
        found_in_mbox = found(tmp_path / "in.mbox", content)
        assert [type(one) for one in found_in_mbox] == [Reason, Document]
        assert found_in_mbox[0] == reason


BODY = b"Message-ID: <1@a>\n\nThe ferry leaves at ten.\n\n%b\n\nBring a coat.\n\n"
# A line From that begins no message, because a sentence or a quoted line does; and lines that do.
SENTENCES = (
    b"From the pier at 10:30 it is a short walk.\nNo header.",
    b"From the pier\nNote: a ship has no date.",
    b"From 2013\nNote: a year alone is none.",
    b"From a@b.example Tue Nov 14 22:13:20 2023",
    b"From a@b.example Tue Nov 14 22:13:20 2023\nand on to the pier",
    b"From a@b.example Tue Nov 99 22:13:20 2023\nTo: a day that no month has",
    b"From " + b"x" * 2_000 + b" Tue Nov 14 22:13:20 2023\nTo: a",
)
BEGINS = (
    b"From a@b.example Tue Nov 14 22:13:20 2023", b"From - Tue Nov 14 22:13:20 2023",
    b"From 123@xxx Tue Nov 14 22:13:20 +0000 2023", b"From a at b.example  Tue Nov  4 22:13:20 2023",
    b"From a@b.example Tue Nov 14 22:13:20 MSK 2023", b"From a Tue Nov 14 22:13:20 2023 remote from host",
    b"From a@b.example Tue, 14 Nov 2023 22:13:20 +0200\r", b"From MAILER-DAEMON Tue Nov 14 22:13 2023",
)  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_that_begins_with_from_cuts_no_message_in_two(sentence, size):
    """The second half of the message was in no output. Wherever blocks end, the answer is the same."""
    content = mbox(message()) + mbox(message())[:42] + BODY % sentence + mbox(message())
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    lines = list(mbox_lines(blocks, Fields(), 1 << 20))
    assert len(lines) == 3
    assert b"The ferry leaves at ten." in lines[1].raw
    assert b"Bring a coat." in lines[1].raw


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
@pytest.mark.parametrize("line", BEGINS)
def test_a_line_from_with_a_date_and_a_header_behind_it_begins_a_message(line, size):
    """As programs write it, with a zone in any place."""
    content = b"".join(line + b"\nMessage-ID: <%d@a>\n\nText.\n\n" % n for n in range(3))
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    assert [b"%d@a" % n in one.raw for n, one in enumerate(mbox_lines(blocks, Fields(), 1 << 20))] == [True] * 3


@pytest.mark.parametrize(
    ("date", "timestamp"),
    [
        ("Tue, 14 Nov 2023 22:13:20 GMT", TIME),
        ("14 Nov 23 22:13:20 -0000 (comment)", TIME),
        ("Tue, 14 Nov 0102 22:13:20 +0000", None),
        ("Tue, 14 Nov 2023 23:13:20 CET", TIME),
        ("Fri, 31 Dec 9999 23:59:59 -1200", 253_402_343_999.0),
        ("", None),
    ],
)
def test_dates_are_read_as_mail_writes_them(tmp_path, date, timestamp):
    """The unit of timestamps in JSON does not matter, and a date that UTC has in the year 10000 ends no reader."""
    assert found(tmp_path / "in.eml", raw(b"x", Date=date))[0].timestamp == timestamp
    in_milliseconds = Fields(timestamp_unit="ms")
    assert found(tmp_path / "in.mbox", mbox(raw(b"x", Date=date)), in_milliseconds)[0].timestamp == timestamp


@pytest.mark.parametrize(
    "date",
    ["yesterday", "Tue, 99 Nov 2023 22:13:20 +0000", "1 Jan 2023 00:00:00 +999999999999", "1 Jan 2023 00:00 IST"],
)
def test_a_date_that_no_rule_reads_is_none(tmp_path, date):
    """The message is read all the same, as a line of JSON is."""
    for name, content in (("in.eml", raw(b"x", Date=date)), ("in.mbox", mbox(raw(b"x", Date=date)))):
        assert [(one.text.strip(), one.timestamp) for one in found(tmp_path / name, content)] == [("x", None)]


def parts(kind, *inner):
    """A body of several parts; each is bytes with its own header."""
    begin = f'Content-Type: multipart/{kind}; boundary="{kind}"\n'.encode()
    return begin + b"\n" + b"".join(b"--%b\n%b\n" % (kind.encode(), one) for one in inner) + b"--%b--\n" % kind.encode()


def part(text, kind="text/plain", **more):
    headers = {"Content_Type": f"{kind}; charset=utf-8", **more}
    lines = "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in headers.items())
    return lines.encode() + b"\n" + text.encode()


LONG = "<p>" + STORY * 3 + "</p>"
STUB = "Your reader shows no HTML: https://a.example/1"
ONE, TWO = (b"\nMessage-ID: <%d@a>\n\n%b" % (n, text) for n, text in enumerate((b"First letter.", b"Second letter.")))
# The parts of a message -> its text.
TEXTS = {
    "the markup where the plain text is a stub": (parts("alternative", part(STUB), part(LONG, "text/html")), STORY * 3),
    "the plain text where it has the content": (parts("alternative", part(STORY), part(LONG, "text/html")), STORY),
    "a short plain text of short markup": (parts("alternative", part("Y."), part("<p>Y.</p>", "text/html")), "Y."),
    "the last form of markup": (parts("alternative", part("<b>a</b>", "text/html"), part("c", "text/html")), "c"),
    "what can be read": (
        parts("alternative", part(STORY), part("x", "text/html").replace(b"utf-8", b"x-none") + b"\xff"), STORY,
    ),
    "several texts": (
        parts("mixed", part("One."), part("<p>Two.</p>", "text/html"), part("Three.")), "One.\nTwo.\nThree.",
    ),
    "no attachments": (parts("mixed", part("One."), part("Two.", Content_Disposition="attachment")), "One."),
    "alternatives among others": (
        parts("mixed", parts("alternative", part(STUB), part(LONG, "text/html")), part("List footer.")),
        STORY * 3 + "\nList footer.",
    ),
    "the messages of a digest": (parts("digest", ONE, TWO), "First letter.\nSecond letter."),
    "an attached message": (
        parts("mixed", part("See below."), b"Content-Type: message/rfc822\nContent-Disposition: attachment\n" + ONE),
        "See below.\nFirst letter.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_a_message_is_all_that_its_reader_sees(name):
    """Two digests of different letters were one text, and a stub stood for the letter."""
    body, text = TEXTS[name]
    assert read_mail(b"Message-ID: <1@a>\n" + body).text.strip() == text


def nested(levels):
    begin = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (level, level) for level in range(levels)
    )
    return b"Message-ID: <1>\n" + begin + b"\ndeep\n"


def test_parts_in_parts_have_a_limit():
    """A message of as many levels as are allowed is read; one of more, and one of too many parts, is refused."""
    assert read_mail(nested(LEVELS_MAX - 1)).text == "deep\n"
    assert read_mail(nested(LEVELS_MAX)) == "mail_nested"
    assert read_mail(nested(20_000)) == "mail_nested"
    many = raw(b"--b\nContent-Type: image/png\n\n" * (PARTS_MAX + 1), Content_Type="multipart/mixed; boundary=b")
    assert read_mail(many) == "mail_nested"


@pytest.mark.long
@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("<", "<"), ("<a ", ""), ("<!--", ""), ("<script>", ""), ('<a ">" ', None), ("<a '>", None), ("&#1", None),
        ("&", "&"), ("<p>", ""), ("</script", ""), (" \n", ""),
    ],
)  # fmt: skip
def test_markup_that_never_ends_costs_no_more_than_its_size(unit, text):
    """Each step of the scan goes on from where the last one ended: a megabyte of it ends."""
    result = text_of_markup(unit * (1_000_000 // len(unit)))
    if text is not None:
        assert set(result) == set(text)


def test_numbers_of_characters_beyond_unicode_are_replaced():
    """The standard library refuses numbers of more than 4,300 digits."""
    assert re.sub(r"\W", "_", text_of_markup(f"a&#{'9' * 5_000};b&#x41;")) == "a_bA"


def test_mail_is_one_text_for_schemes_of_texts(tmp_path):
    """A scheme that compares records, tokens or vectors refuses it."""
    assert FORMATS["mbox"].kinds == FORMATS["mail"].kinds == ("text",)
    assert found(tmp_path / "in.mbox", mbox(message()), Fields(kind="tokens")) == ["file_not_lines"]
