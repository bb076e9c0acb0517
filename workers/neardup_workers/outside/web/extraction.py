"""Extraction next to the signer: pages go to processes, texts come back in the order of the pages.

Each process belongs to one thread of the caller, which waits for it without the interpreter's lock. A page that takes
longer than ``PAGE_SECONDS`` is given up: its process is ended, and another one starts. The same happens if a process
dies. So a hostile page costs its time and a start, and never the run. At most ``_PAGES_PER_PROCESS`` pages a process,
and ``_BYTES_MAX`` bytes of pages, are in progress or wait for their turn in the order.

Without a page, no process starts. Plain texts, and pages of the mode ``raw``, are decoded at once.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, NamedTuple, Protocol, TypeVar

from neardup.errors import Reason
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.stop import readable
from neardup_workers.outside.web.charsets import decoded
from neardup_workers.outside.web.extractor import ANSWER, REFUSED, REQUEST, TEXT, UNLOADED
from neardup_workers.outside.web.pages import MODES, Page

# After which the extraction of a page is given up: an article takes hundredths of a second, so a busy machine has room.
PAGE_SECONDS = 10.0
# Of a process that extracts, at most: it takes some 100 MB, and a hostile page must not take the memory of the machine.
MEMORY_BYTES_MAX = 2 << 30
# Reasons of pages without a text.
HTML_REASONS: dict[str, str] = {
    "html_no_text": "the page holds no text that html takes: main takes the article, text all text, raw the markup",
    "html_time": f"the extraction of the text took longer than {PAGE_SECONDS:g} seconds and was given up",
    "html_failed": "the text could not be extracted from the markup",
}
RAW = MODES[-1]
# Pages in progress for each process: one that is extracted, and enough others that a slow page does not stop the rest.
_PAGES_PER_PROCESS = 8
# When the bound is reached, pages are finished until this part of it remains, and then several are read at once: a
# thread that wakes for each page finds its caches cold, and takes twice the time.
_REFILL_PART = 0.5
# Seconds in which a process loads its libraries: a hundred times what it takes, so that only a broken one is late.
_START_SECONDS = 60.0
# Bytes of the pages in progress at most, unless one page alone is larger.
_BYTES_MAX = 64 << 20
_MODULE = "neardup_workers.outside.web.extractor"


class ExtractionOptions(Protocol):
    """What is extracted, and within which limits: the settings of the same names."""

    @property
    def html(self) -> str:
        """A mode of ``MODES``."""

    @property
    def html_extractor(self) -> str:
        """A library of ``EXTRACTORS``."""

    @property
    def sign_threads(self) -> int:
        """Processes that extract."""


# The text of a page, or why it has none.
Extracted = str | Reason
T = TypeVar("T")
P = TypeVar("P")
# Whether a descriptor can be read, after at most so many seconds.
Wait = Callable[[int, float], bool]


class Pending(NamedTuple, Generic[P]):
    """An item whose text is taken from a page."""

    item: P
    page: Page


class _Died(Exception):
    """The process ended without an answer, or is late."""


class PipedProcess:
    """A process of this program with these arguments, and the two pipes to it. What goes wrong goes to ``stderr``, by
    default that of this process."""

    def __init__(self, *arguments: str, stderr: int | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the other
        )  # fmt: skip
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        assert self._process.stdout is not None  # noqa: S101
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def kill(self) -> None:
        """End the process; a thread that waits for it goes on."""
        self._process.kill()

    def end(self) -> None:
        """End the process and close the pipes."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):
                pipe.close()


