"""Answers are compressed for clients that take that, and not sent again to clients that have them."""

import gzip
import json

import pytest
from service_world import TEXT, world_in


@pytest.fixture
def world(tmp_path):
    with world_in(tmp_path, keep_texts=True) as world:
        for n in range(30):
            world.check(f"d{n}", TEXT)
        yield world


def test_a_long_answer_is_compressed_for_a_client_that_takes_it(world):
    """The content is the same; a short answer, and one for another client, stays as it is."""
    plain = world.ask("GET", "/v1/clusters/0", headers={"Accept-Encoding": "identity"})
    short = world.ask("GET", "/healthz", headers={"Accept-Encoding": "gzip"})
    refusing = world.ask("GET", "/v1/clusters/0", headers={"Accept-Encoding": "br, gzip;q=0"})
    packed = world.ask("GET", "/v1/clusters/0", headers={"Accept-Encoding": "br;q=1.0, GZIP;q=0.5"})
    assert [one.headers.get("content-encoding") for one in (plain, short, refusing, packed)] == [None] * 3 + ["gzip"]
    assert packed.json() == plain.json() == refusing.json()
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 3
    assert len(gzip.compress(plain.content, 5)) == int(packed.headers["content-length"])
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/clusters/0", "/v1/documents", "/v1/documents?id=d1", "/"])
def test_a_client_that_has_the_answer_gets_304(world, path):
    """Until the answer is another one; the tag does not depend on the compression."""
    tag = world.ask("GET", path).headers["etag"]
    assert world.ask("GET", path, headers={"Accept-Encoding": "identity"}).headers["etag"] == tag
    same = world.ask("GET", path, headers={"If-None-Match": f'"other", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert "content-type" not in same.headers
    assert world.ask("GET", path, headers={"If-None-Match": '"other"'}).status_code == 200
    world.check("d1", json.dumps(TEXT * 2))
    world.check("d31", TEXT)
    assert world.ask("GET", path, headers={"If-None-Match": tag}).status_code == (304 if path == "/" else 200)
