"""Feeds that hubs push: when they are asked, what is new, and what survives a kill."""

import json
import random
import signal
import time
from collections import Counter

import pytest
from hub_answers import FEED, HUB, OFFER, TOPIC, Hubs
from websub_hub import hub, rss  # noqa: F401 - a fixture

from neardup.pairs.json_lines import Fields
from neardup_workers.outside.feeds.feed import Feed, Watching, World
from neardup_workers.outside.feeds.fetch import Fetched
from neardup_workers.outside.feeds.items import read_items
from neardup_workers.outside.feeds.state import open_states
from neardup_workers.outside.process.exits import Exit


class Pushed:
    """A feed with a hub, and a clock: what is asked, and what is new."""

    def __init__(self, hubs, items):
        self.hubs, self.items, self.asked = hubs, items, 0
        self.world = World(
            self.fetch, read_items, lambda: hubs.time, lambda: 0.5, lambda _: True, None, hubs.subscriber
        )
        self.feed = Feed(FEED, Watching(Fields(), 600.0, follow=True))

    def fetch(self, url, header):
        self.asked += 1
        return Fetched(200, {"link": f"<{HUB}>; rel=hub, <{TOPIC}>; rel=self"}, rss(self.items), url)

    def poll(self):
        return [entry.found.id for entry in self.feed.poll(self.world).entries]

    def push(self, items):
        polled = self.feed.push(Fetched(200, {}, rss(items), ""), self.world)
        return [entry.found.id for entry in polled.entries]

    def polls(self, count):
        """What is new at so many times, an interval each; the number of requests."""
        before, new = self.asked, []
        for _ in range(count):
            self.hubs.pass_(600.0)
            new += self.poll()
        return self.asked - before, new


def test_a_feed_that_a_hub_pushes_is_asked_ever_more_rarely():
    """Once a day at last; an item comes once, from a request or from the hub."""
    watched = Pushed(Hubs(offer=None), [("a", "one")])
    assert watched.poll() == ["urn:a"]
    watched.hubs.pass_()
    watched.hubs.verify()
    assert watched.polls(5) == (5, [])  # it has to show that it pushes
    watched.items = [("b", "two"), ("a", "one")]
    assert watched.push(watched.items[:1]) == ["urn:b"]
    assert watched.polls(144) == (6, [])
    assert watched.polls(144) == (1, [])
    assert watched.push(watched.items) == []


def test_a_hub_that_does_not_push_is_asked_again_and_its_feed_as_before():
    """As before until it pushes something new."""
    watched = Pushed(Hubs(offer=None), [("a", "one")])
    watched.poll()
    watched.hubs.pass_()
    watched.hubs.verify()
    watched.items = [("b", "two"), *watched.items]
    watched.push(watched.items)
    assert watched.polls(30)[0] < 6
    watched.items = [("c", "three"), *watched.items]
    asked, new = watched.polls(60)
    assert (asked > 25, new) == (True, ["urn:c"])
    assert {each[2]["hub.mode"] for each in watched.hubs.sent[1:]} == {"subscribe"}


def test_a_feed_whose_subscription_ends_is_asked_as_before():
    """At its next interval."""
    watched = Pushed(Hubs(offer=None), [("a", "one")])
    watched.poll()
    watched.hubs.pass_()
    watched.hubs.verify(lease="60000")
    watched.push([("b", "two")])
    assert watched.polls(99)[0] < 8
    asked, _ = watched.polls(10)
    assert asked >= 9


def test_what_is_pushed_and_cannot_be_read_is_no_failure_of_the_feed():
    """It is reported."""
    watched = Pushed(Hubs(offer=None), [("a", "one")])
    watched.poll()
    polled = watched.feed.push(Fetched(200, {}, b"no feed", ""), watched.world)
    assert (polled.reason, polled.entries, polled.condition.failures) == ("feed_format", (), 0)


def test_what_a_feed_offers_is_remembered(tmp_path):
    """So is that it offers nothing any more."""
    watched = Pushed(Hubs(offer=None), [("a", "one")])
    with open_states(str(tmp_path / "seen")) as states:
        for offer in (OFFER, None):
            polled = watched.feed.poll(watched.world)
            states.save(FEED, polled.condition, polled.state._replace(offer=offer))
            assert states.load(FEED).offer == offer
            watched.items = [("b", "two")]


class Restarting(Pushed):
    """The same, whose process may end: a state follows each result, and another process begins with it."""

    def __init__(self, hubs, items):
        super().__init__(hubs, items)
        self.arrived, self.state, self.condition = Counter(), None, None

    def take(self, polled):
        self.arrived.update((entry.found.id, entry.found.text) for entry in polled.entries)
        self.state, self.condition = polled.state or self.state, polled.condition

    def restart(self):
        time_, sent = self.hubs.time, self.hubs.sent
        self.hubs = Hubs(offer=self.state and self.state.offer)
        self.hubs.time, self.hubs.sent = time_, sent
        self.world = self.world._replace(hubs=self.hubs.subscriber, now=lambda: self.hubs.time)
        self.feed = Feed(FEED, Watching(Fields(), 600.0, follow=True), self.state, self.condition)
        self.take(self.feed.poll(self.world))

    def deliver(self, body, signature):
        token = self.hubs.token
        assert self.hubs.subscriber.push(token, signature, "", body)
        for each in self.hubs.subscriber.take(FEED):
            self.take(self.feed.push(each, self.world))


