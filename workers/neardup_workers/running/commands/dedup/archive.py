"""The kept records of WARC archives as an archive (ISO 28500).

Every record goes to the output as it is, byte for byte, in the order of the input, with two exceptions:

- A response whose payload is identical to the one of an earlier response becomes a ``revisit`` record of the profile
  identical-payload-digest: it keeps its HTTP header, and refers to the record that holds the payload. Payloads are
  identical if their SHA-256 and their lengths are. The newest ``_PAYLOADS_MAX`` payloads are known.
- A ``metadata`` record follows each near-duplicate and refers to it. It holds the verdict, as in ``--verdicts``. With
  ``drops`` neither of the two is written, nor are the records about it: its request, metadata of the crawler, its text
  or its picture. They refer to it or it refers to them (``WARC-Concurrent-To``, ``WARC-Refers-To``), or their address
  names its address (``described``), and they stand before or behind it.

Each record is packed by itself, if the name of the output ends in ``.gz`` or ``.zst``. Damaged records are left out. A
record that is too long to hold is written in parts; if its end is missing, the beginning is removed again. Records are
composed here and not by FastWARC, which gives header fields in an order that differs from run to run.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
import zlib
from collections import OrderedDict
from typing import Any, NamedTuple, Protocol

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup_workers.outside.outputs.output import OutputFile
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.interpreter import zstd
from neardup_workers.outside.readers.entries import Entry
from neardup_workers.outside.readers.lines import Line
from neardup_workers.outside.readers.warc import described, split_head

# Payloads that a revisit can refer to: some 100 MB.
_PAYLOADS_MAX = 1 << 18
# Records that wait for the one they may belong to; ids and addresses of dropped records, and addresses of kept ones,
# that later records may refer to.
_WAITING_MAX = 16
_DROPPED_MAX = 1 << 16
_END = b"\r\n\r\n"
_GZIP = 16 + zlib.MAX_WBITS
_PROFILE = b"http://netpreserve.org/warc/%b/revisit/identical-payload-digest"
# A header field, with the lines that continue it.
_FIELD = re.compile(rb"^([!-9;-~]+):[ \t]*(.*(?:\r\n[ \t].*)*)\r\n", re.MULTILINE)
# The fields that name a record of the same capture.
_RELATIONS = frozenset((b"warc-concurrent-to", b"warc-refers-to"))
# The fields of a response that its revisit does not take over.
_REPLACED = frozenset((
    b"warc-type", b"content-length", b"warc-block-digest", b"warc-payload-digest", b"warc-identified-payload-type",
    b"warc-profile", b"warc-refers-to", b"warc-refers-to-target-uri", b"warc-refers-to-date",
))  # fmt: skip


class _Packer(Protocol):
    """Packs one record."""

    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _Plain:
    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


class _Payload(NamedTuple):
    """The record that holds a payload: the values of its header."""

    digest: bytes
    record_id: bytes
    uri: bytes
    date: bytes


class _Record(NamedTuple):
    """The parts of a record. ``fields`` have names in lower case; ``belongs_to`` are the ids that it refers to, and the
    address of the page that it describes."""

    version: bytes
    fields: dict[bytes, bytes]
    block: bytes
    belongs_to: frozenset[bytes]

    @classmethod
    def of(cls, raw: bytes) -> _Record:
        head, block = split_head(raw)
        line, _, rest = head.partition(b"\r\n")
        pairs = [(name.lower(), value.strip()) for name, value in _FIELD.findall(rest)]
        belongs_to = frozenset(value for name, value in pairs if name in _RELATIONS)
        fields = dict(pairs)
        page = described(fields.get(b"warc-target-uri", b"").decode("latin-1"))
        belongs_to |= set() if page is None else {page.encode("latin-1")}
        return cls(line.removeprefix(b"WARC/").strip(), fields, block, belongs_to)

    @property
    def id(self) -> bytes:
        """Its id, empty without one."""
        return self.fields.get(b"warc-record-id", b"")

    @property
    def page(self) -> bytes:
        """The address of the page that it holds, empty without one."""
        return self.fields.get(b"warc-target-uri", b"").strip(b"<>").partition(b"#")[0]

    @property
    def holds_response(self) -> bool:
        """Whether it holds a complete response of HTTP, which a revisit can name."""
        kind, content = (self.fields.get(name, b"").lower() for name in (b"warc-type", b"content-type"))
        is_named = all(self.fields.get(name) for name in (b"warc-record-id", b"warc-target-uri", b"warc-date"))
        return (
            kind == b"response"
            and content.startswith(b"application/http")
            and is_named
            and (b"warc-truncated" not in self.fields)
        )


class Archive:
    """The output archive, a context manager, which opens the file. Raises ``Failure`` if it cannot be written."""

    def __init__(self, path: str, *, drops: bool) -> None:
        self._path = path
        self._drops = drops
        self._payloads: OrderedDict[bytes, _Payload] = OrderedDict()
        # With ``drops``: requests and the like, which are written if nothing drops them.
        self._waiting: list[tuple[_Record, bytes]] = []
        self._dropped: OrderedDict[bytes, None] = OrderedDict()
        self._kept: OrderedDict[bytes, None] = OrderedDict()  # addresses of pages, with ``drops``
        self._part: tuple[int, _Packer] | None = None  # a record that is written in parts, and where it begins
        self.revisits = self.near = 0

    def __enter__(self) -> Archive:
        self._output = OutputFile(self._path, "the records")
        if not self._output.file.seekable():
            self._output.discard()
            raise Failure(Exit.USAGE, f"--warc-out {self._path} is a pipe or a device: name a file")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Write what waits, after the last record, and finish the file."""
        if kind is None:
            self._write_waiting()
        self._output.__exit__(kind, error, trace)

    def add_entry(self, entry: Entry, verdict: bytes | None) -> None:
        """Write the record of an entry. Raises ``Failure`` for a document that comes from no archive."""
        if entry.record is not None and entry.found == Reason("warc_description"):
            self.add_passed(entry.record)
        elif entry.record is not None:
            self.add(entry.record, verdict)
        elif isinstance(entry.found, Document):
            raise Failure(
                Exit.USAGE,
                f"--warc-out writes records, and {entry.source} is no WARC archive: name archives only, or use "
                "--output",
            )

    def note(self) -> str:
        """Return what the archive has, for the summary."""
        near = "left out" if self._drops else "with their verdicts"
        return f"archive: {self.revisits:,} copies as revisits, {self.near:,} near-duplicates {near}"

    def add(self, raw: bytes, verdict: bytes | None = None) -> None:
        """Write a record. ``verdict`` is the verdict about a duplicate, as JSON; ``None`` for any other record."""
        record = _Record.of(raw)
        if verdict is None:
            self._write_waiting()
        http, payload = split_head(record.block) if record.holds_response else (b"", b"")
        key = hashlib.sha256(payload).digest() + len(payload).to_bytes(8, "big") if payload else None
        original = None if key is None else self._payloads.get(key)
        if key is not None and original is not None:
            self._payloads.move_to_end(key)
            self.revisits += 1
            self._keep(record)
            self._write_waiting()
            self._write(_revisit(record, http, original))
            return
        if verdict is not None:
            self.near += 1
            if self._drops:
                self._drop(record)
                return
        self._keep(record)
        if key is not None:
            self._payloads[key] = _payload_of(record, payload)
            if len(self._payloads) > _PAYLOADS_MAX:
                self._payloads.popitem(last=False)
        self._write(raw)
        if verdict is not None:
            self._write(_metadata(record, verdict))

    def add_passed(self, raw: bytes) -> None:
        """Write a record that says something about another one, unless that one is dropped."""
        record = _Record.of(raw)
        if not self._drops:
            self._write(raw)
        elif record.belongs_to.isdisjoint(self._dropped):
            self._waiting.append((record, raw))
            if len(self._waiting) > _WAITING_MAX:
                self._write(self._waiting.pop(0)[1])

    def _drop(self, record: _Record) -> None:
        """Leave out a record, and those before it that belong to it."""
        # A page that is captured twice keeps what describes it if one of its captures is kept.
        own = {record.id: None, **({} if record.page in self._kept else {record.page: None})}
        own |= {
            one.id: None
            for one, _ in self._waiting
            if not one.belongs_to.isdisjoint(own) or one.id in record.belongs_to
        }
        own.pop(b"", None)
        self._waiting = [(one, raw) for one, raw in self._waiting if one.id not in own]
        self._write_waiting()
        _remember(self._dropped, own)

    def _keep(self, record: _Record) -> None:
        """Remember that the archive has this page, so that it keeps what describes it."""
        if self._drops and record.page:
            self._dropped.pop(record.page, None)
            _remember(self._kept, {record.page: None})

    def _write_waiting(self) -> None:
        for _, raw in self._waiting:
            self._write(raw)
        self._waiting.clear()

    def add_part(self, line: Line) -> None:
        """Write a part of a record that is too long to hold."""
        if self._part is None:
            self._write_waiting()
            self._part = self._output.file.tell(), self._packer()
        begin, packer = self._part
        if line.ended and line.reason == "warc_damaged":
            self._part = None
            self._output.act(lambda file: file.truncate(file.seek(begin)))
            return
        self._put(packer.compress(line.record or b""))
        if line.ended:
            self._put(packer.compress(_END) + packer.flush())
            self._part = None

    def _write(self, raw: bytes) -> None:
        packer = self._packer()
        self._put(packer.compress(raw) + packer.compress(_END) + packer.flush())

    def _put(self, data: bytes) -> None:
        self._output.act(lambda file: file.write(data))

    def _packer(self) -> _Packer:
        if self._path.endswith(".gz"):
            return zlib.compressobj(wbits=_GZIP)
        if self._path.endswith(".zst"):
            return zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: True})
        return _Plain()


