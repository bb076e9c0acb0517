"""Web hooks: which events there are, and that each arrives."""

import contextlib
import json
import sqlite3
import threading

import pytest
from hook_world import SECRET, Receiver, delivery, failing, verify_arrived, waiting
from quick_parameters import quick_first
from service_world import NEAR, NOW, TEXT, world_in

from neardup.errors import ConfigError
from neardup_workers.doing.http.outgoing.delivery import Bounds, measure_outbox
from neardup_workers.doing.http.outgoing.hook import Failed, Hook, secret_of, signed
from neardup_workers.outside.settings.serve import ServeSettings
from neardup_workers.outside.store.extra import outbox
from neardup_workers.outside.store.reading import StoreReader

OTHER = "Quarterly earnings were flat, said the chairman, who leaves the company at the end of the year."


@pytest.fixture
def world(tmp_path):
    with world_in(tmp_path, webhook="http://127.0.0.1:1/", keep_texts=True) as world:
        yield world


def test_a_story_begins_grows_is_corrected_and_loses_a_document(world):
    """Each is an event, stored with its step; a retry, a copy below the number of members and a look are none."""
    world.check("a", TEXT)
    world.check("a", TEXT)
    world.check("b", NEAR)
    world.check("c", TEXT + " It says more.", "?add=false")
    for name in "cdef":
        world.check(name, TEXT + f" By {name}.")
    world.check("a", TEXT + " Corrected.")
    world.check("z", OTHER)
    world.ask("DELETE", "/v1/documents/b")
    found = [(body["event"], body["story"], body["document"]["id"], body["members"]) for body in waiting(world)]
    assert found == [
        ("new", 0, "a", 1),
        ("grown", 0, "c", 3),
        ("grown", 0, "f", 6),
        ("updated", 0, "a", 6),
        ("new", waiting(world)[-2]["story"], "z", 1),
        ("removed", 0, "b", 6),
    ]
    assert [body["reached"] for body in waiting(world) if body["event"] == "grown"] == [{"members": 3}, {"members": 6}]
    assert {body["time"] for body in waiting(world)} == {NOW}
    assert len({body["id"] for body in waiting(world)}) == 6


def test_an_update_says_what_is_new(tmp_path):
    """The event, the answer and the story have the new words, numbers first, with their places; a copy has none."""
    novel = {"threshold": 0.45, "verify": "exact", "novelty": "words"}
    longer = TEXT + " It says more: 57 villages of Volterra wait."
    with world_in(tmp_path, webhook="http://127.0.0.1:1/", **novel) as world:
        answers = [world.check(id_, text) for id_, text in (("a", TEXT), ("b", longer), ("c", longer + "!"))]
        events, story = waiting(world), world.ask("GET", "/v1/clusters/0").json()
    assert [(body["event"], body["document"]["id"]) for body in events] == [("new", "a"), ("updated", "b")]
    new = events[1]["document"]["new"]
    assert new == answers[1]["new"] == story["updates"][0]["new"]
    assert [word["text"] for word in new] == ["57", "It", "says", "more", "villages", "of", "Volterra", "wait"]
    assert all(longer[word["begin"] : word["end"]] == word["text"] for word in new)
    assert "new" not in events[0]["document"]
    assert answers[2]["new"] is None


def test_a_story_grows_by_the_sources_that_tell_it(world):
    """A source counts once; an event says who tells the document, where and how."""
    for place, source in enumerate(("a", "b", "a", "b", "c")):
        more = {"source": f"{source}.example", "url": f"https://{source}.example/{place}", "title": "Rain"}
        world.check(str(place), TEXT + f" Number {place}.", **more)
    found = [(body["event"], body.get("reached"), body["sources"]) for body in waiting(world)]
    assert found == [("new", None, 1), ("grown", {"members": 3}, 2), ("grown", {"sources": 3}, 3)]
    document = waiting(world)[-1]["document"]
    assert [document[name] for name in ("source", "url", "title")] == ["c.example", "https://c.example/4", "Rain"]


def test_a_story_does_not_grow_twice_past_the_same_number(tmp_path):
    """Also if members were removed meanwhile, and after a restart; another story with the same size does."""
    with world_in(tmp_path, webhook="http://127.0.0.1:1/") as world:
        for name in "abc":
            world.check(name, TEXT)
        world.ask("DELETE", "/v1/documents/c")
    with world_in(
        tmp_path,
        webhook="http://127.0.0.1:1/",
    ) as world:
        world.check("c", TEXT + ".")
        for name in "xyz":
            world.check(name, OTHER)
        assert [body["document"]["id"] for body in waiting(world) if body["event"] == "grown"] == ["z"]


def test_a_removal_takes_back_what_waits_of_its_document(world, tmp_path):
    """``removed`` alone is sent, and then no file holds the id; an earlier ``removed`` is not taken back. A story with
    another member goes on."""
    world.check("secret-id", TEXT)
    world.check("b", NEAR)
    world.ask("DELETE", "/v1/documents/secret-id")
    world.check("secret-id", OTHER)
    world.ask("DELETE", "/v1/documents/secret-id")
    found = [(body["event"], body["story"], body["ended"], body["document"]) for body in waiting(world)]
    named = {"id": "secret-id"}
    assert found == [("removed", 0, False, named), ("removed", 2, True, named)]
    assert delivery(world, lambda *_: None).turn() == 0
    world.keeper.log.checkpoint()
    assert b"secret-id" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_without_a_hook_nothing_is_stored(tmp_path):
    """The outbox stays empty."""
    with world_in(tmp_path) as world:
        world.check("a", TEXT)
        world.ask("DELETE", "/v1/documents/a")
        assert waiting(world) == []


def test_a_request_is_signed_as_the_standard_says():
    """The values are those of the specification's example."""
    secret = secret_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    header = signed(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert header["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    for text in ("", "whsec_", "no base64 at all!", "c2hvcnQ=", "A" * 100):
        with pytest.raises(ConfigError, match="openssl rand"):
            secret_of(text)


@pytest.mark.long
@pytest.mark.parametrize("seed", quick_first(range(3), 1))
def test_each_event_arrives_in_the_order_of_its_story_whatever_fails(tmp_path, seed):
    """The receiver refuses, cuts connections, and takes events without saying so; the service ends at any time."""
    settings = {"webhook": "http://127.0.0.1:1/", "rules": outbox.Rules(lambda: NOW, members=2)}
    clock, taken, stored = [NOW], [], {}
    with contextlib.closing(Receiver(failing(seed))) as receiver:
        hook = Hook(receiver.url, secret_of(SECRET))
        for turn in range(12):
            with world_in(tmp_path, **settings) as world:
                for number in range(8):
                    story = (turn * 5 + number) % 11
                    world.check(f"{story}-{turn % 2}", f"{OTHER} " * (story % 2) + f"word{story} " * 40 + f"v{turn}")
                with contextlib.closing(sqlite3.connect(world.keeper.log.path)) as connection:
                    rows = connection.execute("SELECT event, story FROM outbox ORDER BY number").fetchall()
                stored |= dict(rows)
                sending = delivery(world, hook.send, Bounds(1e9, 1000, 0), lambda: clock[0])
                if turn % 3 == 0:  # a crash: what was sent is not stored as sent
                    sending._sent(StoreReader(world.keeper.log.path).ask(outbox.due, clock[0], 100))
                for _ in range(10):
                    sending.turn()
                    clock[0] += 700
        with world_in(tmp_path, **settings) as world:
            sending = delivery(world, hook.send, Bounds(1e9, 1000, 0), lambda: clock[0])
            while StoreReader(world.keeper.log.path).ask(outbox.count)[0]:
                sending.turn()
                clock[0] += 700
        taken = receiver.taken
    assert len(stored) > 40
    verify_arrived(taken, stored)
    assert len(taken) > len(stored)


def test_a_receiver_that_is_away_is_asked_less_and_less_often(world):
    """No event is at fault, so all are due when it is back; Retry-After is followed."""
    for name, text in (("a", TEXT), ("z", OTHER)):
        world.check(name, text)
    answers, asked = [Failed("no answer")] * 3 + [Failed("status 503", 503, "120")], []

    def send(id_, body, time, to=None):
        asked.append(json.loads(body)["document"]["id"])
        return answers.pop(0) if answers else None

    sending = delivery(world, send)
    waits = [sending.turn() for _ in range(4)]
    assert 0 < waits[0] < waits[1] < waits[2] < 60 < waits[3] == 120
    assert asked == ["a"] * 4
    sending.turn()  # the event that the receiver could not take waits, another one shows that it is back
    assert asked[4:] == ["z"]
    assert [body["document"]["id"] for body in waiting(world, NOW + 600)] == ["a"]


def test_an_event_that_is_never_taken_dies_and_its_story_goes_on(world):
    """Others do not wait for it. It is kept with its reason, and counted; beyond the bound, the oldest are lost."""
    clock = [NOW]
    for name, text in (("a", TEXT), ("a", TEXT + " Corrected."), ("z", OTHER)):
        world.check(name, text)
    sent = []

    def send(id_, body, time, to=None):
        event = json.loads(body)
        sent.append((event["event"], event["document"]["id"]))
        return Failed("status 400", 400) if event["event"] == "new" and event["story"] == 0 else None

    sending = delivery(world, send, Bounds(100.0, 1000, 10), lambda: clock[0])
    sending.turn()
    assert sent == [("new", "a"), ("new", "z")]
    clock[0] += 101
    sending.turn()
    assert sent[2:] == [("new", "a")]
    sending.turn()
    assert sent[3:] == [("updated", "a")]
    found = world.ask("GET", "/v1/webhook").json()
    assert (found["waiting"], found["dead"], found["oldest"]) == (0, 1, None)
    [letter] = found["letters"]
    assert (letter["failure"], letter["attempts"], letter["event"]["document"]["id"]) == ("status 400", 2, "a")
    assert world.ask("GET", f"/v1/webhook?after={letter['number']}").json()["letters"] == []
    counted = [world.observer.value(f"service_webhook_{name}") for name in ("dead", "lost")]
    assert counted == [1, 0]
    with contextlib.closing(sqlite3.connect(world.keeper.log.path)) as connection:
        assert outbox.settle(connection, [], 0) == 1


def test_events_that_are_too_many_die_oldest_first(world):
    """The bound is that of the settings; the gauges follow."""
    for name in "abcde":
        world.check(name, " ".join(f"{name}{n}" for n in range(20)))
    sending = delivery(world, lambda *_: Failed("no answer"), Bounds(1e9, 3, 1))
    sending.turn()
    assert StoreReader(world.keeper.log.path).ask(outbox.count) == (3, 1, NOW)
    assert [world.observer.value(f"service_webhook_{name}") for name in ("dead", "lost")] == [2, 1]
    measure_outbox(StoreReader(world.keeper.log.path), world.observer, NOW + 5)
    gauges = [world.observer.value(f"service_webhook_{name}") for name in ("waiting", "dead_kept", "oldest_seconds")]
    assert gauges == [3, 1, 5.0]


def test_what_a_busy_writer_cannot_store_is_not_sent_again(world):
    """The outcome waits; the next turn stores it before it sends more."""
    from neardup_workers.doing.http.writer import Busy

    world.check("a", TEXT)
    sent, call = [], world.writer.call

    def busy(function):
        raise Busy("full")

    sending = delivery(world, lambda id_, *_: sent.append(id_))
    sending._call = busy
    assert sending.turn() > 0
    assert sending.turn() > 0
    sending._call = call
    sending.turn()
    assert (len(sent), waiting(world)) == (1, [])


def test_a_hook_needs_a_secret():
    """It is in the environment."""
    url = "https://hooks.example/"
    assert ServeSettings(webhook=url, webhook_secret=SECRET).hook_secret() == SECRET
    assert ServeSettings().hook_secret() is None
    with pytest.raises(ConfigError, match="NEARDUP_WEBHOOK_SECRET"):
        ServeSettings(webhook=url).hook_secret()
    for wrong in ({"webhook": "ftp://a/"}, {"webhook": "http://a b/"}):
        with pytest.raises(ConfigError):
            ServeSettings(**wrong)


@pytest.mark.long
def test_an_error_of_the_store_does_not_end_the_sending(world):
    """It is tried again: an event would wait until the service starts again otherwise."""
    world.check("a", TEXT)
    sent, arrived = [], threading.Event()
    sending = delivery(world, lambda id_, *_: (sent.append(id_), arrived.set())[0])
    failures, ask = [sqlite3.OperationalError("locked")], sending._reader.ask

    def failing_once(*arguments):
        if failures:
            raise failures.pop()
        return ask(*arguments)

    sending._reader.ask = failing_once
    sending.start()
    assert arrived.wait(60)
    sending.stop()
    assert len(sent) == 1
