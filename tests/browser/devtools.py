"""A headless Chromium, driven by the DevTools protocol over two pipes: no port, no package, one process.

Messages are JSON, each ended by a NUL. A thread reads them: answers go to their callers, and events to lists that tests
read.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import signal
import threading
from collections import defaultdict
from pathlib import Path

SECONDS_MAX = 60.0
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-pipe", "--force-device-scale-factor=1", "--enable-precise-memory-info",
    "--js-flags=--expose-gc",
)  # fmt: skip


class PageError(AssertionError):
    """A script of the page, or of the test, failed in the browser."""


class Browser:
    """A browser with one tab. ``events`` has what the tab reported, by the name of the event.

    Args:
        program: path of Chromium.
        folder: an empty folder for its profile and its messages.
    """

    def __init__(self, program: str, folder: Path) -> None:
        own_read, its_write = _pipe()
        its_read, own_write = _pipe()
        log = _above(os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC))
        actions = [
            (os.POSIX_SPAWN_DUP2, its_read, 3), (os.POSIX_SPAWN_DUP2, its_write, 4),
            (os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2),
        ]  # fmt: skip
        command = [program, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        environment = {**os.environ, "HOME": str(folder)}
        self._log = folder / "log"
        self.pid = os.posix_spawn(program, command, environment, file_actions=actions, setsid=True)
        for fd in (its_read, its_write, log):
            os.close(fd)
        self._input, self._output = own_write, os.fdopen(own_read, "rb")
        self._changed = threading.Condition()
        self._answers: dict[int, dict] = {}
        self._count, self._ended = 0, False
        self.events: dict[str, list[dict]] = defaultdict(list)
        self._session = None
        self._thread = threading.Thread(target=self._read, name="devtools")
        self._thread.start()
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the browser and its processes."""
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._thread.join()
        self._output.close()
        os.close(self._input)

    def _last_lines(self) -> str:
        """What the browser wrote last."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    def call(self, method: str, **parameters):
        """Send a command; return its result."""
        with self._changed:
            self._count += 1
            number = self._count
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._input, data) :]
        with self._changed:
            assert self._changed.wait_for(lambda: number in self._answers or self._ended, SECONDS_MAX), method
            assert number in self._answers, f"the browser has ended: {self._last_lines()}"
            answer = self._answers.pop(number)
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        return answer["result"]

    def evaluate(self, script: str):
        """The value of an expression, or of the promise that it returns."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise PageError(f"{script}: {details.get('exception', {}).get('description', details['text'])}")
        return found["result"].get("value")

    def wait(self, condition: str):
        """The value of an expression as soon as it is true; the page looks again every 20 milliseconds."""
        script = f"""new Promise((resolve, reject) => {{
            const ends = performance.now() + {1000 * SECONDS_MAX - 5000};
            const look = () => {{
                let value;
                try {{ value = ({condition}); }} catch (error) {{ return reject(error); }}
                if (value) resolve(value);
                else if (performance.now() > ends) reject(new Error('never: ' + document.body.innerText));
                else setTimeout(look, 20);
            }};
            look();
        }})"""
        return self.evaluate(script)

    def open(self, url: str) -> None:
        """Load a page; returns when it is loaded. An address that differs behind # alone loads nothing."""
        before = self._loads()
        found = self.call("Page.navigate", url=url)
        if found.get("errorText"):
            raise PageError(f"{url}: {found['errorText']}")
        if "loaderId" in found:
            self._wait_for_load(before)

    def reload(self) -> None:
        """Load the page again; returns when it is loaded, so no call meets the page that goes."""
        before = self._loads()
        self.call("Page.reload")
        self._wait_for_load(before)

    def _loads(self) -> int:
        """How many pages were loaded so far."""
        return len(self.events["Page.loadEventFired"])

    def _wait_for_load(self, before: int) -> None:
        """Return when more pages were loaded than before."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._loads() > before, SECONDS_MAX), "the page was not loaded"

    def press(self, key: str, code: int, shift: bool = False) -> None:
        """Press a key."""
        text = {"text": "\r"} if key == "Enter" else {}
        values = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **values, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **values)

    def look(self, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window and the colours that the person prefers, who wants no motion."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture (PNG) of the window, or of the whole page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def _read(self) -> None:
        rest = b""
        while part := os.read(self._output.fileno(), 1 << 20):
            *messages, rest = (rest + part).split(b"\0")
            with self._changed:
                for message in map(json.loads, messages):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    elif message["method"] in KEPT:
                        self.events[message["method"]].append(message["params"])
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


KEPT = ("Page.loadEventFired", "Runtime.exceptionThrown", "Log.entryAdded", "Network.requestWillBeSent")


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are above the numbers that the browser gets."""
    read, write = os.pipe()
    return _above(read), _above(write)


def _above(fd: int) -> int:
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved
