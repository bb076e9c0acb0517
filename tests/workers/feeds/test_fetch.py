"""Requests to servers of strangers: to which addresses they go, and that no answer exceeds its limits."""

import gzip
import socket
import ssl
import tracemalloc
from ipaddress import ip_network

import brotli
import pytest
import trustme
from quick_parameters import quick_first
from web_server import WebServer

from neardup_workers.outside.feeds.addresses import addresses_of, is_public
from neardup_workers.outside.feeds.fetch import Fetched, FetchError, FetchLimits, fetch
from neardup_workers.outside.feeds.reasons import FEED_REASONS
from neardup_workers.outside.process.interpreter import zstd

LIMITS = FetchLimits(100_000, 60.0, 3, lambda number: True)


def resolving(**numbers):
    """A resolver that knows these names (underscores are dots); each name has a list of lists, one for each lookup."""
    lookups = {name.replace("_", "."): iter(found) for name, found in numbers.items()}

    def resolve(host, port, **_):
        if host not in lookups:
            raise socket.gaierror(host)
        return [
            (socket.AF_INET6 if ":" in number else socket.AF_INET, None, 0, "", (number, port))
            for number in next(lookups[host])
        ]

    return resolve


def refused(url, limits=LIMITS, **options):
    with pytest.raises(FetchError) as caught:
        fetch(url, {}, limits, **options)
    assert caught.value.reason in FEED_REASONS
    return caught.value.reason


# The blocks of both registries of addresses for special purposes, and the groups.
SPECIAL = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "::/128", "::1/128",
    "::ffff:127.0.0.0/104", "::ffff:169.254.0.0/112", "::ffff:192.0.0.0/120", "64:ff9b::7f00:0/104",
    "64:ff9b::a00:0/104", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32",
    "2002:7f00::/24", "2002:a00::/24", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10",
    "fec0::/10", "ff00::/8",
)  # fmt: skip


@pytest.mark.parametrize("block", SPECIAL)
def test_no_address_for_a_special_purpose_is_public(block):
    """The first and the last address of each block, and one within it: the same with each version of Python."""
    network = ip_network(block)
    for number in (network[0], network[network.num_addresses // 3], network[-1]):
        assert not is_public(str(number))


@pytest.mark.parametrize("number", ["::127.0.0.1", "fe80::1%eth0", "2a00:1450::1%eth0", "", "localhost"])
def test_what_is_no_plain_address_is_not_public(number):
    """Old forms of addresses, addresses of one interface, names."""
    assert not is_public(number)


@pytest.mark.parametrize(
    "number",
    [
        "1.0.0.0", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.255.255",
        "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
        "::ffff:8.8.8.8", "64:ff9b::808:808", "2001:200::", "2001:db7:ffff::", "2001:db9::", "2002:808:808::1",
        "2a00:1450::1", "3ffe::",
    ],
)  # fmt: skip
def test_a_public_address_is_known(number):
    """Of IPv4, of IPv6, and of IPv4 in IPv6; just outside the blocks for special purposes too."""
    assert is_public(number)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "0"])
def test_no_spelling_of_this_machine_is_fetched(web, host):
    """The address that the system makes of it is checked."""
    web.give("/", b"secret")
    assert refused(web.url("/", host), LIMITS._replace(is_allowed=is_public)) in ("fetch_private", "fetch_unknown_host")
    assert web.requests == []


def test_an_answer_has_its_status_header_body_and_address(web):
    """The request names the server, and carries the fields of the caller."""
    web.give("/a?b=c", b"body", X_Field="value")
    answer = fetch(web.url("/a?b=c#d"), {"User-Agent": "test/1"}, LIMITS)
    assert answer == Fetched(200, answer.header, b"body", web.url("/a?b=c#d"))
    assert answer.header["x-field"] == "value"
    ((path, header),) = web.requests
    assert (path, header["Host"], header["User-Agent"]) == ("/a?b=c", f"127.0.0.1:{web.port}", "test/1")


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def secure_web(authority):
    """A server over TLS, whose certificate is that of ``a.example``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("a.example").configure_cert(context)
    server = WebServer(context=context)
    server.give("/", b"body")
    yield server
    server.close()


def test_over_https_a_server_shows_the_certificate_of_its_name(secure_web, authority):
    """The connection goes to the address that was checked; the certificate is that of the name."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    resolve = resolving(a_example=[["127.0.0.1"]], b_example=[["127.0.0.1"]])
    port = secure_web.port
    assert fetch(f"https://a.example:{port}/", {}, LIMITS, resolve=resolve, context=context).body == b"body"
    assert refused(f"https://b.example:{port}/", resolve=resolve, context=context) == "fetch_connection"
    assert [header["Host"] for _, header in secure_web.requests] == [f"a.example:{port}"]


