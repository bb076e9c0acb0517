"""What documents take in a table, as they fill one."""

from __future__ import annotations

import numpy as np

from neardup.pairs.batches import Batch
from neardup.pairs.pipeline import Matcher
from neardup.pairs.shards import stream_rows
from neardup.schemes.config import Config
from neardup.window.steps import step

_SEED = 25
# Rows of the table of a sample: enough to fill its pages, few enough for a second and a fraction of a gigabyte.
_ROWS_MAX, _TABLE_BYTES = 100_000, 128 << 20
_KEY_BYTES = 16  # about


def table_bytes(settings: Config, batch: Batch) -> float:
    """Return the bytes of one of these documents in a table, with its keys and its id: they are added several times,
    with other keys."""
    rng = np.random.default_rng(_SEED)
    table, items = Matcher(settings).table, stream_rows(batch, settings).items
    keys = len(items.keys) / batch.size
    rows = min(
        _ROWS_MAX, int(_TABLE_BYTES / (len(batch.ragged) / batch.size + settings.plan.width + _KEY_BYTES * keys))
    )
    with step(table):
        for _ in range(max(1, rows // batch.size)):
            other = rng.integers(1 << 63, dtype=np.uint64)
            table.probe_add(items._replace(keys=items.keys ^ other, contents=items.contents ^ other), probe=False)
    return table.memory_bytes()[0] / table.documents
