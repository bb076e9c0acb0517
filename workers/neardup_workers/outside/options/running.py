"""The options of the commands that fetch, serve, and work on Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neardup_workers.outside.options.shared import PATH_KINDS, QUIET, REJECTS_FILE, CommandOptions, argument, option

START: Any = option(
    None,
    "where a group without committed offsets begins; nothing is assumed. A filter also takes a generation: it "
    "begins where the filters of that one stopped.",
    name="--from",
    metavar="earliest|latest",
)


@dataclass(repr=False, eq=False)
class FeedCommandOptions(CommandOptions):
    """The arguments of ``feed``."""

    feeds: list[str] = argument(
        "FEED...",
        "addresses of feeds (RSS, Atom, RDF, JSON Feed) or of pages that name one; files that list feeds: "
        "OPML, or an address a line. --follow reads them again",
    )
    state: str | None = option(
        None, "remember what was written, so that a restart writes no item twice", metavar="FILE"
    )
    follow: bool = option(False, "ask again and again, and write what is new, until interrupted", short="-f")
    to_kafka: bool = option(False, "send the items to the topic of documents, not to standard output")
    to_serve: str | None = option(
        None,
        "send the items to a service (neardup serve), not to standard output; its token is NEARDUP_TOKEN",
        metavar="URL",
    )
    pages: bool = option(False, "fetch the page of each item, and write its text instead of the feed's")
    rejects: str | None = REJECTS_FILE
    quiet: bool = QUIET


@dataclass(kw_only=True, repr=False, eq=False)
class ServeCommandOptions(CommandOptions):
    """The arguments of ``serve``."""

    action: str | None = argument(
        "[migrate|backup|follow]",
        "migrate: sign the texts of --state again with other settings, into --to, and end; backup: copy "
        "--state to --to, also of a running service, and end; follow: read what a service "
        "keeps in --state",
        default=None,
    )
    to: str | None = option(None, "of migrate and backup: where the new window is made", metavar="FOLDER")
    state: str | None = option(None, "where the window is kept; made if it does not exist", metavar="FOLDER")
    from_kafka: bool = option(
        False, "show the verdicts of a deployment on Kafka; its settings come from the environment or --config"
    )
    salvage: bool = option(False, "of a damaged window, keep the sound rows; the file before stays")


@dataclass(kw_only=True, repr=False, eq=False)
class WorkerOptions(CommandOptions):
    """The arguments of ``sign``, ``match``, ``link`` and ``filter``."""

    start: str | None = START
    supervised: bool = option(False, "stop when standard input is closed: the end of who started this")


@dataclass(kw_only=True, repr=False, eq=False)
class UpOptions(CommandOptions):
    """The arguments of ``up``: how many processes each role has."""

    signers: int = option(1, "processes that sign", min=0, max=256)
    matchers: int = option(1, "processes that match", min=0, max=256)
    linkers: int = option(0, "processes that decide: one works", min=0, max=16)
    filters: int = option(0, "processes that forward what is kept", min=0, max=256)
    start: str | None = START


@dataclass(repr=False, eq=False)
class RightsOptions(CommandOptions):
    """The arguments of ``topics rights``."""

    user: str = argument(
        "ROLE",
        "who is to have the rights: a role (sign, match, link, filter) or a command (create, replay, "
        "status, load, tail, dead, serve, shards)",
    )
    principal: str | None = option(None, "its name for the broker (default: User:neardup-ROLE)", metavar="NAME")


@dataclass(kw_only=True, repr=False, eq=False)
class PlanOptions(CommandOptions):
    """The arguments of ``topics plan``."""

    changes: list[str] = option(
        ..., "a setting as it is to be, as threshold=0.7; repeat it", name="--set", metavar="NAME=VALUE"
    )


@dataclass(kw_only=True, repr=False, eq=False)
class ReplayOptions(CommandOptions):
    """The arguments of ``topics replay``."""

    window: bool = option(
        True, "sign one window again, or only documents without a verdict", name="--window/--no-window"
    )


@dataclass(repr=False, eq=False)
class CreateOptions(CommandOptions):
    """The arguments of ``topics create``."""

    grow: bool = option(False, "give topics with fewer partitions than --documents-partitions as many, documents last")


@dataclass(repr=False, eq=False)
class ShardsOptions(CommandOptions):
    """The arguments of ``topics shards``."""

    number: int = argument("N", "how many shards there are to be, more than now", min=1, max=100_000)


@dataclass(repr=False, eq=False)
class LoadOptions(CommandOptions):
    """The arguments of ``load``."""

    paths: list[str] = argument("PATH...", PATH_KINDS)
    quiet: bool = QUIET


@dataclass(kw_only=True, repr=False, eq=False)
class StatusOptions(CommandOptions):
    """The arguments of ``status``."""

    as_json: bool = option(False, "print one JSON object", name="--json")
    behind_max: str = option("5m", "how old an unread record may be before it is a problem", metavar="TIME")


@dataclass(kw_only=True, repr=False, eq=False)
class SizeOptions(CommandOptions):
    """The arguments of ``size``."""

    rate: float = option(..., "documents a second, at the peak", metavar="X", min=0.001, max=1e9)
    window: str | None = option(None, "setting window_seconds, as 72h", metavar="TIME")
    text_bytes: int = option(4_000, "bytes of a text", metavar="N", min=1, max=1 << 20)
    ids: int = option(60, "bytes of an id", metavar="N", min=1, max=1_000)
    memory: str = option("16GiB", "memory that a process may have, as 16GiB", metavar="SIZE")
    as_json: bool = option(False, "print one JSON object", name="--json")


@dataclass(kw_only=True, repr=False, eq=False)
class DeadOptions(CommandOptions):
    """The arguments of the commands ``dead``."""

    places: list[str] | None = argument("[LETTER]...", "letters by their names, as list prints them", default=None)
    reason: str | None = option(None, "only what was refused for this reason", metavar="REASON")
    since: str | None = option(None, "only what was refused since: 2h (ago), or 2026-01-31T08:00", metavar="TIME")


@dataclass(kw_only=True, repr=False, eq=False)
class TailOptions(CommandOptions):
    """The arguments of ``tail``."""

    start: str = option(
        "latest", "where to begin: all that is kept, or what comes", name="--from", metavar="earliest|latest"
    )
    lines_max: int | None = option(None, "end after N lines instead of by Ctrl-C", name="--max", min=1, metavar="N")
    removals: bool = option(False, "print the notices of removed ids as well")
    verdicts: bool = option(False, "print verdicts instead of pairs")


@dataclass(repr=False, eq=False)
class AgentOptions:
    """The arguments of ``mcp``, which has no settings."""

    url: str = option(
        "http://127.0.0.1:8470", "address of the service; its token is that of NEARDUP_TOKEN", metavar="URL"
    )
    allow_add: bool = option(False, "let the agent add documents to the window, with check")
