"""WebSub: what a feed offers, what a hub is asked, and what it pushes."""

from urllib.parse import urlencode

import pytest
from hub_answers import FEED, HUB, OFFER, TOPIC, Hubs
from starlette.testclient import TestClient
from websub_hub import hub, rss  # noqa: F401 - a fixture

from neardup_workers.outside.feeds.fetch import Fetched
from neardup_workers.outside.feeds.state import open_states
from neardup_workers.outside.feeds.websub import subscriber as module
from neardup_workers.outside.feeds.websub.discovery import Offer, offer_of
from neardup_workers.running.commands.feed.callbacks import application

ATOM = b'<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="/hub"/><link rel="self" href="/s"/><entry/>'


@pytest.mark.parametrize(
    ("link", "body", "offer"),
    [
        ('<https://h.example/>; rel="hub", <http://a.example/s>; rel="self"', ATOM,
         ("http://a.example/s", "https://h.example/")),
        ("</h>; title=\"a, b\"; rel=hub, </s>; REL='x'; rel=\"other Self\"", b"", None),
        ("", ATOM, ("http://a.example/s", "http://a.example/hub")),
        ("<https://h.example/>;rel=hub", ATOM, ("http://a.example/s", "https://h.example/")),
        ("", b"\n<?xml version='1.0' encoding='big5'?><rss xmlns:atom='a'><channel><atom:link rel='SELF' href='s'/>"
         b"<link>http://x/</link><atom:link rel='alternate hub' href='http://h.example'/>", ("http://a.example/s", "http://h.example")),
        ("", b"<rss><channel><item><link rel='hub' href='/h'/><link rel='self' href='/s'/></item>", None),
        ("", b"<rss><link rel='hub' href='/h'/>", None),
        ("", b"<rss><link rel='self' href='/s'/>", None),
        ("", b"<rss><link rel='self' href='/s'/><link rel='hub' href='ftp:h'/><link rel='hub' href='http://['/>", None),
        ("", b"<rss><link rel='self' href='/s'/><link rel='hub' href='/1'/><link rel='hub' href='https://2/'/>"
         b"<link rel='hub' href='/3'/><link rel='hub' href='/4'/>",
         ("http://a.example/s", "https://2/", "http://a.example/1", "http://a.example/3")),
        ("", b'{"version": "https://jsonfeed.org/version/1.1", "feed_url": "http://a.example/j", "items": [],'
         b'"hubs": [{"type": "rssCloud", "url": "http://c/"}, 7, {"type": "WebSub", "url": "http://h/"}]}',
         ("http://a.example/j", "http://h/")),
    ],
)  # fmt: skip
def test_a_feed_offers_what_its_header_says_or_else_what_stands_before_its_items(link, body, offer):
    """A hub without an address of the feed is none; one over TLS comes first, three at most."""
    found = offer_of(Fetched(200, {"link": link} if link else {}, body, "http://a.example/feed"))
    assert found == (offer and Offer(offer[0], offer[1:]))


def test_a_subscription_is_asked_for_verified_and_renewed_before_it_ends():
    """The address and the secret are long; the lease is the hub's."""
    hubs = Hubs()
    hubs.pass_()
    [(_, url, form)] = hubs.sent
    assert url == HUB
    assert (form["hub.mode"], form["hub.topic"], form["hub.lease_seconds"]) == ("subscribe", TOPIC, "864000")
    assert form["hub.callback"] == f"https://public.example/in/{hubs.token}"
    assert (len(hubs.token), len(form["hub.secret"]), hubs.token != form["hub.secret"]) == (64, 64, True)
    assert not hubs.subscriber.is_live(FEED)
    assert hubs.verify(lease="10000") == "abc"
    assert hubs.subscriber.is_live(FEED)
    hubs.pass_(7_900)
    assert len(hubs.sent) == 1
    hubs.pass_(500)
    assert [each[2]["hub.callback"] for each in hubs.sent] == [form["hub.callback"]] * 2
    assert hubs.subscriber.is_live(FEED)
    hubs.pass_(2_000)  # the hub does not ask back
    assert not hubs.subscriber.is_live(FEED)


