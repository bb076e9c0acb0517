"""Signatures and bucket keys of documents as columns, to look similar documents up with SQL."""

from __future__ import annotations

from hashlib import blake2b
from itertools import product
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from neardup.errors import ConfigError
from neardup.pairs.batches import Batch, bucket_keys, id_columns, make_batch
from neardup.pairs.json_lines import Fields
from neardup.pairs.signing import Signed, Signer
from neardup.schemes.config import Config, checked
from neardup.schemes.interface import fixed_evidence
from neardup.schemes.rows import SCHEMES
from neardup.schemes.signatures.banding import ROW_TYPES
from neardup.stories.arrow.columns import DocumentRows, load_pyarrow
from neardup.stories.arrow.tables import ArrowTable, Documents, RowNumbers, signer_of_rows
from neardup.window import NO_TIME


def sign_table(
    table: object,
    config: Config | None = None,
    *,
    id_field: str = "id",
    text_field: str = "text",
    timestamp_field: str = "timestamp",
    timestamp_unit: str = "s",
) -> ArrowTable:
    """The signatures and the bucket keys of the rows of a table, as columns; adds the rows to no window.

    Two documents are candidates if one of their keys is equal, which is the case if all rows of its band are: in SQL
    ``band_1 = ... OR band_2 = ...``, or ``(band_1_row_1 = ... AND band_1_row_2 = ...) OR ...``.

    Args:
        table, id_field, text_field, timestamp_field, timestamp_unit: as for ``Deduplicator.decide_table``.
        config: scheme, shingles, bands and rows; ``Config()`` by default.

    Returns:
        A ``pyarrow.Table`` with a row for each row of ``table``, in order: the column of ids; ``band_1`` and so on,
        the keys (``uint64``); ``band_1_row_1`` and so on, the rows of the signature as the sketch stores them
        (``uint8``, ``uint16`` or ``uint32``). They are null for a refused row.

    Raises:
        ConfigError: the scheme has no signature of rows in bands; a column is missing or of a wrong type; pyarrow is
            not installed.

    Source: Mining of Massive Datasets, 3.4.1.

    >>> import pyarrow
    >>> signed = sign_table(pyarrow.table({"id": [1, 2], "text": ["the same text", "The same  text"]}))
    >>> one, other = signed.to_pylist()
    >>> signed.column_names[0], signed.num_columns, one["band_18"] == other["band_18"]
    ('id', 145, True)
    """
    config = Config() if config is None else checked(config)
    tuning = config.tuning
    _check(config)
    fields = Fields(
        id_field, text_field, timestamp_field, timestamp_unit=timestamp_unit, collection=config.collection_field
    )
    pa, sign = load_pyarrow(), signer_of_rows(Signer(config))
    documents = Documents(table, fields, RowNumbers(lambda: 0))
    bands, row_type = range(1, tuning.bands + 1), pa.from_numpy_dtype(ROW_TYPES[tuning.sketch_bits])
    schema = pa.schema([
        documents.id_field,
        *(pa.field(f"band_{band}", pa.uint64()) for band in bands),
        *(pa.field(name, row_type) for name in _row_names(config)),
    ])  # fmt: skip
    parts = [pa.record_batch(_columns(rows, sign(rows, documents.unread), config), schema) for rows in documents]
    signed: ArrowTable = pa.Table.from_batches(parts, schema)
    return signed


def batch_of_signatures(table: ArrowTable, config: Config | None = None, *, id_field: str = "id") -> Batch:
    """Return signatures as a batch that a ``Matcher`` takes: what ``sign_table`` made, or another program.

    Documents of equal signatures count as copies. Rows of refused documents, which are null, are left out.

    Args:
        table: a ``pyarrow.Table`` with the columns of ids, and ``band_1_row_1`` and so on; keys follow from them.
        config: under which the rows were made, or with as many bands and rows.
        id_field: the column of ids.

    Raises:
        ConfigError: the scheme has no such signature, or keeps more than that; the table lacks a column.

    >>> import pyarrow
    >>> signed = sign_table(pyarrow.table({"id": ["a", "b"], "text": ["the same text", "The same  text"]}))
    >>> batch_of_signatures(signed).ids_at(np.arange(2))
    ['a', 'b']
    """
    config = Config() if config is None else checked(config)
    _check(config)
    names, given = _row_names(config), cast(Any, table)
    if missing := [name for name in (id_field, *names) if name not in given.column_names]:
        raise ConfigError(f"the table of signatures has no column {missing[0]}: give the bands and rows of the signer")
    present = given.filter(given[names[0]].is_valid())
    stored = np.dtype(ROW_TYPES[config.tuning.sketch_bits]).newbyteorder("<")
    rows = np.column_stack([present[name].to_numpy().astype(stored) for name in names])
    fixed = rows.view(np.uint8).reshape(len(rows), -1)
    if fixed.shape[1] != config.plan.width or config.verify != "sketch":
        raise ConfigError("a signature is not all that is compared here: set verify to sketch")
    contents = b"".join(blake2b(row.tobytes(), digest_size=16).digest() for row in fixed)
    ids = id_columns([str(id_).encode() for id_ in present[id_field].to_pylist()])
    hashes = np.frombuffer(contents, np.uint64).reshape(-1, 2)
    return make_batch(*ids, np.full(len(rows), NO_TIME), hashes, fixed_evidence(fixed))


def _check(config: Config) -> None:
    if config.plan.kind != "text" or config.tuning.sketch_bits not in ROW_TYPES or SCHEMES[config.scheme].partial:
        raise ConfigError(
            f"scheme {config.scheme} has no signature of a text with rows in bands: use one_permutation, minhash or "
            "permutation"
        )


def _row_names(config: Config) -> list[str]:
    bands, rows = (range(1, count + 1) for count in (config.tuning.bands, config.tuning.rows))
    return [f"band_{band}_row_{row}" for band, row in product(bands, rows)]


def _columns(rows: DocumentRows, signed: Signed, config: Config) -> list[Any]:
    """Return the ids, the keys and the rows of the signatures of some documents, column by column."""
    pa, tuning, batch = load_pyarrow(), config.tuning, signed.batch
    accepted = np.delete(np.arange(len(rows)), [refusal.position for refusal in signed.refusals])
    width = tuning.bands * tuning.rows * tuning.sketch_bits // 8
    stored = np.ascontiguousarray(batch.fixed[:, :width]).view(np.dtype(ROW_TYPES[tuning.sketch_bits]))
    found = bucket_keys(batch, config)
    keys = found.values[found.starts[:-1, None] + np.arange(tuning.bands)]
    absent = np.ones(len(rows), np.bool_)
    absent[accepted] = False

    def spread(values: npt.NDArray[Any]) -> Any:
        out = np.zeros(len(rows), values.dtype)
        out[accepted] = values
        return pa.array(out, mask=absent)

    return [rows.ids, *map(spread, keys.T), *map(spread, stored.T)]
