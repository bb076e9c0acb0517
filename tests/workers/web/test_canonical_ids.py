"""Canonical URLs as ids: what is one resource, what is not, and where the rule applies."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_transport import MemoryTransport
from quick_parameters import examples
from shell_harness import Bench

from neardup.pairs.json_lines import Fields
from neardup_workers.doing.session.loader import Loader
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading, Settings
from neardup_workers.outside.web.canonical_ids import TRACKING, canonical_url

SAME = [
    ("HTTP://News.Example/a", "http://news.example/a"),
    ("http://news.example", "http://news.example/"),
    ("http://news.example:80/", "http://news.example/"),
    ("https://news.example:443/", "https://news.example/"),
    ("http://news.example/a/../b/./c", "http://news.example/b/c"),
    ("http://news.example/%7ea%2fb", "http://news.example/~a%2Fb"),
    ("http://news.example/café?q=ü", "http://news.example/caf%C3%A9?q=%C3%BC"),
    ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("http://news.example/?b=2&a=1", "http://news.example/?a=1&b=2"),
    ("http://news.example/?a&b=", "http://news.example/?a=&b="),
    ("http://news.example/?utm_source=x&UTM_x=y&id=7&fbclid=z", "http://news.example/?id=7"),
    (
        "http://news.example/?srsltid=1&igsh=2&mtm_source=x&pk_campaign=y&_hsenc=z&at_medium=m&ttclid=1&li_fat_id=2",
        "http://news.example/",
    ),
    ("http://news.example/a#top", "http://news.example/a"),
    ("http://[::1]:80/a", "http://[::1]/a"),
]
DIFFERENT = [
    ("http://news.example/a", "http://news.example/A"),
    ("http://news.example/a", "http://news.example/a/"),
    ("http://news.example/a", "https://news.example/a"),
    ("http://news.example/a", "http://www.news.example/a"),
    ("http://news.example/a", "http://news.example:8080/a"),
    ("http://news.example/a/b", "http://news.example/a//b"),
    ("http://news.example/a/b", "http://news.example/a%2Fb"),
    ("http://news.example/?sid=1", "http://news.example/?sid=2"),
    ("http://news.example/?a", "http://news.example/"),
    ("http://news.example/#!a", "http://news.example/#!b"),
    ("http://news.example/#/post/1", "http://news.example/#/post/2"),
    ("http://news.example/?at=1", "http://news.example/?at=2"),
    ("http://news.example/?a=1", "http://news.example/?a=1&a=1"),
]


@pytest.mark.parametrize(("url", "canonical"), SAME)
def test_spellings_of_one_resource_have_one_form(url, canonical):
    """The form is its own canonical form."""
    assert canonical_url(url) == canonical
    assert canonical_url(canonical) == canonical


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_some_servers_tell_apart_stays_apart(one, other):
    """A wrong merge loses a document; a missed one costs little, because its text is found."""
    assert canonical_url(one) != canonical_url(other)


@pytest.mark.parametrize(
    "id_", ["", "a", "urn:a", "tag:a,2020:1", "ftp://a/?utm_x=1", "HTTP:", "//a/b", "a http://b/#c"]
)
def test_an_id_that_is_no_url_of_the_web_is_unchanged(id_):
    """Byte for byte."""
    assert canonical_url(id_) == id_


@examples(300)
@given(st.text(alphabet="ahpt:/?&=#.%@[]0123456789é \u3042_;+!", max_size=40))
def test_any_text_has_a_form_that_stays(rest):
    """Whatever stands after the scheme: no exception, and the second time changes nothing."""
    once = canonical_url(f"http://{rest}")
    assert canonical_url(once) == once


def test_a_setting_names_further_parameters(tmp_path):
    """By name or by beginning, in any case of letters; the ones that count visits go too."""
    dropped = ("SID", "ref_*")
    assert canonical_url("http://a.example/?sid=1&Ref_x=2&utm_source=3&id=4&ref=5", dropped) == (
        "http://a.example/?id=4&ref=5"
    )
    path = lines(tmp_path / "in.jsonl", ["http://a.example/?sid=1", "http://a.example/?sid=2"])
    assert read(path, canonical_urls=True, dropped_parameters=("sid",)) == (["http://a.example/"] * 2, 2)
    assert read(path, canonical_urls=True)[0] == ["http://a.example/?sid=1", "http://a.example/?sid=2"]


def read(path, **options):
    reader = EntryReader(Reading(**options), Fields(), Stop(), lambda part: None)
    return [entry.found.id for entry in reader.read([str(path)])], reader.ids_changed


def lines(path, ids):
    path.write_text("".join(json.dumps({"id": id_, "text": f"text {n}"}) + "\n" for n, id_ in enumerate(ids)))
    return path


def test_ids_of_every_format_are_canonical_if_that_is_set(tmp_path):
    """Lines, tables, mail and Arrow; the number of changed ids is known. It is off by default."""
    ids = ["http://A.example/#x", "http://a.example/", "b"]
    path = lines(tmp_path / "in.jsonl", ids)
    assert read(path) == (ids, None)
    assert read(path, canonical_urls=True) == (["http://a.example/", "http://a.example/", "b"], 1)
    (tmp_path / "in.csv").write_text("id,text\nhttp://A.example,t\n")
    assert read(tmp_path / "in.csv", canonical_urls=True) == (["http://a.example/"], 1)
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"id": [*ids, "é"], "text": ["t"] * 4}), tmp_path / "in.parquet")
    found = ["http://a.example/", "http://a.example/", "b", "é"]
    assert read(tmp_path / "in.parquet", canonical_urls=True) == (found, 1)


def test_the_summary_says_how_many_ids_changed(neardup, tmp_path):
    """The same page under two addresses is a new version of one document; the output has the lines as they came."""
    path = lines(tmp_path / "in.jsonl", ["http://a.example/?utm_source=x", "http://a.example/"])
    done = neardup("dedup", "--set", "canonical_urls=on", "--verdicts", "verdicts.jsonl", path.name)
    assert b"ids changed to canonical URLs: 1\n" in done.stderr
    assert done.stdout.splitlines()[0] == path.read_bytes().splitlines()[0]
    verdicts = [json.loads(line)["id"] for line in (tmp_path / "verdicts.jsonl").read_bytes().splitlines()]
    assert verdicts == ["http://a.example/"] * 2


def test_load_sends_the_canonical_id(tmp_path):
    """As the key and in the value, so that workers and removals know one name; other lines stay as they are."""
    bench = Bench()
    changed = bench.settings.model_copy(update={"canonical_urls": True})
    path = lines(tmp_path / "in.jsonl", ["http://A.example/#x", "b"])
    session = Session(changed, SessionOptions([], quiet=True))
    Loader(MemoryTransport(bench.cluster), changed, session).load([str(path)])
    records = bench.cluster.records(bench.names.topics.documents)
    values = {record.key: record.value for record in records}
    assert json.loads(values[b"http://a.example/"]) == {"id": "http://a.example/", "text": "text 0"}
    assert values[b"b"] == path.read_bytes().splitlines()[1]


def test_the_documentation_names_the_parameters_that_are_dropped():
    """They are in lower case, as they are compared."""
    assert {name.lower() for name in TRACKING} == TRACKING
    assert Settings().canonical_urls is False
