"""The real ``neardup serve``: copies that race over sockets, kills, and how it ends."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from service_process import Serving, kill_at_random
from service_world import TEXT

from workers.process.exits import Exit

TOKEN = "a-token-of-enough-characters"


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """One process for the tests that do not end it; ``stop`` is the last of them."""
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
    """The token stands in no line of its log."""
    assert httpx.get(f"{serving.url}/v1/clusters").status_code == 401
    assert serving.stop() == Exit.TERMINATED
    assert TOKEN not in serving.log


def test_what_was_answered_before_a_kill_is_there_after_it(tmp_path):
    """With the verdict that was answered, and once; retries of what was not answered included."""
    answered = kill_at_random(tmp_path, documents=150, kills=2)
    assert len(answered) == 150
    assert {answer["status"] for answer in answered.values()} == {"original", "duplicate"}
