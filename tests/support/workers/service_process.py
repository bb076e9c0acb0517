"""The real command ``serve`` in a process of its own, killed at random; run it to kill it many times.

    python tests/support/workers/service_process.py --kills 200 --documents 100000

Every document that was answered before a kill must be there after it, with the same verdict and the same story. The
load has corrections and removals, and the window grows with each kill. What a person said of two documents or of a
story (apart, together, muted, followed) must hold after it, also for later copies.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import httpx
from import_path import SOURCES

ROOT = Path(__file__).resolve().parents[3]
WORDS = [f"{stem}{ending}" for stem in ("rain", "tree", "coast", "ferry") for ending in range(60)]
ANSWERED = ("status", "duplicate_of", "cluster", "place")
MARKED_EVERY = 7
SAID = ("apart", "together", "muted", "followed")
HOOK = ("--set", "webhook=http://127.0.0.1:9/"), {"NEARDUP_WEBHOOK_SECRET": "c2VjcmV0" * 4}  # it answers nothing


# The command, in a process in which code may have changed the limits of the service before.
_COMMAND = "import sys; from neardup_workers.main import main; sys.exit(main())"


class Serving:
    """A running service; ``url`` is its address. ``patch``: code that runs in the process before the command."""

    def __init__(self, folder, *arguments, patch="", **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
        command = [sys.executable, "-c", f"{patch}\n{_COMMAND}", "serve", "--state", str(folder), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--threshold", "0.7", *arguments], cwd=folder, stderr=subprocess.PIPE, text=True,
            env={**kept, "PYTHONPATH": SOURCES, **environment},
        )  # fmt: skip
        line, said = "", []
        for line in self.process.stderr:  # the first start compiles, and says so before
            said.append(line)
            if "serving on" in line:
                break
        assert "serving on" in line, "".join(said)
        self.url = line.split()[-1]

    def kill(self):
        """Kill the process without warning; return its code."""
        self.process.kill()
        return self._ended()

    def stop(self):
        """End the process by SIGTERM; return its code."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self):
        self.log = self.process.stderr.read()
        self.process.stderr.close()
        return self.process.wait()


def some_document(number):
    """A document that depends on its number only. Every third one is an edit of an earlier one, and of every ten one
    corrects two words of the document before it, under its id; another one is removed after its check."""
    rng = random.Random(-number - 1)
    of = number - 1 if number % 10 == 7 else number
    base = random.Random(of - rng.randrange(1, 30) if of % 3 == 0 else of)
    base = random.Random(f"removed{number}") if is_removed(number) else base
    words = [base.choice(WORDS) for _ in range(60)]
    for _ in range(1 if of % 3 == 0 else 2 * (of != number)):
        words[rng.randrange(60)] = f"edited{number}"
    return {"id": f"r{number}" if is_removed(number) else f"d{of}", "text": " ".join(words)}


def is_removed(number):
    """Whether a document is removed after its check. Its text is like no other."""
    return number % 10 == 9 and number % 3 != 0


