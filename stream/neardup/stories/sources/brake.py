"""The brake: an hour in which a source repeated itself, unlike in the week before.

Such an hour is a block page, a template or an extractor that fails. Documents without a source have nothing in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from neardup.stories.sources.accounts import DOCUMENTS, NO_HOUR, OWN

# So many documents of a source in an hour, of which so many percent are duplicates of other ids of the source.
REPEATED_DOCUMENTS, REPEATED_PERCENT, WEEK_HOURS = 200, 95, 168


def is_repeated(counts: Sequence[int]) -> bool:
    """Return whether an account is one of a source that repeats itself, whatever its week before was."""
    documents, own = counts[DOCUMENTS], counts[OWN]
    return documents >= REPEATED_DOCUMENTS and 100 * own >= REPEATED_PERCENT * documents


def repeated(name: str, hour: int, counts: Sequence[int], week: Sequence[int]) -> dict[str, Any] | None:
    """Return an hour in which a source repeated itself, ``None`` if its week before was like that; ``week``: documents
    of the week, and those that repeated the source."""
    documents, own = counts[DOCUMENTS], counts[OWN]
    if week[0] and 2 * week[1] * documents >= own * week[0]:
        return None
    return {"source": name, "hour": None if hour == NO_HOUR else hour * 3600, "documents": documents, "repeated": own}


def sentence(one: Mapping[str, Any]) -> str:
    """Say what ``repeated`` has found, and where to look."""
    hour = one["hour"]
    when = "without a time"
    if hour is not None:
        when = f"in the hour of {datetime.fromtimestamp(hour, UTC):%Y-%m-%d %H:%M} UTC"
    return (
        f"{one['repeated']:,} of {one['documents']:,} documents of {one['source']} {when} are duplicates of others of "
        "the same source: look whether they are a block page, a template or what an extractor leaves"
    )
