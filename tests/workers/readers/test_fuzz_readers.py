"""A few hundred mutated inputs for each reader; ``fuzz_readers.py`` runs more."""

import pytest
from fuzz_readers import READERS, run


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_known_results_for_mutated_inputs(name):
    """No exception, no hang, no memory beyond its bound; and the inputs are not all refused alike."""
    kinds = run(name, seed=2, first=0, inputs=300)
    assert len(kinds) >= 2
