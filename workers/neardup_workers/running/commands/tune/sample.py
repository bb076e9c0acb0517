"""``neardup tune --sample``: advises a shingle length and a threshold from a sample of documents."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from neardup.documents.document import Document
from neardup.features.shingle_length import SampleSummary, Similarity, enough, expected, measured, safe, sampled
from neardup.features.texts.normalize import NormalForm, code_points
from neardup.pairs.signing import Signer
from neardup.schemes.rows import SCHEMES
from neardup.schemes.shortfall import recall_of
from neardup_workers.doing.session.table_bytes import table_bytes
from neardup_workers.doing.session.whole import whole
from neardup_workers.outside.display.printing import facts, print_found, table_of
from neardup_workers.outside.process.compiling import Compiling, say
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.files import Settings, fields_of
from neardup_workers.running.commands.tune import thresholds

# Maximum documents and characters of a sample: a few seconds of work.
SAMPLE_DOCUMENTS_MAX, SAMPLE_CHARACTERS_MAX = 10_000, 20_000_000
# Lengths measured below and above the advised ones.
_LENGTHS_AROUND = 2


def show(settings: Settings, paths: Sequence[str], *, as_json: bool) -> None:
    """Print the advice of a sample.

    Raises:
        Failure: a path cannot be read.
        ConfigError: there is no text.
    """
    if fields_of(settings).kind != "text":
        raise Failure(
            Exit.USAGE, f"--sample is about shingles of texts, but {settings.scheme} takes none: leave it out"
        )
    with Compiling(say):
        _show(settings, list(_documents(settings, paths)), as_json=as_json)


def _show(settings: Settings, documents: Sequence[Document], *, as_json: bool) -> None:
    values, tables = ({}, []) if SCHEMES[settings.scheme].shared else _shingles(settings, documents)
    cost, keys = _cost(settings, documents)
    rows = [
        ("keys", f"{cost['keys']:,.1f}", "of a document, on average"),
        ("memory", f"{cost['bytes']:,.0f} bytes", "of a document in the window, with its keys and its id"),
        ("signing", f"{cost['microseconds']:,.1f} microseconds", "of a document on this machine, in one thread"),
    ]
    values |= cost
    if SCHEMES[settings.scheme].partial:
        recall = recall_of(settings.tuning, np.bincount(keys, minlength=settings.tuning.bands + 1))
        values["recall_at_threshold"] = recall
        promised = settings.recall_promised
        remedy = "" if recall >= promised else f"; not {promised:.3g}: use one_permutation"
        rows.append(("recall", f"{recall:.3f}", f"at the threshold, at most{remedy}"))
    tables.append(facts(f"Scheme {settings.scheme}, for documents of these sizes", rows))
    found = thresholds.around(thresholds.Compared(settings, documents))
    values["thresholds"] = thresholds.summary(found)
    tables += thresholds.tables(found, documents)
    print_found(values, tables, as_json=as_json)


def _shingles(settings: Settings, documents: Sequence[Document]) -> tuple[dict[str, Any], list[Table]]:
    """Return the advice for the length of a shingle; schemes that find where texts share something take none."""
    codes = code_points([document.text for document in documents], NormalForm.of(settings.fold))
    sample = sampled(codes)
    least, most = enough(*sample[1:]), safe(*sample[1:])
    similarities = measured(codes, range(max(least - _LENGTHS_AROUND, 1), most + _LENGTHS_AROUND))
    return summary(sample, similarities), [_advice(sample, similarities), _lengths(sample, similarities)]


def summary(sample: SampleSummary, similarities: list[Similarity]) -> dict[str, Any]:
    """Return the advice as plain values."""
    lengths = [
        {**row._asdict(), "in_a_document": expected(row.k, sample.characters, sample.alphabet)} for row in similarities
    ]
    return {
        "documents": sample.documents,
        "characters_median": sample.characters,
        "alphabet": sample.alphabet,
        "k_enough": enough(*sample[1:]),
        "k_safe": safe(*sample[1:]),
        "lengths": lengths,
    }


def _cost(settings: Settings, documents: Sequence[Document]) -> tuple[dict[str, float], npt.NDArray[np.int64]]:
    """Return keys, bytes in the window and microseconds of signing of a document, on average; and the keys of each."""
    signer = Signer(settings)
    signer.sign(documents[:2])  # compiles
    start = time.perf_counter()
    batch = signer.sign(documents).batch
    seconds = time.perf_counter() - start
    keys = SCHEMES[settings.scheme].keys(batch.evidence, settings.plan).counts_added
    count = max(batch.size, 1)
    held = table_bytes(settings, batch) if batch.size else 0.0
    cost = {"keys": float(keys.sum()) / count, "bytes": held, "microseconds": 1e6 * seconds / count}
    return cost, keys


def _documents(settings: Settings, paths: Sequence[str]) -> Iterator[Document]:
    """Yield documents up to the maximum; refused input is skipped."""
    count = characters = 0
    with whole(settings, paths) as session:
        for document in session.documents(paths):
            yield document
            count, characters = count + 1, characters + len(document.text)
            if count >= SAMPLE_DOCUMENTS_MAX or characters >= SAMPLE_CHARACTERS_MAX:
                return


def _advice(sample: SampleSummary, similarities: list[Similarity]) -> Table:
    longest = safe(*sample[1:])
    sharing = next((f"; {row.sharing:.0%} do in the sample" for row in similarities if row.k == longest), "")
    return facts(
        "Characters a shingle, for documents like these",
        [
            ("documents", f"{sample.documents:,}", "read"),
            ("length", f"{sample.characters:,.0f}", "characters in the median, normalised"),
            ("alphabet", f"{sample.alphabet:.1f}", "characters, if all were equally likely"),
            ("enough", f"--k {enough(*sample[1:])}", "a shingle is in a document with 1 in 1,000 at most"),
            ("safe", f"--k {longest}", f"of 100 pairs 1 shares a shingle if characters were independent{sharing}"),
        ],
    )


def _lengths(sample: SampleSummary, similarities: list[Similarity]) -> Table:
    chances = (expected(one.k, sample.characters, sample.alphabet) for one in similarities)
    return table_of(
        ("k", "a shingle is in a document", "half the pairs up to", "nine in ten up to", "share one"),
        [
            (f"{k}", f"{chance:.2g}", f"{median:.3f}", f"{upper:.3f}", f"{sharing:.0%}")
            for chance, (k, median, upper, sharing) in zip(chances, similarities, strict=True)
        ],
        title="With shingles of k characters",
        caption="Language repeats itself: the last three columns are measured, on pairs of the sample.",
    )
