"""What a person says of a story holds for its later copies: it is hidden, or each of its documents is an event."""

import contextlib

import pytest
from hook_world import SECRET, Receiver, delivery, verify_arrived, waiting
from service_world import NEAR, NOW, TEXT, world_in

from neardup_workers.doing.http.outgoing.delivery import Bounds
from neardup_workers.doing.http.outgoing.hook import Hook, refusal_of, secret_of

OTHER = "Quarterly earnings were flat, said the chairman, who leaves the company at the end of the year."
HOOK = "http://127.0.0.1:1/"


def listed(world, query=""):
    """The numbers of the listed stories."""
    return [one["cluster"] for one in world.ask("GET", f"/v1/clusters?size_min=1{query}").json()["clusters"]]


def test_a_muted_story_is_in_no_list_and_tells_nothing_also_after_a_restart(tmp_path):
    """Later copies obey. Asked for, it is there; unmuted, it is as before. The audit log has who said it."""
    with world_in(tmp_path, webhook=HOOK) as world:
        for id_, text in (("a", TEXT), ("b", NEAR), ("z", OTHER)):
            world.check(id_, text)
        said = world.ask("POST", "/v1/clusters/0?muted=true&why=weather").json()
        assert said == {"cluster": 0, "muted": True, "followed": False}
    with world_in(tmp_path, webhook=HOOK) as world:
        assert world.check("c", TEXT)["cluster"] == 0
        assert (listed(world), listed(world, "&q=b"), listed(world, "&muted=true")) == ([2], [], [0])
        assert world.ask("GET", "/v1/clusters/0").json()["muted"]
        feed = world.ask("GET", "/v1/stories.atom?size_min=1").text
        assert (feed.count("<entry>"), [body["document"]["id"] for body in waiting(world)]) == (1, ["z"])
        assert "c" not in [one["id"] for one in world.ask("GET", "/v1/figures").json()["present"]["latest"]]
        [line] = world.ask("GET", "/v1/audit").json()["audit"]
        assert (line["did"], line["why"], line["what"]["cluster"]) == ("mark", "weather", 0)
        assert not world.ask("POST", "/v1/clusters/0?muted=false").json()["muted"]
        assert sorted(listed(world)) == [0, 2]


def test_each_new_document_of_a_followed_story_is_an_event_to_the_address(tmp_path):
    """It is signed, and tried again until it is taken; the web hook goes on meanwhile, other stories have none."""
    fails, clock, others = iter([500, "cut"]), [NOW], []
    with contextlib.closing(Receiver(lambda number: next(fails, None))) as receiver:
        hook = Hook(receiver.url, secret_of(SECRET))
        with world_in(tmp_path, webhook=receiver.url) as world:
            world.check("a", TEXT)
            assert world.ask("POST", f"/v1/clusters/0?followed=true&to={receiver.url}chat").json()["followed"]
        with world_in(tmp_path, webhook=receiver.url) as world:
            world.check("b", NEAR, title="Rain", source="coast.example", url="https://coast.example/1")
            world.check("z", OTHER)
            stored = {body["id"]: body["story"] for body in waiting(world) if body["event"] == "joined"}

            def send(id_, body, time, to=None):
                return others.append(id_) if to is None else hook.send(id_, body, time, to)

            sending = delivery(world, send, Bounds(1e9, 1000, 10), lambda: clock[0])
            for _ in range(4):
                sending.turn()
                clock[0] += 700
            assert world.ask("POST", "/v1/clusters/0?followed=false").json()["followed"] is False
            world.check("c", TEXT)
            assert [body["event"] for body in waiting(world)] == ["grown"]
        verify_arrived(receiver.taken, stored)
        [event] = receiver.taken
        assert (event["event"], event["text"]) == ("joined", "Rain, coast.example, https://coast.example/1")
        assert len(others) == 2


@pytest.mark.parametrize(
    ("to", "why"),
    [
        *((one, "no public address") for one in ("http://127.0.0.1:9/", "http://[::1]:9/", "http://169.254.169.254/")),
        ("http://a:b@93.184.216.34/", "without user and password"),
        ("http://[/", "no address of http"),
    ],
)
def test_an_address_that_a_person_gives_reaches_no_private_machine(to, why):
    """Unless it is that of the web hook, which an operator gave. Who follows a story hears it at once."""
    assert why in refusal_of(to, "http://127.0.0.1:1/")
    failed = Hook("http://127.0.0.1:1/", secret_of(SECRET)).send("evt", b"{}", NOW, to)
    assert (why in failed.why, failed.status) == (True, None)


@pytest.mark.parametrize(
    ("given", "query", "status", "reason"),
    [
        ({}, "0?followed=true", 409, "no_web_hook"),
        ({"webhook": HOOK}, "7?muted=true", 404, "unknown_cluster"),
        ({"webhook": HOOK}, "0?followed=true&to=ftp://a/", 422, "parameter"),
        ({"webhook": HOOK}, "0?followed=true&to=http://10.0.0.1/", 409, "unreached"),
        ({}, "0?muted=yes", 422, "parameter"),
    ],
)
def test_what_cannot_be_said_of_a_story_is_refused(given, query, status, reason, tmp_path):
    """With the rule."""
    with world_in(tmp_path, **given) as world:
        world.check("a", TEXT)
        answer = world.ask("POST", f"/v1/clusters/{query}")
        assert (answer.status_code, answer.json()["reason"]) == (status, reason)
