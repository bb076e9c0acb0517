"""Values of every setting of the library and of every option of a scheme: wrong ones, and what others change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from neardup import Config, Document
from neardup.features.tokens.token_order import TokenOrder
from neardup.schemes.rows import SCHEMES

NAN = math.nan
# Field -> values out of its range, or of another type.
WRONG: dict[str, list[Any]] = {
    "scheme": ["minhsh", 5],
    "shingles": ["word", None],
    "one_permutation:shingle_bytes": [2, 16],
    "measure": ["jacard", 5],
    "verify": ["exactly", None],
    "novelty": ["word", None],
    "partial_minhash:groups": [0, 1025],
    "one_permutation:ratings": ["star", None],
    "one_permutation:rating_high_min": [-0.1, 1000.1, NAN],
    "one_permutation:rating_max": [0.9, 1000.1, NAN, True],
    "k": [0, 101, 1.5, "three"],
    "languages": [("xx",), "en"],
    "stop_words": ["the", 5],
    "fold": ["perhaps", ("nfkc", "none"), 2],
    "threshold": [0.04, 1.01, NAN, "high", True],
    "recall": [0.0, 1.0, -1, NAN],
    "min_similarity": [-0.1, 1.1, NAN, False],
    "false_weight": [0, 1, -0.1, NAN],
    "rows_max": [0, 1025],
    "bands": [0, 1025],
    "rows": [0, 1025],
    "seed": [-1, 2**63, True],
    "sketch_bits": [7, 64],
    "characters_min": [-1, 1_000_001],
    "window_seconds": [0, -1, math.inf, NAN],
    "lateness_seconds": [-1, math.inf, NAN],
    "story_seconds_max": [0, -1, math.inf, NAN],
    "window_documents": [0, 2**30 + 1],
    "bucket_candidates_max": [0, 2**20 + 1],
    "probe_candidates_max": [0, 2**30 + 1],
    "buckets_shared_min": [0, 1025],
    "evidence_bytes_max": [0, 2**42 + 1],
    "records:fields": ["name", 5],
    "records:keys": ["name", 5],
    "records:shingled": ["name", 5],
    "records:shingle_k": [0, 101],
    "records:bands": [0, 65],
    "records:rows": [1, 65],
    "records:penalty": [-1, 1e7, NAN],
    "records:missing": [-0.1, 1.1, NAN],
    "records:compared": [-0.1, 1.1, NAN],
    "records:placeholders": ["unknown", 5],
    "records:nicknames": ["english", 5],
    "grid:squares": [0, 65537],
    "grid:functions": [0, 65537],
    "grid:groups": [0, 17],
    "grid:function_squares": [0, 17],
    "hyperplane:dimension": [0, 65537],
    "hyperplane:evidence": ["float64", 5],
    "hyperplane:planes": ["round", None],
    "p_stable:distance_scale": [0, -1, 1e31, NAN],
    "p_stable:segment_width": [0, -1, 1e31, NAN],
    "bit_sampling:component_max": [0, 65536],
    "bit_sampling:distance_scale": [0, -1, 1e31, NAN],
    "hyperplane_dot:norm_max": [0, -1, 1e31, NAN],
    "passages:gram": [1, 101],
    "passages:characters": [1, 10_001],
    "passages:templates": ["a text", 5],
    "passages:part_min": [0.4, 1.1, NAN],
    "parts:score": [5, 1001, NAN],
    "parts:window": [0, 65],
    "parts:spelling": ["old"],
    "parts:templates": ["a text", 5],
    "signals:title": [0, 1.1, NAN],
    "signals:vector": [0, 1.1, NAN],
    "signals:dimension": [0, 65537],
    "signals:model": ["wordlama", 5],
    "signals:picture": [0.5, 1.1, NAN],
    "signals:picture_bits": [7, 4097],
    "signals:record": [0, 1.1, NAN],
    "signals:fields": ["name", 5],
    "signals:keys": ["name", 5],
    "signals:shingled": ["name", 5],
    "signals:penalty": [-1, 1e7, NAN],
    "signals:missing": [-0.1, 1.1, NAN],
    "signals:hours": [0, 1e8, NAN],
    "prefix:token_order": ["order.npy", np.array([1], np.uint64)],
    "identical:positions": [0, 1025],
    "text_characters_max": [0, 2**28 + 1],
    "collection_field": [0],
}
# A shingle of the documents below.
AGAIN = SCHEMES["prefix"].features([Document("", "again")], Config(scheme="prefix").plan).features.values
# Field -> another value, and the fingerprints that it changes.
CHANGES: dict[str, tuple[Any, set[str]]] = {
    "scheme": ("minhash", {"signing"}),
    "shingles": ("words", {"signing"}),
    "one_permutation:shingle_bytes": (4, {"signing"}),
    "measure": ("jaccard_bag", {"signing", "matching"}),
    "verify": ("exact", {"signing", "matching"}),
    "novelty": ("words", {"signing"}),
    "partial_minhash:groups": (4, {"signing"}),
    "one_permutation:ratings": ("liked_hated", {"signing"}),
    "one_permutation:rating_high_min": (4.0, {"signing"}),
    "one_permutation:rating_max": (4.0, {"signing"}),  # which ratings are refused
    "k": (7, {"signing"}),
    "languages": (("de", "en"), set()),  # but see the stopwords shingles below
    "stop_words": (("The", "for"), {"signing"}),
    "fold": (("case", "space"), {"signing"}),
    "threshold": (0.9, {"signing", "matching"}),
    "recall": (0.99, {"signing", "matching"}),
    "min_similarity": (0.6, {"matching"}),
    "false_weight": (0.5, {"signing", "matching"}),
    "rows_max": (64, {"signing", "matching"}),
    "bands": (16, {"signing", "matching"}),
    "rows": (6, {"signing", "matching"}),
    "seed": (2, {"signing"}),
    "sketch_bits": (16, {"signing", "matching"}),
    "characters_min": (60, {"signing"}),
    "window_seconds": (60.0, {"matching"}),
    "lateness_seconds": (5.0, {"matching"}),
    "story_seconds_max": (86_400.0, set()),
    "window_documents": (10, {"matching"}),
    "bucket_candidates_max": (9, {"matching"}),
    "probe_candidates_max": (9, {"matching"}),
    "buckets_shared_min": (2, {"signing", "matching"}),
    "evidence_bytes_max": (1 << 20, {"matching"}),
    "records:fields": (("name:50", "phone", "address"), {"signing", "matching"}),
    "records:keys": (("name+phone",), {"signing"}),
    "records:shingled": (("name",), {"signing"}),
    "records:shingle_k": (4, {"signing"}),
    "records:bands": (8, {"signing"}),
    "records:rows": (3, {"signing"}),
    "records:penalty": (1.0, {"matching"}),
    "records:missing": (0.0, {"matching"}),
    "records:compared": (0.9, {"matching"}),
    "records:placeholders": (("bill smith",), {"signing"}),
    "records:nicknames": (("bill=william",), {"matching"}),
    "grid:squares": (900, {"signing"}),
    "grid:functions": (1000, {"signing"}),
    "grid:groups": (1, {"matching"}),  # only the first group decides keys
    "grid:function_squares": (2, {"signing"}),
    "hyperplane:dimension": (4, {"signing"}),
    "hyperplane:evidence": ("float16", {"signing"}),
    "hyperplane:planes": ("signs", {"signing"}),
    "p_stable:distance_scale": (9.0, {"signing", "matching"}),
    "p_stable:segment_width": (9.0, {"signing"}),
    "bit_sampling:component_max": (8, {"signing", "matching"}),
    "bit_sampling:distance_scale": (9.0, {"signing", "matching"}),
    "hyperplane_dot:norm_max": (11.0, {"signing", "matching"}),
    "prefix:token_order": (TokenOrder(AGAIN), {"signing"}),
    "identical:positions": (3, {"signing"}),
    "passages:gram": (30, {"signing"}),
    "passages:characters": (41, {"signing"}),
    "passages:templates": (("The quick brown fox finds strasse and strasse, again and again",), {"signing"}),
    "passages:part_min": (0.8, set()),
    "parts:score": (30.0, {"matching"}),
    "parts:window": (4, {"signing"}),
    "parts:spelling": ("historic", {"signing"}),
    "parts:templates": (("The quick brown fox finds strasse and strasse, again and again",), {"signing"}),
    "signals:title": (0.7, {"signing", "matching"}),
    "signals:vector": (0.7, {"signing", "matching"}),
    "signals:dimension": (4, {"signing"}),
    "signals:model": ("wordllama", {"signing"}),
    "signals:picture": (0.7, {"signing", "matching"}),
    "signals:picture_bits": (32, {"signing", "matching"}),
    "signals:record": (0.7, {"matching"}),
    "signals:fields": (("name:50", "phone"), {"signing", "matching"}),
    "signals:keys": (("name",), {"signing"}),
    "signals:shingled": (("name",), {"signing"}),
    "signals:penalty": (9.0, {"matching"}),
    "signals:missing": (0.5, {"matching"}),
    "signals:hours": (1.0, {"matching"}),
    "text_characters_max": (1000, {"signing"}),  # which texts are signed at all
    "collection_field": ("collection", {"signing"}),
}
# Fields whose other value refuses what is signed here.
REFUSING = (
    "text_characters_max",
    "hyperplane:dimension",
    "signals:dimension",
    "signals:model",
    "signals:picture_bits",
    "one_permutation:rating_max",
    "hyperplane:planes",
)
# Option -> options that give it a meaning, if the defaults of its scheme give it none.
_OPTIONS: dict[str, dict[str, Any]] = {
    **{f"records:{name}": {"shingled": ("name",)} for name in ("shingle_k", "bands", "rows")},
    **{f"hyperplane:{name}": {"dimension": 3} for name in ("dimension", "evidence", "planes")},
    **{f"p_stable:{name}": {"dimension": 3, "distance_scale": 10.0} for name in ("distance_scale", "segment_width")},
    **{f"bit_sampling:{name}": {"dimension": 3, "component_max": 9} for name in ("component_max", "distance_scale")},
    "hyperplane_dot:norm_max": {"dimension": 3, "norm_max": 10.0},
    "signals:title": {"title": 0.6},
    "signals:vector": {"vector": 0.6, "dimension": 3},
    "signals:dimension": {"vector": 0.6, "dimension": 3},
    "signals:model": {"vector": 0.6, "dimension": 256},
    "signals:picture": {"picture": 0.8},
    "signals:picture_bits": {"picture": 0.8},
    **{
        f"signals:{name}": {"record": 0.6, "fields": ("name", "address")}
        for name in ("record", "fields", "keys", "shingled", "penalty", "missing")
    },
    "signals:hours": {"title": 0.6},
}
# Field -> other settings that give it a meaning.
_BASES: dict[str, dict[str, Any]] = {
    "stop_words": {"shingles": "stopwords"},
    **{f"bit_sampling:{name}": {"measure": "l1"} for name in ("component_max", "distance_scale")},
    **{f"one_permutation:{name}": {"shingles": "tokens"} for name in ("ratings", "rating_high_min", "rating_max")},
}


def given(field: str, value: Any = None) -> dict[str, Any]:
    """The settings that give a field a meaning, and the value; ``records:bands`` is an option of a scheme."""
    scheme, _, option = field.rpartition(":")
    settings = {
        **({"scheme": scheme, "scheme_options": _OPTIONS.get(field, {})} if scheme else {}),
        **_BASES.get(field, {}),
    }
    if value is None:
        return settings
    if not scheme:
        return {**settings, field: value}
    return {**settings, "scheme_options": {**settings["scheme_options"], option: value}}
