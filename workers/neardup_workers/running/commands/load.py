"""``neardup load``: sends files to the topic of documents, keyed by id, some thousand in each transaction.

It has the same paths, formats and refusals as ``neardup run``. A line of JSON is sent unchanged (the signers judge its
text), a row of a table as a JSON object, a whole file as an object of id, text and its time. An aborted transaction is
sent again; if the outcome is unknown, the load ends with a message. A second load does little harm: a repeated id is a
new version, which is never a pair with its earlier versions.

The time of a message is the time of its document, or the present time if it is earlier. Signers align partitions by the
times of messages, so an archive is signed in the order of its own times. Kafka deletes by these times too. So a
document older than ``retention.ms`` of the topic is refused: it would be deleted before a signer reads it.
"""

from __future__ import annotations

from contextlib import closing

from neardup_workers.doing.session.loader import Loader
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.running import LoadOptions
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.transport.kafka.connect import connect


def load_paths(options: LoadOptions, settings: StreamSettings) -> Exit:
    """Send every document of the paths; returns the exit code. Raises ``Failure``."""
    with Session(
        settings, SessionOptions(paths=options.paths, quiet=options.quiet), prints=False, sources=True
    ) as session:
        with closing(connect(settings)) as transport:
            loader = Loader(transport, settings, session)
            loader.load(options.paths)
            loader.close()
        session.report.say(f"{session.report.documents:,} documents loaded, {session.report.refused.total():,} refused")
    return session.ended
