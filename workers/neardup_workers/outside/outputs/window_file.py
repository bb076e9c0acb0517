"""A window in a file: the signed documents in the window of a stream, as the start of another run.

``neardup.pairs.window_message.encode_window`` defines the format. Every message names its generation, so a window of
another configuration is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from neardup.pairs.pipeline import Matcher
from neardup.pairs.window_message import WindowMessage, WireError, encode_window
from neardup.schemes.config import Config
from neardup.stories.verdicts.decider import Decider
from neardup.stories.windows import messages as window_messages
from neardup.stories.windows.constant_texts import signature_of
from neardup_workers.outside.outputs.output import OutputFile
from neardup_workers.outside.process.exits import Exit, Failure, input_failure
from neardup_workers.outside.remote.objects import open_file


def write(path: str, messages: Iterable[WindowMessage], stream_time: int, config: Config) -> None:
    """Write a window, which replaces the file atomically; ``stream_time`` in microseconds, ``NO_TIME`` for none.

    Raises ``Failure`` if it cannot be written.
    """
    _write(path, encode_window(messages, stream_time, config, signature=signature_of(config)))


def keep(path: str, matcher: Matcher, decider: Decider | None = None) -> None:
    """Write the window of a matcher with its decisions. Raises ``Failure``."""
    _write(path, window_messages.saved(matcher, () if decider is None else decider.save()))


def _write(path: str, parts: Iterable[bytes]) -> None:
    with OutputFile(path, "the window") as output:
        output.act(lambda file: file.writelines(parts))


def fill(matcher: Matcher, path: str, decider: Decider | None = None, *, salvage: bool = False) -> None:
    """Add the documents of a window to an empty matcher, without finding pairs among them.

    A decider continues from the decisions of the window, and decides the documents of a window without decisions.
    With ``salvage``, damaged blocks are left out. Raises ``Failure`` for a file that cannot be read, is no window, is
    damaged, or has another configuration.
    """
    try:
        with open_file(path) as file:
            window_messages.fill(matcher, file.read, decider, decide=decider is not None, salvage=salvage)
    except OSError as error:
        raise input_failure(f"the window in {path}", error) from None
    except WireError as error:
        sentence = f"the window in {path} cannot be used: {error}"
        if not any(known in sentence for known in ("damaged", "truncated", "signed under")):
            sentence += "; name a file that neardup wrote with --keep"
        raise Failure(Exit.GENERATION if "signed under" in str(error) else Exit.INPUT, sentence) from None
