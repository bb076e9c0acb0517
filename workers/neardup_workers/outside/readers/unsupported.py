"""The formats that are refused with a remedy: by the ending of a name, or by the first bytes."""

from __future__ import annotations

import re
from typing import NamedTuple


class Unsupported(NamedTuple):
    """A format that is recognised and refused: by ending or first bytes; ``remedy`` says what to do instead."""

    endings: tuple[str, ...]
    begins: re.Pattern[bytes]
    remedy: str


# The name of a format -> how it is recognised, and the remedy.
UNSUPPORTED: dict[str, Unsupported] = {
    "arc": Unsupported((".arc",), re.compile(rb"filedesc://"), "convert it to WARC first"),
    "pdf": Unsupported((".pdf",), re.compile(rb"%PDF-"), "extract the text first and give it as JSON Lines"),
    "zip": Unsupported(
        (".zip", ".docx", ".xlsx", ".odt"), re.compile(rb"PK\x03\x04"), "unpack it first and name what was in it"
    ),
    "bzip2": Unsupported((".bz2",), re.compile(rb"BZh[1-9]"), "decompress it first, or use gzip or Zstandard"),
    "json-seq": Unsupported(
        (".json-seq", ".geojsonseq"), re.compile(rb"\x1e\s*\{"), "tr -d '\\036' < FILE | jq -c . makes lines of it"
    ),
    "utf-32": Unsupported(
        (), re.compile(rb"(?:\xff\xfe\0\0|\0\0\xfe\xff|[{\[]\0\0\0|\0\0\0[{\[])"),
        "iconv -f UTF-32 -t UTF-8 FILE makes it UTF-8; without a mark, name UTF-32LE or UTF-32BE",
    ),
    "tar": Unsupported(
        (".tar", ".tgz"), re.compile(rb"(?s:.{257})ustar"), "unpack it first and name the folder of what was in it"
    ),
    "xz": Unsupported((".xz",), re.compile(rb"\xfd7zXZ\0"), "decompress it first, or use gzip or Zstandard"),
}  # fmt: skip
