"""Compiles the kernels of a service or a worker before its first document, or loads them from disk.

A kernel is compiled at its first call, which takes seconds, and everything else waits. So what may come is tried here
on texts of each kind: ASCII, two and four bytes a character, marks and signs that expand, a lone surrogate, copies,
what is refused, and a step that is undone.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from neardup.stream import Config, Deduplicator, Document
from neardup.stream.batches import bucket_keys, select, table_items
from neardup.stream.pipeline import Matcher, Signer
from neardup.stream.schemes import SCHEMES
from neardup.stream.table import again
from neardup.stream.verdicts.decider import Decider

_TEXTS = (
    "a text to compile the kernels with, which is long enough for a pair in words: " + "one more word " * 9,
    "a text to compile the kernels with, which is long enough for a pair in words: " + "one more word " * 9 + "here",
    "ein Text, der die Kerne übersetzen läßt, größer",
    "a text to compile the kernels with — 漢字, \U0001f600",
    "\u1112\u1161\u11ab\u1100\u1173\u11af e\u0301\u0323 \ufdfa \u0915\u093c compose, expand and reorder",
    "a lone surrogate \ud800 is one, too",
)


class _Undone(Exception):
    """Ends a step that must leave no trace."""


def samples(config: Config) -> list[Document]:
    """Return documents that together call every kernel that signs for these settings.

    Args:
        config: the settings. A scheme of texts gets texts of each kind; another one the samples of its own.

    Returns:
        Documents with ids of their own, the first content twice, at the time 0.
    """
    scheme = SCHEMES[config.scheme]
    made = [scheme.sample(text, config.plan) for text in _TEXTS if text.isascii() and text]
    if config.plan.kind == "text":
        made = [sample._replace(text=text) for sample in made[:1] for text in _TEXTS]
    return [sample._replace(id=str(i), timestamp=0.0) for i, sample in enumerate([*made, made[0]])]


def warm(config: Config) -> None:
    """Compile all kernels that a service calls, or load them from disk.

    Args:
        config: the settings of the service.
    """
    documents, scheme = samples(config), SCHEMES[config.scheme]
    dedup = Deduplicator(config, canaries_every=1)
    dedup.decide(documents)
    dedup.decide(documents[:1])
    dedup.probe(documents)
    dedup.explain("0", "1")
    if config.tuning.bands or scheme.exact:  # these can rank
        dedup.nearest(documents, 1)
    dedup.remove("0")
    signed = Signer(config).sign(documents)
    first = select(signed.batch, np.arange(1))
    items = table_items(first, bucket_keys(first, config))
    again.found_again(dedup.matcher.table, items, 0)
    again.copies(dedup.matcher.table, items, 0)
    decider = Decider(Matcher(config))
    with suppress(_Undone), decider.step():
        for _ in decider.decide(documents, signed):
            pass
        raise _Undone
