"""The real command ``serve`` and the receiver of ``docs/examples``, both killed at random; run it for many events.

    python tests/support/workers/hook_process.py --events 10000 --kills 100

Each event must arrive, those of a story in order, and again only under the same id with the same body.
"""

import argparse
import base64
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "sockets"))
import httpx
from ports import free_port
from service_process import ROOT, WORDS, Serving

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes, so").decode()
# Stories that go on at the same time. A request has one document of each: sent again, no version follows a later one.
_STORIES = 40
_SECONDS_MAX = 120.0
# No event says that a story has grown: then each document that decides has one.
_NEVER_GROWN = """
from neardup_workers.outside.store.extra import outbox
outbox.Rules.__new__.__defaults__ = (0, 0)
"""


class Example:
    """The receiver of the examples as a process, whose events go to the end of a file."""

    def __init__(self, port, events):
        with events.open("ab") as written:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "docs/examples/webhook.py"), str(port)],
                stdout=written, env={**os.environ, "NEARDUP_WEBHOOK_SECRET": SECRET},
            )  # fmt: skip

    def kill(self):
        self.process.kill()
        self.process.wait()


def some_documents(count):
    """Requests whose documents make so many events: each story begins, its first document is corrected, and a copy,
    which is no event, comes; many stories go on at the same time."""
    stories = []
    for story in range((count + 1) // 2):
        words = " ".join(random.Random(story).choices(WORDS, k=40))
        named = ((f"{story}", "begun"), (f"{story}", "corrected"), (f"{story} copy", "copied"))
        stories.append([{"id": id_, "text": f"{words} {how}{story}"} for id_, how in named])
    for first in range(0, len(stories), _STORIES):
        yield from zip(*stories[first : first + _STORIES], strict=True)


def kill_at_random(folder, events, kills, seed=1, serve_kills=1):
    """Send documents while receiver and service are killed; return the bodies that arrived, in order.

    Raises ``AssertionError`` if an event is missing, out of order, or repeated under another id.
    """
    rng, arrived = random.Random(seed), Path(folder) / "events.jsonl"
    port, ended = free_port(), threading.Event()
    arguments = ("--webhook", f"http://127.0.0.1:{port}/")
    receiver, serving = Example(port, arrived), _serving(folder, arguments)
    expected, waiting = set(), list(some_documents(events))[::-1]

    def send():
        while waiting and not ended.is_set():
            batch = waiting[-1]
            body = b"".join(json.dumps(document).encode() + b"\n" for document in batch)
            try:
                header = {"Content-Type": "application/x-ndjson"}
                answer = httpx.post(f"{serving.url}/v1/check:batch", content=body, headers=header, timeout=60)
                *verdicts, done = map(json.loads, answer.content.splitlines())
                assert done == {"done": len(batch)}
                assert all("status" in verdict for verdict in verdicts)
            except (httpx.HTTPError, ValueError, AssertionError):
                time.sleep(0.05)
                continue
            kinds = {"original": "new", "update": "updated"}
            expected.update((kinds[one["status"]], one["id"]) for one in verdicts if one["status"] in kinds)
            waiting.pop()

    sending = threading.Thread(target=send)
    sending.start()
    try:
        for turn in range(kills):
            goal = _lines(arrived) + rng.randrange(1, max(2, 2 * events // (kills + 1)))
            wait_for(lambda goal=goal, url=serving.url: _lines(arrived) >= goal or _is_done(url, waiting))
            receiver.kill()
            if serve_kills and turn % max(1, kills // serve_kills) == 0:
                serving.kill()
                serving = _serving(folder, arguments)
            receiver = Example(port, arrived)
        wait_for(lambda: _is_done(serving.url, waiting))
    finally:
        ended.set()
        sending.join()
        receiver.kill()
        serving.stop()
    bodies = [json.loads(line) for line in arrived.read_bytes().splitlines()]
    verify(bodies, expected)
    return bodies


def _serving(folder, arguments):
    return Serving(Path(folder), *arguments, patch=_NEVER_GROWN, NEARDUP_WEBHOOK_SECRET=SECRET)


def _lines(path):
    return path.read_bytes().count(b"\n")


def _is_done(url, waiting):
    if waiting:
        return False
    return httpx.get(f"{url}/v1/webhook", timeout=60).json()["waiting"] == 0


def wait_for(is_true):
    ends = time.monotonic() + _SECONDS_MAX
    while not is_true():
        assert time.monotonic() < ends, f"nothing more has come for {_SECONDS_MAX} seconds"
        time.sleep(0.02)


def verify(bodies, expected):
    first, places = {}, defaultdict(list)
    for body in bodies:
        if first.setdefault(body["id"], body) is body:
            places[body["story"]].append(body["document"]["place"])
        assert first[body["id"]] == body
    kinds = [(body["event"], body["document"]["id"]) for body in first.values()]
    assert len(kinds) == len(set(kinds)), "an event has two ids"
    assert set(kinds) == expected
    for story, found in places.items():
        assert found == sorted(found), f"events of story {story} are out of order"


def main():
    """Kill both as often as the options require."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=100, help="of the receiver; the service is killed ten times")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bodies = kill_at_random(folder, options.events, options.kills, options.seed, serve_kills=10)
    events = len({body["id"] for body in bodies})
    sys.stdout.write(
        f"{options.kills} kills, {events:,} events, {len(bodies) - events} of them arrived again: none is missing, all "
        "in the order of their stories\n"
    )


if __name__ == "__main__":
    main()
