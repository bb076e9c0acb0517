"""The commands of a deployment on a real broker, run as processes, and documents for the deployment."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from import_path import SOURCES

ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, str(Path(__file__).with_name("limited.py"))]
WAIT_SECONDS_MAX = 180.0
SEED = 20_261_121


class Deployment:
    """Commands of one deployment with its own prefix and settings; ``close`` ends its processes.

    ``properties`` are lines of its client.properties, in addition to a short session; ``limits`` those of its workers.
    """

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        properties: Mapping[str, object] | None = None,
        limits: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        self.properties: dict[str, object] = {"session.timeout.ms": 6_000, **(properties or {})}
        self.folder = folder
        prefix = f"up{random.SystemRandom().randrange(1 << 40):x}."
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
        self.environment = {
            **kept, "PYTHONPATH": SOURCES, "NEARDUP_BOOTSTRAP_SERVERS": bootstrap, "NEARDUP_TOPIC_PREFIX": prefix,
            "NEARDUP_WINDOW_SECONDS": "1e9", "NEARDUP_LATENESS_SECONDS": "1e9",
            "NEARDUP_RETENTION_SECONDS": "1000000000",
            "NEARDUP_SHARDS": "4", "NEARDUP_DOCUMENTS_PARTITIONS": "4",
            "NEARDUP_HEALTH_PORT": "0", "STREAM_LIMITS": json.dumps(limits or {}),
            "NEARDUP_KAFKA_CONFIG": self.written("client.properties"),
            **{f"NEARDUP_{name.upper()}": str(value) for name, value in settings.items()},
        }  # fmt: skip
        self.started: list[subprocess.Popen[bytes]] = []

    def written(self, name: str, **changes: object) -> str:
        """Write the properties, some of them changed (dots as underscores), and return the path of the file."""
        changed = {key.replace("_", "."): value for key, value in changes.items()}
        lines = [f"{key}={value}\n" for key, value in {**self.properties, **changed}.items()]
        (self.folder / name).write_text("".join(lines))
        return str(self.folder / name)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=WAIT_SECONDS_MAX, check=False,
        )  # fmt: skip

    def start(self, *arguments: str, command: Sequence[str] = COMMAND) -> subprocess.Popen[bytes]:
        """Start a process that writes to the log and may read from its standard input."""
        with (self.folder / "up.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *arguments], cwd=self.folder, env=self.environment, stdin=subprocess.PIPE, stdout=log,
                stderr=log,
            )  # fmt: skip
        self.started.append(process)
        return process

    def close(self) -> None:
        """Kill the started processes; the workers of a supervisor see their standard input close, and stop."""
        for process in self.started:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def wait(self, is_so: Callable[[], object], what: str) -> None:
        wait_until(lambda: bool(is_so()), what, lambda: self.log)

    @property
    def log(self) -> str:
        return (self.folder / "up.log").read_text()


def wait_until(is_so: Callable[[], bool], what: str, log: Callable[[], str] = str) -> None:
    """Call the condition until it holds; after a time limit, fail with ``what`` and the end of the log by then."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"not so in {WAIT_SECONDS_MAX:.0f} s: {what}\n{log()[-3000:]}"
        time.sleep(0.1)


def get(port: int, path: str) -> tuple[int, str]:
    """Return status and text of an HTTP answer; status 0 means no answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def documents(count: int) -> list[dict[str, object]]:
    """Texts of 60 words; a third of the texts are earlier texts with a few words changed."""
    chance = random.Random(SEED)
    words = [f"word{i}" for i in range(4_000)]
    made: list[dict[str, object]] = []
    for i in range(count):
        text = [chance.choice(words) for _ in range(60)]
        if made and chance.random() < 0.33:
            text = str(chance.choice(made)["text"]).split()
            for _ in range(chance.randrange(1, 4)):
                text[chance.randrange(60)] = chance.choice(words)
        made.append({"id": f"d{i}", "text": " ".join(text), "timestamp": 1_700_000_000 + i})
    return made


def pairs_in(lines: str) -> list[tuple[str, str]]:
    """The unordered pairs in lines of JSON, sorted, with repetitions."""
    values = [json.loads(line) for line in lines.splitlines()]
    return sorted(tuple(sorted((value["older"], value["newer"]))) for value in values)  # type: ignore[misc]
