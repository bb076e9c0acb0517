"""The source of a document."""

from __future__ import annotations

import pytest

from neardup import Document
from neardup.stories.sources.names import SOURCE_BYTES_MAX, host_of, source_of


@pytest.mark.parametrize(
    ("document", "source"),
    [
        (Document("https://a.example/1", source="The  Wire ", url="https://b.example"), "the wire"),
        (Document("https://a.example/1", url="https://www.B.example:8080/x?y#z"), "b.example"),
        (Document("https://user:word@A.example./1"), "a.example"),
        (Document("HTTPS://a.example"), "a.example"),
        (Document("http://a.example?q=/b"), "a.example"),
        (Document("https://[2001:db8::1]:443/"), "[2001:db8::1]"),
        (Document("https://www.bücher.example/"), "xn--bcher-kva.example"),
        (Document("x", source="Zeitung für Alle"), "zeitung für alle"),
        (Document("x", source="  ", url="https://b.example"), "b.example"),
        (Document("urn:uuid:1"), None),
        (Document("https:/a.example/1"), None),
        (Document("httpsomething//a"), None),
        (Document("https://"), None),
        (Document("x", source="\ud800"), "?"),
    ],
)
def test_the_field_decides_then_the_url_then_the_id(document: Document, source: str | None) -> None:
    """A source is a name or a host, in lower case and IDNA, without ``www.`` and port."""
    assert source_of(document) == source


def test_a_source_is_cut_at_a_character() -> None:
    """A name has at most 255 bytes, and a label that is too long for IDNA stays as it is."""
    named = source_of(Document("x", source="é" * 200))
    assert named == "é" * (SOURCE_BYTES_MAX // 2)
    assert host_of("https://" + "ü" * 70 + ".example/") == "ü" * 70 + ".example"
