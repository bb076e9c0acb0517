"""Dates that are written as texts: right, or none.

No part of a date is guessed. A form is read only if everybody who writes it means the same time: ISO 8601, the dates of
mail and of feeds (RFC 822 to 5322) with the names of months and days in English, those of C (``ctime``), and a year
that comes first, with the signs of China, Japan and Korea as well. So 3/4/2016 is none, and so is a zone whose name
stands for several, such as IST. Without a zone a time is UTC. Marks of direction, other digits and other blanks change
nothing.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s*)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?"
    r"(?:\s*(?P<half>[ap])\.?m\.?)?"
)
# Hours before UTC of the names that stand for one zone: those of RFC 822, of central Europe and of Japan.
_ZONES = {
    "z": 0, "ut": 0, "utc": 0, "gmt": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8,
    "pdt": -7, "cet": 1, "cest": 2, "jst": 9,
}  # fmt: skip
_ZONE = (
    r"(?:(?:utc|gmt|ut)?\s*(?P<sign>[-+])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?"
    rf"|(?P<zone>{'|'.join(_ZONES)}))(?:\s*\([^()]*\)|\[[^\[\]]*\])?"
)
_BEHIND = rf"(?:[\s,]+(?:at\s+)?{_TIME}(?:\s*{_ZONE})?|\s*)"
_FORMS = (
    rf"(?P<year>\d{{4}})(?P<mark>[-/.])(?P<number>\d{{1,2}})(?P=mark){_DAY}(?:(?:t|[\s,]+){_TIME}(?:\s*{_ZONE})?|\s*)",
    rf"(?P<year>\d{{4}})-?(?P<ordinal>\d{{3}})(?:(?:t|\s+){_TIME}(?:\s*{_ZONE})?|\s*)",
    r"(?P<year>\d{4})(?P<number>\d{2})(?P<day>\d{2})(?:t|\s+)(?P<hour>\d{2})(?P<minute>\d{2})"
    rf"(?:(?P<second>\d{{2}})(?:[.,](?P<fraction>\d+))?)?(?:\s*{_ZONE})?",
    rf"{_WEEKDAY}?{_DAY}[-\s]+{_MONTH}[-,\s]+(?P<year>\d{{4}}|\d{{2}}){_BEHIND}",
    rf"{_WEEKDAY}?{_MONTH}\s+{_DAY},?\s+(?P<year>\d{{4}}){_BEHIND}",
    rf"{_WEEKDAY}?{_MONTH}\s+{_DAY}\s+{_TIME}\s+(?:{_ZONE}\s+)?(?P<year>\d{{4}})",
)
# Signs behind the parts of a date whose year comes first, and halves of a day before a time -> what other dates have.
_SIGNS = (
    (r"(?<=\d)\s*[年月년월]\s*(?=\d)", "-"), (r"(?<=\d)\s*[日일]", " "),
    (r"(?<=\d)\s*[時时시分분]\s*(?=\d)", ":"), (r"(?<=:\d\d)\s*[分秒분초]", ""),
    (r"\A\s*(\d{4})\. (\d{1,2})\. (\d{1,2})\.", r"\1-\2-\3"),
    (r"\s*\([月火水木金土日월화수목금토일]\)", " "),
    (r"(?:午前|上午|오전)\s*(\d[\d:]*)", r"\1 am"), (r"(?:午後|下午|오후)\s*(\d[\d:]*)", r"\1 pm"),
)  # fmt: skip
_HYPHENS = ("\u2010", "\u2212")
# A year, and perhaps a month of it.
_YEAR = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)
# A time further ahead of the clock is wrong: clocks and zones differ by less.
AHEAD_SECONDS = 86_400.0
# Times this many seconds from the epoch (146,000 years) are none: differences in microseconds must fit 64 bits.
SECONDS_MAX = (1 << 62) / 1e6 - 1
# 1583: ISO 8601 has earlier years only where both sides agree. Dates of today have them in other calendars (1403/01/15
# in Iran), and so have times that stand for none (0001-01-01).
YEAR_1583_SECONDS = -12_212_553_600.0
# A text of more characters is no date.
_CHARACTERS_MAX = 100


@functools.cache
def _forms() -> tuple[re.Pattern[str], ...]:
    """Return the forms, compiled for the first date that Python itself does not read: few inputs have one."""
    return tuple(re.compile(rf"\s*{form}\s*", re.ASCII | re.IGNORECASE) for form in _FORMS)


def date_seconds(text: str) -> float | None:
    """Return a date as seconds since the epoch, ``None`` for any other text.

    >>> date_seconds("1970-01-01T00:01:00Z"), date_seconds("Thu, 01 Jan 70 01:01:00 CET"), date_seconds("3/4/2016")
    (60.0, 60.0, None)
    """
    if len(text) > _CHARACTERS_MAX:
        return None
    try:
        if (year := _YEAR.fullmatch(text)) is not None:
            return datetime(int(year[1]), int(year[2] or 1), 1, tzinfo=UTC).timestamp()
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except ValueError:  # Python does not know all of ISO 8601
        pass
    except OverflowError:
        return None
    for form in _forms():
        if (found := form.fullmatch(text)) is not None:
            try:
                return _seconds(found.groupdict())
            except (ValueError, OverflowError):
                return None
    plain = "" if text.isascii() else _plain(text)
    return date_seconds(plain) if plain.isascii() and plain else None


def _plain(text: str) -> str:
    """Return a date without marks of direction, with the digits, blanks and signs of other dates."""
    parts = (part for part in unicodedata.normalize("NFKC", text) if unicodedata.category(part) != "Cf")
    plain = "".join("-" if part in _HYPHENS else str(unicodedata.decimal(part, part)) for part in parts)
    for sign, other in _SIGNS:
        plain = re.sub(sign, other, plain)
    return plain


def date_text(text: str) -> str | None:
    """Return a date in ISO 8601, in UTC; ``None`` for any other text, and where UTC has another year than 1 to 9999."""
    seconds = date_seconds(text)
    try:
        return None if seconds is None else (datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return None


def _seconds(parts: dict[str, str | None]) -> float:
    """Return the time of the parts of a form. Raises ``ValueError`` for one that does not exist."""
    numbers = {name: int(value) for name, value in parts.items() if value is not None and value.isdecimal()}
    year = numbers["year"]
    if len(parts["year"] or "") == 2:  # as RFC 5322 reads them
        year += 2000 if year < 50 else 1900
    if (name := parts.get("month")) is not None:
        numbers["number"] = 1 + _MONTHS.index(name[:3].lower())
    hour, second = _hour(numbers.get("hour", 0), parts.get("half")), numbers.get("second", 0)
    rolled = 0.0  # seconds behind the last time of a day or minute that Python knows
    if hour == 24 and not numbers.get("minute") and not second and not numbers.get("fraction"):
        hour, rolled = 0, 86_400.0
    if second == 60:
        second, rolled = 59, 1.0
    offset = timedelta(hours=_ZONES.get((parts.get("zone") or "").lower(), 0))
    if (sign := parts.get("sign")) is not None:
        minutes = 60 * numbers["hours"] + numbers.get("minutes", 0)
        offset = timedelta(minutes=minutes if sign == "+" else -minutes)
    day = datetime(year, numbers.get("number", 1), numbers.get("day", 1), tzinfo=timezone(offset))
    if "ordinal" in numbers:
        day += timedelta(days=numbers["ordinal"] - 1)
        if day.year != year:
            raise ValueError("the year has no such day")
    time = day.replace(hour=hour, minute=numbers.get("minute", 0), second=second)
    return time.timestamp() + float(f"0.{parts.get('fraction') or 0}") + rolled


def _hour(hour: int, half: str | None) -> int:
    """Return the hour of a day. Raises ``ValueError`` for one that a clock of two halves does not show."""
    if half is None:
        return hour
    if not 1 <= hour <= 12:
        raise ValueError("a half of a day has the hours 1 to 12")
    return hour % 12 + (12 if half.lower() == "p" else 0)
