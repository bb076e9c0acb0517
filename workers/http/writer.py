"""The writer: one thread owns the window. Each step processes the work that arrived during the previous step.

Theory of operation. Requests put work into two queues and wait for its future. Single documents have priority over
lines of batches. The thread removes at most ``STEP_DOCUMENTS`` documents or ``STEP_CHARACTERS`` of text from the
queues, decides them as one step, and then answers all of them. There is no timer: an idle writer begins at once, and
the queues of a busy writer grow. Other work than a check (a removal, a lookup) is a separate step, in queue order.

The number of waiting documents has a limit; beyond it, a submission raises ``Busy``. When an error leaves the outcome
of a step unknown, the writer accepts no more work, every waiting request gets ``Broken``, and the process ends.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from neardup.stream.documents import Document
from neardup.workers.store.keeper import Answer, Keeper
from neardup.workers.store.log import StoreFull

# A step of this size costs about as much as its COMMIT. In a larger step, single documents would wait.
STEP_DOCUMENTS = 64
STEP_CHARACTERS = 256 << 10


class Busy(Exception):
    """The queues are full."""


class Broken(Exception):
    """The writer has ended, because it does not know the outcome of a step."""


class _Work(NamedTuple):
    """Documents to decide, or a function to call with the keeper; and the future of the answer."""

    documents: list[Document]
    call: Callable[[Keeper], Any] | None
    future: Future[Any]

    @property
    def characters(self) -> int:
        """The length of the texts."""
        return sum(len(document.text) for document in self.documents)


class Writer:
    """The thread and its queues.

    Args:
        keeper: the window; no other thread may use it until ``stop`` returns.
        documents_max: maximum number of waiting documents.
        on_broken: called once, on the writer's thread, when the writer ends because of an error.
        on_step: called with the answers after each step, on the writer's thread.
        on_full: called when the disk is full, on the writer's thread.
    """

    def __init__(
        self,
        keeper: Keeper,
        documents_max: int,
        on_broken: Callable[[], None] = lambda: None,
        on_step: Callable[[list[Answer]], None] = lambda answers: None,
        on_full: Callable[[], None] = lambda: None,
    ) -> None:
        self._keeper, self._documents_max, self._on_full = keeper, documents_max, on_full
        self._on_broken, self._on_step = on_broken, on_step
        self._queues: tuple[deque[_Work], deque[_Work]] = (deque(), deque())
        self._changed = threading.Condition()
        self._stopping = False
        self.waiting = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="writer")
        self._thread.start()

    def check(self, documents: list[Document], *, batch: bool = False) -> Future[list[Answer]]:
        """Decide and add at most ``STEP_DOCUMENTS`` documents; ``batch`` queues them after all single ones. Raises
        ``Busy``."""
        return self._submit(_Work(documents, None, Future()), batch)

    def call(self, function: Callable[[Keeper], Any], *, batch: bool = False) -> Future[Any]:
        """Call a function with the keeper. Raises ``Busy``."""
        return self._submit(_Work([], function, Future()), batch)

    def _submit(self, work: _Work, batch: bool) -> Future[Any]:
        count = max(len(work.documents), 1)
        with self._changed:
            if self.error is not None or self._stopping:
                raise Broken("the writer has ended")
            if self.waiting + count > self._documents_max:
                raise Busy(f"{self.waiting:,} documents wait")
            self.waiting += count
            self._queues[batch].append(work)
            self._changed.notify()
        return work.future

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

    def _run(self) -> None:
        while taken := self._take():
            try:
                self._process(taken)
            except BaseException as error:
                logging.getLogger(__name__).critical("the writer ends: %s", error, exc_info=error)
                self._break(error, taken)
                self._on_broken()
                return

    def _take(self) -> list[_Work]:
        """Return the work of the next step; empty when the writer has stopped and the queues are empty."""
        with self._changed:
            while not any(self._queues) and not self._stopping:
                self._changed.wait()
            taken: list[_Work] = []
            documents = characters = 0
            for queue in self._queues:
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
            return taken

    def _process(self, taken: list[_Work]) -> None:
        running = [work for work in taken if work.future.set_running_or_notify_cancel()]
        if not running:
            return
        try:
            if running[0].call:
                running[0].future.set_result(running[0].call(self._keeper))
                return
            answers = self._keeper.check([document for work in running for document in work.documents])
        except StoreFull as full:
            self._on_full()
            for work in running:
                work.future.set_exception(full)
            return
        self._on_step(answers)
        first = 0
        for work in running:
            work.future.set_result(answers[first : first + len(work.documents)])
            first += len(work.documents)

    def _break(self, error: BaseException, taken: list[_Work]) -> None:
        with self._changed:
            self.error = error
            waiting = [work for queue in self._queues for work in queue]
        for work in [*taken, *waiting]:
            if not work.future.done():
                work.future.set_exception(Broken("the writer has ended"))
