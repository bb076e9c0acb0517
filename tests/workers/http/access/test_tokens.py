"""Tokens with roles, collections and quotas, in a file that is read again."""

import json
import logging
import os
from hashlib import sha256
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from service_world import NEAR, TEXT, world_in

from neardup.errors import ConfigError
from neardup_workers.doing.http import problems
from neardup_workers.doing.http.access.tokens import Tokens, tokens_of
from neardup_workers.outside.settings.serve import ServeSettings

ROLES = ("read", "write", "remove", "admin")
ATOM = "{http://www.w3.org/2005/Atom}"


def line(name, *roles, **more):
    """A line of the file; the token is the name with a word behind it."""
    return json.dumps({"name": name, "sha256": sha256(secret(name).encode()).hexdigest(), "roles": roles} | more)


def secret(name):
    """The token of a name."""
    return f"{name}-has-a-long-token"


def written(path, *lines):
    """Write a file of tokens in the place of another one; returns its path."""
    new = path.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n")
    os.replace(new, path)
    return str(path)


def asked(world, name, method, path, **options):
    """The response to a request with a token."""
    return world.ask(method, path, headers={"Authorization": f"Bearer {secret(name)}"}, **options)


def test_each_role_may_do_its_own_and_an_admin_everything(tmp_path):
    """A look with ``add=false`` and a question why read. What a token may not do is 403, and no token 401."""
    file = written(tmp_path / "tokens", *(line(role, role) for role in ROLES))
    document = {"id": "a", "text": TEXT}
    requests = (
        ("write", "POST", "/v1/check", {"json": document}), ("read", "POST", "/v1/check?add=false", {"json": document}),
        ("read", "POST", "/v1/why?b=a", {"json": document}), ("read", "GET", "/v1/documents/a", {}),
        ("read", "HEAD", "/v1/clusters", {}), ("admin", "GET", "/v1/audit", {}),
        ("remove", "DELETE", "/v1/documents/a", {}),
    )  # fmt: skip
    with world_in(tmp_path / "state", token_file=file) as world:
        for needed, method, path, options in requests:
            for role in ROLES:
                if role == needed or role != "admin":
                    status = asked(world, role, method, path, **options).status_code
                    assert status == (200 if role == needed else 403), (role, method, path)
            assert world.ask(method, path, **options).status_code == 401
        assert asked(world, "admin", "POST", "/v1/check", json=document).status_code == 200
        assert asked(world, "admin", "DELETE", "/v1/documents/a").status_code == 200


def test_a_token_of_a_collection_reads_and_writes_no_other_one(tmp_path):
    """Also in a batch; requests that are about all collections are refused. It reads its stories, their changes and
    what it may do; figures of all collections are not among it."""
    file = written(tmp_path / "tokens", line("ar", "read", "write", collections=["ar"]), line("all", "admin"))
    fields = ("collection=of",)
    with world_in(tmp_path / "state", token_file=file, fields=fields, keep_texts=True) as world:
        for name, collection, status in (("ar", "ar", 200), ("ar", "en", 403), ("ar", None, 403), ("all", "en", 200)):
            document = {"id": "a", "text": TEXT, "of": collection}
            assert asked(world, name, "POST", "/v1/check", json=document).status_code == status
        lines = "\n".join(json.dumps({"id": "b", "text": NEAR, "of": name}) for name in ("ar", "en"))
        headers = {"Authorization": f"Bearer {secret('ar')}", "Content-Type": "application/x-ndjson"}
        batch = world.ask("POST", "/v1/check:batch", content=lines, headers=headers).text.splitlines()
        assert json.loads(batch[0])["duplicate_of"] == "a"
        assert json.loads(batch[1])["error"]["reason"] == "no_right"
        for path, status in (
            ("/v1/documents?collection=ar", 200), ("/v1/documents?collection=en", 403), ("/v1/documents", 403),
            ("/v1/documents/a?collection=ar", 200), ("/v1/documents/a", 403), ("/v1/clusters?collection=ar", 200),
            ("/v1/clusters/0", 200), ("/v1/clusters/1", 403), ("/v1/sources", 403), ("/v1/events", 403),
            ("/v1/differences?older=0&newer=2", 200), ("/v1/differences?older=0&newer=1", 403),
            ("/v1/differences?older=0&newer=9", 403),
            ("/v1/stories.atom", 403), ("/v1/stories.atom?collection=en", 403),
        ):  # fmt: skip
            assert asked(world, "ar", "GET", path).status_code == status, path
        own, every = (asked(world, name, "GET", "/v1/figures").json() for name in ("ar", "all"))
        assert own["token"] == {"name": "ar", "roles": ["read", "write"], "collections": ["ar"]}
        assert {name for name, value in own.items() if value is None} == {"present", "history", "operation", "recall"}
        assert every["present"]["documents"] == 3
        assert own["settings"]["collection_field"] == every["settings"]["collection_field"] == "of"
        feed, whole = (
            ET.fromstring(asked(world, name, "GET", f"/v1/stories.atom?size_min=1{query}").content)
            for name, query in (("ar", "&collection=ar"), ("all", ""))
        )
        assert [len(one.findall(f"{ATOM}entry")) for one in (feed, whole)] == [1, 2]
        assert feed.find(f"{ATOM}id").text != whole.find(f"{ATOM}id").text
        address = f"/v1/{feed.find(f'{ATOM}link').get('href')}"
        assert world.ask("GET", address).content == ET.tostring(feed, "utf-8", xml_declaration=True)
        assert world.ask("GET", address.replace("collection=ar", "collection=en")).status_code == 401


