"""Mutated inputs for the readers of formats: no exception, no hang, no memory beyond a bound, and only known results.

``python tests/support/workers/fuzz_readers.py --inputs 100000 mail mbox`` runs readers of the table ``READERS`` at
length; without names, all of them. The tests run a few hundred inputs of each. A failure prints the seed and the number
of the input: ``--seed S --first N --inputs 1`` repeats it.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import io
import json
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[3]))

import brotli
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from pyarrow import ipc
from warc_records import PARAGRAPH, page, record
from warc_records import answer as answer_of_server

from neardup import Config, Signer
from neardup.documents.document import REASONS
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.feeds.items import read_items
from neardup_workers.outside.feeds.reasons import FEED_REASONS
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.compression import Corrupt, Tape, decompressed
from neardup_workers.outside.readers.entries import FILE_REASONS, TableRows
from neardup_workers.outside.readers.lines import IDLE
from neardup_workers.outside.readers.mail.mbox import mbox_lines
from neardup_workers.outside.readers.mail.message import mail_document, read_mail
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.readers.warc import warc_lines
from neardup_workers.outside.settings.files import Reading
from neardup_workers.outside.web.charsets import decoded
from neardup_workers.outside.web.extractor import REFUSED, ROWS, TEXT, answer

# Seconds of an input: a hundred times what the slowest needs on a busy machine.
INPUT_SECONDS_MAX = 120
# Bytes of memory that a run may add.
MEMORY_BYTES_MAX = 200 << 20
INPUT_BYTES_MAX = 50_000


class Reader(NamedTuple):
    """``seeds``: valid inputs; ``tokens``: parts of the syntax; ``read``: reads an input, checks what it gives, and
    returns what it was, for the summary."""

    seeds: list[bytes]
    tokens: list[bytes]
    read: Callable[[bytes], str]


def mutated(reader: Reader, seed: int, number: int) -> bytes:
    """Input ``number`` of a run: a valid input with one to eight changes."""
    rng = random.Random(f"{seed}/{number}")
    data = bytearray(rng.choice(reader.seeds))
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 2, 8, 64, 512)))
        change = rng.randrange(7)
        if change == 0:
            data[at:end] = b""
        elif change == 1:
            data[at:at] = rng.randbytes(rng.choice((1, 2, 8)))
        elif change == 2:
            data[at:end] = rng.randbytes(end - at)
        elif change == 3:
            data[at:at] = data[at:end] * rng.choice((1, 2, 20))
        elif change == 4:
            other = rng.choice(reader.seeds)
            data[at:end] = other[rng.randrange(len(other)) :]
        elif change == 5:
            data[at:at] = rng.choice(reader.tokens) * rng.choice((1, 1, 2, 50))
        elif at < len(data):
            data[at] ^= 1 << rng.randrange(8)
    return bytes(data[:INPUT_BYTES_MAX])


def read_message(content: bytes) -> str:
    found = mail_document(content, "name", lambda reason, value: None)
    assert isinstance(read_mail(content), str) <= isinstance(found, str)
    if isinstance(found, str):
        assert found in FILE_REASONS or found in REASONS
        return found
    found.text.encode()
    assert found.id
    return "document"


def read_mbox(content: bytes) -> str:
    """The bytes of all messages are the content, but for the end of the last one."""
    size = 1 + len(content) % 997
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    joined, kinds, number = b"", Counter(), 0
    for line in mbox_lines(blocks, Fields(), 4_000):
        assert line.number in (number, number + 1)
        number = line.number
        joined += (line.raw if line.is_part else line.row or b"") + (line.end if line.ended else b"")
        if not line.is_part:
            assert line.reason in FILE_REASONS if line.reason else type(json.loads(line.raw)["text"]) is str
        kinds[line.reason or ("part" if line.is_part else "document")] += 1
    assert joined.startswith(content)
    assert len(joined) <= len(content) + 2
    return max(kinds, key=lambda kind: kinds[kind], default="nothing")


def read_feed(content: bytes) -> str:
    found = read_items(content, "http://feeds.example/news", "text/xml")
    if isinstance(found, str):
        assert found in FEED_REASONS
        return found
    for item in found:
        json.dumps(item)
        "".join(part for part in item if part).encode()
    return "items" if found else "no items"


def read_table(content: bytes) -> str:
    """Through a file, as the commands do: its rows are signed, and written as lines."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        options = Reading(input_format="parquet" if content[:4] == b"PAR1" else "arrow")
        kinds = Counter()
        for part in EntryReader(options, Fields(), Stop(), lambda part: None).parts([file.name]):
            if isinstance(part, TableRows):
                signed = SIGNER.sign(part.rows.documents)
                reasons = part.refused({place: reason for place, _, reason in signed.refusals})
                assert signed.batch.size + len(reasons) == len(part)
                assert set(reasons.values()) <= REASONS.keys()
                assert all(type(json.loads(entry.raw)) is dict for entry in part)
                kinds["rows"] += len(part)
            else:
                assert part.found in FILE_REASONS or part.found in REASONS
                kinds[part.found] += 1
        return max(kinds, key=lambda kind: kinds[kind], default="nothing")