def test_what_was_not_asked_for_is_not_found():
    """Another topic, address or mode; a challenge that is long or no text."""
    hubs = Hubs()
    hubs.pass_()
    wrong = (
        {"topic": "http://a.example/other"}, {"mode": "unsubscribe"}, {"mode": ""}, {"challenge": ""},
        {"challenge": "a" * 1_001}, {"challenge": "a\n"}, {"challenge": "é"}, {"mode": "denied", "topic": "x"},
    )  # fmt: skip
    assert [hubs.verify(**each) for each in wrong] == [None] * len(wrong)
    assert not hubs.subscriber.is_live(FEED)
    assert hubs.subscriber.answer("0" * 64, {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.challenge": "c"}) is None


@pytest.mark.parametrize(
    ("lease", "lasts"), [("-1", 86_400), ("", 86_400), ("9" * 30, 2_592_000), ("²", 86_400), ("1", 1)]
)
def test_a_lease_is_what_the_hub_says_within_bounds(lease, lasts):
    """A hub that names a second is not asked every second."""
    hubs = Hubs()
    hubs.pass_()
    hubs.verify(lease=lease)
    hubs.time += lasts - 0.5
    assert hubs.subscriber.is_live(FEED)
    hubs.time += 1
    assert not hubs.subscriber.is_live(FEED)
    if lease == "1":
        hubs.pass_(590)
        assert len(hubs.sent) == 1


def test_a_hub_that_fails_or_never_asks_back_is_asked_later_each_time_and_the_next_hub_in_turn():
    """A day at most."""
    hubs = Hubs(500, "fetch_private", offer=Offer(TOPIC, (HUB, "https://second.example/")))
    hubs.pass_(10 * 86_400)
    assert [each[1] for each in hubs.sent[:4]] == [HUB, "https://second.example/"] * 2
    waits = [later[0] - earlier[0] for earlier, later in zip(hubs.sent, hubs.sent[1:], strict=False)]
    assert waits[:4] == [600, 900, 1_800, 3_600]
    assert 60_000 < max(waits) <= 86_400


def test_a_denied_subscription_is_asked_for_after_a_day():
    """Also if it was live."""
    hubs = Hubs()
    hubs.pass_()
    hubs.verify()
    assert hubs.verify(mode="denied", challenge="") == ""
    assert not hubs.subscriber.is_live(FEED)
    hubs.pass_(86_000)
    assert len(hubs.sent) == 1
    hubs.pass_(600)
    assert len(hubs.sent) == 2


def test_a_feed_that_offers_something_else_or_is_watched_no_longer_ends_its_subscription():
    """The hub may ask back; then its address is gone."""
    hubs = Hubs()
    hubs.pass_()
    hubs.verify()
    token = hubs.token
    hubs.subscriber.offered(FEED, OFFER)
    hubs.pass_()
    assert len(hubs.sent) == 1
    hubs.subscriber.offered(FEED, Offer(TOPIC, ("https://other.example/",)))
    hubs.pass_()
    assert [(each[1], each[2]["hub.mode"]) for each in hubs.sent[1:]] == [
        (HUB, "unsubscribe"), ("https://other.example/", "subscribe")
    ]  # fmt: skip
    assert hubs.token != token
    assert (hubs.subscriber.knows(token), hubs.subscriber.knows(hubs.token)) == (False, True)
    query = {"hub.topic": TOPIC, "hub.challenge": "c"}
    assert hubs.subscriber.answer(token, {**query, "hub.mode": "subscribe"}) is None
    assert hubs.subscriber.answer(token, {**query, "hub.mode": "unsubscribe"}) == "c"
    assert hubs.subscriber.answer(token, {**query, "hub.mode": "unsubscribe"}) is None
    hubs.subscriber.offered(FEED, None)
    hubs.pass_(1_300)  # the hub does not ask back
    assert (hubs.subscriber._tokens, hubs.subscriber._turns, hubs.due) == ({}, {}, {})


def test_a_key_names_the_same_addresses_again(tmp_path):
    """A restart with its state knows what hubs push; another process has addresses of its own."""
    keys = []
    for name in ("one", "one", "two", None):
        with open_states(name and str(tmp_path / name)) as states:
            keys.append(states.key())
    assert (keys[0] == keys[1], len(set(keys)), {len(key) for key in keys}) == (True, 3, {32})
    tokens = []
    for key in keys:
        hubs = Hubs(key=key)
        hubs.pass_()
        tokens.append(hubs.token)
    assert (tokens[0] == tokens[1], len(set(tokens))) == (True, 3)


@pytest.fixture
def pushing():
    """A subscription, and a client of its address."""
    hubs = Hubs()
    hubs.pass_()
    hubs.verify()
    with TestClient(application(hubs.subscriber, 10_000), base_url="http://public.example") as client:
        hubs.path = f"/in/{hubs.token}"
        hubs.client = client
        yield hubs


def pushed(hubs, body=b"<rss/>", path=None, **header):
    answer = hubs.client.post(
        path or hubs.path, content=body, headers={k.replace("_", "-"): v for k, v in header.items()}
    )
    return answer.status_code, [each.body for each in hubs.subscriber.take(FEED)]


def test_what_a_hub_signs_is_taken_once(pushing):
    """Whatever of the four methods; what comes again was replaced by later news meanwhile, so it is not read again."""
    for number, method in enumerate(("sha1", "sha256", "sha384", "sha512")):
        body = b"<rss>%d</rss>" % number
        signature = pushing.signed(body, method)
        assert pushed(pushing, body, X_Hub_Signature=signature, Content_Type="text/xml") == (202, [body])
        assert pushed(pushing, body, X_Hub_Signature=signature.replace("=", "=0")[:-1]) == (202, [])
        assert pushed(pushing, body, X_Hub_Signature=signature) == (202, [])
    assert pushing.woken == [FEED] * 4
    assert pushed(pushing, b"<rss/>", X_Hub_Signature=pushing.signed(b"<rss/>").upper().replace("SHA", "sha"))[1]


def test_what_is_not_signed_is_answered_and_ignored(pushing):
    """Also another method, another body, and characters that are no digits."""
    right = pushing.signed(b"<rss/>")
    for signature in (
        "",
        "sha256",
        "sha256=",
        "md5=" + "0" * 32,
        right[7:],
        pushing.signed(b"<rss />"),
        "sha256=é",
        right + "0",
    ):
        header = {"X_Hub_Signature": signature.encode()} if signature else {}
        assert pushed(pushing, **header) == (202, [])
    assert pushing.woken == []


def test_an_address_that_is_not_known_is_gone(pushing):
    """A hub stops pushing to it."""
    assert pushed(pushing, path="/in/" + "0" * 64, X_Hub_Signature=pushing.signed(b"<rss/>")) == (410, [])
    assert pushing.client.get("/in/" + "0" * 64).status_code == 404
    assert pushing.client.put(pushing.path).status_code == 405


def test_an_answer_to_a_hub_is_no_page(pushing):
    """Its text comes from who asks."""
    query = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.challenge": "<b>", "hub.lease_seconds": "9"}
    answer = pushing.client.get(f"{pushing.path}?{urlencode(query)}")
    assert (answer.status_code, answer.text) == (200, "<b>")
    assert (answer.headers["content-type"], answer.headers["x-content-type-options"]) == (
        "application/octet-stream",
        "nosniff",
    )


def test_there_is_room_for_so_much(pushing, monkeypatch):
    """A hub tries again what was not taken."""
    assert pushed(pushing, b"a" * 10_001, X_Hub_Signature=pushing.signed(b"a" * 10_001)) == (413, [])
    assert pushing.client.post(pushing.path, content=iter([b"a" * 9_000] * 2)).status_code == 503
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 15_000)
    bodies = [letter * 8_000 for letter in (b"a", b"b")]
    statuses = [
        pushing.client.post(pushing.path, content=body, headers={"X-Hub-Signature": pushing.signed(body)}).status_code
        for body in bodies
    ]
    assert statuses == [202, 503]
    assert len(pushing.subscriber.take(FEED)) == 1
    assert pushed(pushing, bodies[1], X_Hub_Signature=pushing.signed(bodies[1])) == (202, [bodies[1]])
