"""The real ``neardup serve``: copies that race over sockets, kills, and how it ends."""

import asyncio
import socket
import sqlite3
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import httpx
import pytest
import trustme
from ledger_process import kill_at_random as kill_the_ledger_at_random
from service_process import Serving, kill_at_random
from service_world import TEXT

from neardup_workers.doing.http import server
from neardup_workers.doing.http.server import bound, serve
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.serve import ServeSettings

TOKEN = "a-token-of-enough-characters"


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """One process for the tests that do not stop it; ``stop`` is the last test."""
    serving = Serving(tmp_path_factory.mktemp("state"), "--durability", "normal", NEARDUP_TOKEN=TOKEN)
    yield serving
    if serving.process.poll() is None:
        serving.kill()


@pytest.mark.processes
def test_of_1000_copies_over_50_connections_one_is_the_original(serving):
    """The other 999 are duplicates of it."""
    headers = {"Authorization": f"Bearer {TOKEN}"}

    def send(first):
        with httpx.Client(base_url=serving.url, headers=headers, timeout=60) as client:
            documents = ({"id": f"d{n}", "text": TEXT} for n in range(first, 1000, 50))
            return [client.post("/v1/check", json=document).json() for document in documents]

    with ThreadPoolExecutor(50) as pool:
        answers = [answer for part in pool.map(send, range(50)) for answer in part]
    [original] = [answer["id"] for answer in answers if answer["status"] == "original"]
    assert [answer["duplicate_of"] for answer in answers if answer["status"] == "duplicate"] == [original] * 999
    [cluster] = httpx.get(f"{serving.url}/v1/clusters", headers=headers, timeout=60).json()["clusters"]
    assert cluster["size"] == 1000


@pytest.mark.processes
def test_the_ledger_equals_a_replay_after_kills(tmp_path):
    """It is stored with the verdicts that it counts. ``ledger_process.py`` kills more often."""
    counted = kill_the_ledger_at_random(tmp_path, kills=3)
    assert counted == sorted(set(counted))


@pytest.mark.processes
def test_a_flood_of_idle_connections_and_heads_does_not_keep_clients_out(serving):
    """The connections that have waited longest are closed; a head without an end is refused."""
    host, port = serving.url.removeprefix("http://").split(":")
    flood = [socket.create_connection((host, int(port))) for _ in range(700)]
    try:
        assert httpx.get(f"{serving.url}/healthz", timeout=60).status_code == 200
        for head in (b"GET /" + b"a" * 200_000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 50_000):
            with socket.create_connection((host, int(port))) as connection:
                connection.settimeout(60)
                with suppress(ConnectionError):  # the answer may come before all is sent
                    connection.sendall(head)
                with suppress(ConnectionError):
                    assert connection.recv(1000).startswith(b"HTTP/1.1 400")
        assert httpx.get(f"{serving.url}/healthz", timeout=60).status_code == 200
    finally:
        for connection in flood:
            connection.close()


@pytest.mark.processes
def test_a_body_that_does_not_arrive_is_refused_after_a_time(tmp_path):
    """The answer is 408, and the connection is closed."""
    patch = """
from neardup_workers.outside.settings import serve
serve.LIMITS = serve.LIMITS._replace(body_seconds_max=0.2)
"""
    serving = Serving(tmp_path, "--durability", "normal", patch=patch)
    try:
        host, port = serving.url.removeprefix("http://").split(":")
        head = (
            b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        )
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head + b"{")
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"reason":"body_slow"' in answer
        assert httpx.get(f"{serving.url}/healthz", timeout=60).status_code == 200
    finally:
        serving.kill()


@pytest.mark.processes
def test_a_start_while_the_clock_is_a_year_ahead_empties_no_window(tmp_path):
    """The window goes on by the time since boot; one start with ``--clock event`` makes the next believe the clock."""
    ahead = "import time; _wall = time.time; time.time = lambda: _wall() + 365 * 86_400"
    statuses, jumps = [], []
    for patch, clock in (("", "arrival"), (ahead, "arrival"), (ahead, "event"), (ahead, "arrival")):
        serving = Serving(tmp_path, "--durability", "normal", "--window-seconds", "2d", "--clock", clock, patch=patch)
        try:
            if clock == "arrival":
                document = {"id": str(len(statuses)), "text": TEXT}
                statuses.append(httpx.post(f"{serving.url}/v1/check", json=document, timeout=60).json()["status"])
                metrics = httpx.get(f"{serving.url}/metrics", timeout=60).text
                jumps.append(float(metrics.split("\nneardup_service_clock_jump_seconds ")[1].split()[0]) > 300 * 86_400)
        finally:
            serving.kill()
    assert statuses == ["original", "duplicate", "original"]
    assert jumps == [False, True, False]


