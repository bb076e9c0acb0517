"""Options that several commands have, checked before documents are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.compression import COMPRESSED_ENDINGS
from neardup_workers.outside.readers.formats import FORMATS, LINES, choose
from neardup_workers.outside.readers.paths import display
from neardup_workers.outside.settings.files import Settings, fields_of

# Bytes of a file that decide its format before it is followed.
_HEAD_BYTES = 1 << 16


def check_top(top: int, settings: Settings, **given: object) -> None:
    """Raise ``Failure`` for an option without meaning for ``--top``, ``ConfigError`` if the scheme cannot rank."""
    for name, value in given.items():
        if value:
            raise Failure(Exit.USAGE, f"--{name} is about pairs, but --top names neighbours: leave one of them out")
    from neardup.pairs.neighbours.nearest import check_ranks

    check_ranks(settings, top)


def check_across(settings: Settings, **given: object) -> None:
    """Raise ``Failure`` for an option that has no meaning for pairs across collections, and if there are none."""
    for name, value in given.items():
        if value:
            option = name.replace("_", "-")
            raise Failure(Exit.USAGE, f"--{option} looks within collections, and --across across them: leave one out")
    if not settings.separate:
        raise Failure(
            Exit.USAGE,
            "--across pairs documents of different collections, and none is named: give --fields collection=NAME",
        )


def check_origin(settings: Settings) -> None:
    """Raise ``Failure`` if documents of files name the set that they are of: other commands do not read it."""
    if settings.field_names.origin is not None and not hasattr(settings, "topic_prefix"):  # load sends to topics
        raise Failure(
            Exit.USAGE, "fields has origin, which serve and Kafka read: give dedup the old set with --against"
        )


def check_follow(paths: Sequence[str], settings: Settings, *, follow: bool) -> None:
    """Raise ``Failure`` if the path to follow is not a plain file of JSON Lines."""
    if not follow or not paths:
        return
    last = paths[-1]
    is_lines = os.path.isfile(last) and not last.lower().endswith(COMPRESSED_ENDINGS)
    if is_lines:
        with Path(last).open("rb") as file:
            head = file.read(_HEAD_BYTES)
        is_lines = choose(last, head, fields_of(settings), settings.input_format) == FORMATS[LINES]
    if not is_lines:
        raise Failure(
            Exit.USAGE,
            f"--follow continues with the last path, but {display(last)} is no plain file of JSON Lines: name one "
            "that ends in .jsonl or .ndjson, or set --input-format lines",
        )
