"""The order of tokens of scheme prefix, learned from a sample such as the first documents of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Document
from neardup.features.tokens.bags import sorted_sets
from neardup.features.tokens.token_order import NO_FREQUENCIES, TokenOrder, counted, most_frequent
from neardup.pairs.values import wrong_values
from neardup.schemes.kinds.prefix import PrefixOptions
from neardup.schemes.rows import SCHEMES
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.settings.files import Settings

# Tokens counted between two merges of all counters: in 32 MiB.
_TOKENS_A_MERGE = 1 << 22
_COUNTERS_EACH = 16
# The sample of a run without an order. It has nearly every token that at least a thousandth of the documents have, and
# learning takes a second or two.
_AHEAD_DOCUMENTS_MAX, _AHEAD_CHARACTERS_MAX = 2_000, 8_000_000
_AHEAD_TOKENS = 1 << 16


def with_order(
    session: Session, paths: Sequence[str], settings: Settings, *, follow: bool = False, window_files: bool = False
) -> Settings:
    """Return the settings with an order of tokens, learned from the first documents of ``paths`` if scheme prefix has
    no order.

    It reads ahead at most ``_AHEAD_DOCUMENTS_MAX`` documents or ``_AHEAD_CHARACTERS_MAX`` characters, and only
    available input. With ``window_files`` it keeps the order of hashes: a window is read with the order with which it
    was written.
    """
    if settings.scheme != "prefix" or cast(PrefixOptions, settings.scheme_options).token_order is not None:
        return settings
    if window_files:
        session.notes.append(
            "scheme prefix indexes by the hashes of tokens, because a window file needs one order for all runs: "
            "--scheme prefix:token_order=FILE with a file of neardup learn-order is many times as fast"
        )
        return settings
    documents: list[Document] = []
    characters = 0
    for chunk in session.look_ahead(paths, follow=follow):
        documents += chunk.documents if chunk is not None else []
        characters += sum(len(document.text) for document in chunk.documents) if chunk is not None else 0
        enough = len(documents) >= _AHEAD_DOCUMENTS_MAX or characters >= _AHEAD_CHARACTERS_MAX
        if enough or (chunk is None and documents):
            break
    wrong = wrong_values(documents, settings.plan.kind, separate=settings.separate)
    good = [one for position, one in enumerate(documents) if position not in wrong]
    sets = sorted_sets(*SCHEMES["prefix"].features(good, settings.plan).features)[0]
    tokens = frequent([sets], _AHEAD_TOKENS)
    session.notes.append(
        f"scheme prefix indexes by an order of {len(tokens):,} tokens, learned from the first {len(good):,} documents; "
        "--scheme prefix:token_order=FILE takes one that neardup learn-order made"
    )
    given = dict(cast(PrefixOptions, settings.scheme_options))
    return settings.model_copy(update={"scheme_options": {**given, "token_order": TokenOrder(tokens)}})


def frequent(sets: Iterable[npt.NDArray[np.uint64]], tokens_max: int) -> npt.NDArray[np.uint64]:
    """Return the ``tokens_max`` most frequent tokens of sets of tokens."""
    frequencies, waiting, count = NO_FREQUENCIES, [], 0
    for values in sets:
        waiting.append(values)
        count += len(values)
        if count >= _TOKENS_A_MERGE:
            frequencies = counted(frequencies, np.concatenate(waiting), _COUNTERS_EACH * tokens_max)
            waiting, count = [], 0
    if waiting:
        frequencies = counted(frequencies, np.concatenate(waiting), _COUNTERS_EACH * tokens_max)
    return most_frequent(frequencies, tokens_max)
