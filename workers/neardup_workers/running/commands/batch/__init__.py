"""``neardup batch``: the pairs of a corpus at rest."""
