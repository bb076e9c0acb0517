"""The real ``neardup serve``: copies that race over sockets, kills, and how it ends."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from service_process import Serving, kill_at_random
from service_world import TEXT

from workers.http.server import bound
from workers.process.exits import Exit, Failure

TOKEN = "a-token-of-enough-characters"


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """One process for the tests that do not stop it; ``stop`` is the last test."""
    serving = Serving(tmp_path_factory.mktemp("state"), "--durability", "normal", NEARDUP_TOKEN=TOKEN)
    yield serving
    if serving.process.poll() is None:
        serving.kill()


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
    [cluster] = httpx.get(f"{serving.url}/v1/clusters", headers=headers).json()["clusters"]
    assert cluster["size"] == 1000


def test_sigterm_ends_it_with_its_code_and_no_word_of_the_token(serving):
    """No line of the log contains the token."""
    assert httpx.get(f"{serving.url}/v1/clusters").status_code == 401
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
    """The message also names the option to change."""
    with bound("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Failure, match=f"cannot listen on 127.0.0.1:{port}.*choose another"):
            bound("127.0.0.1", port)


def test_what_was_answered_before_a_kill_is_there_after_it(tmp_path):
    """Each document has the answered verdict, once; the test retries unanswered requests."""
    answered = kill_at_random(tmp_path, documents=150, kills=2)
    assert len(answered) == 150
    assert {answer["status"] for answer in answered.values()} == {"original", "duplicate"}
