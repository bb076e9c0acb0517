"""The page while news come: one morning of them in fast motion, at a service of its own, until Ctrl-C.

    python tests/browser/demo_page.py --seconds 120

The documents are those of ``make demo``, with copies and corrections, as if the last two hours passed in these seconds.
The state is in a temporary folder and is removed at the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from import_path import folders

sys.path.extend(folders("support", "browser"))

import httpx
from news import PAST_SECONDS, morning, with_story
from service_process import Serving

SETTINGS = ("--durability", "normal", "--keep-texts", "--clock", "event", "--preset", "news", "--threshold", "0.45")


def send(client: httpx.Client, seconds: float) -> int:
    """Send the morning within so many seconds; returns how many documents it has."""
    news, began = list(morning()), time.monotonic()
    for n, one in enumerate(with_story(news, PAST_SECONDS / len(news))):
        time.sleep(max(0.0, began + seconds * n / len(news) - time.monotonic()))
        client.post("/v1/check", json=one).raise_for_status()
    return len(news)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve the page until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120, help="how long two hours take (120)")
    options = parser.parse_args()
    _say("A first run compiles the program for this machine: README.md says how long that takes.")
    with tempfile.TemporaryDirectory() as folder:
        serving = Serving(folder, *SETTINGS)
        try:
            _say(f"The page: {serving.url}/ until Ctrl-C. Two hours of news take {options.seconds:g} s.")
            with httpx.Client(base_url=serving.url, timeout=60) as client:
                count = send(client, options.seconds)
            _say(f"All {count} documents have come; the page stays.")
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            _say("The service ends.")
        finally:
            serving.stop()


if __name__ == "__main__":
    main()
