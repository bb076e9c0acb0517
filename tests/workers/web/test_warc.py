"""WARC archives: which records are documents, and how reading goes on after damage."""

import gzip
import random
import tracemalloc
import zlib

import brotli
import orjson
import pytest
import zstandard
from quick_parameters import quick_first
from warc_records import PARAGRAPH, answer, page, record

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields
from neardup.stories.sources.names import source_of
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import FILE_REASONS
from neardup_workers.outside.readers.lines import RECORD
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.readers.warc import warc_lines
from neardup_workers.outside.settings.files import Reading
from neardup_workers.outside.web.content_encoding import decoded_content

TEXT = "<p>hello</p>"
ANSWER = answer(TEXT.encode())


def lines_of(data, block=1 << 18, bytes_max=1 << 20):
    return list(warc_lines((data[at : at + block] for at in range(0, len(data), block)), bytes_max))


def outcomes(data, **options):
    """The ids of pages and the reasons of other records."""
    return [line.page.id if line.page else line.reason for line in lines_of(data, **options) if line.ended]


def entries(path, **options):
    reader = EntryReader(Reading(html="raw", **options), Fields(), Stop(), lambda part: None)
    return [entry for entry in reader.read([str(path)]) if entry is not None]


def zstd(data):
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


@pytest.mark.parametrize(("ending", "pack"), [("warc", bytes), ("warc.gz", gzip.compress), ("warc.zst", zstd)])
def test_responses_are_documents_with_uri_time_and_text(tmp_path, ending, pack):
    """The id is the target URI or the record's own id; the time is WARC-Date; the line of JSON holds all three."""
    path = tmp_path / f"crawl.{ending}"
    path.write_bytes(b"".join(map(pack, (record(b"", "warcinfo"), record(ANSWER, uri="http://a.example/x")))))
    (entry,) = entries(path)
    assert entry.found == Document("http://a.example/x", TEXT, 1714979289.0)
    assert entry.line == 2
    assert orjson.loads(entry.raw) == {
        "id": "http://a.example/x", "timestamp": "2024-05-06T07:08:09+00:00", "text": TEXT,
    }  # fmt: skip
    (entry,) = entries(path, warc_id="record-id")
    assert (entry.found.id, source_of(entry.found)) == ("<urn:uuid:1>", "a.example")
    assert orjson.loads(entry.raw)["url"] == "http://a.example/x"


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (record(answer(b"x", status="404 Not Found")), "warc_status"),
        (record(answer(b"", status="301 Moved")), "warc_status"),
        (record(answer(b"x", "image/png")), "warc_not_text"),
        (record(answer(b"x", "")), "warc_not_text"),
        (record(answer(b"<html>", "")), "http://a.example/"),
        (record(answer(b"x", "text/plain")), "http://a.example/"),
        (record(ANSWER, WARC_Truncated="length"), "warc_truncated"),
        (record(b"", "revisit"), "warc_revisit"),
        (record(b"example.com. 1 A 1.2.3.4", Content_Type="text/dns"), "warc_not_text"),
        (record(b"text", "conversion", Content_Type="text/plain"), "http://a.example/"),
        (record(b"<p>", "resource", Content_Type="text/html"), "http://a.example/"),
        (record(ANSWER, uri="<http://a.example/brackets>"), "http://a.example/brackets"),
        (record(ANSWER, uri=""), "<urn:uuid:1>"),
        (record(ANSWER, uri="", WARC_Record_ID=""), "no_id"),
        (record(b"not HTTP"), "warc_status"),
        *(
            (record(b"text", "resource", f"{kind}https://a.example/", Content_Type="text/plain"), "warc_description")
            for kind in ("urn:text:", "urn:textFinal:", "urn:pageinfo:", "urn:view:", "URN:Thumbnail:", "screenshot:")
        ),
        (record(b"text", "resource", "urn:isbn:9783161484100", Content_Type="text/plain"), "urn:isbn:9783161484100"),
        (
            record(b"text", "resource", "http://a.example/?urn:text:http://b.example/", Content_Type="text/plain"),
            "http://a.example/?urn:text:http://b.example/",
        ),
        *((record(b"", kind), RECORD) for kind in ("warcinfo", "request", "metadata", "continuation", "of-2040")),
    ],
)
def test_every_other_record_has_its_reason(made, outcome):
    """Records that say something about others are passed over."""
    assert outcomes(made) == [outcome]