def test_a_token_has_so_many_requests_documents_and_bytes_a_minute(tmp_path, monkeypatch):
    """Beyond them it gets 429, and how long the minute still takes; a changed file does not reset them."""
    monkeypatch.setattr(problems, "time", SimpleNamespace(monotonic=lambda: 77.5))
    now = [0.0]
    path = tmp_path / "tokens"
    tokens = Tokens(
        (written(path, line("a", "write", requests_per_minute=2, documents_per_minute=1)), path)[1], now=lambda: now[0]
    )
    holder = tokens.holder(secret("a").encode())
    assert [holder.spends("requests") for _ in range(3)] == [True, True, False]
    written(path, line("a", "write", requests_per_minute=3))
    now[0] = 2.0
    again = tokens.holder(secret("a").encode())
    assert [again.spends("requests") for _ in range(2)] == [True, False]
    now[0] = 60.0
    assert again.spends("requests")
    with world_in(tmp_path / "state", token_file=written(path, line("a", "write", documents_per_minute=1))) as world:
        answers = [asked(world, "a", "POST", "/v1/check", json={"id": n, "text": TEXT}) for n in range(3)]
        refused = next(one for one in answers if one.status_code != 200)  # a minute may have ended meanwhile
        assert (refused.status_code, refused.json()["reason"], refused.headers["Retry-After"]) == (429, "quota", "43")
    written(path, line("b", "write", bytes_per_minute=200))
    with world_in(tmp_path / "state", token_file=str(path)) as world:
        answers = [asked(world, "b", "POST", "/v1/check", json={"id": n, "text": TEXT}) for n in range(3)]
        assert {one.status_code for one in answers} == {200, 429}


def test_the_file_is_read_again_when_it_has_changed(tmp_path, caplog):
    """A token that left is refused within a second; a file that cannot be read leaves those of before, and says so."""
    now, path = [0.0], tmp_path / "tokens"
    written(path, line("a", "read"))
    tokens = Tokens(path, now=lambda: now[0])

    def known():
        now[0] += 2
        return [name for name in "ab" if tokens.holder(secret(name).encode())]

    assert known() == ["a"]
    written(path, line("b", "read"))
    assert known() == ["b"]
    with caplog.at_level(logging.ERROR):
        written(path, line("a", "read"), "{")
        assert known() == ["b"]
    assert "line 2" in caplog.text
    assert "the tokens of before stay" in caplog.text


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{}"], "line 1: name"), ([line("a", "write", more=1)], "line 1: more"), ([line("a", "drink")], "roles.0"),
        ([line("a", "read")] * 2, "line 2: a stands there twice"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused_with_its_line(lines, said, tmp_path):
    """At the start; the file has no token, only hashes of them."""
    with pytest.raises(ConfigError, match=said):
        tokens_of(ServeSettings(token_file=written(tmp_path / "tokens", *lines)))


def test_the_address_of_the_atom_feed_may_be_signed_for_one_reader(tmp_path):
    """Readers of feeds send no token: ``rel=self`` of a feed that was asked for with one is an address without it."""
    path = tmp_path / "tokens"
    with world_in(tmp_path / "state", token_file=written(path, line("a", "read"))) as world:
        feed = ET.fromstring(asked(world, "a", "GET", "/v1/stories.atom?size_min=1&limit=3").content)
        [address] = [one.get("href") for one in feed.iter(f"{ATOM}link") if one.get("rel") == "self"]
        assert secret("a") not in address
        address = f"/v1/{address}"  # it is relative: a proxy may have taken a prefix off the path
        assert world.ask("GET", address).status_code == 200
        for wrong in (
            address.replace("limit=3", "limit=4"),
            address[:-1] + "x",
            address.replace("stories.atom", "clusters"),
        ):
            assert world.ask("GET", wrong).status_code == 401
        written(path, line("b", "read"))
        with world_in(tmp_path / "other", token_file=str(path)) as later:
            assert later.ask("GET", address).status_code == 401


def test_a_removal_is_in_the_audit_log_without_the_id(tmp_path):
    """Who, when and why; who knows the id finds its line, and no file has the id."""
    file = written(tmp_path / "tokens", line("anna", "admin"))
    with world_in(tmp_path / "state", token_file=file) as world:
        asked(world, "anna", "POST", "/v1/check", json={"id": "secret-id", "text": TEXT})
        asked(world, "anna", "DELETE", "/v1/documents/secret-id?why=order+12")
        asked(world, "anna", "DELETE", "/v1/documents/unknown")
        [found] = asked(world, "anna", "GET", "/v1/audit").json()["audit"]
        assert (found["who"], found["did"], found["why"], found["what"]["removed"]) == ("anna", "remove", "order 12", 1)
        assert asked(world, "anna", "GET", "/v1/audit?id=secret-id").json()["audit"] == [found]
        assert asked(world, "anna", "GET", "/v1/audit?id=another").json()["audit"] == []
        assert asked(world, "anna", "GET", f"/v1/audit?before={found['number']}").json()["audit"] == []
        stored = b"".join(one.read_bytes() for one in (tmp_path / "state").iterdir())
        assert b"secret-id" not in stored