@pytest.mark.processes
@pytest.mark.parametrize("files", ["certificate.pem", "certificate.pem,key.pem"])
def test_with_a_certificate_the_service_accepts_only_tls(tmp_path, files):
    """A client that trusts the authority is answered, a request without TLS is not."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "certificate.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    serving = Serving(tmp_path, "--durability", "normal", "--set", f"tls={files}")
    try:
        assert serving.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context()
        authority.configure_trust(context)
        assert httpx.get(f"{serving.url}/healthz", verify=context, timeout=60).status_code == 200
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(f"{serving.url}/healthz", timeout=60)
        with pytest.raises(httpx.TransportError):
            httpx.get(serving.url.replace("https", "http") + "/healthz", timeout=60)
    finally:
        serving.kill()


def test_a_start_without_a_usable_certificate_opens_no_window(tmp_path):
    """So the audit log has no line of settings that were never in force."""
    with pytest.raises(Failure, match="cannot use the certificate"):
        serve(ServeSettings(port=0, tls=(str(tmp_path / "missing.pem"),)), str(tmp_path / "window"))
    assert not (tmp_path / "window").exists()


def test_a_start_whose_address_another_process_takes_meanwhile_is_not_noted(tmp_path, monkeypatch):
    """Its settings were never in force."""
    with bound("127.0.0.1", 0) as other:
        monkeypatch.setattr(server, "warm", lambda config: other.listen())  # while the window opens
        with pytest.raises(Failure, match="cannot listen on"):
            serve(ServeSettings(port=other.getsockname()[1]), str(tmp_path))
    with closing(sqlite3.connect(tmp_path / "window.sqlite")) as window:
        assert window.execute("SELECT count(*) FROM audited").fetchone() == (0,)


@pytest.mark.processes
def test_sigterm_ends_it_with_its_code_and_no_word_of_the_token(serving):
    """No line of the log contains the token."""
    assert httpx.get(f"{serving.url}/v1/clusters", timeout=60).status_code == 401
    assert serving.stop() == Exit.TERMINATED
    assert TOKEN not in serving.log


def test_responses_are_sent_without_delay():
    """A connection of the event loop has ``TCP_NODELAY``; with another kind of socket each answer takes 40 ms."""

    async def connected():
        delays = []

        async def answer(reader, writer):
            delays.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = bound("127.0.0.1", 0)
        async with await asyncio.start_server(answer, sock=listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            await reader.read()
            writer.close()
            await writer.wait_closed()
        return delays

    assert asyncio.run(connected()) == [1]


def test_an_address_that_is_taken_is_named():
    """The message also names the option to change: a socket has no port."""
    with bound("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Failure, match=f"cannot listen on 127.0.0.1:{port}.*choose another --port or --host"):
            bound("127.0.0.1", port)
    with pytest.raises(Failure, match=r"cannot listen on unix:/missing/a: .*choose another --host"):
        bound("unix:/missing/a", 1)


def test_settings_of_a_deployment_need_from_kafka(neardup):
    """Neither they nor a missing folder are accepted in silence."""
    done = neardup("serve", "--state", "window", "--bootstrap-servers", "localhost:9")
    assert (done.returncode, b"add --from-kafka" in done.stderr) == (Exit.USAGE, True)
    done = neardup("serve")
    assert (done.returncode, b"no --state is given" in done.stderr) == (Exit.USAGE, True)
    done = neardup("serve", "--from-kafka", "--blocked", "blocked.jsonl")
    assert (done.returncode, b"give it to the signers" in done.stderr) == (Exit.USAGE, True)


@pytest.mark.processes
def test_what_was_answered_before_a_kill_is_there_after_it(tmp_path):
    """Each document has the answered verdict and story; the test retries unanswered requests. What was said of two
    documents, or of a story, holds."""
    answered, held = kill_at_random(tmp_path, documents=150, kills=2)
    assert len(answered) == 150
    assert held.keys() == {"apart", "together", "muted", "followed"}
    assert {answer["status"] for answer in answered.values()} == {"original", "duplicate", "update"}


@pytest.mark.processes
def test_what_a_person_said_before_a_kill_holds_after_it(tmp_path):
    """A feed that sends a blocked document again gets ``blocked``; the list has the mode 0600. Stories that were taken
    apart, put together, muted and followed are so, and later copies obey."""
    arguments = tmp_path, "--durability", "normal", "--blocked", "blocked.jsonl", "--set", "webhook=http://127.0.0.1:9/"
    near, far = TEXT.replace("Friday", "Tuesday"), " ".join(f"word{n}" for n in range(40))
    serving = Serving(*arguments, NEARDUP_WEBHOOK_SECRET="c2VjcmV0" * 4)
    with httpx.Client(base_url=serving.url, timeout=60) as client:
        for id_, text in (("a", f"{far} and more"), ("one", TEXT), ("near", near), ("far", far[::-1])):
            client.post("/v1/check", json={"id": id_, "text": text})
        removed = client.delete("/v1/documents/a", params={"block": "true"})
        apart = client.post("/v1/apart?a=one&b=near").json()
        together = client.post("/v1/together?a=one&b=far").json()
        marked = client.post(f"/v1/clusters/{together['cluster']}?muted=true&followed=true").json()
    serving.kill()
    assert removed.json() == {"id": "a", "removed": 1}
    assert (apart["id"], together["id"], apart["cluster"] == together["cluster"]) == ("near", "far", False)
    assert marked == {"cluster": together["cluster"], "muted": True, "followed": True}
    assert (tmp_path / "blocked.jsonl").stat().st_mode & 0o777 == 0o600
    serving = Serving(*arguments, NEARDUP_WEBHOOK_SECRET="c2VjcmV0" * 4)
    with httpx.Client(base_url=serving.url, timeout=60) as client:
        again = [client.post("/v1/check", json={"id": id_, "text": f"{far} and more"}) for id_ in "ab"]
        copies = [client.post("/v1/check", json={"id": f"{text[:9]}2", "text": text}) for text in (near, far[::-1])]
        no = client.post("/v1/together?a=one&b=near")
        kept = client.post(f"/v1/clusters/{together['cluster']}").json()
    serving.stop()
    assert [(answer.status_code, answer.json()["reason"]) for answer in again] == [(422, "blocked")] * 2
    assert [answer.json()["cluster"] for answer in copies] == [apart["cluster"], together["cluster"]]
    assert (no.status_code, no.json()["reason"]) == (409, "contradicts")
    assert kept == marked