def test_records_without_text_are_counted_and_do_not_end_a_strict_run(tmp_path):
    """Every crawl holds them."""
    path = tmp_path / "crawl.warc"
    path.write_bytes(record(answer(b"x", "image/png")) + record(b"", "request") + record(ANSWER))
    assert [entry.found for entry in entries(path)][:1] == ["warc_not_text"]
    assert [entry.line for entry in entries(path)] == [1, 3]
    assert {"warc_damaged", "warc_not_text"} <= FILE_REASONS.keys()


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "gzip, br", ""])
def test_payloads_are_unpacked(name):
    """A body that is not packed although its header says so is read as it is."""
    body = TEXT.encode()
    packed = body
    for one in filter(None, name.split(", ")):
        pack = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd}[one]
        packed = pack(packed)
    for stored in (packed, body):
        (line,) = lines_of(record(answer(stored, Content_Encoding=name)))
        assert line.page.payload == body
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    for stored in (chunked, body):
        (line,) = lines_of(record(answer(stored, Transfer_Encoding="chunked")))
        assert line.page.payload == body


@pytest.mark.parametrize("name", quick_first(["gzip", "deflate", "br", "zstd"], 1))
def test_a_payload_that_unpacks_to_too_much_is_given_up(name):
    """The unpacker never holds more than the bound and one step."""
    zeros = bytes(50 << 20)
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "br": lambda data: brotli.compress(data, quality=1),
            "zstd": zstd}[name]  # fmt: skip
    packed = pack(zeros)
    tracemalloc.start()
    assert decoded_content(packed, name, 1 << 20) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 35 << 20
    assert decoded_content(packed[:-5], name, 1 << 30) is None
    assert decoded_content(packed, "of-2040", 1 << 30) is None


@pytest.mark.parametrize("block", [1, 7, 1 << 18])
def test_reading_goes_on_after_damage(block):
    """Damage is one refusal: a header without a length, a length that is too large or too small, garbage, a cut."""
    first, second = record(ANSWER, uri="http://a.example/1"), record(ANSWER, uri="http://a.example/2")
    size = b"Content-Length: %d" % len(ANSWER)
    good = ["http://a.example/1", "http://a.example/2"]
    for broken in (
        first.replace(size, b"Content-Length: 9999"),
        first.replace(size, b"Content-Length: 12"),
        first.replace(size, b"Content-Length: -1"),
        first.replace(size, b"X: y"),
        first[:150] + b"\xff" * 500,
        b"garbage\r\n" * 50,
        first[:100],
    ):
        data = first + broken + b"\r\n" + second
        assert outcomes(data, block=block) == [good[0], "warc_damaged", good[1]], broken
    assert outcomes(first + second[:-30], block=block) == [good[0], "warc_damaged"]
    assert outcomes(first + second.rstrip(), block=block) == good
    assert outcomes(first + b"\r\n" * 5 + second, block=block) == good
    assert outcomes(first.rstrip() + second, block=block) == good


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
@pytest.mark.parametrize("damage", ["cut", "flipped", "lost", "first"])
def test_reading_goes_on_after_a_damaged_member(tmp_path, pack, damage):
    """Archives are packed record by record, so the member after a damaged one can be read."""
    random.seed(5)
    bodies = [bytes(random.choices(b"abcdefgh ", k=3000)) for _ in range(5)]
    members = [pack(record(answer(body), uri=f"http://a.example/{i}")) for i, body in enumerate(bodies)]
    at = 0 if damage == "first" else 2
    member = bytearray(members[at])
    if damage == "cut":
        member = member[:700]
    elif damage == "lost":
        member = member[300:]
    else:
        member[400:450] = bytes(50)
    members[at] = bytes(member)
    path = tmp_path / f"crawl.warc.{'gz' if pack is gzip.compress else 'zst'}"
    path.write_bytes(b"".join(members))
    found = [entry.found if isinstance(entry.found, str) else entry.found.id[-1] for entry in entries(path)]
    expected = ["0", "1", "2", "3", "4"]
    expected[at] = "warc_damaged"
    assert found == expected