def say(client, number):
    """Check two documents, near-copies in order to part them, and say something of them or of a story; what was
    answered, ``None`` if they had left the window by then."""
    said, rng = SAID[number // MARKED_EVERY % len(SAID)], random.Random(f"said{number}")
    words = [rng.choice(WORDS) for _ in range(60)]
    other = [rng.choice(WORDS) for _ in range(60)] if said == "together" else [*words[1:], "other"]
    ids = {"a": f"a{number}", "b": f"b{number}"}
    for id_, text in zip(ids.values(), (words, other), strict=True):
        answer = client.post("/v1/check", json={"id": id_, "text": " ".join(text)}).raise_for_status().json()
    is_pair = said in ("apart", "together")
    path, params = (f"/v1/{said}", ids) if is_pair else (f"/v1/clusters/{answer['cluster']}", {said: "true"})
    response = client.post(path, params=params)
    if response.status_code in (404, 409):
        return None
    return said, ids["b"], " ".join(other), response.raise_for_status().json()


def kill_at_random(folder, documents, kills, seed=1, clients=4):
    """Check documents over several connections while the test kills the service; return the answers by number, and
    how often what was said of documents was seen to hold.

    The window has room for more documents after each kill, and the durability is another one. Raises
    ``AssertionError`` if an answered document is missing, has another verdict or story, or was removed and is there,
    or if what was said before a kill does not hold after it.
    """
    rng, held = random.Random(seed), Counter()
    answered, marks, waiting = {}, {}, list(range(documents))[::-1]
    lock = threading.Lock()
    for round_ in range(kills + 1):
        room, durability = str(60 + 5 * round_), ("normal", "full")[round_ % 2]
        settings = "--window-documents", room, "--set", "history_seconds=30d", "--durability", durability
        serving = Serving(folder, *settings, *HOOK[0], **HOOK[1])
        verify(serving.url, {name: answered[name] for name in rng.sample(sorted(answered), min(len(answered), 40))})
        held += verify_marks(serving.url, marks, round_)
        ended = threading.Event()

        def send(url=serving.url, ended=ended):
            with httpx.Client(base_url=url, timeout=120) as client:
                while not ended.is_set():
                    with lock:
                        if not waiting:
                            return
                        number = waiting.pop()
                    document = some_document(number)
                    try:
                        response = client.post("/v1/check", json=document)
                        response.raise_for_status()
                        if is_removed(number):
                            client.delete(f"/v1/documents/{document['id']}").raise_for_status()
                        said = say(client, number) if number % MARKED_EVERY == 0 else None
                        with lock:
                            answered[number] = response.json()
                            marks.update({number: said} if said else {})
                    except httpx.HTTPError:
                        with lock:
                            waiting.append(number)
                        return

        threads = [threading.Thread(target=send) for _ in range(clients)]
        [thread.start() for thread in threads]
        if round_ < kills:
            goal = len(answered) + rng.randrange(1, max(2, 2 * documents // (kills + 1)))
            while len(answered) < goal and any(thread.is_alive() for thread in threads):
                time.sleep(0.001)
            serving.kill()
            ended.set()
        [thread.join() for thread in threads]
    verify(serving.url, answered)
    serving.stop()
    return answered, held


def verify(url, answered):
    """The stored verdicts equal the answered ones, also when the window has passed; what was removed is unknown."""
    with httpx.Client(base_url=url, timeout=120) as client:
        for number, answer in answered.items():
            response = client.get(f"/v1/documents/{answer['id']}")
            if is_removed(number):
                assert response.status_code == 404, response.text
                continue
            versions = {stored["place"]: stored for stored in response.raise_for_status().json()["versions"]}
            stored = versions[answer["place"]]
            assert [stored[name] for name in ANSWERED] == [answer[name] for name in ANSWERED], (stored, answer)


def verify_marks(url, marks, round_):
    """What was said of two documents is in the audit log, and the later one is in the story that was answered, with a
    copy that comes now if it is in the window; a story that is in the window is marked. Returns how often each held."""
    held = Counter()
    with httpx.Client(base_url=url, timeout=120) as client:
        for number, (said, id_, text, answer) in marks.items():
            if said in ("muted", "followed"):
                story = client.get(f"/v1/clusters/{answer['cluster']}")
                assert story.status_code == 404 or story.json()[said], (answer, story.text)
                held[said] += story.status_code == 200
                continue
            log = client.get("/v1/audit", params={"id": id_}).raise_for_status().json()["audit"]
            assert said in [line["did"] for line in log], (said, answer, log)
            version = client.get(f"/v1/documents/{id_}").raise_for_status().json()
            assert version["cluster"] == answer["cluster"], (said, version, answer)
            if version.get("expired"):
                continue
            copy = client.post("/v1/check", json={"id": f"c{number}-{round_}", "text": text}).raise_for_status().json()
            assert copy["cluster"] == answer["cluster"], (said, version, copy)
            held[said] += 1
    return held


def main():
    """Kill the service as often as the options require."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        answered, held = kill_at_random(folder, options.documents, options.kills, options.seed)
    statuses = [answer["status"] for answer in answered.values()]
    repeated = sum(answer["repeated"] for answer in answered.values())
    sys.stdout.write(
        f"{options.kills} kills, {len(answered):,} documents answered, {statuses.count('original'):,} originals, "
        f"{statuses.count('update'):,} updates, {repeated} retries that had been added: all there, all as answered; "
        f"{dict(held)} were seen to hold after a kill\n"
    )


if __name__ == "__main__":
    main()
