"""Readers of files whose time must not grow faster than their input."""

from __future__ import annotations

import json

import pyarrow
from command import Run

# Counts the bytes that readers search, copy or decompress. Patterns, buffers and decompressors of their modules are
# replaced by ones that count. Where a library does the work, the calls of functions are counted.
COUNTED = """
import importlib, json, pkgutil, re, sys, zlib
from backports import zstd
import neardup_workers.outside.readers as rooms
from neardup.pairs.json_lines import Fields
from neardup_workers.outside.readers import compression
from neardup_workers.outside.readers.formats import FORMATS
from neardup_workers.outside.web.markup import text_of_markup
from neardup_workers.outside.feeds.items import parse
from neardup_workers.outside.web import extractor

work = 0

def count(size):
    global work
    work += size

class Pattern:
    def __init__(self, pattern):
        self.pattern = pattern
    def search(self, data, at=0, stop=sys.maxsize):
        found = self.pattern.search(data, at, stop)
        count((min(len(data), stop) if found is None else found.end()) - at)
        return found
    def match(self, data, at=0, stop=sys.maxsize):
        found = self.pattern.match(data, at, stop)
        count(0 if found is None else found.end() - at)
        return found
    def sub(self, new, data):
        count(len(data))
        return self.pattern.sub(new, data)

def counting(kind):
    def find(self, what, at=0, stop=sys.maxsize):
        place = kind.find(self, what, at, stop)
        count((min(len(self), stop) if place < 0 else place) - at)
        return place
    return type(kind.__name__, (kind,), {"find": find})

Buffer, Text = counting(bytearray), counting(str)

class Block(bytes):
    def __radd__(self, before):
        count(len(before) + len(self))
        return bytes(before) + bytes(self)

class Member:
    def __init__(self, member):
        self.member = member
    def decompress(self, data, *limit):
        count(len(data))
        return self.member.decompress(data, *limit)
    def copy(self):
        return Member(self.member.copy())
    def __getattr__(self, name):
        return getattr(self.member, name)

class Zlib:
    error, MAX_WBITS = zlib.error, zlib.MAX_WBITS
    decompressobj = staticmethod(lambda bits: Member(zlib.decompressobj(bits)))

class Zstd:
    def __getattr__(self, name):
        return getattr(zstd, name)
    def ZstdDecompressor(self, *given):
        return Member(zstd.ZstdDecompressor(*given))

def bytes_(*values):
    made = bytes(*values)
    count(len(made))
    return made

compression.zlib, compression.zstd = Zlib, Zstd()
modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(rooms.__path__, rooms.__name__ + ".")]
for module in modules:
    for name, value in list(vars(module).items()):
        if isinstance(value, re.Pattern):
            setattr(module, name, Pattern(value))
for module in modules:
    if ".arrow" not in module.__name__:  # asks whether a value is bytes
        module.bytearray, module.bytes = Buffer, bytes_

def blocks(content):
    return [Block(content[at : at + 2048]) for at in range(0, len(content), 2048)]

def through(name):
    def read(content):
        for _ in FORMATS[name].read(blocks(content), Fields(), 1 << 24):
            pass
    return read

def archive(content):
    tape = compression.Tape()
    tape.resumes = True
    for _ in compression.decompressed(iter(blocks(content)), tape):
        pass

def calls(read):
    def counting(content):
        sys.setprofile(lambda frame, event, argument: count(1) if event in ("call", "c_call") else None)
        try:
            read(content)
        finally:
            sys.setprofile(None)
    return counting

READERS = {name: through(name) for name in ("lines", "array", "csv", "tsv", "mbox", "warc")}
READERS["mail"] = lambda content: FORMATS["mail"].document(content, "name", lambda *given: None)
READERS["compressed"] = archive
READERS |= {name: calls(through(name)) for name in ("arrow", "parquet")}
READERS["zstandard"] = archive
READERS["feed"] = calls(lambda content: parse(content, "http://127.0.0.1/feed", "application/rss+xml"))
READERS["page"] = calls(lambda content: extractor._main_trafilatura()(content.decode()))
READERS["markup"] = lambda content: text_of_markup(Text(content.decode()))

def counted(read, content):
    global work
    work = 0
    try:
        read(content)
    except compression.Corrupt:
        pass
    return work

found = {}
for name, (begin, pieces) in json.loads(sys.argv[1]).items():
    for piece in pieces:
        begin_, piece_ = begin.encode("latin-1"), piece.encode("latin-1")
        counted(READERS[name], begin_ + piece_ * 99)  # what is loaded once does not count
        found[f"{name} {piece!r}"] = [
            counted(READERS[name], begin_ + piece_ * (size // len(piece_))) for size in (8_000, 32_000)
        ]
print(json.dumps(found))
"""

