"""The rule of verdicts and the table count the same documents, also where memory bounds the table alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from neardup import Config, Document
from neardup.pairs.pipeline import Matcher
from neardup.pairs.signing import Signer
from neardup.stories.verdicts.decider import Decider
from neardup.stories.verdicts.row_columns import COUNTED
from neardup.window.window import bound

LIMITS: tuple[dict[str, int], ...] = ({"items": 3}, {"bytes": 300}, {"window": 5_000_000, "lateness": 1_000_000})
# Documents of a call by their times, and whether the memory of the table is bounded before the next one.
CALLS = st.lists(st.tuples(st.lists(st.integers(0, 12), min_size=1, max_size=4), st.booleans()), min_size=2, max_size=6)


@given(st.sampled_from(LIMITS), st.booleans(), CALLS)
def test_a_step_begins_with_the_rows_that_the_table_holds(limits: dict[str, int], bounds: bool, calls: Any) -> None:
    """With the limits of the settings alone the rule itself has evicted them; ``bound`` is of the table."""
    config = Config(verify="exact")
    signer, matcher = Signer(config), Matcher(config)
    matcher.table.limits = matcher.table.limits._replace(**limits)
    decider, count = Decider(matcher), 0
    for times, is_bounded in calls:
        documents = [Document(f"d{count + n}", f"text {count + n} " * 9, float(t)) for n, t in enumerate(times)]
        decider.decide(documents, signer.sign(documents))
        count += len(documents)
        counted = decider.decisions._columns.state.item(COUNTED)
        assert counted <= matcher.table.oldest
        assert counted == matcher.table.oldest or bounds
        if bounds and is_bounded:
            bound(matcher.table, 1, 1)
        with decider.step:
            assert decider.decisions._columns.state.item(COUNTED) == matcher.table.oldest == decider.decisions.first
