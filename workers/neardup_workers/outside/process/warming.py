"""Compiles the kernels of a service or a worker before its first document, or loads them from disk.

A kernel is compiled at its first call, which takes seconds, and everything else waits. So what may come is tried here
on the constant texts, which are of each kind, on copies, on what is refused, and on a step that is undone.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from neardup import Config, Deduplicator
from neardup.pairs.batches import batch_items, select
from neardup.pairs.pipeline import Matcher
from neardup.pairs.signing import Signer
from neardup.pairs.values import times_of
from neardup.schemes.rows import SCHEMES
from neardup.stories.sources.reports import read, refusals
from neardup.stories.verdicts.decider import Decider
from neardup.stories.windows.constant_texts import samples
from neardup.window import again


class _Undone(Exception):
    """Ends a step that must leave no trace."""


def warm(config: Config) -> None:
    """Compile all kernels that a service calls, or load them from disk."""
    documents, scheme = samples(config), SCHEMES[config.scheme]
    dedup = Deduplicator(config, canaries_every=1)
    for _ in range(2):  # the second time unchanged versions; and enough for a look of canaries
        dedup.decide(documents)
    dedup.probe(documents)
    dedup.explain("0", "1")
    if config.tuning.bands or scheme.exact:  # these can rank
        dedup.nearest(documents, 1)
    dedup.remove("0")
    dedup.matcher.table.memory_bytes()  # asks where postings begin, as a step does from which documents leave
    times_of([documents[0]._replace(timestamp=0.0)])  # documents that are read one by one
    read(refusals([""], 0))  # as the ledger of sources does
    signer = Signer(config)
    for document in documents:  # texts in ASCII alone are signed by a kernel of their own
        signer.sign([document])
    signed = signer.sign(documents)
    first = select(signed.batch, np.arange(1))
    items = batch_items(first, config)
    again.found_again(dedup.matcher.table, items, 0)
    again.copies(dedup.matcher.table, items, 0)
    decider = Decider(Matcher(config))
    with suppress(_Undone), decider.step:
        for given, ready in ((documents[:1], signer.sign(documents[:1])), (documents, signed)):
            decider.decide(given, ready)  # a single document is found and decided in one call
            decider.story_changes()
        decider.decisions.contents_between(0, 0)  # of documents that leave
        raise _Undone