# A reader -> a valid beginning, and pieces of its syntax that are repeated behind it.
PIECES: dict[str, tuple[str, tuple[str, ...]]] = {
    "lines": ("", ("\n", "a", '{"id":"a","text":"b"}\n', "\r\n")),
    "array": ("[", ("[", "{", '"', '"a', '\\"', '{"id":"a"},', " ", ",")),
    "csv": ("id,text\n", ('"', '"\n', "a,b\n", ",", '"a",', "\n")),
    "tsv": ("id\ttext\n", ('"', '"\n', "a\tb\n", "\t")),
    "mbox": ("From a Tue Nov 14 22:13:20 2023\n", ("\n\nFrom ", "\n\r\n", "From ", ">", "Subject: a\n", "\n >From ")),
    "mail": ("Message-ID: <1>\nContent-Type: text/html\n\n", ("<!--", "<style>", "</style", "<a href='", " ", "&#9")),
    "markup": ("", ("<!--", "<style>", "</style", '<a href="', "<a b='", "<", "&#99999999", "<p>")),
    "warc": ("", ("WARC/1.0\r\n", "\r\nWARC/", "\nWARC/1.0\nContent-Length: 3\n\n", "\r\n", "a: b\r\n")),
    "compressed": (
        "\x1f\x8b\x08",
        ("\x1f\x8b\x08", "\x1f\x8b", "\x1f\x8b\x08" + 7 * "\0", 20 * "\0" + "\x1f\x8b\x08\x08",
         "\x1f\x8b\x08\0\0\0\0\0\0\x03\3\0" + 8 * "\0"),
    ),
    "zstandard": (
        "",
        ("\x28\xb5\x2f\xfd", "\x28\xb5\x2f\xfd\x20\0\1\0\0", "\x28\xb5\x2f\xfd\x20\2\x11\0\0ab",
         "\x50\x2a\x4d\x18\0\0\0\0", "\x50\x2a\x4d\x18\4\0\0\0abcd"),
    ),
    "parquet": ("PAR1", ("PAR1", "\0", "\x15\4\x15")),
    "feed": (
        "<rss version='2.0'><channel>",
        ("<item><title>a</title></item>", "<item>", "<description>&lt;p&gt;", "<![CDATA[", "<!--", "&#99;", "</item>"),
    ),
    "page": (
        "<html><body>", ("<p>some words of a page</p>", "<div>", "<!--", "<td>a", "&amp;", "</p>", "<a href='x'>y"),
    ),
}  # fmt: skip


def arrow_pieces() -> tuple[str, tuple[str, ...]]:
    """The head of a stream of Arrow, and a batch of it."""
    batch = pyarrow.record_batch({"id": ["a"], "text": ["b"]})
    head, sink = batch.schema.serialize().to_pybytes(), batch.serialize().to_pybytes()
    return head.decode("latin-1"), (sink.decode("latin-1"),)


def test_the_work_of_every_reader_grows_as_its_input_does(python: Run) -> None:
    """An archive of heads without an end, and one of beginnings of gzip, took time by the square of their size."""
    readers = {**PIECES, "arrow": arrow_pieces()}
    done = python("-c", COUNTED, json.dumps(readers))
    assert not done.returncode, done.stderr.decode()
    found: dict[str, list[int]] = json.loads(done.stdout)
    assert len(found) == sum(len(pieces) for _, pieces in readers.values())
    assert max(map(max, found.values())) > 32_000
    # Four times the input is four times the work, and what does not depend on the input.
    assert [(name, *counts) for name, counts in found.items() if counts[1] > 5 * counts[0] + 32_000] == []


def test_blanks_after_an_array_may_come_later(python: Run) -> None:
    """A pipe brought them in a block of their own, and the array counted as damaged."""
    source = """
from neardup_workers.outside.readers.json.array import array_lines
for blocks in ([b'[{"a":1}]', b"\\n"], [b'[{"a"', b":1}", b" ]", b" ", b"\\n"], [b"[1]", b"x"]):
    print(*((line.raw.decode(), line.reason) for line in array_lines(blocks, 99)))
"""
    done = python("-c", source)
    expected = ["('{\"a\":1}', '')", "('{\"a\":1}', '')", "('1', '') ('x', 'array_damaged')"]
    assert done.stdout.decode().splitlines() == expected, done.stderr
