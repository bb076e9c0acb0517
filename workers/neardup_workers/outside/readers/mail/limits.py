"""The limits of a message, and why a message is refused. The libraries of mail are loaded only for mail."""

from __future__ import annotations

# Bytes of the headers of a message or a part: twice what large providers accept.
HEADER_BYTES_MAX = 1 << 20
# Characters of a Content-Type. The standard library reads parameters in a time that grows with their square.
CONTENT_TYPE_CHARACTERS_MAX = 4_000
# Levels of parts in parts, and parts of all levels. Real messages have fewer than 10 levels.
LEVELS_MAX = 20
PARTS_MAX = 1_000
# What of the text of a message counts: all, or without quoted mail, signatures and footers. The first is the default.
MAIL_TEXT_NAMES = ("whole", "new")
# Reason -> sentence.
MAIL_REASONS: dict[str, str] = {
    "mail_no_header": "the message has no header: it is no mail",
    "mail_header_too_long": f"the header of the message, or of a part, is longer than {HEADER_BYTES_MAX:,} bytes, or "
    f"its Content-Type is longer than {CONTENT_TYPE_CHARACTERS_MAX:,} characters",
    "mail_nested": f"the message has parts in more than {LEVELS_MAX} levels, or more than {PARTS_MAX:,} parts",
    "mail_no_text": "the message has no part of type text/plain or text/html that is not an attachment",
}