def _tables() -> tuple[list[bytes], list[bytes]]:
    """Parquet files; files and streams of Arrow."""
    count = range(30)
    table = pa.table({
        "id": [None if n == 3 else f"row-{n}" for n in count], "text": [f"some text é {n} " * (n % 7) for n in count],
        "timestamp": pa.array(count, pa.timestamp("us", "Asia/Tokyo")), "tags": [[n, None] for n in count],
        "kind": pa.array(["a", "b"] * 15).dictionary_encode(),
        "view": pa.array(["x" * n for n in count], pa.string_view()),
        "map": pa.array([[("k", 1.5)]] * 30, pa.map_(pa.string(), pa.float64())), "blob": [b"\xff"] * 30,
    })  # fmt: skip
    parquets, arrows = [], []
    for compression in ("none", "snappy", "gzip", "zstd"):
        file = io.BytesIO()
        pq.write_table(table, file, compression=compression, row_group_size=20, use_dictionary=compression != "none")
        parquets.append(file.getvalue())
    for compression in (None, "lz4", "zstd"):
        for new in (ipc.new_file, ipc.new_stream):
            file = io.BytesIO()
            with new(file, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
                writer.write_table(table, 20)
            arrows.append(file.getvalue())
    return parquets, arrows


SIGNER = Signer(Config())
_PARQUETS, _ARROWS = _tables()
_NUMBERS = [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x01", b"PAR1", b"ARROW1\0\0"]


def read_archive(content: bytes) -> str:
    """Through the unpacking that goes on after damage; every record has a page or a known reason."""
    size = 1 + len(content) % 997
    tape = Tape()
    tape.resumes = True
    blocks = decompressed((content[at : at + size] for at in range(0, len(content), size)), tape)
    kinds, number = Counter(), 0
    try:
        for line in warc_lines(blocks, 4_000):
            if line is IDLE:
                continue
            assert line.number in (number, number + 1)
            number = line.number
            assert line.page is not None or line.reason in ("record", "no_id") or line.reason in FILE_REASONS
            assert len(line.record or b"") < 80_000
            if line.page is not None:
                assert len(line.page.payload) <= 4_000
                line.page.id.encode()
                decoded(line.page.payload, line.page.charset).encode()
            kinds[line.reason or "document"] += 1
    except Corrupt:  # damage before the tape is asked
        kinds["corrupt"] += 1
    return max(kinds, key=lambda kind: kinds[kind], default="nothing")


def read_page(content: bytes) -> str:
    """By the function that the extracting process calls: a text or a known refusal."""
    number = sum(content[:8]) % len(EXTRACTORS_OF_PAGES)
    kind, text = answer(EXTRACTORS_OF_PAGES[number], content, ("", "utf-8", "shift_jis", "utf-16")[number])
    text.decode()
    return "text" if kind == TEXT else REFUSED[kind]


EXTRACTORS_OF_PAGES = [load() for load in ROWS.values()]
_ANSWERS = [
    answer_of_server(page("café " + PARAGRAPH * 5)),
    answer_of_server(gzip.compress(page(PARAGRAPH)), Content_Encoding="gzip"),
    answer_of_server(brotli.compress(page(PARAGRAPH)), Content_Encoding="br"),
    answer_of_server(b"7\r\n<p>some\r\n0\r\n\r\n", Transfer_Encoding="chunked"),
]
_RECORDS = [
    record(b"x: y", "warcinfo"), *(record(one, uri=f"http://a.example/{i}") for i, one in enumerate(_ANSWERS)),
    record(b"text", "conversion", Content_Type="text/plain"), record(b"", "revisit"),
]  # fmt: skip
_WARC_TOKENS = [
    b"WARC/1.0\r\n", b"\r\n\r\n", b"\n", b"Content-Length: 9\r\n", b"Content-Length: 99999999999\r\n", b"\r\nWARC/",
    b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"HTTP/1.1 200 OK\r\n", b"WARC-Type: response\r\n",
    b"Content-Encoding: zstd\r\n", b"charset=", b"\0", b"\xff", b"Transfer-Encoding: chunked\r\n", b"ffffffff\r\n",
    b"WARC-Date: 0000-00-00T00:00:00Z\r\n", b": ", b" ",
]  # fmt: skip
_PAGE_TOKENS = [
    b"<div>", b"</div>", b"<p>", b"<article>", b"<!--", b"-->", b"<script>", b"<table><tr><td>", b"<svg>", b"<math>",
    b"&#0;", b"&#xd800;", b"&#x10ffff;", b"<meta charset=utf-7>", b"<meta charset=utf-16>",
    b"<?xml version='1.0' encoding='x'?>", b"\0", b"\xff\xfe", b"<![CDATA[", b"<a href='", b'"', b"<template>",
    b"<frameset>", b"<!DOCTYPE html>", b"<time datetime='0102-01-01'>", b"<b><i></b></i>",
]  # fmt: skip


def _mails() -> list[bytes]:
    plain = EmailMessage()
    plain["Message-ID"], plain["Date"], plain["Subject"] = "<1@x>", "Tue, 14 Nov 2023 22:13:20 +0000", "Grüße"
    plain.set_content("The harbour was closed on Monday. Grüße, €\nFrom here on.\n")
    both = EmailMessage()
    both["Message-ID"], both["Date"] = "<2@x>", "14 Nov 23 22:13 EST"
    both.set_content("text \U0001f600" * 20)
    both.add_alternative("<html><style>p{}</style><p>caf&eacute; &#x41;<!-- x --><b>b</b><br></html>", subtype="html")
    both.add_attachment(b"\0\1\2" * 50, maintype="application", subtype="pdf", filename="ä.pdf")
    nested = EmailMessage()
    nested["Message-ID"] = "<3@x>"
    nested.set_content("inner")
    nested.add_attachment(both)
    raw = b"Message-ID: <4@x>\r\nContent-Type: text/html; charset=gb2312\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    return [bytes(plain), bytes(both), bytes(nested), raw + base64.encodebytes(b"<p>\xc4\xe3\xba\xc3")]


_MAILS = _mails()
_MAIL_TOKENS = [
    b"\n\n", b"\r\n\r\n", b"\n", b"\r", b"\0", b"--", b"From a Tue Nov 14 22:13:20 2023\n", b"\n\nFrom ", b">From ",
    b"Content-Type: multipart/mixed; boundary=b\n\n--b\n", b"\n--b--\n", b"Content-Type: text/html; charset=utf-7\n",
    b"Content-Transfer-Encoding: base64\n", b"Content-Transfer-Encoding: quoted-printable\n", b'charset="',
    b"boundary*0=a; boundary*1=b", b"Date: ", b"Message-ID: <", b"<!--", b"<script", b"&#9999999999;", b"='\"",
    b"=?utf-8?b?", b";" * 9,
]  # fmt: skip
_FEEDS = [
    b"""<?xml version="1.0" encoding="utf-8"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel><title>News</title><item><guid isPermaLink="false">7</guid><link>/a</link><title>A &amp;amp; B</title>
<pubDate>Tue, 14 Nov 2023 22:13:20 GMT</pubDate><description>&lt;p&gt;caf&amp;eacute;&lt;/p&gt;</description>
<content:encoded><![CDATA[<p>long</p>]]></content:encoded><enclosure url="http://a/b.mp3" length="1"/></item></channel>
</rss>""",
    b"""<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:f</id><entry><id>urn:1</id><link href="b" rel="alternate"/>
<published>2023-11-14T22:13:20Z</published><updated>0102-01-01T00:00:00Z</updated><summary>short</summary>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>x</p></div></content></entry></feed>""",
    b"""<!DOCTYPE x [<!ENTITY a "b">]><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns="http://purl.org/rss/1.0/"><item rdf:about="http://a/1"><title>T &a;</title><link>http://a/1</link></item></rdf:RDF>""",
]
_FEED_TOKENS = [
    b"<item>", b"</item>", b"<![CDATA[", b"]]>", b"<!--", b"-->", b"<?xml version='1.0' encoding='utf-16'?>", b"&a;",
    b"&#0;", b"&#xffffffff;", b"<!DOCTYPE x [", b'<!ENTITY b "&a;&a;">', b"]>", b"\0", b"\xef\xbb\xbf", b"\xff\xfe",
    b"<pubDate>", b"9999999999", b"<georss:polygon>1 2 3 ", b"<div>", b"encoding='idna'", b"<a href='", b"xmlns:x='y' ",
]  # fmt: skip


def _with_dictionary(records: list[bytes]) -> bytes:
    """An archive whose records are compressed with a dictionary at its beginning."""
    dictionary = zstandard.ZstdCompressionDict(b"".join(records))
    pack = zstandard.ZstdCompressor(dict_data=dictionary).compress
    held = zstandard.compress(dictionary.as_bytes())
    return b"\x5d\x2a\x4d\x18" + len(held).to_bytes(4, "little") + held + b"".join(map(pack, records))


READERS: dict[str, Reader] = {
    "mail": Reader(_MAILS, _MAIL_TOKENS, read_message),
    "mbox": Reader(
        [b"".join(b"From a Tue Nov 14 22:13:20 2023\n" + one + b"\n" for one in _MAILS[n:]) for n in range(3)],
        _MAIL_TOKENS,
        read_mbox,
    ),
    "feed": Reader(_FEEDS, _FEED_TOKENS, read_feed),
    "parquet": Reader(_PARQUETS, _NUMBERS, read_table),
    "arrow": Reader(_ARROWS, _NUMBERS, read_table),
    "warc": Reader(
        [
            b"".join(_RECORDS),
            b"".join(map(gzip.compress, _RECORDS)),
            b"".join(map(zstandard.compress, _RECORDS)),
            _with_dictionary(_RECORDS),
        ],
        _WARC_TOKENS,
        read_archive,
    ),
    "html": Reader(
        [
            page("café " + PARAGRAPH * 5),
            page("日本語のテキスト。" * 30).decode().encode("shift_jis"),
            page(PARAGRAPH, menu="<ul><li>a</ul>"),
        ],
        _PAGE_TOKENS,
        read_page,
    ),
}


class Hang(BaseException):
    """An input took longer than its limit; no reader catches it."""


def run(name: str, seed: int, first: int, inputs: int) -> Counter[str]:
    """Read mutated inputs; returns how many gave what. Raises what a reader raises, with the number of the input."""

    def hang(*_: object) -> None:
        raise Hang(f"longer than {INPUT_SECONDS_MAX} seconds")

    reader, kinds = READERS[name], Counter[str]()
    for valid in reader.seeds:  # compiles kernels, and loads what a first input needs
        reader.read(valid)
    before = signal.signal(signal.SIGALRM, hang)
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        for number in range(first, first + inputs):
            data = mutated(reader, seed, number)
            signal.alarm(INPUT_SECONDS_MAX)
            try:
                kinds[reader.read(data)] += 1
            except BaseException as error:
                raise AssertionError(f"{name}: --seed {seed} --first {number} --inputs 1: {error!r}") from error
            finally:
                signal.alarm(0)
    finally:
        signal.signal(signal.SIGALRM, before)
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) << 10
    assert added < MEMORY_BYTES_MAX, f"{name}: {added:,} bytes of memory more"
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(description="mutated inputs for the readers of formats")
    parser.add_argument("names", nargs="*", choices=[*READERS, []], help="all by default")
    parser.add_argument("--inputs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    for name in given.names or READERS:
        began = time.perf_counter()
        kinds = run(name, given.seed, given.first, given.inputs)
        seconds = time.perf_counter() - began
        sys.stdout.write(f"{name}: {given.inputs:,} inputs in {seconds:,.0f} seconds: {dict(kinds.most_common())}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
