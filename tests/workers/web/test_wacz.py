"""WACZ files: the archives in them are read, one after the other."""

import gzip
import io
import zipfile

import pytest
from warc_records import PARAGRAPH, answer, record

from neardup.pairs.json_lines import Fields
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.entries import FILE_REASONS
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading


def zipped(files, method=zipfile.ZIP_STORED):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return held.getvalue()


def archive(name):
    return record(answer(f"<p>{PARAGRAPH} {name}".encode()), uri=f"http://a.example/{name}", name=name)


def found(path):
    reader = EntryReader(Reading(html="raw"), Fields(), Stop(), lambda part: None)
    entries = [entry for entry in reader.read([str(path)]) if entry is not None]
    return [getattr(entry.found, "id", entry.found) for entry in entries]


FILES = {
    "datapackage.json": b"{}",
    "archive/rec-1.warc.gz": gzip.compress(archive("1")) + gzip.compress(archive("2")),
    "archive/rec-2.warc": archive("3"),
    "archive/rec-3.warc.gz": gzip.compress(archive("4")),
    "indexes/index.cdx.gz": gzip.compress(b"no archive"),
    "pages/pages.jsonl": b'{"id": "1", "text": "no document"}',
}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("is_folder", [False, True])
def test_the_archives_of_a_wacz_file_are_read(tmp_path, method, is_folder):
    """Also in a folder; indexes and lists of pages are no documents."""
    (tmp_path / "crawl.WACZ").write_bytes(zipped(FILES, method))
    assert found(tmp_path if is_folder else tmp_path / "crawl.WACZ") == [f"http://a.example/{n}" for n in range(1, 5)]


def broken(name, *, header=False):
    """The bytes of a WACZ file with one archive whose data, or whose own header in the file, is damaged."""
    content = bytearray(zipped(FILES, zipfile.ZIP_DEFLATED if header is None else zipfile.ZIP_STORED))
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        begin, size = file.getinfo(name).header_offset, file.getinfo(name).compress_size
    at = begin if header else begin + 30 + len(name) + size // 3
    content[at : at + 8] = b"\0" * 8
    return bytes(content)


@pytest.mark.parametrize("header", [False, True, None])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_damaged_archive_costs_no_other_one(tmp_path, number, header):
    """Its own pages before the damage, and those behind it that are found, stay; the damage is counted."""
    name = f"archive/rec-{number}.warc" + ".gz" * (number != 2)
    (tmp_path / "a.wacz").write_bytes(broken(name, header=header))
    pages = {1: {1, 2}, 2: {3}, 3: {4}}
    read = found(tmp_path / "a.wacz")
    assert read.count("warc_damaged") == 1
    others = {f"http://a.example/{n}" for key, ns in pages.items() if key != number for n in ns}
    assert others <= set(read)
    assert len(read) == len(set(read))


@pytest.mark.parametrize(
    ("content", "reasons"),
    [
        (zipped({"pages/pages.jsonl": b"{}"}), ["wacz_empty"]),
        (zipped(FILES)[:-40], ["corrupt"]),
        (b"no zip", ["corrupt"]),
        (zipped(FILES).replace(b"The harbour", b"The_harbour"), ["warc_damaged"]),
    ],
)
def test_a_damaged_wacz_file_has_its_reason(tmp_path, content, reasons):
    """Without an archive, cut off, no zip at all, and with a checksum that is wrong."""
    path = tmp_path / "a.wacz"
    path.write_bytes(content)
    refused = [one for one in found(path) if one in FILE_REASONS]
    assert refused == reasons
