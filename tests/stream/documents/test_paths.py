"""Names of fields that are paths, and texts that are several values."""

import json

import pytest

from neardup import Config, Deduplicator
from neardup.documents.paths import has_field, text_at, value_at
from neardup.pairs.json_lines import Fields, decode_document

ARTICLE = {"title": "One", "article": {"body": "Two", "parts": ["Two", "Three"]}, "a.b": "dotted"}
CHAT = [{"role": "user", "content": "One"}, {"role": "assistant", "content": [{"type": "text", "text": "Two"}]}]


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (ARTICLE, "title", "One"),
        (ARTICLE, "article.body", "Two"),
        (ARTICLE, "/article/body", "Two"),
        (ARTICLE, "article.parts", "Two\n\nThree"),
        (ARTICLE, "article.parts.1", "Three"),
        (ARTICLE, "title,article.body", "One\n\nTwo"),
        (ARTICLE, "title, /article/body", "One\n\nTwo"),
        (ARTICLE, "title,summary", "One"),
        (ARTICLE, "a.b", "dotted"),
        ({"a/b": {"m~n": "x"}}, "/a~1b/m~0n", "x"),
        ({"text": CHAT}, "text", "One\n\nTwo"),
        ({"turns": [{"from": "human", "value": "One"}, {"from": "gpt", "value": "Two"}]}, "turns", "One\n\nTwo"),
        ({"turns": [{"q": "One"}, {"a": "no"}, {"q": "Two"}]}, "turns.q", "One\n\nTwo"),
        ({"text": [{"content": None}, {"type": "image", "url": "x"}, "One", None]}, "text", "One"),
        ({"text": []}, "text", ""),
        ({"text": {"text": "One", "lang": "en"}}, "text", "One"),
    ],
)
def test_a_text_is_what_stands_at_its_paths(value, name, text):
    """A field of the name wins; texts of a list and of several fields are joined."""
    assert text_at(value, name) == text
    assert has_field(value, name)


@pytest.mark.parametrize("wrong", [7, True, None, [7], [["One"], 7], [{"q": "One"}], {"q": "One"}])
def test_what_is_no_text_is_refused(wrong):
    """Numbers are no texts, and an object has one only in a field of a known name."""
    line = json.dumps({"id": "a", "text": wrong}).encode()
    assert decode_document(line) == "text_type"


def test_a_text_nested_too_deep_is_refused():
    """A list in a list in a list is read some levels deep."""
    deep = b"[" * 900 + b'"One"' + b"]" * 900
    assert decode_document(b'{"id": "a", "text": %b}' % deep) == "text_type"
    assert decode_document(b'{"id": "a", "x": %b}' % deep, Fields(text="x.y.z")) == "no_text"


def test_a_path_without_an_end_is_a_missing_field():
    """The reason is that of a missing name."""
    for name in ("article.head", "title.x", "article.parts.9", "/", "x,y", "article..body", ".", ","):
        assert not has_field(ARTICLE, name)
        assert value_at(ARTICLE, name) is None
        assert decode_document(b'{"id": "a", "title": "One"}', Fields(text=name)) == "no_text"


def test_each_part_of_a_document_may_stand_deeper():
    """Id, time, source and collection are read at paths, too."""
    line = b'{"meta": {"id": 7, "at": "1970-01-01T00:01:00Z", "by": "AP", "of": "x"}, "text": "One"}'
    fields = Fields("meta.id", timestamp="/meta/at", source="meta.by", collection="meta.of")
    document = decode_document(line, fields)
    assert (document.id, document.timestamp, document.source, document.collection) == ("7", 60.0, "AP", "x")


def test_a_table_of_the_library_has_the_same_paths():
    """Structs, lists and several columns; the ids of the answer have their type."""
    pa = pytest.importorskip("pyarrow")
    text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
    rows = [{"m": {"id": n, "body": text}, "chat": [{"content": text}], "title": "One"} for n in (3, 4)]
    for name in ("m.body", "/m/body", "chat", "title,m.body", "chat.content"):
        for table in (pa.Table.from_pylist(rows), rows):
            dedup = Deduplicator(Config())
            verdicts = dedup.decide_table(table, id_field="m.id", text_field=name).to_pylist()
            assert [(row["m.id"], row["duplicate_of"]) for row in verdicts] == [(3, None), (4, 3)]


def test_a_table_of_the_library_refuses_what_is_no_text():
    """A list of numbers is a column of a wrong type, and a path to nothing a missing column."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"id": ["a"], "n": [[1]], "m": [{"x": "One"}]})
    for name, said in (("n", "must hold strings"), ("m.y", "no column 'm.y'"), ("u,v", "no column 'u,v'")):
        with pytest.raises(ValueError, match=said):
            Deduplicator().decide_table(table, text_field=name)