def test_a_certificate_of_an_authority_of_ones_own_needs_a_variable(secure_web, authority, tmp_path, monkeypatch):
    """``SSL_CERT_FILE`` names the file of authorities, as for every program that uses OpenSSL."""
    url = f"https://a.example:{secure_web.port}/"
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert refused(url, resolve=resolving(a_example=[["127.0.0.1"]])) == "fetch_connection"
    authority.cert_pem.write_to_path(tmp_path / "authorities.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authorities.pem"))
    assert fetch(url, {}, LIMITS, resolve=resolving(a_example=[["127.0.0.1"]])).body == b"body"
    assert len(secure_web.requests) == 1


def test_the_connection_goes_to_the_address_that_was_checked(web):
    """A name whose next lookup gives another address leads nowhere else: there is no next lookup."""
    web.give("/", b"body")
    resolve = resolving(feeds_example=[["127.0.0.1"]])  # a second lookup would fail the test
    assert fetch(web.url("/", "feeds.example"), {}, LIMITS, resolve=resolve).body == b"body"
    assert web.requests[0][1]["Host"] == f"feeds.example:{web.port}"


def test_of_several_addresses_only_the_allowed_ones_are_used(web):
    """A name with a public and a private address is fetched from the public one, or not at all."""
    web.give("/", b"body")
    limits = LIMITS._replace(is_allowed=lambda number: number == "127.0.0.2")
    resolve = resolving(feeds_example=[["127.0.0.1", "127.0.0.2"]])
    assert refused(web.url("/", "feeds.example"), limits, resolve=resolve) == "fetch_connection"
    assert web.requests == []  # the server listens on 127.0.0.1 alone
    limits = LIMITS._replace(is_allowed=lambda number: number == "127.0.0.1")
    resolve = resolving(feeds_example=[["127.0.0.2", "127.0.0.1"]])
    assert fetch(web.url("/", "feeds.example"), {}, limits, resolve=resolve).body == b"body"


def test_the_next_address_is_tried_if_one_does_not_answer(web):
    """As browsers do."""
    web.give("/", b"body")
    resolve = resolving(feeds_example=[["127.0.0.2", "127.0.0.1"]])
    assert fetch(web.url("/", "feeds.example"), {}, LIMITS, resolve=resolve).body == b"body"


def test_a_redirect_is_checked_like_the_first_address(web):
    """A public server cannot send a request to a private one: each hop has its own lookup and check."""
    web.give("/secret", b"secret")
    limits = LIMITS._replace(is_allowed=lambda number: number == "127.0.0.1")
    for target in (web.url("/secret", "inner.example"), f"//inner.example:{web.port}/secret"):
        web.give("/", status=302, Location=target)
        resolve = resolving(feeds_example=[["127.0.0.1"]], inner_example=[["127.0.0.2"]])
        assert refused(web.url("/", "feeds.example"), limits, resolve=resolve) == "fetch_private"
    rebound = resolving(feeds_example=[["127.0.0.1"], ["127.0.0.2"]])
    web.give("/", status=302, Location="/secret")
    assert refused(web.url("/", "feeds.example"), limits, resolve=rebound) == "fetch_private"
    assert {path for path, _ in web.requests} == {"/"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(web, status):
    """To the address relative to its own; the answer says how far it has moved for good."""
    web.give("/a/b", status=status, Location="../c")
    web.give("/c", b"body")
    moved = web.url("/c") if status in (301, 308) else ""
    assert fetch(web.url("/a/b"), {}, LIMITS)[2:] == (b"body", web.url("/c"), moved)
    web.give("/d", status=301, Location="/a/b")
    web.give("/e", status=302, Location="/d")
    assert fetch(web.url("/d"), {}, LIMITS).moved == (moved or web.url("/a/b"))
    assert not fetch(web.url("/e"), {}, LIMITS).moved


@pytest.mark.parametrize(("status", "requests"), [(301, 1), (302, 1), (303, 1), (307, 2), (308, 2)])
def test_what_is_posted_follows_only_redirects_that_post(web, status, requests):
    """After the others a client would get, which asks something else."""
    sent = []
    web.posts["/"] = lambda handler, body: (sent.append(body), web.answers["/"](handler))
    web.posts["/to"] = lambda handler, body: (sent.append(body), web.answers["/to"](handler))
    web.give("/", status=status, Location="/to")
    web.give("/to", status=202)
    try:
        answer = fetch(web.url("/"), {}, LIMITS, body=b"form").status
    except FetchError as error:
        answer = error.reason
    assert (answer, sent) == (202 if requests == 2 else "fetch_redirects", [b"form"] * requests)


def test_all_links_of_an_answer_count(web):
    """Servers send a field for each."""

    def answer(handler):
        handler.send_response(304)
        handler.send_header("Link", "<a>; rel=hub")
        handler.send_header("Link", "<b>; rel=self")
        handler.end_headers()

    web.answers["/"] = answer
    assert fetch(web.url("/"), {}, LIMITS).header["link"] == "<a>; rel=hub, <b>; rel=self"


def test_redirects_have_a_limit(web):
    """A loop ends, and a redirect to nowhere too."""
    web.give("/", status=302, Location="/")
    assert refused(web.url("/")) == "fetch_redirects"
    assert len(web.requests) == LIMITS.redirects_max + 1
    web.give("/none", status=302)
    web.give("/wrong", status=302, Location="http://[::1")
    assert refused(web.url("/none")) == "fetch_redirects"
    assert refused(web.url("/wrong")) in ("fetch_redirects", "fetch_url")
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "javascript:alert(1)"):
        web.give("/other", status=302, Location=target)
        assert refused(web.url("/other")) == "fetch_url"


