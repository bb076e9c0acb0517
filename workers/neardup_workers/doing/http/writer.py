"""The writer: one step at a time owns the window. Each step processes the work that arrived during the previous step.

Theory of operation. Requests put work into two queues and wait for its future. Single documents have priority over
lines of batches. The writer's thread removes at most ``STEP_DOCUMENTS`` documents or ``STEP_CHARACTERS`` of text from
the queues, decides them as one step, and then answers all of them. There is no timer: an idle writer begins at once,
and the queues of a busy writer grow. Other work than a check (a removal, a lookup) is a separate step, in queue order.

A step between two threads costs more than the step itself: each waits for the other's lock of the interpreter at every
system call. So the event loop runs a *quick* step itself: small documents, an idle writer, and a step before it that
was recent and short. After a pause a step may expire a whole window, so it belongs to the thread. A request that is
``alone`` is decided at once, also if its COMMIT waits for the disk: no other request is open that would wait. With
``here``, where no COMMIT waits, the loop decides others, too, behind the requests that it has read in two turns. A step
of the thread answers with one wake-up of the loop, however many documents it has.

The number of waiting documents has a limit; beyond it, a submission raises ``Busy``. When an error leaves the outcome
of a step unknown, the writer accepts no more work, every waiting request gets ``Broken``, and the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from neardup.documents.document import Document
from neardup_workers.outside.store.answers import Answer
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import StoreFull

# A step of this size costs about as much as its COMMIT. In a larger step, single documents would wait.
STEP_DOCUMENTS = 64
STEP_CHARACTERS = 256 << 10
# What a service can do, as ``/readyz`` says it: also with a full disk, else a proxy in front would take reads and
# removals away.
READY = {"status": "ok"}
_FULL = {"status": "full", "cannot": "add documents, until the disk has room; reading and removing go on"}
# What the event loop decides itself: documents of this size, at most so long after a step that took no longer.
_HERE_CHARACTERS = 16 << 10
_RECENT_SECONDS, _SHORT_SECONDS = 1.0, 0.02


class Busy(Exception):
    """The queues are full."""


class Broken(Exception):
    """The writer has ended, because it does not know the outcome of a step."""


class _Work(NamedTuple):
    """Documents to decide, or a function to call with the keeper; the future of the answer, ``None`` for a caller that
    gets it at once; and the event loop that awaits it, ``None`` for a thread that waits."""

    documents: Sequence[Document]
    call: Callable[[Keeper], Any] | None
    future: Any
    loop: asyncio.AbstractEventLoop | None

    @property
    def characters(self) -> int:
        """The length of the texts."""
        return sum(len(document.text) for document in self.documents)


# A piece of work, and its answer or its error.
_Outcome = tuple[_Work, Any]


class Writer:
    """The thread and its queues; nothing else may use the keeper until ``stop`` returns.

    The functions that take work return a future of the event loop that runs in the calling thread; without one, a
    ``concurrent.futures.Future``. ``documents_max`` may wait. The thread of a step calls ``on_step`` with the answers,
    also of a call, ``on_full`` when the disk is full, and ``on_broken`` once if the writer ends because of an error.
    ``here`` lets the event loop run quick steps of requests that are not alone.
    """

    def __init__(
        self,
        keeper: Keeper,
        documents_max: int,
        on_broken: Callable[[], None] = lambda: None,
        on_step: Callable[[list[Answer]], None] = lambda answers: None,
        on_full: Callable[[], None] = lambda: None,
        *,
        here: bool = False,
    ) -> None:
        self._keeper, self._documents_max, self._on_full = keeper, documents_max, on_full
        self._on_broken, self._on_step, self._here = on_broken, on_step, here
        self._queues: tuple[deque[_Work], deque[_Work]] = (deque(), deque())
        self._changed = threading.Condition()
        self._stopping = self._running = self._scheduled = False
        self._quick_until, self._full = 0.0, False
        self.waiting = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def check(self, documents: Sequence[Document], *, batch: bool = False) -> Any:
        """Decide and add at most ``STEP_DOCUMENTS`` documents; ``batch`` queues them after all single ones. Returns the
        future of the answers. Raises ``Busy``."""
        return self._submit(documents, None, batch)

    def check_now(self, documents: Sequence[Document]) -> list[Answer] | None:
        """Decide and add the documents of a request that is alone, on the thread of the event loop; ``None`` if others
        wait, or if they may take long. Raises what the future of ``check`` would."""
        work = _Work(documents, None, None, None)
        with self._changed:
            if self.error or self._stopping or any(self._queues) or not self._is_quick(work):
                return None
            self._running = True
        answers: list[Answer] | Exception = self._step([work])[0][1]
        if isinstance(answers, Exception):
            raise answers
        return answers

    def call(self, function: Callable[[Keeper], Any], *, batch: bool = False) -> Any:
        """Call a function with the keeper. Returns the future of what it returns. Raises ``Busy``."""
        return self._submit((), function, batch)

    def _submit(self, documents: Sequence[Document], call: Callable[[Keeper], Any] | None, batch: bool) -> Any:
        loop = None
        with suppress(RuntimeError):
            loop = asyncio.get_running_loop()
        work = _Work(documents, call, Future() if loop is None else loop.create_future(), loop)
        count = max(len(documents), 1)
        with self._changed:
            if self.error is not None or self._stopping:
                raise Broken("the writer has ended")
            if self.waiting + count > self._documents_max:
                raise Busy(f"{self.waiting:,} documents wait")
            self.waiting += count
            self._queues[batch].append(work)
            if loop is None or not (self._here and self._is_quick(work)):
                self._changed.notify()
            elif not self._scheduled:
                self._scheduled = True
                loop.call_soon(loop.call_soon, self._step_here)  # behind those that the next turn reads
        return work.future

    def _is_quick(self, work: _Work) -> bool:
        """Whether the event loop may decide the documents itself."""
        is_due = not self._running and time.monotonic() < self._quick_until
        return is_due and work.call is None and work.characters <= _HERE_CHARACTERS

    def stop(self) -> None:
        """Finish the waiting work, and end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the writer accepts work."""
        return self._thread.is_alive() and self.error is None

    def ready(self) -> dict[str, str] | None:
        """What the service can do; ``None`` if the writer has ended."""
        return None if not self.alive else _FULL if self._full else READY

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._running or not (any(self._queues) or self._stopping or self.error):
                    self._changed.wait()
                taken = self._take()
            if not taken:
                return
            self._step(taken)

    def _step_here(self) -> None:
        """Run a step on the thread of the event loop, unless the writer's thread has begun one meanwhile."""
        with self._changed:
            self._scheduled = False
            taken = [] if self._running else self._take()
        if taken:
            self._step(taken)

    def _take(self) -> list[_Work]:
        """Begin a step: return its work, empty if there is none or if the writer has ended."""
        taken: list[_Work] = []
        documents = characters = 0
        for queue in self._queues if self.error is None else ():
            while queue:
                work = queue[0]
                documents, characters = documents + len(work.documents), characters + work.characters
                if taken and (work.call or documents > STEP_DOCUMENTS or characters > STEP_CHARACTERS):
                    break
                taken.append(queue.popleft())
                if work.call:
                    break
            if queue or (taken and taken[-1].call):
                break
        self.waiting -= sum(max(len(work.documents), 1) for work in taken)
        self._running = bool(taken)
        return taken

    def _step(self, taken: list[_Work]) -> list[_Outcome]:
        """Run a step and end it: its work is answered, and the next one may begin. Returns the answers."""
        begin = time.monotonic()
        try:
            outcomes = self._outcomes([work for work in taken if work.future is None or not work.future.cancelled()])
        except BaseException as error:
            logging.getLogger(__name__).critical("the writer ends: %s", error, exc_info=error)
            with self._changed:
                self.error = error
                taken += [work for queue in self._queues for work in queue]
            outcomes = [(work, Broken("the writer has ended")) for work in taken]
        end = time.monotonic()
        with self._changed:
            self._running = False
            self._quick_until = end + _RECENT_SECONDS if end - begin <= _SHORT_SECONDS else 0.0
            if self.error or self._stopping or any(self._queues):
                self._changed.notify()
        _answer(outcomes)
        if self.error is not None:
            self._on_broken()
        return outcomes

    def _outcomes(self, taken: list[_Work]) -> list[_Outcome]:
        if not taken:
            return []
        try:
            if (call := taken[0].call) is not None:
                found = call(self._keeper)
                self._on_step([])
                return [(taken[0], found)]
            answers = self._keeper.check([document for work in taken for document in work.documents])
        except StoreFull as full:
            self._full = True
            self._on_full()
            return [(work, full) for work in taken]
        self._full = False
        self._on_step(answers)
        parts = iter(answers)
        return [(work, list(islice(parts, len(work.documents)))) for work in taken]


def _answer(outcomes: list[_Outcome]) -> None:
    """Give the answers to those who wait: on the thread of their event loop, with one wake-up for all of them."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[_Outcome]] = {}
    for outcome in outcomes:
        if outcome[0].future is not None:
            by_loop.setdefault(outcome[0].loop, []).append(outcome)
    if not by_loop:
        return
    here = None
    with suppress(RuntimeError):
        here = asyncio.get_running_loop()
    for loop, those in by_loop.items():
        if loop is None or loop is here:
            _set(those)
        else:
            with suppress(RuntimeError):  # the loop has ended, and with it all that wait
                loop.call_soon_threadsafe(_set, those)


def _set(outcomes: list[_Outcome]) -> None:
    for work, value in outcomes:
        if work.future.done():  # cancelled meanwhile
            continue
        if isinstance(value, BaseException):
            work.future.set_exception(value)
        else:
            work.future.set_result(value)
