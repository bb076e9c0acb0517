"""Labels of charsets mean the same in every reader: files of HTML, archives, mail and feeds."""

import pytest
from read_entries import found
from warc_records import answer, record

from neardup_workers.outside.feeds.items import parse
from neardup_workers.outside.readers.mail.message import read_mail

HARBOUR = "Über die Straße nach Süden: größere Höhen, früher Frühling, müßige Grüße"
# The label, the charset that the bytes are in, and a text that only this reading gives.
LABELS = [
    ("shift_jis", "cp932", "①髙の港は火曜日に閉鎖された"),
    ("x-sjis", "cp932", "―∥－ ～の港は閉鎖"),
    ("euc-kr", "cp949", "똠방각하 항구는 화요일에 문을 닫았다"),
    ("ks_c_5601-1987", "cp949", "똠방각하 항구는 화요일에 문을 닫았다"),
    ("gb2312", "gb18030", "朱镕基说港口星期二关闭"),
    ("gbk", "gb18030", "朱镕基说港口星期二关闭"),
    ("big5", "big5hkscs", "港口喺星期二關閉咗，佢哋話"),
    ("iso-8859-1", "cp1252", "“Straße” – 5 €"),
    ("us-ascii", "cp1252", "“Straße” – 5 €"),
    ("iso-8859-9", "cp1254", "İstanbul’da ışık – 5 €"),
    ("tis-620", "cp874", "ท่าเรือปิดเมื่อวันอังคาร…"),
    ("koi8-r", "koi8-r", "Порт закрыт во вторник"),
    ("windows-1251", "cp1251", "Порт закрыт во вторник"),
    ("iso-8859-1", "utf-8", HARBOUR),
    ("windows-1251", "utf-8", HARBOUR),
    ("shift_jis", "utf-8", HARBOUR),
    ("x-no-such-charset", "utf-8", HARBOUR),
]


def of_html(folder, payload, label):
    """A file, whose charset only the page itself can say."""
    head = f"<!doctype html><html><head><meta charset={label}></head><body>".encode()
    return found(folder / "a.html", head + payload + b"</body></html>", html="raw")[0].text


def of_warc(folder, payload, label):
    made = record(answer(payload, f"text/plain; charset={label}"))
    return found(folder / "a.warc", made)[0].text


def of_mail(folder, payload, label):
    head = f"Message-ID: <1@a.example>\nContent-Type: text/plain; charset={label}\nContent-Transfer-Encoding: 8bit\n\n"
    return read_mail(head.encode() + payload).text


def of_feed(folder, payload, label):
    begin, end = b"<rss version='2.0'><channel><item><guid>a:1</guid><title>", b"</title></item></channel></rss>"
    (item,) = parse(begin + payload + end, "http://a.example/", f"text/xml; charset={label}")
    return item.title


def of_declared_feed(folder, payload, label):
    begin = (
        f"<?xml version='1.0' encoding='{label}'?><rss version='2.0'><channel><item><guid>a:1</guid><title>".encode()
    )
    (item,) = parse(begin + payload + b"</title></item></channel></rss>", "http://a.example/", "text/xml")
    return item.title


READERS = (of_html, of_warc, of_mail, of_feed, of_declared_feed)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(("label", "charset", "text"), LABELS)
def test_a_label_means_in_every_reader_what_it_means_to_browsers(tmp_path, read, label, charset, text):
    """And a text that is UTF-8 is read so, whatever its label says."""
    assert text in read(tmp_path, text.encode(charset), label)
