"""The new text of a message: without quoted mail, signatures, footers of lists and the armour of PGP.

Two libraries were tried on letters of 14 forms (in the tests). mail-parser-reply found the new text of 8, keeps quotes
between answers, and takes minutes for 30 kB of some texts; quotequail found 2, because it leaves the lines that
introduce a quote. This function reads each line a bounded number of times.
"""

from __future__ import annotations

import re

# A quoted line: ">", or the initials of its author before it.
_QUOTED = re.compile(r" {0,3}(?:[A-Za-z]{1,4})?>")
# A line that introduces what it quotes ends with a colon, and has an address, a time or one of these verbs.
_VERBS = (
    "wrote", "writes", "schrieb", "a écrit", "écrit", "escribió", "escreveu", "scritto", "scrive", "schreef", "skrev",
    "kirjoitti", "napisał", "napsal", "írta", "написал", "пише", "пишет", "yazdı", "כתב", "كتب", "写道", "書きました",
)  # fmt: skip
_HAS_TIME = re.compile(r"@|\b\d{1,2}[:.]\d\d\b")
_DIGIT = re.compile(r"\d")
_INTRODUCTION_LINES = 3
# The line over a quoted letter, and the fields of its header.
_ORIGINAL = re.compile(r"-{2,}\s?[^\W\d_][\w ]{2,40}\s?-{2,}\s*$")
_FORWARDED = re.compile(r"-{2,}\s?[^-]{0,20}(?:forward|weitergeleitet|transf|reenv|inoltrat|пересл)", re.IGNORECASE)
_FIELD = re.compile(r"\*?[^\W\d_][\w-]{1,15}(?: [\w-]{1,12})?\s?\*?:\*?\s")
_FIELDS_MIN, _FIELDS_LINES = 3, 6
_RULE = re.compile(r"_{20,}\s*$")
# The footer of a list is short: a longer text behind a rule is a section of the letter.
_FOOTER_LINES = 10
_SIGNED, _ARMOUR_END = "-----BEGIN PGP SIGNED MESSAGE-----", "-----END PGP "
_ARMOUR = re.compile(r"-----BEGIN PGP (?!SIGNED)[A-Z ]{1,40}-----\s*$")


def new_text(text: str) -> str:
    """Return what a message adds to the ones that it answers; the whole text if nothing is left.

    >>> new_text("On Tue, 14 Nov 2023 at 22:13, Ann <a@b.example> wrote:\\n> Friday?\\n\\nYes, at nine.\\n-- \\nBob\\n")
    'Yes, at nine.\\n'
    """
    lines = _without_quotes(_until_end(_without_armour(text.splitlines())))
    found = "\n".join(lines).strip("\n")
    return f"{found}\n" if found.strip() else text


def _without_armour(lines: list[str]) -> list[str]:
    """Leave out the lines of PGP; text that is signed loses the dashes that escape dashes."""
    kept: list[str] = []
    is_signed, skips_header, is_armour = False, False, False
    for line in lines:
        if is_armour:
            is_armour = not line.startswith(_ARMOUR_END)
        elif line.rstrip() == _SIGNED:
            is_signed = skips_header = True
        elif skips_header:
            skips_header = bool(line.strip())
        elif _ARMOUR.match(line):
            is_armour, is_signed = True, False
        else:
            kept.append(line.removeprefix("- ") if is_signed else line)
    return kept


def _until_end(lines: list[str]) -> list[str]:
    """Leave out the signature, the footer of a list, and a letter that stands below a header."""
    left = sum(bool(line.strip()) for line in lines)  # lines with text from here on
    for at, line in enumerate(lines):
        left -= bool(line.strip())
        is_footer = left <= _FOOTER_LINES and _RULE.match(line)
        if line in ("-- ", "--", "-- \r") or is_footer or _begins_letter(lines, at):
            return lines[:at]
    return lines


def _begins_letter(lines: list[str], at: int) -> bool:
    """Whether a quoted letter begins here, below a line that says so or with its header; a forwarded one is new."""
    line = lines[at]
    if _ORIGINAL.match(line) or _RULE.match(line):
        return not _FORWARDED.match(line) and _is_header(lines, at + 1)
    if not at or not _FIELD.match(line):
        return False
    before = next((one for one in reversed(lines[max(0, at - 2) : at]) if one.strip()), "")
    return not before.startswith("--") and _is_header(lines, at)


def _is_header(lines: list[str], at: int) -> bool:
    """Whether the next lines are the header of a letter, one field of which has an address or a time."""
    while at < len(lines) and not lines[at].strip() and at < len(lines) - 1 and lines[at + 1].strip():
        at += 1
    fields = []
    for line in lines[at : at + _FIELDS_LINES]:
        if not _FIELD.match(line):
            break
        fields.append(line)
    return len(fields) >= _FIELDS_MIN and any(map(_HAS_TIME.search, fields))


def _without_quotes(lines: list[str]) -> list[str]:
    """Leave out quoted lines, and those that introduce them."""
    kept: list[str] = []
    was_quoted = False
    for at, line in enumerate(lines):
        is_quoted = _QUOTED.match(line) is not None
        if is_quoted and not was_quoted:
            _drop_introduction(kept)
        if not is_quoted:
            if _is_unmarked(lines, at):
                return kept
            kept.append(line)
        was_quoted = is_quoted or (was_quoted and not line.strip())
    return kept


def _introduces(line: str) -> bool:
    """Whether a line, or a paragraph in one, introduces a quote."""
    line = line.rstrip().lower()
    if not line.endswith((":", "：")):
        return False
    return _HAS_TIME.search(line) is not None or any(verb in line for verb in _VERBS)


def _drop_introduction(kept: list[str]) -> None:
    """Remove the introduction at the end of lines, which may be wrapped, and stand over an empty line."""
    end = len(kept)
    while end and not kept[end - 1].strip() and len(kept) - end < 2:
        end -= 1
    begin = end
    while begin and kept[begin - 1].strip() and end - begin < _INTRODUCTION_LINES + 1:
        begin -= 1
    if end - begin <= _INTRODUCTION_LINES and _introduces(" ".join(kept[begin:end])):
        del kept[begin:]
    elif end and _introduces(kept[end - 1]):
        del kept[end - 1 :]


def _is_unmarked(lines: list[str], at: int) -> bool:
    """Whether a line introduces a quote without marks, as the text of HTML has it: by date, time, address and verb."""
    line = lines[at].rstrip()
    if not at or "@" not in line or not line.endswith(":") or not any(verb in line for verb in _VERBS):
        return False
    follows = next((one for one in lines[at + 1 : at + 3] if one.strip()), "")
    return _DIGIT.search(line) is not None and not _QUOTED.match(follows)
