"""Messages of ``bands`` as the program before places wrote them."""

from __future__ import annotations

from neardup.stream.bands_message import BandMessage, encode

HEADER_BYTES = 64


def version_2(message: BandMessage, fingerprint: str) -> bytes:
    """The message without places, progress and stream time."""
    now, batch = encode(message, fingerprint), message.batch
    times, after = HEADER_BYTES + 8 * batch.size, HEADER_BYTES + 16 * batch.size + 24 * len(message.progress)
    return now[:4] + b"\2" + now[5:48] + now[HEADER_BYTES:times] + now[after:]