@pytest.mark.parametrize("seed", range(30))
def test_each_item_arrives_once_whatever_hub_and_process_do(seed):
    """Items come and change; the hub pushes all, some, what it had pushed, what it did not sign, denies and forgets;
    the process ends at any time. Two days later at the latest each item has arrived in the form that it had last."""
    draw = random.Random(seed)
    watched, numbers, sent = Restarting(Hubs(offer=None), [("0", "text 0")]), iter(range(1, 10_000)), []
    watched.take(watched.feed.poll(watched.world))
    published = {("urn:0", "text 0")}
    for _ in range(300):
        event = draw.choice(("new", "new", "change", "all", "part", "part", "again", "forged", "tick", "tick", "verify",
                             "deny", "kill"))  # fmt: skip
        if event in ("new", "change"):
            number = next(numbers)
            at = 0 if event == "new" else draw.randrange(len(watched.items))
            name = str(number) if event == "new" else watched.items.pop(at)[0]
            watched.items.insert(0, (name, f"text {number}"))
            published.add((f"urn:{name}", f"text {number}"))
        elif event in ("all", "part") and watched.hubs.sent:
            body = rss(watched.items if event == "all" else watched.items[: draw.randint(1, 3)])
            sent.append((body, watched.hubs.signed(body, draw.choice(("sha1", "sha512")))))
            watched.deliver(*sent[-1])
        elif event == "again" and sent:
            before = watched.arrived.copy()
            watched.deliver(*sent[-1])
            assert watched.arrived == before
        elif event == "forged" and watched.hubs.sent:
            watched.deliver(rss([("forged", "forged")]), watched.hubs.signed(b"other"))
        elif event == "tick":
            watched.hubs.pass_(600.0)
            watched.take(watched.feed.poll(watched.world))
        elif event in ("verify", "deny") and watched.hubs.sent:
            watched.hubs.verify(mode="subscribe" if event == "verify" else "denied")
        elif event == "kill":
            watched.restart()
    for _ in range(2 * 144):
        watched.hubs.pass_(600.0)
        watched.take(watched.feed.poll(watched.world))
    assert set(watched.arrived.values()) == {1}
    assert set(watched.arrived) <= published
    assert {(f"urn:{name}", text) for name, text in watched.items} <= set(watched.arrived)


@pytest.mark.processes
@pytest.mark.parametrize(("behaves", "is_subscribed"), [("redirect", True), ("elsewhere", False), ("deny", False),
                                                        ("refuse", False), ("late", True)])  # fmt: skip
def test_whatever_a_hub_answers_its_feed_is_asked(hub, start, behaves, is_subscribed):  # noqa: F811
    """Also before it asks back, which may take it a while."""
    hub.feeds["a"], hub.behaves = [("a", "one")], behaves
    options = ("--follow", "--allow-private", "--interval-seconds", "1")
    process = start("feed", *options, "--set", "websub=https://public.example,127.0.0.1:0", hub.topic("a"))
    hub.at = process.stderr.readline().decode().split()[-1]
    hub.until(lambda: len(hub.asked) > 2 and bool(hub.later) == (behaves == "late"))
    hub.feeds["a"].insert(0, ("b", "two"))
    assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == ["urn:a", "urn:b"]
    for form in hub.later:
        hub.verify(form)
    if is_subscribed:
        hub.until(lambda: hub.subscriptions)
    hub.behaves = "well" if is_subscribed else behaves
    begins = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert (hub.subscriptions, process.returncode) == ({}, Exit.TERMINATED)
    assert time.monotonic() - begins < 30


@pytest.mark.processes
def test_items_that_a_hub_pushes_are_written_once(hub, start, tmp_path):  # noqa: F811
    """Also after the process was killed; an orderly end ends the subscription."""
    hub.feeds["a"] = [("a", "one")]
    options = ("--follow", "--allow-private", "--interval-seconds", "1000", "--state", "seen")

    def begin():
        process = start("feed", *options, "--set", "websub=https://public.example/in,127.0.0.1:0", hub.topic("a"))
        hub.at = process.stderr.readline().decode().split()[-1]
        return process

    process = begin()
    assert json.loads(process.stdout.readline())["id"] == "urn:a"
    hub.until(lambda: hub.subscriptions)
    for name in "bc":
        hub.feeds["a"].insert(0, (name, name))
        assert hub.push("a", signature="sha256=" + "0" * 64) == 202
        assert hub.push("a", items=hub.feeds["a"][:1]) == 202
        assert json.loads(process.stdout.readline())["id"] == f"urn:{name}"
    process.kill()
    process.wait()
    hub.feeds["a"].insert(0, ("d", "d"))
    first = hub.subscriptions.pop("a")
    process = begin()
    lines = [json.loads(process.stdout.readline())["id"]]
    while lines[-1] != "urn:d":
        lines.append(json.loads(process.stdout.readline())["id"])
    assert set(lines) <= {"urn:c", "urn:d"}  # what was written and not yet remembered comes again
    hub.until(lambda: hub.subscriptions)
    assert hub.subscriptions["a"]["hub.callback"] == first["hub.callback"]
    assert hub.subscriptions["a"]["hub.secret"] != first["hub.secret"]
    hub.feeds["a"].insert(0, ("e", "e"))
    assert hub.push("a") == 202
    assert json.loads(process.stdout.readline())["id"] == "urn:e"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=60)
    assert (rest, process.returncode, hub.subscriptions) == (b"", Exit.TERMINATED, {})
    assert hub.forms[-1]["hub.mode"] == "unsubscribe"


def test_websub_needs_an_address_and_feeds_that_are_followed(neardup):
    """The sentence says which."""
    for value, extra in (("ftp://x", ["--follow"]), ("https://x/", []), ("https://x/,nowhere", ["--follow"])):
        done = neardup("feed", *extra, "--set", f"websub={value}", "http://a.example/")
        assert (done.returncode, b"websub" in done.stderr) == (Exit.USAGE, True)