def _remember(known: OrderedDict[bytes, None], names: dict[bytes, None]) -> None:
    known.update(names)
    while len(known) > _DROPPED_MAX:
        known.popitem(last=False)


def _payload_of(record: _Record, payload: bytes) -> _Payload:
    fields = record.fields
    digest = fields.get(b"warc-payload-digest") or _digest(payload)
    return _Payload(digest, fields[b"warc-record-id"], fields[b"warc-target-uri"], fields[b"warc-date"])


def _digest(data: bytes) -> bytes:
    """SHA-1 in base32, which archives use to name payloads."""
    return b"sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest())


def _revisit(record: _Record, http: bytes, original: _Payload) -> bytes:
    """Return the record as a revisit of an earlier one: its header and the header of HTTP."""
    version = record.version if record.version in (b"1.0", b"1.1") else b"1.1"
    fields = {name: value for name, value in record.fields.items() if name not in _REPLACED}
    return _composed(version, b"revisit", fields, {
        b"WARC-Profile": _PROFILE % version,
        b"WARC-Payload-Digest": original.digest,
        b"WARC-Refers-To": original.record_id,
        b"WARC-Refers-To-Target-URI": original.uri,
        b"WARC-Refers-To-Date": original.date,
    }, http + b"\r\n")  # fmt: skip


