"""The real command ``serve`` killed at random while its ledger counts; run it to kill it many times.

    python tests/support/workers/ledger_process.py --kills 50

At each start the ledger of sources equals a replay of all stored verdicts, also of those that no client has read.
"""

import argparse
import itertools
import json
import random
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from import_path import folders

sys.path.extend(folders("support"))

import httpx
from ledger_replay import One, check, replay
from service_process import WORDS, Serving

_BATCH = 20
_PAGE = 1_000


def some_documents(seed):
    """Documents of ten sources without end: stories that several tell, corrections, the same again, dates before."""
    rng = random.Random(seed)
    for number in itertools.count():
        story = number - rng.randrange(60)
        words = random.Random(story).choices(WORDS, k=40)
        of = f"d{story}" if rng.random() < 0.2 else f"d{number}"
        if rng.random() < 0.3:
            words[rng.randrange(40)] = f"edited{number}"
        date = time.time() - rng.randrange(9_000)
        yield {"id": of, "text": " ".join(words), "source": f"source{rng.randrange(10)}", "timestamp": date}


def stored(client):
    """Every stored verdict, in order of arrival."""
    found, cursor = [], {}
    while cursor is not None:
        page = client.get("/v1/documents", params={"limit": _PAGE, **cursor}).raise_for_status().json()
        found += page["documents"]
        cursor = {"cursor": page["next"]} if page["next"] else None
    found.sort(key=lambda one: one["place"])
    return [
        One(one["source"], "unchanged" if one["repeated"] else one["status"], one["cluster"], one["late"], one["time"],
            one["date"])
        for one in found
    ]  # fmt: skip


def verify(url):
    """Compare the ledger with the stored verdicts; return their number."""
    with httpx.Client(base_url=url, timeout=120) as client:
        verdicts = stored(client)
        for source, expected in replay(verdicts).items():
            check(client.get(f"/v1/sources/{source}").raise_for_status().json(), expected)
        return len(verdicts)


def kill_at_random(folder, kills, batches=20, seed=1):
    """Kill the service while documents come, so many batches at most after each start; return how many verdicts there
    were at each start."""
    rng, waiting, counted = random.Random(seed), some_documents(seed), []
    batch = list(itertools.islice(waiting, _BATCH))
    for turn in range(kills + 1):
        serving = Serving(Path(folder), "--threshold", "0.6", "--durability", ("normal", "full")[turn % 2])
        sent = threading.Semaphore(0)

        def send(url=serving.url, sent=sent):
            nonlocal batch
            header = {"Content-Type": "application/x-ndjson"}
            with httpx.Client(base_url=url, timeout=120) as client, suppress(httpx.HTTPError):
                while True:
                    sent.release()
                    body = b"".join(json.dumps(one).encode() + b"\n" for one in batch)
                    answer = client.post("/v1/check:batch", content=body, headers=header).content
                    if answer.splitlines()[-1:] == [b'{"done":%d}' % _BATCH]:  # else it is sent again
                        batch = list(itertools.islice(waiting, _BATCH))

        try:
            counted.append(verify(serving.url))
            if turn < kills:
                sending = threading.Thread(target=send)
                sending.start()
                for _ in range(rng.randrange(1, batches)):
                    assert sent.acquire(timeout=60), "nothing more is sent"
        finally:
            serving.kill()
        if turn < kills:
            sending.join()
    return counted


def main():
    """Kill the service as often as the options require."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--batches", type=int, default=50, help="of twenty documents between two kills, at most")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counted = kill_at_random(folder, options.kills, options.batches, options.seed)
    sys.stdout.write(f"{options.kills} kills, {counted[-1]:,} verdicts: the ledger equals their replay at each start\n")


if __name__ == "__main__":
    main()
