"""The service of a soak: ``serve`` as a process, and a client that sends it documents at an even rate."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from statistics import median

import httpx
from service_process import Serving
from torture_cluster import TortureError

WINDOW = ("--window-seconds", "60", "--lateness-seconds", "0")


class Service:
    """One service with a window of a minute. Its log is in ``folder``."""

    def __init__(self, folder: Path, texts: list[str], pace: float) -> None:
        self.folder, self.answered = folder, 0
        self._texts, self._pace = texts, pace
        self._serving: Serving | None = None
        self._seconds: list[float] = []
        self._error: BaseException | None = None
        self._is_ending = threading.Event()
        self._client = threading.Thread(target=self._send, name="client", daemon=True)

    def start(self) -> None:
        self.folder.mkdir()
        self._serving = Serving(self.folder, *WINDOW)  # type: ignore[no-untyped-call]
        self._client.start()

    def pid(self) -> int:
        """The process; raises ``TortureError`` if it or its client has ended."""
        assert self._serving is not None
        if self._serving.process.poll() is not None or self._error is not None:
            raise TortureError("serve or its client has ended") from self._error
        return int(self._serving.process.pid)

    def latency(self) -> dict[str, float]:
        """The median time of an answer since the last call; nothing if there was none."""
        seconds, self._seconds = self._seconds, []
        return {"latency_ms": 1e3 * median(seconds)} if seconds else {}

    def close(self) -> None:
        self._is_ending.set()
        if self._serving is not None:
            self._client.join()
            self._serving.stop()  # type: ignore[no-untyped-call]

    def _send(self) -> None:
        assert self._serving is not None
        try:
            with httpx.Client(base_url=self._serving.url, timeout=60.0) as client:
                due = time.monotonic()
                for number, text in enumerate(itertools.cycle(self._texts)):
                    if self._is_ending.wait(max(0.0, due - time.monotonic())):
                        return
                    began = time.monotonic()
                    client.post("/v1/check", json={"id": f"d{number}", "text": text}).raise_for_status()
                    self._seconds.append(time.monotonic() - began)
                    self.answered += 1
                    due = max(due + 1 / self._pace, time.monotonic() - 1)
        except BaseException as error:
            self._error = error
