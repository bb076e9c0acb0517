"""The outputs of ``neardup dedup``, by name."""

import json
import sys
from pathlib import Path

from neardup_workers.outside.options.documents import DedupOptions
from neardup_workers.outside.settings.load import load
from neardup_workers.running.commands.dedup.command import run

OUTPUTS = ("kept", "removed", "rejects", "verdicts", "clusters")


def deduplicated(
    *paths, folder=Path(), follow=False, annotate=False, window_from=None, keep=None, against=None, **settings
):  # fmt: skip
    """The outputs of a run by name, in a folder."""
    interval = sys.getswitchinterval()
    names = {name: str(folder / f"out-{name}") for name in (*OUTPUTS, "summary")}
    options = DedupOptions(
        [str(path) for path in paths], quiet=True, rejects=names["rejects"], summary_json=names["summary"],
        removed=names["removed"], verdicts=names["verdicts"], clusters=names["clusters"], output=names["kept"],
        annotate=annotate, follow=follow, window_from=window_from, keep=keep, against=against,
    )  # fmt: skip
    try:
        ended = run(options, load(settings, None))
    finally:
        sys.setswitchinterval(interval)
    out = {name: Path(path).read_bytes() for name, path in names.items()}
    return out | {"ended": ended, "statuses": [json.loads(line)["status"] for line in out["verdicts"].splitlines()]}
