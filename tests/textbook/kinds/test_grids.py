"""The grid scheme: fingerprints as sets of squares, refused or found."""

import hashlib

import numpy as np
import pytest

from neardup import Config, Deduplicator, Document, Signer
from neardup.errors import ConfigError
from neardup.schemes.rows import SCHEMES
from neardup_textbook.kinds.grid_functions import candidate_probability

ROW = SCHEMES["grid"]
# First keys, last key, their number, 64 bits of a digest of the evidence, the content.
KNOWN = (7501404611773842998, 4782871952789381310, 22, "261f0755042122c7", [14156941259490212491, 10318060777763148338])


def config(**settings):
    return Config(scheme="grid", **settings)


def documents(*fingerprints):
    return [Document(str(n), tokens=squares) for n, squares in enumerate(fingerprints)]


def test_fingerprints_of_one_finger_are_found_as_often_as_the_law_says():
    """And prints of different fingers are compared as seldom: 300 fingers of 1,000 squares, each seen twice."""
    rng = np.random.default_rng(8)
    fingers = rng.random((300, 1000)) < 0.2
    again = np.where(fingers, rng.random(fingers.shape) < 0.8, rng.random(fingers.shape) < 0.05)
    fingerprints = documents(*(np.flatnonzero(row) for row in np.concatenate([fingers, again])))
    settings = {"bucket_candidates_max": 2**20, "threshold": 0.5}
    for groups in (1, 2):
        dedup = Deduplicator(config(scheme_options={"groups": groups}, **settings))
        pairs = dedup.process(fingerprints)
        assert {int(p.newer) - int(p.older) for p in pairs} == {300}
        expected = candidate_probability(0.16, 1000, groups, 1024, 3)
        assert abs(len(pairs) / 300 - expected) < 4 * (expected * (1 - expected) / 300) ** 0.5
        met = Deduplicator(config(scheme_options={"groups": groups}, **settings), candidates=True).process(fingerprints)
        others, expected = 600 * 599 / 2 - 300, candidate_probability(0.04, 1000, groups, 1024, 3)
        # Pairs of one print are not independent: what one has in common with all others varies with its squares.
        assert len(met) - len(pairs) == pytest.approx(others * expected, rel=0.15)


def test_the_similarity_equals_that_of_the_sets():
    """Jaccard similarity; the order and the repetition of squares make no difference."""
    pairs = Deduplicator(config(scheme_options={"squares": 20})).process(documents([1, 2, 3, 4, 5], [5, 4, 4, 3, 2]))
    assert [(pair.older, pair.newer, pair.similarity) for pair in pairs] == [("0", "1", 0.8)]


def test_equal_sets_are_one_content():
    """A fingerprint without a function still finds its copies."""
    pairs = Deduplicator(config(scheme_options={"functions": 1})).process(documents([7], [7, 7], [8]))
    assert [(pair.older, pair.newer, pair.similarity) for pair in pairs] == [("0", "1", 1.0)]


@pytest.mark.parametrize(
    ("squares", "reason"),
    [
        (None, "no_square"), ([], "no_square"), ([20], "square_range"), ([3, -1], "square_range"),
        (["3"], "square_range"), ([2**70], "square_range"), ({"3": 1.0}, "square_range"), ([1.5], "square_range"),
    ],
)  # fmt: skip
def test_sets_that_are_no_squares_of_the_grid_are_refused(squares, reason):
    """Each has its reason; the documents around it are signed."""
    signed = Signer(config(scheme_options={"squares": 20})).sign(documents([1], squares, [19]))
    assert [tuple(refusal) for refusal in signed.refusals] == [(1, "1", reason)]
    assert signed.batch.size == 2


def test_contents_tell_sets_apart():
    """All sets of few squares have different contents, although many have the same sum."""
    sets = [[a, b, c] for a in range(12) for b in range(a) for c in range(b)] + [[a] for a in range(40)]
    batch = Signer(config()).sign(documents(*sets)).batch
    assert len(np.unique(batch.contents[:, 0])) == len(np.unique(batch.contents[:, 1])) == len(sets)


def test_a_print_has_known_keys_and_evidence():
    """A change of any hash is noticed here: then ``SIGNING_VERSION`` goes up."""
    conf = config()
    batch = Signer(conf).sign(documents(range(0, 1000, 4))).batch
    keys = ROW.keys(batch.evidence, conf.plan).values.tolist()
    digest = hashlib.blake2b(batch.fixed.tobytes(), digest_size=8).hexdigest()
    assert (keys[0], keys[-1], len(keys), digest, batch.contents[0].tolist()) == KNOWN


def test_functions_larger_than_the_grid_are_refused():
    """The configuration raises the error."""
    with pytest.raises(ConfigError, match="grid:function_squares=3 is more than squares=2"):
        config(scheme_options={"squares": 2})