@pytest.mark.parametrize(
    "url", ["", "feed", "file:///etc/passwd", "ftp://a/", "http://", "http://user:word@127.0.0.1/", "http://[::1",
            "http://a:99999999/", "http://a\nb/"],
)  # fmt: skip
def test_only_addresses_of_http_are_fetched(url):
    """Without user and password, which a message or a log could show."""
    assert refused(url, resolve=resolving()) in ("fetch_url", "fetch_unknown_host")


def test_a_name_without_an_address_is_a_reason_of_its_own():
    """A typing error, or no network."""
    assert refused("http://feeds.example/", resolve=resolving()) == "fetch_unknown_host"
    assert addresses_of("127.0.0.1", 80)[0].number == "127.0.0.1"


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65_536)


def test_an_answer_without_an_end_is_given_up_at_its_limit(web):
    """A body of any size, with or without a length, costs no more than the limit."""
    web.answers["/"] = endless
    assert refused(web.url("/")) == "fetch_too_large"
    web.give("/whole", b"x" * LIMITS.bytes_max)
    assert len(fetch(web.url("/whole"), {}, LIMITS).body) == LIMITS.bytes_max


def test_a_bomb_of_gzip_is_given_up_at_its_limit(web):
    """It is unpacked in blocks: memory holds the limit and one block."""
    bomb = gzip.compress(b"\0" * (100 << 20))
    web.give("/", bomb, Content_Encoding="gzip")
    web.give("/small", gzip.compress(b"body"), Content_Encoding="gzip")
    web.give("/damaged", bomb[:100], Content_Encoding="gzip")
    tracemalloc.start()
    try:
        assert refused(web.url("/")) == "fetch_too_large"
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()
    assert fetch(web.url("/small"), {}, LIMITS).body == b"body"
    assert refused(web.url("/damaged")) == "fetch_damaged"


@pytest.mark.parametrize("name", ["br", "zstd"])
def test_answers_in_brotli_and_zstandard_are_unpacked_within_the_limit(web, name):
    """The request names them. A bomb and a damaged answer are given up."""
    pack = {"br": brotli.compress, "zstd": zstd.compress}[name]
    for path, content in (
        ("/", pack(b"body" * 99)),
        ("/bomb", pack(b"x" * (32 << 20))),
        ("/cut", pack(b"body" * 99)[:-3]),
    ):
        web.give(path, content, Content_Encoding=name)
    assert fetch(web.url("/"), {}, LIMITS).body == b"body" * 99
    assert name in web.requests[-1][1]["Accept-Encoding"]
    assert refused(web.url("/bomb")) in ("fetch_too_large", "fetch_damaged")
    assert refused(web.url("/cut")) == "fetch_damaged"


def late(web, before, each):
    """An answer that sends ``before``, then ``each`` again and again until the client has gone, or the test ends."""

    def answer(handler):
        handler.wfile.write(before)
        while not web.ended.wait(0.01):
            handler.wfile.write(each)

    return answer


@pytest.mark.parametrize(
    ("before", "each"),
    quick_first(
        [
            (b"", b""),
            (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
            (b"HTTP/1.1 200 OK\r\n\r\n", b"z"),
            (b"HTTP/1.1 200 OK\r\n\r\n", b""),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"z"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1", b"0"),
        ],
        2,
    ),
)
def test_an_answer_that_never_ends_is_given_up_after_its_time(web, before, each):
    """Also if a byte comes now and then, in the header or in the body."""
    web.answers["/"] = late(web, before, each)
    assert refused(web.url("/"), LIMITS._replace(seconds_max=0.5)) == "fetch_time"


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"nonsense\r\n\r\n", b"HTTP/1.1 999999 x\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"\x16\x03\x01\x02\x00",
    ],
)  # fmt: skip
def test_an_answer_that_is_not_http_is_a_refusal(web, answer):
    """Also a header of a thousand fields, and a body that ends early."""

    def send(handler):
        handler.wfile.write(answer)

    web.answers["/"] = send
    assert refused(web.url("/")) == "fetch_connection"


def test_a_status_is_given_without_its_body(web):
    """The caller decides what a status means."""
    web.give("/", b"<p>not found", status=404)
    web.give("/same", status=304)
    assert fetch(web.url("/"), {}, LIMITS)[:1] == (404,)
    assert fetch(web.url("/"), {}, LIMITS).body == b""
    assert fetch(web.url("/same"), {}, LIMITS).status == 304