def _metadata(record: _Record, verdict: bytes) -> bytes:
    """Return the verdict about a record as a record that refers to it; its id follows from the record and the
    verdict."""
    record_id = record.fields.get(b"warc-record-id", b"")
    named = uuid.uuid5(uuid.NAMESPACE_URL, (record_id + verdict).decode(errors="replace"))
    version = record.version if record.version in (b"1.0", b"1.1") else b"1.1"
    fields = {name: value for name, value in record.fields.items() if name in (b"warc-date", b"warc-target-uri")}
    added = {b"WARC-Record-ID": b"<%b>" % named.urn.encode(), b"Content-Type": b"application/json"}
    if record_id:
        added[b"WARC-Refers-To"] = record_id
    return _composed(version, b"metadata", fields, added, verdict)


def _composed(
    version: bytes, kind: bytes, fields: dict[bytes, bytes], added: dict[bytes, bytes], block: bytes
) -> bytes:
    named = {b"-".join(_capital(part) for part in name.split(b"-")): value for name, value in fields.items()}
    header = {b"WARC-Type": kind, **named, **added, b"WARC-Block-Digest": _digest(block)}
    lines = b"".join(b"%b: %b\r\n" % field for field in header.items())
    return b"WARC/%b\r\n%bContent-Length: %d\r\n\r\n%b" % (version, lines, len(block), block)


def _capital(part: bytes) -> bytes:
    return part.upper() if part in (b"warc", b"id", b"uri", b"ip") else part.capitalize()
