"""``dedup --warc-out``: the kept records of archives, as an archive that other programs read."""

import base64
import gzip
import hashlib
import json
import os
from argparse import Namespace

import pytest
import zstandard
from fastwarc.warc import ArchiveIterator
from warc_records import PARAGRAPH, answer, page, record
from warcio.archiveiterator import ArchiveIterator as WarcioIterator
from warcio.checker import Checker

from neardup_workers.outside.process.exits import Failure
from neardup_workers.outside.readers.warc import warc_lines
from neardup_workers.running.commands.dedup import archive
from neardup_workers.running.commands.dedup.archive import Archive

STORY = PARAGRAPH * 8
COPY = page(STORY)
NEAR = page(STORY, menu="Contact Shop Help")
IMAGE = answer(b"\x89PNG....", "image/png")


def digest(data):
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def crawl():
    """A crawl: a page, its copy under another address, a near-duplicate, two equal images, records about records."""
    host = "http://a.example"
    return [
        record(b"software: test\r\n", "warcinfo", uri="", name="info", Content_Type="application/warc-fields"),
        record(b"GET / HTTP/1.1\r\n\r\n", "request", f"{host}/1", Content_Type="application/http; msgtype=request"),
        record(answer(COPY), uri=f"{host}/1", name="one", WARC_Payload_Digest=digest(COPY)),
        record(answer(COPY, X_Server="2"), uri=f"{host}/2", name="two", WARC_IP_Address="192.0.2.7"),
        record(answer(NEAR), uri=f"{host}/3", name="three"),
        record(IMAGE, uri=f"{host}/4", name="four"),
        record(IMAGE, uri=f"{host}/5", name="five"),
        record(answer(b"gone", status="404 Not Found"), uri=f"{host}/6", name="six"),
        record(answer(COPY), uri=f"{host}/7", name="seven", WARC_Truncated="length"),
    ]


def rows(path):
    """Kind, address and what it refers to of each record, as FastWARC reads them."""
    with path.open("rb") as file:
        return [
            (one.headers["WARC-Type"], one.headers.get("WARC-Target-URI"), one.headers.get("WARC-Refers-To"))
            for one in ArchiveIterator(file, parse_http=False)
        ]


def written(path, raws, *, drops=False, verdicts=()):
    """An archive of records; ``verdicts`` by number of the record."""
    with Archive(str(path), drops=drops) as out:
        for i, raw in enumerate(raws):
            out.add(raw.removesuffix(b"\r\n\r\n"), dict(verdicts).get(i))
    return out


