"""Dates that are written as texts: each form has its time, and what could mean two times has none."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.documents.dates import date_seconds, date_text
from neardup.pairs.json_lines import decode_document, event_seconds

# What is written -> the same in UTC.
READ = {
    # ISO 8601
    "2013-10-08T18:30": "2013-10-08T18:30:00+00:00",
    "2013-10-08T18:30:00+02:00[Europe/Berlin]": "2013-10-08T16:30:00+00:00",
    "2013-10-08 18:30:00 UTC": "2013-10-08T18:30:00+00:00",
    "2013-10-08 18:30:00 +0200": "2013-10-08T16:30:00+00:00",
    "2013-10-08T18:30:00,5Z": "2013-10-08T18:30:00.500000+00:00",
    "2013-W41-2": "2013-10-08T00:00:00+00:00",
    "2013-281": "2013-10-08T00:00:00+00:00",
    "2013281T12:00:00Z": "2013-10-08T12:00:00+00:00",
    "2012-366": "2012-12-31T00:00:00+00:00",
    "2013-10-08T24:00:00Z": "2013-10-09T00:00:00+00:00",
    "20131008T240000Z": "2013-10-09T00:00:00+00:00",
    "2016-12-31T23:59:60Z": "2017-01-01T00:00:00+00:00",
    "2016-12-31T24:00": "2017-01-01T00:00:00+00:00",
    "2017": "2017-01-01T00:00:00+00:00",
    "2013-10": "2013-10-01T00:00:00+00:00",
    # the year first
    "2016/6/29 15:07:41": "2016-06-29T15:07:41+00:00",
    "2013.10.08": "2013-10-08T00:00:00+00:00",
    # mail and feeds
    "Tue, 08 Oct 2013 18:30:00 GMT": "2013-10-08T18:30:00+00:00",
    "Tue, 08 Oct 13 18:30 EST": "2013-10-08T23:30:00+00:00",
    "Sat, 01 Jan 50 00:00:00 GMT": "1950-01-01T00:00:00+00:00",
    "Tue, 08 October 2013": "2013-10-08T00:00:00+00:00",
    "08-Oct-2013 10:00": "2013-10-08T10:00:00+00:00",
    "Tue, 08 Oct 2013 18:30:00 -0000": "2013-10-08T18:30:00+00:00",
    "Tue, 08 Oct 2013 18:30:00 +02:00": "2013-10-08T16:30:00+00:00",
    "Tue, 08 Oct 2013 18:30:00 GMT+0200": "2013-10-08T16:30:00+00:00",
    "Tue, 08 Oct 2013 18:30:00 UTC+02:00": "2013-10-08T16:30:00+00:00",
    "Tue, 08 Oct 2013 18:30:00 CET": "2013-10-08T17:30:00+00:00",
    "Tue, 08 Oct 2013 18:30:00 CEST": "2013-10-08T16:30:00+00:00",
    "Tue, 08 Oct 2013 18:30:00 JST": "2013-10-08T09:30:00+00:00",
    "Tue, 8 Oct 2013 18:30:00 +0200 (Europe/Berlin)": "2013-10-08T16:30:00+00:00",
    "Fri, 31 Dec 1999 24:00:00 GMT": "2000-01-01T00:00:00+00:00",
    "Sat, 31 Dec 2016 23:59:60 GMT": "2017-01-01T00:00:00+00:00",
    # ctime, and the names of months first
    "Sun Jul 15 00:15:00 +0000 2012": "2012-07-15T00:15:00+00:00",
    "Sun Jul 15 00:15:00 2012": "2012-07-15T00:15:00+00:00",
    "October 8, 2013 6:30 pm": "2013-10-08T18:30:00+00:00",
    "Tuesday, October 8th, 2013 at 12:05 a.m.": "2013-10-08T00:05:00+00:00",
    # the signs of China, Japan and Korea
    "2013年10月8日": "2013-10-08T00:00:00+00:00",
    "2013年10月08日 18:30": "2013-10-08T18:30:00+00:00",
    "2013年10月8日18時30分": "2013-10-08T18:30:00+00:00",
    "2013年10月8日 (火) 18时30分05秒": "2013-10-08T18:30:05+00:00",
    "2013年10月8日 下午6:30": "2013-10-08T18:30:00+00:00",
    "2013/10/8（火） 18:30": "2013-10-08T18:30:00+00:00",
    "2013년 10월 8일": "2013-10-08T00:00:00+00:00",
    "2013년 10월 8일 오후 6시 30분": "2013-10-08T18:30:00+00:00",
    "2013. 10. 8. 오전 6:30": "2013-10-08T06:30:00+00:00",
    # marks of direction, other blanks, digits and hyphens
    "\u200e2013-10-08\u200f 18:30": "2013-10-08T18:30:00+00:00",
    "\u200eOct 8, 2013, 6:30\u202fPM": "2013-10-08T18:30:00+00:00",
    "8\xa0Oct\u20092013": "2013-10-08T00:00:00+00:00",
    "２０１３－１０－０８": "2013-10-08T00:00:00+00:00",
    "٢٠١٣-١٠-٠٨": "2013-10-08T00:00:00+00:00",
    "2013\u201110\u201108T18:30:00\u221202:00": "2013-10-08T20:30:00+00:00",
}
NONE = (
    "", "null", "soon", "yesterday", "today 10:00", "10:00", "Tuesday", "October 2013 noon", "3/4/2016", "04.03.2016",
    "08/10/13", "13-10-08", "2013-13-01", "2013-02-30 10:00", "2013-366", "2013-000", "2013-10-08 25:00",
    "2013-10-08 24:01", "2013-10-08 10:61", "2013-10-08 13:00 pm", "Tue, 08 Oct 2013 18:30:00 IST",
    "Tue, 08 Oct 2013 18:30:00 MSK", "Tue, 08 Oct 2013 18:30:00 A", "Tue, 08 Oct 2013 18:30:00 +9999",
    "10月8日", "令和6年3月5日", "民國113年3月5日", "13年10月8日", "8日10月2013年", "2013年13月8日",
    "2013年10月8日 18時", "2013年10月8日 午後", "2013-10-08 10:00\u201312:00", "\u200e3/4/2016", "２０１３年",
    "2013-10-08 下午18:30",
    "2013-10-08 18:30 Europe/Berlin", "Tue, 08 Okt 2013", "2013-10-08T18:30:00Z and more", "1" * 5_000, "Oct " * 5_000,
)  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_a_date_is_read_right(text):
    """In capitals too; the same through a line of JSON, whatever the unit of numbers is."""
    assert date_text(text) == READ[text]
    assert date_seconds(text.upper()) == date_seconds(text)
    assert event_seconds(text, "ms") == date_seconds(text)


@pytest.mark.parametrize("text", NONE)
def test_what_could_mean_another_time_is_no_date(text):
    """Days and months in either order, zones of several places, parts of a date, other languages, times of no day."""
    assert date_seconds(text) is None
    assert date_text(text) is None


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-12:00", "Fri, 31 Dec 9999 23:59:59 -1200"])
def test_a_date_at_the_end_of_the_calendar_has_no_text_in_utc(text):
    """Its time is known, but it is in the year 10000 there; the reader of a mail goes on with the date as it is."""
    assert date_seconds(text) == 253_402_343_999.0
    assert date_text(text) is None


@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_whatever_writes_a_time_it_is_the_same_time(time, minutes):
    """RFC 5322, ISO 8601, ctime and their kin, in any zone."""
    time = time.replace(microsecond=0, tzinfo=UTC)
    local = time + timedelta(minutes=minutes)
    offset = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}{abs(minutes) % 60:02}"
    for text in (
        format_datetime(time),
        local.strftime("%a, %d %b %Y %H:%M:%S ") + offset,
        local.strftime("%d %B %Y %I:%M:%S %p ") + offset,
        local.strftime(f"%a %b %d %H:%M:%S {offset} %Y"),
        local.strftime("%Y/%m/%d %H:%M:%S ") + offset,
        local.strftime("%Y%m%dT%H%M%S") + offset,
        local.strftime("%Y-%jT%H:%M:%S") + offset,
    ):
        assert date_seconds(text) == time.timestamp(), text


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ('{"$date": "2013-10-08T18:30:00Z"}', 1_381_257_000.0),
        ('{"$date": 1381257000000}', 1_381_257_000.0),
        ('{"$date": {"$numberLong": "1381257000000"}}', 1_381_257_000.0),
        ('"/Date(1381257000000)/"', 1_381_257_000.0),
        ('"/Date(1381257000000+0200)/"', 1_381_257_000.0),
        ('""', None),
        ('" "', None),
        ('"null"', None),
    ],
)
def test_times_of_serialisers_are_read(written, seconds):
    """Extended JSON of MongoDB, .NET; an empty text is no time, and costs no document."""
    assert decode_document(b'{"id":"a","text":"t","timestamp":%b}' % written.encode()).timestamp == seconds


@pytest.mark.parametrize("text", ["1403/01/15", "1445-09-01T10:00:00Z", "1403", "0001-01-01T00:00:00Z", "1582-12-31"])
def test_a_year_before_the_calendar_is_no_time(text):
    """Iran and Arabia write the years of today so, and some programs no time at all; a number may be any time."""
    assert event_seconds(text, "s") == "timestamp_type"
    assert event_seconds("1583-01-01", "s") == event_seconds(-12_212_553_600, "s") == -12_212_553_600.0


@pytest.mark.parametrize("written", ['{"$date": null}', '{"$date": true}', '{"$date": {"a": 1}}', '{"a": 1}', "[]"])
def test_what_is_nearly_a_time_is_refused(written):
    """An object is a time only in the form of one."""
    assert decode_document(b'{"id":"a","text":"t","timestamp":%b}' % written.encode()) == "timestamp_type"