def test_the_records_of_an_archive_may_share_a_dictionary(tmp_path):
    """A skippable frame at its beginning holds the dictionary."""
    records = [record(answer(b"<p>page %d</p>" % n), uri=f"http://a.example/{n}") for n in range(300)]
    dictionary = zstandard.train_dictionary(2000, records)
    pack = zstandard.ZstdCompressor(dict_data=dictionary).compress
    held = zstd(dictionary.as_bytes())
    path = tmp_path / "crawl.warc.zst"
    path.write_bytes(b"\x5d\x2a\x4d\x18" + len(held).to_bytes(4, "little") + held + b"".join(map(pack, records)))
    assert path.stat().st_size < 300 * 200
    assert [entry.found.id for entry in entries(path)] == [f"http://a.example/{n}" for n in range(300)]


def test_a_record_that_is_too_long_is_passed_on_in_parts_and_never_held():
    """The next record is read; a cut in it is damage."""
    size, block = 1 << 30, bytes(1 << 18)
    start = record(b"").replace(b"Content-Length: 0\r\n\r\n\r\n\r\n", b"Content-Length: %d\r\n\r\n" % size)
    passed = 0

    def blocks():
        yield start
        for _ in range(size // len(block)):
            yield block
        yield b"\r\n\r\n" + record(ANSWER) + start + block

    outcome = []
    tracemalloc.start()
    for line in warc_lines(blocks(), 1 << 20):
        passed += len(line.record or b"") if line.is_part else 0
        if line.ended:
            outcome.append(line.page.id if line.page else line.reason)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome == ["warc_too_large", "http://a.example/", "warc_damaged"]
    assert passed == size + 2 * len(start) + len(block)
    assert peak < 4 << 20


def test_hostile_headers_neither_raise_nor_hold_much():
    """Endless headers, nested magics, lengths of a thousand digits, bytes that are no text."""
    endless = b"WARC/1.0\r\n" + b"X: y\r\n" * 100_000
    good = record(ANSWER)
    assert outcomes(endless + b"\n" + good, block=4096) == ["warc_damaged", "http://a.example/"]
    assert outcomes(b"WARC/1.0\r\n" * 1000 + good) == ["warc_damaged", "http://a.example/"]
    long = record(ANSWER).replace(b"Content-Length: ", b"Content-Length: " + b"9" * 1000)
    assert outcomes(long + good) == ["warc_damaged", "http://a.example/"]
    odd = record(answer(TEXT.encode(), "text/html; charset=\xff"), uri="http://a.example/\x00", date="0000-99-99")
    assert [line.page is not None for line in lines_of(odd)] == [True]
    assert outcomes(b"") == []
    assert outcomes(b"WARC/") == ["warc_damaged"]


@pytest.mark.processes
def test_the_main_text_of_pages_is_compared_and_menus_are_not(tmp_path):
    """Through the reader, with processes that extract: in order, plain texts included."""
    path = tmp_path / "crawl.warc"
    bodies = [page(PARAGRAPH * 5, menu=f"menu {i}") for i in range(3)]
    path.write_bytes(
        b"".join(record(answer(body), uri=f"http://a.example/{i}") for i, body in enumerate(bodies))
        + record(answer(b"plain words", "text/plain"), uri="http://a.example/p")
        + record(answer(b"<html><body></body></html>"), uri="http://a.example/e")
    )
    reader = EntryReader(Reading(sign_threads=1), Fields(), Stop(), lambda part: None)
    found = [entry.found for entry in reader.read([str(path)]) if entry is not None]
    assert [type(one) for one in found] == [Document] * 4 + [Reason]
    assert [one.id[-1] for one in found[:4]] == ["0", "1", "2", "p"]
    assert all(PARAGRAPH.strip() in one.text and "menu" not in one.text for one in found[:3])
    assert [one if isinstance(one, str) else one.text for one in found[3:]] == ["plain words", "html_no_text"]