@pytest.mark.parametrize(("ending", "unpack"), [
    ("warc", bytes), ("warc.gz", gzip.decompress),
    ("warc.zst", lambda data: zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()),
])  # fmt: skip
def test_kept_records_are_unchanged_and_copies_become_revisits(neardup, tmp_path, ending, unpack):
    """A near-duplicate stays, with its verdict; two libraries read the archive, and its digests are right."""
    records = crawl()
    (tmp_path / "crawl.warc").write_bytes(b"".join(records))
    done = neardup("dedup", "crawl.warc", "--warc-out", f"out.{ending}", "--set", "sign_threads=1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    path = tmp_path / f"out.{ending}"
    host = "http://a.example"
    assert rows(path) == [
        ("warcinfo", None, None),
        ("request", f"{host}/1", None),
        ("response", f"{host}/1", None),
        ("revisit", f"{host}/2", "<urn:uuid:one>"),
        ("response", f"{host}/3", None),
        ("metadata", f"{host}/3", "<urn:uuid:three>"),
        ("response", f"{host}/4", None),
        ("revisit", f"{host}/5", "<urn:uuid:four>"),
        ("response", f"{host}/6", None),
        ("response", f"{host}/7", None),
    ]
    data = unpack(path.read_bytes())
    for number in (0, 1, 2, 4, 5, 7, 8):
        assert records[number] in data
    if ending == "warc.zst":  # which warcio does not read
        path = tmp_path / "unpacked.warc"
        path.write_bytes(data)
    assert Checker(Namespace(inputs=[str(path)], verbose=False)).process_all() == 0
    kinds, contents = [], {}
    with path.open("rb") as file:
        for one in WarcioIterator(file, check_digests="raise"):
            kinds.append(one.rec_type)
            contents[one.rec_headers["WARC-Record-ID"]] = (one, one.content_stream().read())
    assert kinds == [kind for kind, _, _ in rows(path)]
    revisit, body = contents["<urn:uuid:two>"]
    assert body == b""
    assert revisit.http_headers.get_header("X-Server") == "2"
    assert {name: revisit.rec_headers[f"WARC-{name}"] for name in (
        "Profile", "Payload-Digest", "Refers-To-Target-URI", "Refers-To-Date", "IP-Address",
    )} == {
        "Profile": "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest", "IP-Address": "192.0.2.7",
        "Payload-Digest": digest(COPY), "Refers-To-Target-URI": f"{host}/1", "Refers-To-Date": "2024-05-06T07:08:09Z",
    }  # fmt: skip
    (verdict,) = [json.loads(body) for one, body in contents.values() if one.rec_type == "metadata"]
    assert (verdict["status"], verdict["id"], verdict["duplicate_of"]) == ("duplicate", f"{host}/3", f"{host}/1")
    assert 0.8 < verdict["similarity"] <= 1


def test_the_output_read_again_names_the_same_documents(tmp_path):
    """Revisits are counted as such, metadata is passed over."""
    path = tmp_path / "out.warc"
    written(path, crawl(), verdicts=[(4, b'{"status":"duplicate"}')])
    found = [line.page.id[-1] if line.page else line.reason for line in warc_lines([path.read_bytes()], 1 << 20)]
    assert found == ["record", "record", "1", "warc_revisit", "3", "record", "warc_not_text", "warc_revisit",
                     "warc_status", "warc_truncated"]  # fmt: skip


def test_near_duplicates_are_left_out_on_request(tmp_path):
    """Copies stay as revisits of records that are in the archive."""
    path = tmp_path / "out.warc"
    near = {4: b'{"status":"duplicate"}', 3: b'{"status":"duplicate"}'}
    out = written(path, crawl()[:5], drops=True, verdicts=near.items())
    assert [kind for kind, _, _ in rows(path)] == ["warcinfo", "request", "response", "revisit"]
    assert (out.revisits, out.near) == (1, 1)
    out = written(path, [crawl()[4], crawl()[4]], drops=True, verdicts=[(0, b"{}"), (1, b"{}")])
    assert rows(path) == []


def described_crawl():
    """Five pages as crawlers with a browser store them; the last one is a near-duplicate of the first."""
    for number, body in enumerate(
        [*(page(chr(97 + n) + f" {n} ".join(PARAGRAPH.split()) * 4) for n in range(4)), NEAR]
    ):
        url = f"http://a.example/{number}"
        content = COPY if number == 0 else body
        about = ("urn:pageinfo:", "application/json"), ("urn:text:", "text/plain"), ("urn:thumbnail:", "image/png")
        before, *after = (
            record(PARAGRAPH.encode(), "resource", f"{kind}{url}#top", name=f"{kind}{number}", Content_Type=media)
            for kind, media in about
        )
        yield from (before, record(answer(content), uri=url, name=str(number)), *after)


@pytest.mark.parametrize("order", [list, lambda records: sorted(records, key=lambda raw: b"urn:text" in raw)])
def test_records_that_describe_a_page_share_its_fate(neardup, tmp_path, order):
    """Its text, its picture and its info are no documents, and the archive has them with each page that it keeps."""
    records = list(order(list(described_crawl())))
    (tmp_path / "crawl.warc").write_bytes(b"".join(records))
    done = neardup("dedup", "crawl.warc", "--warc-out", "out.warc", "--warc-drop", "--strict")
    assert done.returncode == 0, done.stderr
    assert b"documents: 5\nkept: 4\n" in done.stderr
    assert b"warc_description: 15\n" in done.stderr
    dropped = b"http://a.example/4"
    assert (tmp_path / "out.warc").read_bytes() == b"".join(raw for raw in records if dropped not in raw)


def test_a_page_of_which_one_capture_stays_keeps_what_describes_it(tmp_path):
    """Crawlers write descriptions to files of their own, behind all captures."""
    path = tmp_path / "out.warc"
    text = record(b"text", "resource", "urn:text:http://a.example/", name="t", Content_Type="text/plain")
    for verdicts, kept in (({1: b"{}"}, 2), ({0: b"{}"}, 2), ({0: b"{}", 1: b"{}"}, 0)):
        with Archive(str(path), drops=True) as out:
            for number, body in enumerate((COPY, NEAR)):
                out.add(record(answer(body), name=str(number)).removesuffix(b"\r\n\r\n"), verdicts.get(number))
            out.add_passed(text.removesuffix(b"\r\n\r\n"))
        assert len(rows(path)) == kept


def test_only_identical_payloads_are_revisits(tmp_path, monkeypatch):
    """Not one byte more, no empty ones, no refused digest of the record itself, and no more than the limit."""

    def kinds(*raws):
        written(tmp_path / "out.warc", raws)
        return [kind for kind, _, _ in rows(tmp_path / "out.warc")]

    assert kinds(record(answer(b"a")), record(answer(b"a"))) == ["response", "revisit"]
    assert kinds(record(answer(b"a")), record(answer(b"b"))) == ["response", "response"]
    assert kinds(record(answer(b"a"), WARC_Payload_Digest="sha1:X"),
                 record(answer(b"b"), WARC_Payload_Digest="sha1:X")) == ["response", "response"]  # fmt: skip
    assert kinds(record(answer(b"")), record(answer(b""))) == ["response", "response"]
    assert kinds(record(answer(b"a"), name=""), record(answer(b"a"))) == ["response", "revisit"]
    assert kinds(record(answer(b"a"), WARC_Record_ID=""), record(answer(b"a"))) == ["response", "response"]
    monkeypatch.setattr(archive, "_PAYLOADS_MAX", 1)
    assert kinds(*(record(answer(body)) for body in (b"a", b"b", b"a", b"a"))) == [*["response"] * 3, "revisit"]


@pytest.mark.parametrize("ending", ["warc", "warc.gz"])
def test_a_long_record_is_written_in_parts_and_a_cut_one_is_removed(tmp_path, ending):
    """The records around it stay whole."""
    path = tmp_path / f"out.{ending}"
    long = record(answer(bytes(50_000)))
    for raw, kept in ((long, 3), (long[:-60], 1)):
        with Archive(str(path), drops=False) as out:
            data = crawl()[2] + raw + (crawl()[5] if kept == 3 else b"")
            for line in warc_lines((data[at : at + 700] for at in range(0, len(data), 700)), 2_000):
                if line.is_part:
                    out.add_part(line)
                else:
                    out.add(line.record)
        content = path.read_bytes() if ending == "warc" else gzip.decompress(path.read_bytes())
        assert content == (data if kept == 3 else crawl()[2])
        assert len(rows(path)) == kept


def test_hostile_records_are_written_as_they_are(tmp_path):
    """Headers without names, folded lines, other versions, bytes of any kind."""
    odd = [
        b"WARC/0.9\r\nWARC-Type: response\r\n: x\r\nX:\r\n y\r\n z\r\n\r\nbody",
        b"WARC/1.1\r\n\r\n",
        b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\nWARC-Record-ID: <a>\r\n"
        b"WARC-Target-URI: \xff\r\nWARC-Date: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbody",
    ]
    path = tmp_path / "out.warc"
    written(path, [raw + b"\r\n\r\n" for raw in odd])
    assert path.read_bytes() == b"".join(raw + b"\r\n\r\n" for raw in odd)


def test_an_archive_needs_records_and_a_file(neardup, tmp_path):
    """Lines of JSON have none; a pipe cannot be cut."""
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": STORY}))
    done = neardup("dedup", "in.jsonl", "--warc-out", "out.warc")
    assert done.returncode == 2
    assert b"in.jsonl is no WARC archive" in done.stderr
    reader, writer = os.pipe()
    with pytest.raises(Failure, match="is a pipe or a device"), Archive(f"/dev/fd/{writer}", drops=False):
        pass
    os.close(writer)
    os.close(reader)
