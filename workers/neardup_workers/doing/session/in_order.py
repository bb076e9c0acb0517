"""Chunks signed side by side, and answered one by one in the order of the input."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TypeVar

Chunk = TypeVar("Chunk")
Signed = TypeVar("Signed")
Answer = TypeVar("Answer")


def in_order(
    chunks: Iterable[Chunk | None],
    sign: Callable[[Chunk], Signed],
    threads: int,
    answer: Callable[[Chunk, Future[Signed]], Answer],
) -> Iterator[tuple[Chunk, Answer]]:
    """Yield chunks, signed on so many threads, with their answers, in order; at ``None``, first finish all chunks in
    progress.

    ``answer`` is called on one more thread, for one chunk after the other; behind an error for none.
    """
    pending: deque[tuple[Chunk, Future[Answer]]] = deque()
    ended = False

    def answer_unless_ended(chunk: Chunk, signed: Future[Signed]) -> Answer:
        nonlocal ended
        if ended:
            raise CancelledError
        try:
            return answer(chunk, signed)
        except BaseException:
            ended = True
            raise

    with ThreadPoolExecutor(1, "answers") as one, ThreadPoolExecutor(threads, "signer") as pool:
        try:
            for chunk in chunks:
                if chunk is not None:
                    pending.append((chunk, one.submit(answer_unless_ended, chunk, pool.submit(sign, chunk))))
                while pending and (chunk is None or len(pending) > 2 * threads or pending[0][1].done()):
                    first, answered = pending.popleft()
                    yield first, answered.result()
            for first, answered in pending:
                yield first, answered.result()
        finally:
            ended = True
