"""What goes to standard error: untrusted text (ids, names of files) made safe, to a reader that may leave."""

from __future__ import annotations

import os
import re
from typing import Any, TextIO

# What is invisible and Python calls printable: joiners, fillers, selectors of a variant.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def printable(text: str) -> str:
    """Return the text with escapes for control characters of terminals and of text direction, and for what is
    invisible; line feeds stay.

    >>> printable("a\\x9b2J \\u202e é")
    'a\\\\x9b2J \\\\u202e é'
    """
    shown = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    return shown if shown.isascii() else _UNSEEN.sub(lambda found: ascii(found.group())[1:-1], shown)


class Messages:
    """Standard error. If its reader leaves (``2>&1 | head``), later messages are dropped, and those that do not fit if
    its disk is full. The work goes on: a file that is written meanwhile must not end there."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, or drop it."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        """Write what is held back, or drop it."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            return  # a disk may have room again
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._stream.fileno())
        os.close(nothing)
