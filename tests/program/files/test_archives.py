"""WARC archives as crawlers really write them."""

from __future__ import annotations

import json
from pathlib import Path

from command import Run

STORY = b"The harbour was closed on Tuesday because the tide had carried away a part of the wall near the mill. " * 4
PAGE = b"<html><body><article><h1>A page</h1><p>%s</p></article></body></html>" % STORY
SETTINGS = ("--html", "text")


def record(block: bytes, name: str, kind: str = "response", **fields: str) -> bytes:
    """A record of an archive; ``name`` is in its id and its address."""
    head = {
        "WARC-Type": kind, "WARC-Record-ID": f"<urn:uuid:{name}>", "WARC-Date": "2024-05-06T07:08:09Z",
        "WARC-Target-URI": f"http://a.example/{name}", "Content-Type": f"application/http; msgtype={kind}",
        **{key.replace("_", "-"): value for key, value in fields.items()}, "Content-Length": str(len(block)),
    }  # fmt: skip
    lines = "".join(f"{key}: {value}\r\n" for key, value in head.items())
    return b"WARC/1.0\r\n" + lines.encode() + b"\r\n" + block + b"\r\n\r\n"


def answer(body: bytes = PAGE, *fields: str) -> bytes:
    """The answer of a server."""
    head = "\r\n".join(("HTTP/1.1 200 OK", "Content-Type: text/html", *fields))
    return head.encode() + b"\r\n\r\n" + body


def chunked(body: bytes, extension: bytes = b"") -> bytes:
    """A body in two chunks, without the last one of length 0."""
    return b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in (body[:100], body[100:]))


def test_records_are_read_as_other_readers_of_archives_do(neardup: Run, tmp_path: Path) -> None:
    """Heads with line feeds alone, extensions of chunks, chunks that are cut off, and charsets as content encodings."""
    head, _, body = answer().partition(b"\r\n\r\n")
    bare = head.replace(b"\r\n", b"\n") + b"\n\n" + body
    whole, _, block = record(bare, "both").partition(b"\r\n\r\n")
    extended, cut = chunked(PAGE, b"; name=value") + b"0\r\n\r\n", chunked(PAGE)[:-10]
    records = {
        "answer": record(bare, "answer"),
        "both": whole.replace(b"\r\n", b"\n") + b"\n\n" + block,
        "extended": record(answer(extended, "Transfer-Encoding: chunked"), "extended"),
        "cut": record(answer(cut, "Transfer-Encoding: chunked"), "cut"),
        "none": record(answer(PAGE, "Content-Encoding: none"), "none"),
        "utf": record(answer(PAGE, "Content-Encoding: UTF-8"), "utf"),
    }
    (tmp_path / "crawl.warc").write_bytes(b"".join(records.values()))
    done = neardup("dedup", "crawl.warc", "--annotate", *SETTINGS)
    found = {one["id"].rpartition("/")[2]: one["text"] for one in map(json.loads, done.stdout.splitlines())}
    assert list(found) == list(records), done.stderr
    for text in found.values():
        assert " ".join(text.split()) == "A page " + STORY.decode().strip()


def test_what_belongs_to_a_dropped_response_is_dropped(neardup: Run, tmp_path: Path) -> None:
    """With ``--warc-drop`` the requests of dropped responses stayed in the archive, before and behind them."""
    near = PAGE.replace(b"<article>", b"<article><p>one</p>")
    (tmp_path / "crawl.warc").write_bytes(
        record(b"GET / HTTP/1.1\r\n\r\n", "q1", "request")
        + record(answer(), "r1", WARC_Concurrent_To="<urn:uuid:q1>")
        + record(b"GET / HTTP/1.1\r\n\r\n", "q2", "request")
        + record(answer(near), "r2", WARC_Concurrent_To="<urn:uuid:q2>")
        + record(b"fetchTimeMs: 9", "m2", "metadata", WARC_Concurrent_To="<urn:uuid:r2>")
        + record(b"fetchTimeMs: 9", "m1", "metadata", WARC_Concurrent_To="<urn:uuid:r1>")
    )
    done = neardup("dedup", "crawl.warc", "--warc-out", "out.warc", "--warc-drop", *SETTINGS)
    assert done.returncode == 0, done.stderr
    heads = (tmp_path / "out.warc").read_bytes().split(b"WARC-Record-ID: <urn:uuid:")[1:]
    assert [head[:2] for head in heads] == [b"q1", b"r1", b"m1"]


def test_a_page_without_text_is_in_the_rejects_with_its_id(neardup: Run, tmp_path: Path) -> None:
    """Such a page was in no output under its own name."""
    empty = b"<html><body></body></html>"
    (tmp_path / "crawl.warc").write_bytes(record(answer(), "r1") + record(answer(empty), "r2"))
    done = neardup("dedup", "crawl.warc", "--rejects", "rejects.jsonl", *SETTINGS)
    (rejected,) = map(json.loads, (tmp_path / "rejects.jsonl").read_text().splitlines())
    assert rejected["id"] == "http://a.example/r2", done.stderr