class Extraction:
    """A pool of processes that extract. ``wait`` waits for an answer. ``close`` ends all processes."""

    def __init__(
        self, options: ExtractionOptions, wait: Wait = readable, *, memory_bytes_max: int = MEMORY_BYTES_MAX
    ) -> None:
        self._options = options
        self._wait = wait
        self._memory_bytes_max = memory_bytes_max
        self._lock = threading.Lock()
        self._own = threading.local()  # the process of a thread
        self._processes: set[_Process] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def in_order(
        self, items: Iterator[T | Pending[P] | None], finish: Callable[[Pending[P], Extracted], T]
    ) -> Iterator[T | None]:
        """Yield items in order; ``finish`` makes an item from the text of its page.

        At ``None``, which says that no input is available, all pages are finished first.
        """
        waiting: deque[tuple[T | Pending[P], Future[Extracted] | None]] = deque()
        held = 0
        try:
            for item in items:
                size = _size(item)
                part = _REFILL_PART if self._is_full(len(waiting), held + size, 1) else 1
                while waiting and (
                    item is None or self._is_full(len(waiting), held + size, part) or _is_done(waiting[0][1])
                ):
                    held -= _size(waiting[0][0])
                    yield _finished(*waiting.popleft(), finish)
                if item is None:
                    yield None
                elif isinstance(item, Pending):
                    waiting.append((item, self._begin(item.page)))
                    held += size
                elif waiting:
                    waiting.append((item, None))
                else:
                    yield item
            while waiting:
                yield _finished(*waiting.popleft(), finish)
        finally:
            self.close()

    def text(self, page: Page) -> Extracted:
        """Return the text of one page, or why it has none. Threads may call it; the processes stay until ``close``."""
        with self._lock:
            begun = self._begin(page)
        return begun.result()

    def close(self) -> None:
        """End the processes; pages in progress are lost. The next page starts new processes."""
        with self._lock:
            threads, self._threads, self._closed = self._threads, None, True
            for process in self._processes:
                process.kill()
        if threads is not None:
            threads.shutdown(cancel_futures=True)
        for process in tuple(self._processes):
            self._end(process)

    def _is_full(self, count: int, held: int, part: float) -> bool:
        """Whether so many pages and bytes reach this part of their bounds."""
        return count >= part * _PAGES_PER_PROCESS * self._options.sign_threads or held > part * _BYTES_MAX

    def _begin(self, page: Page) -> Future[Extracted]:
        """Begin the extraction of a page; what needs no process is done at once."""
        if not page.is_markup or self._options.html == RAW:
            done: Future[Extracted] = Future()
            done.set_result(decoded(page.payload, page.charset))
            return done
        if self._threads is None:
            self._closed = False
            self._own = threading.local()
            self._threads = ThreadPoolExecutor(self._options.sign_threads, "extractor")
        return self._threads.submit(self._extract, page)

    def _extract(self, page: Page) -> Extracted:
        """Return the text of a page, or why it has none. Runs in a thread of the pool."""
        process: _Process | None = getattr(self._own, "process", None)
        if process is None:
            process = self._own.process = self._start()
        try:
            return process.extract(page, PAGE_SECONDS)
        except TimeoutError:
            refused = Reason("html_time")
        except (OSError, _Died):
            refused = Reason("html_failed")
        self._end(process)
        self._own.process = None
        return refused

    def _start(self) -> _Process:
        """Start a process and wait until its libraries are loaded. Raises ``Failure`` if it does not answer."""
        with self._lock:
            if self._closed:
                raise _Died
            process = _Process(self._options, self._wait, self._memory_bytes_max)
            self._processes.add(process)
        try:
            kind, text = process.answer(_START_SECONDS)
        except (TimeoutError, _Died):
            self._end(process)
            if self._closed:
                raise
            raise self._unusable(f"does not start within {_START_SECONDS:g} seconds: free memory for it") from None
        if kind == UNLOADED:
            self._end(process)
            raise self._unusable(f"cannot load a library: {text.decode()}; install what the extra web names")
        return process

    def _unusable(self, why: str) -> Failure:
        return Failure(Exit.USAGE, f"the process that extracts text with {self._options.html_extractor} {why}")

    def _end(self, process: _Process) -> None:
        process.end()
        with self._lock:
            self._processes.discard(process)


class _Process(PipedProcess):
    """A process that extracts."""

    def __init__(self, options: ExtractionOptions, wait: Wait, memory_bytes_max: int) -> None:
        self._wait = wait
        super().__init__("-W", "ignore", "-m", _MODULE, options.html, options.html_extractor, str(memory_bytes_max))

    def extract(self, page: Page, seconds: float) -> Extracted:
        """Return the text of a page, or why it has none. Raises ``TimeoutError``, ``OSError`` and ``_Died``."""
        charset = (page.charset or "").encode()
        self._requests.write(REQUEST.pack(len(page.payload), len(charset)) + charset)
        self._requests.write(page.payload)
        self._requests.flush()
        kind, text = self.answer(seconds)
        return text.decode() if kind == TEXT else Reason(REFUSED[kind])

    def answer(self, seconds: float) -> tuple[bytes, bytes]:
        """Return the kind and the text of an answer. Raises ``TimeoutError`` and ``_Died``."""
        if not self._wait(self._answers.fileno(), seconds):
            raise TimeoutError
        head = self._answers.read(ANSWER.size)
        if len(head) < ANSWER.size:
            raise _Died
        kind, size = ANSWER.unpack(head)
        text = self._answers.read(size)
        if len(text) < size:
            raise _Died
        return kind, text


def _size(item: object) -> int:
    return len(item.page.payload) if isinstance(item, Pending) else 0


def _is_done(future: Future[Extracted] | None) -> bool:
    return future is None or future.done()


def _finished(
    item: T | Pending[P], future: Future[Extracted] | None, finish: Callable[[Pending[P], Extracted], T]
) -> T:
    return finish(item, future.result()) if isinstance(item, Pending) and future is not None else item  # type: ignore[return-value]
