"""A reading of documents whose result needs all of them: a part of it answers nothing."""

from __future__ import annotations

from collections.abc import Sequence

from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.process.stop import Uncaught
from neardup_workers.outside.settings.files import Settings


def whole(settings: Settings, paths: Sequence[str], title: str = "") -> Session:
    """Return a session that reads documents as a run does, but without reports. A first signal ends the command.
    ``title`` names the reading for who waits, who then sees its progress. Raises ``Failure`` for a path that cannot be
    used."""
    return Session(settings, SessionOptions(paths=list(paths), quiet=True), title=title, stop=Uncaught())
