"""The options of the commands that fetch, serve, and work on Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from neardup_workers.outside.options.shared import PATH_KINDS, CommandOptions, Quiet, RejectsFile

Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="earliest|latest",
        help="where a group without committed offsets begins; nothing is assumed. A filter also takes a generation: it "
        "begins where the filters of that one stopped.",
    ),
]


@dataclass(frozen=True)
class FeedCommandOptions(CommandOptions):
    """The arguments of ``feed``."""

    feeds: Annotated[
        list[str],
        typer.Argument(
            metavar="FEED...",
            help="addresses of feeds (RSS, Atom, RDF, JSON Feed) or of pages that name one; files that list feeds: "
            "OPML, or an address a line. --follow reads them again",
            show_default=False,
        ),
    ]
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="FILE", help="remember what was written, so that a restart writes no item twice"
        ),
    ] = None
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="ask again and again, and write what is new, until interrupted")
    ] = False
    to_kafka: Annotated[
        bool, typer.Option("--to-kafka", help="send the items to the topic of documents, not to standard output")
    ] = False
    to_serve: Annotated[
        str | None,
        typer.Option(
            "--to-serve",
            metavar="URL",
            help="send the items to a service (neardup serve), not to standard output; its token is NEARDUP_TOKEN",
        ),
    ] = None
    pages: Annotated[
        bool, typer.Option("--pages", help="fetch the page of each item, and write its text instead of the feed's")
    ] = False
    rejects: RejectsFile = None
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class ServeCommandOptions(CommandOptions):
    """The arguments of ``serve``."""

    action: Annotated[
        str | None,
        typer.Argument(
            metavar="[migrate|backup|follow]",
            help="migrate: sign the texts of --state again with other settings, into --to, and end; backup: copy "
            "--state to --to, also of a running service, and end; follow: read what a service "
            "keeps in --state",
            show_default=False,
        ),
    ] = None  # fmt: skip
    to: Annotated[
        str | None, typer.Option("--to", metavar="FOLDER", help="of migrate and backup: where the new window is made")
    ] = None
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="FOLDER", help="where the window is kept; made if it does not exist"),
    ] = None
    from_kafka: Annotated[
        bool,
        typer.Option(
            "--from-kafka",
            help="show the verdicts of a deployment on Kafka; its settings come from the environment or --config",
        ),
    ] = False
    salvage: Annotated[
        bool, typer.Option("--salvage", help="of a damaged window, keep the sound rows; the file before stays")
    ] = False


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(CommandOptions):
    """The arguments of ``sign``, ``match``, ``link`` and ``filter``."""

    start: Start = None
    supervised: Annotated[
        bool, typer.Option("--supervised", help="stop when standard input is closed: the end of who started this")
    ] = False


@dataclass(frozen=True, kw_only=True)
class UpOptions(CommandOptions):
    """The arguments of ``up``: how many processes each role has."""

    signers: Annotated[int, typer.Option("--signers", min=0, max=256, help="processes that sign")] = 1
    matchers: Annotated[int, typer.Option("--matchers", min=0, max=256, help="processes that match")] = 1
    linkers: Annotated[int, typer.Option("--linkers", min=0, max=16, help="processes that decide: one works")] = 0
    filters: Annotated[int, typer.Option("--filters", min=0, max=256, help="processes that forward what is kept")] = 0
    start: Start = None


@dataclass(frozen=True)
class RightsOptions(CommandOptions):
    """The arguments of ``topics rights``."""

    user: Annotated[
        str,
        typer.Argument(
            metavar="ROLE",
            help="who is to have the rights: a role (sign, match, link, filter) or a command (create, replay, "
            "status, load, tail, dead, serve, shards)",
            show_default=False,
        ),
    ]
    principal: Annotated[
        str | None,
        typer.Option("--principal", metavar="NAME", help="its name for the broker (default: User:neardup-ROLE)"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlanOptions(CommandOptions):
    """The arguments of ``topics plan``."""

    changes: Annotated[
        list[str],
        typer.Option("--set", metavar="NAME=VALUE", help="a setting as it is to be, as threshold=0.7; repeat it"),
    ]


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(CommandOptions):
    """The arguments of ``topics replay``."""

    window: Annotated[
        bool,
        typer.Option("--window/--no-window", help="sign one window again, or only documents without a verdict"),
    ] = True


@dataclass(frozen=True)
class CreateOptions(CommandOptions):
    """The arguments of ``topics create``."""

    grow: Annotated[
        bool,
        typer.Option(
            "--grow", help="give topics with fewer partitions than --documents-partitions as many, documents last"
        ),
    ] = False


@dataclass(frozen=True)
class ShardsOptions(CommandOptions):
    """The arguments of ``topics shards``."""

    number: Annotated[
        int,
        typer.Argument(
            metavar="N", min=1, max=100_000, help="how many shards there are to be, more than now", show_default=False
        ),
    ]


@dataclass(frozen=True)
class LoadOptions(CommandOptions):
    """The arguments of ``load``."""

    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help=PATH_KINDS,
            show_default=False,
        ),
    ]
    quiet: Quiet = False


@dataclass(frozen=True, kw_only=True)
class StatusOptions(CommandOptions):
    """The arguments of ``status``."""

    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False
    behind_max: Annotated[
        str, typer.Option("--behind-max", metavar="TIME", help="how old an unread record may be before it is a problem")
    ] = "5m"


@dataclass(frozen=True, kw_only=True)
class SizeOptions(CommandOptions):
    """The arguments of ``size``."""

    rate: Annotated[float, typer.Option("--rate", metavar="X", min=0.001, help="documents a second, at the peak")]
    window: Annotated[str | None, typer.Option("--window", metavar="TIME", help="setting window_seconds, as 72h")] = (
        None
    )
    text_bytes: Annotated[
        int, typer.Option("--text-bytes", metavar="N", min=1, max=1 << 20, help="bytes of a text")
    ] = 4_000  # fmt: skip
    ids: Annotated[int, typer.Option("--ids", metavar="N", min=1, max=1_000, help="bytes of an id")] = 60
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE", help="memory that a process may have, as 16GiB")
    ] = "16GiB"
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False


@dataclass(frozen=True, kw_only=True)
class DeadOptions(CommandOptions):
    """The arguments of the commands ``dead``."""

    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LETTER]...", help="letters by their names, as list prints them", show_default=False),
    ] = None
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="REASON", help="only what was refused for this reason")
    ] = None
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="only what was refused since: 2h (ago), or 2026-01-31T08:00"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TailOptions(CommandOptions):
    """The arguments of ``tail``."""

    start: Annotated[
        str, typer.Option("--from", metavar="earliest|latest", help="where to begin: all that is kept, or what comes")
    ] = "latest"
    lines_max: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="end after N lines instead of by Ctrl-C")
    ] = None
    removals: Annotated[bool, typer.Option("--removals", help="print the notices of removed ids as well")] = False
    verdicts: Annotated[bool, typer.Option("--verdicts", help="print verdicts instead of pairs")] = False


@dataclass(frozen=True)
class AgentOptions:
    """The arguments of ``mcp``, which has no settings."""

    url: Annotated[
        str,
        typer.Option("--url", metavar="URL", help="address of the service; its token is that of NEARDUP_TOKEN"),
    ] = "http://127.0.0.1:8470"
    allow_add: Annotated[
        bool, typer.Option("--allow-add", help="let the agent add documents to the window, with check")
    ] = False
