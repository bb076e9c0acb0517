"""What the laws do once instead of often: a stream is drawn once, and one of several sizes stands for all."""

from __future__ import annotations

import os
import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from neardup import Document

T = TypeVar("T")
Stream = Callable[..., list[Document]]

# Streams of a case: all three in ``make torture``.
SEEDS = int(os.environ.get("NEARDUP_LAW_SEEDS", "1"))
REMEMBERED = 400  # streams of some hundred documents


def some_of(values: Sequence[T], turn: int) -> Sequence[T]:
    """One of several sizes of a law, by the number of the case, so that the cases together have all; all of them in
    ``make torture``."""
    return values if SEEDS > 1 else [values[turn % len(values)]]


def remembered(stream: Stream) -> Stream:
    """A stream that another law or case has drawn from the same state of the generator is not drawn again.

    The generator goes on from where the stream left it.
    """
    known: OrderedDict[tuple[Any, ...], tuple[list[Document], Any]] = OrderedDict()

    @wraps(stream)
    def drawn(rng: random.Random, size: int, **settings: Any) -> list[Document]:
        place = rng.getstate(), size, *sorted(settings.items())
        if place in known:
            known.move_to_end(place)
        else:
            documents = stream(rng, size, **settings)
            known[place] = documents, rng.getstate()
            if len(known) > REMEMBERED:
                known.popitem(last=False)
        documents, state = known[place]
        rng.setstate(state)
        return list(documents)

    return drawn
