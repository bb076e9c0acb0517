"""The settings of the workers as declarations, and the row of each in the help. Those of the library are
``LibraryOptions``.

This module imports no kernel and no pydantic, which take a third of a second: ``--help`` must not wait for them. The
models that check the values derive from these classes: ``Settings``, ``StreamSettings``, ``ServeSettings`` and
``FeedSettings`` in the modules of this folder.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from neardup.schemes.declared import Declared, LibraryOptions, setting
from neardup_workers.outside.settings.durations import is_duration
from neardup_workers.outside.settings.presets import PRESETS

# Memory of a worker in addition to its tables, and the least: a step is an eighth of it and has a megabyte at least.
MEMORY_MAX, MEMORY_MIN = 512 << 20, 8 << 20
# Bytes of a window at least, and at most.
WINDOW_BYTES_MIN, WINDOW_BYTES_MOST = 1 << 20, 1 << 46
# Characters that every broker allows in names of groups, members and topics.
_NAME = r"^[A-Za-z0-9._-]*$"
_NAME_REQUIRED = r"^[A-Za-z0-9._-]+$"
_DAY_SECONDS = 86_400
_PARTITIONS_MAX = 4096


class ReadingOptions(Declared):
    """How input is read and refusals are reported. Nothing here changes which documents are near-duplicates."""

    preset: str | None = setting(default=None, description=
        f"settings for a kind of documents, unless set otherwise: {', '.join(PRESETS)}")  # fmt: skip
    fields: tuple[str, ...] = setting(default=(), description=
        "names in JSON Lines and tables, as id=doc,text=title,body,time=meta.published (a path leads into objects, and "
        "texts are joined); also tokens, vector, source (else the host of the URL), collection (documents of different "
        "ones never meet), html (HTML, and no text); with serve and on Kafka origin (what is old there is compared "
        "with nothing, and what is new with it)")  # fmt: skip
    table: tuple[str, ...] = setting(default=(), description=
        "how tables (.csv, .tsv) are written: delimiter=tab (comma, semicolon, pipe or any character), header=no "
        "(columns are 1, 2, ...), encoding=cp1252, quoting=none or quoted; by default the header decides")  # fmt: skip
    timestamp_unit: str = setting(default="s", description="unit of timestamps that are numbers: s, ms, us, ns")
    sources_max: int = setting(default=10_000, ge=1, le=1_000_000, description=
        "sources that are counted exactly; of more, those with the fewest documents are forgotten")  # fmt: skip
    representative: str = setting(default="first", min_length=1, description=
        "member of a cluster that a page shows: first, longest, or the name of a field: the greatest number "
        "there")  # fmt: skip
    input_format: str = setting(default="auto", description=
        "what the paths hold: auto, lines, array, csv, tsv, parquet, arrow, mail, mbox, warc, html, notebook, "
        "documents; auto decides by content, then by name")  # fmt: skip
    canonical_urls: bool = setting(default=False, description=
        "give ids that are URLs a canonical form as files and feeds are read (see the cookbook)")  # fmt: skip
    dropped_parameters: tuple[str, ...] = setting(default=(), description=
        "parameters that canonical_urls drops, besides those that count visits, as sid,ref_*")  # fmt: skip
    line_ids: bool = setting(default=True, description=
        "give a line without an id the id path:line, instead of refusing it")  # fmt: skip
    # At the defaults, a text of text_characters_max characters fits in any escaped form (12 bytes a character).
    line_bytes_max: int = setting(default=64 << 20, ge=1, le=1 << 31, description=
        "bytes of a line or of a document file at most; longer is refused")  # fmt: skip
    html: str = setting(default="main", description=
        "what is compared of a page: main, text, raw (the article; all text; the markup as it is)")  # fmt: skip
    html_extractor: str = setting(default="trafilatura", description=
        "what extracts the text: trafilatura, resiliparse (faster)")  # fmt: skip
    mail_text: str = setting(default="whole", description=
        "what is compared of a mail: whole, new (without quoted mail, signatures, footers of lists, PGP)")  # fmt: skip
    warc_id: str = setting(default="uri", description="id of a record in WARC: uri, record-id")
    window_bytes_max: int | None = setting(default=None, ge=WINDOW_BYTES_MIN, le=WINDOW_BYTES_MOST, description=
        "bytes of memory of the window of run, dedup and probe; by default half of the free memory, or any if "
        "window_documents is set")  # fmt: skip
    strict: bool = setting(default=False, description="end at the first refusal, with an exit code of its own")
    sign_threads: int = setting(default_factory=lambda: os.cpu_count() or 1, ge=1, le=256, description=
        "threads that sign, and processes that extract texts; all cores by default")  # fmt: skip


class ConnectionOptions(Declared):
    """How the broker is reached, and what the deployment calls its topics."""

    bootstrap_servers: str = setting(default="localhost:9092", min_length=1, description=
        "brokers to ask first, host:port,...")  # fmt: skip
    topic_prefix: str = setting(default="", max_length=100, pattern=_NAME, description=
        "beginning of the name of every topic")  # fmt: skip
    kafka_config: str | None = setting(default=None, in_file=True, description=
        "file in the form of Kafka's client.properties: security.protocol, sasl.*, ssl.*, timeouts, "
        "max.request.size")  # fmt: skip
    client_rack: str = setting(default="", max_length=100, description=
        "rack of this machine, as broker.rack: reads come from a replica there")  # fmt: skip


class StreamOptions(Declared):
    """How the workers share the stream, and their limits."""

    shards: int = setting(default=8, ge=1, le=_PARTITIONS_MAX, description=
        "parts that matchers divide the documents of the window into at the beginning, as many as matchers at most; "
        "part of the generation. neardup topics shards adds some to a stream that runs")  # fmt: skip
    group: str = setting(default="neardup", max_length=100, pattern=_NAME_REQUIRED, description=
        "beginning of the names of groups: {topic-prefix}{group}-{role}-{generation}")  # fmt: skip
    instance: str = setting(default="0", max_length=50, pattern=_NAME_REQUIRED, description=
        "which worker of its role this is, the same after a restart and no other's at a time: member and transactional "
        "id are {topic-prefix}{group}-{role}-{generation}-{instance}")  # fmt: skip
    memory_max: int = setting(default=MEMORY_MAX, ge=MEMORY_MIN, le=1 << 43, description=
        "bytes of memory of a worker in addition to its tables: an eighth for a step; in a linker half for contents to "
        "compare, a quarter for documents that wait")  # fmt: skip
    allow_gap: bool = setting(default=False, description=
        "go on when the beginning of a window is no longer in the log; pairs may be missed")  # fmt: skip
    verdicts: bool = setting(default=False, description=
        "matchers write links, which linkers read; without linkers links and signed would grow without "
        "end")  # fmt: skip
    standbys: int = setting(default=0, ge=0, le=8, description=
        "other matchers that keep a copy of the table of each shard, and other linkers that keep the state of the "
        "linker, to take over without a restore; each takes the memory once more")  # fmt: skip
    pairs_max: int | None = setting(default=None, ge=1, le=2**20, description=
        "pairs of a document that each shard publishes in candidates, the most similar; by default all. Links for "
        "verdicts are all")  # fmt: skip
    blocked: str | None = setting(default=None, in_file=True, description=
        "file of ids and content hashes whose documents a signer refuses; read at its start")  # fmt: skip
    forward: tuple[str, ...] = setting(default=("original", "update"), description=
        "verdicts whose documents a filter forwards, of original, update and unchanged")  # fmt: skip
    decode: str | None = setting(default=None, pattern=r"^[\w.]+:\w+$", description=
        "function of a signer that makes JSON of the value of a message, package:function; for Avro and Protobuf, as "
        "JSON needs none")  # fmt: skip
    align_wait_seconds_max: float | None = setting(default=None, ge=1, le=1e9, description=
        "how long records of a signer wait for partitions that are behind; then they are signed without them, and "
        "counted as unaligned. By default they wait until those have caught up")  # fmt: skip
    health_host: str = setting(default="127.0.0.1", description=
        "address that /metrics, /healthz and /readyz are served on; 0.0.0.0 for all")  # fmt: skip
    health_port: int = setting(default=9464, ge=0, le=65_535, description=
        "their port; 0 takes a free one; up gives its workers this one and the next")  # fmt: skip
    log_format: str = setting(default="text", pattern="^(text|json)$", description="lines of the log: text or json")


class TopicOptions(Declared):
    """Settings for the creation of topics."""

    documents_partitions: int = setting(default=8, ge=1, le=_PARTITIONS_MAX, description=
        "partitions of documents, as many as signers at most; candidates has as many")  # fmt: skip
    replication_factor: int = setting(default=-1, ge=-1, le=100, description=
        "replicas of each partition; -1: three, or as many as the cluster has nodes")  # fmt: skip
    allow_single_replica: bool = setting(default=False, description=
        "accept one replica, or one in sync, on a cluster of several nodes: data is lost with a node")  # fmt: skip
    retention_seconds: int = setting(default=7 * _DAY_SECONDS, ge=60, le=10**9, description=
        "how long documents, dead letters and candidates are kept")  # fmt: skip


class ServeOptions(Declared):
    """How the service listens, and what it keeps."""

    host: str = setting(default="127.0.0.1", min_length=1, description=
        "address to listen on; 0.0.0.0 for all; unix:PATH for a socket")  # fmt: skip
    port: int = setting(default=8470, ge=0, le=65_535, description="port to listen on; 0 takes a free one")
    token_file: str | None = setting(default=None, in_file=True, description=
        "file with the token that clients must send, or a line of JSON for each of several tokens; or NEARDUP_TOKEN in "
        "the environment")  # fmt: skip
    log_requests: str = setting(default="off", pattern="^(off|errors|refused|all)$", description=
        "requests with a line of JSON on standard error; errors: from status 500 on, refused: from 400")  # fmt: skip
    insecure: bool = setting(default=False, description="listen on an address that others reach, without a token")
    open_metrics: bool = setting(default=False, description=
        "answer /metrics without the token, for Prometheus in a network of its own")  # fmt: skip
    tls: tuple[str, ...] = setting(default=(), max_length=2, description=
        "PEM files for TLS: the certificate with its chain, and the key, unless it is in the same file")  # fmt: skip
    durability: str = setting(default="full", pattern="^(full|normal)$", description=
        "what an answered document survives: full, a loss of power; normal, the end of the process")  # fmt: skip
    blocked: str | None = setting(default=None, in_file=True, description=
        "file of ids and content hashes whose documents are refused; a removal with block=true adds to it")  # fmt: skip
    keep_texts: bool = setting(default=False, description="store the texts too, for the passages of /v1/why")
    history_seconds: float = setting(default=0.0, ge=0, le=1e10, description=
        "how long verdicts can be read after their documents have left the window")  # fmt: skip
    clock: str = setting(default="arrival", pattern="^(arrival|event)$", description=
        "the time of a document: arrival, when it is taken, its own timestamp is shown as its date; event, its "
        "timestamp, and older ones than the window decide nothing")  # fmt: skip
    webhook: str | None = setting(default=None, pattern="^https?://[!-~]+$", max_length=2_000, description=
        "address that events of stories are posted to, signed with NEARDUP_WEBHOOK_SECRET")  # fmt: skip


class FeedOptions(Declared):
    """How feeds and pages are fetched."""

    interval_seconds: float = setting(default=900.0, ge=1, le=86_400, description=
        "how often --follow asks for a feed; less often after failures")  # fmt: skip
    contact: str | None = setting(default=None, pattern=r"^[!-'*-~]{1,200}$", description=
        "address of a page or of a mailbox that requests name, for those whose feeds are asked")  # fmt: skip
    blocked: str | None = setting(default=None, in_file=True, description=
        "file of ids and content hashes whose items are left out; read at the start")  # fmt: skip
    allow_private: bool = setting(default=False, description=
        "fetch from addresses too that are not public, as of this machine or of a local network")  # fmt: skip
    clock: str | None = setting(default=None, pattern="^(arrival|event)$", description=
        "the time of an item: event, its date; arrival, when it was fetched, its date is in published; by default "
        "arrival with --follow and without --to-serve, else event")  # fmt: skip
    health_port: int | None = setting(default=None, ge=0, le=65_535, description=
        "port of health_host for /metrics and health, by default none; 0 takes a free one")  # fmt: skip
    websub: tuple[str, ...] = setting(default=(), max_length=2, description=
        "address that hubs (WebSub) push feeds to; then where to listen, by default 127.0.0.1:8471")  # fmt: skip


# Settings of the library that no command has -> what to give instead, as the end of a sentence.
GIVEN_OTHERWISE = {
    "scheme_options": "give the options with the scheme, as in --scheme records:keys=email",
    "collection_field": "give --fields collection=NAME",
}
# Each group of settings -> the heading of its options.
GROUPS: dict[type[Declared], str] = {
    LibraryOptions: "What is a near-duplicate",
    ReadingOptions: "How input is read",
    ConnectionOptions: "Kafka",
    StreamOptions: "Workers",
    TopicOptions: "Topics",
    ServeOptions: "Service",
    FeedOptions: "Feeds",
}
_KINDS: dict[object, str] = {bool: "switch", int: "int", float: "float"}


class SettingRow(NamedTuple):
    """A setting: its field, the form of its value, and the sentence of the help with the default in words."""

    name: str
    kind: str  # switch, int, float, duration, file, list or text
    help: str


def setting_rows(group: type[Declared]) -> tuple[SettingRow, ...]:
    """Return the rows of a group, in the order of the help."""
    kinds = get_type_hints(group)
    return tuple(
        SettingRow(name, _kind(name, field, kinds[name]), _help(field))
        for name, field in vars(group).items()
        if isinstance(field, dataclasses.Field) and name not in GIVEN_OTHERWISE
    )


def helps_of_all_commands() -> dict[str, str]:
    """Return the sentence of each setting. Of one that several groups have with other sentences, each says which."""
    found: dict[str, dict[str, str]] = {}
    for group, heading in GROUPS.items():
        for row in setting_rows(group):
            found.setdefault(row.name, {})[heading] = row.help
    return {name: "; ".join(f"{heading}: {text}" for heading, text in sentences.items()) if len(sentences) > 1
            else next(iter(sentences.values())) for name, sentences in found.items()}  # fmt: skip


def _kind(name: str, field: dataclasses.Field[Any], annotation: Any) -> str:
    if "in_file" in field.metadata:
        return "file"
    if is_duration(name):
        return "duration"
    if get_origin(annotation) is tuple:
        return "list"
    plain = next((kind for kind in (annotation, *get_args(annotation)) if kind in _KINDS), None)
    return _KINDS.get(plain, "text")


def _help(field: dataclasses.Field[Any]) -> str:
    fixed = "" if field.default in (None, "", (), dataclasses.MISSING) else _shown(field.default)
    defaults = "; ".join(filter(None, (fixed, field.metadata["elsewhere"])))
    return f"{field.metadata['description']} (default {defaults})" if defaults else field.metadata["description"]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
