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
    "shingle_bytes": [2, 16],
    "measure": ["jacard", 5],
    "verify": ["exactly", None],
    "groups": [0, 1025],
    "ratings": ["star", None],
    "rating_high_min": [-0.1, 1000.1, NAN],
    "rating_max": [0.9, 1000.1, NAN],
    "tokens_max": [0, 2**28 + 1],
    "k": [0, 101, 1.5, "three"],
    "languages": [("xx",), "en"],
    "stop_words": ["the", 5],
    "nfkc": ["perhaps"],
    "fold_case": [2],
    "fold_space": ["x"],
    "threshold": [0.04, 1.01, NAN, "high"],
    "recall": [0.0, 1.0, -1, NAN],
    "min_similarity": [-0.1, 1.1, NAN],
    "false_weight": [0, 1, -0.1, NAN],
    "rows_max": [0, 1025],
    "bands": [0, 1025],
    "rows": [0, 1025],
    "seed": [-1, 2**63],
    "sketch_bits": [7, 64],
    "characters_min": [-1, 1_000_001],
    "window_seconds": [0, -1, math.inf, NAN],
    "lateness_seconds": [-1, math.inf, NAN],
    "story_seconds_max": [0, -1, math.inf, NAN],
    "window_documents": [0, 2**30 + 1],
    "bucket_candidates_max": [0, 2**20 + 1],
    "probe_candidates_max": [0, 2**30 + 1],
    "probe_two_per_band": [2],
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
    "records:nicknames": ["english", 5],
    "grid_squares": [0, 65537],
    "grid_functions": [0, 65537],
    "grid_groups": [0, 17],
    "grid_function_squares": [0, 17],
    "dimension": [0, 65537],
    "vector_evidence": ["float64", 5],
    "planes": ["round", None],
    "distance_scale": [0, -1, 1e31, NAN],
    "segment_width": [0, -1, 1e31, NAN],
    "component_max": [0, 65536],
    "norm_max": [0, -1, 1e31, NAN],
    "passage_gram": [1, 101],
    "passage_characters": [1, 10_001],
    "passage_templates": ["a text", 5],
    "passage_part_min": [0.4, 1.1, NAN],
    "token_order": ["order.npy", np.array([1], np.uint64)],
    "identical_positions": [0, 1025],
    "text_characters_max": [0, 2**28 + 1],
    "id_bytes_max": [0, 65536],
    "collection_field": [0],
}
# A shingle of the documents below.
AGAIN = SCHEMES["prefix"].features([Document("", "again")], Config(scheme="prefix").plan).features.values
# Field -> another value, and the fingerprints that it changes.
CHANGES: dict[str, tuple[Any, set[str]]] = {
    "scheme": ("minhash", {"signing"}),
    "shingles": ("words", {"signing"}),
    "shingle_bytes": (4, {"signing"}),
    "measure": ("jaccard_bag", {"signing", "matching"}),
    "verify": ("exact", {"signing", "matching"}),
    "groups": (4, {"signing"}),
    "ratings": ("liked_hated", {"signing"}),
    "rating_high_min": (4.0, {"signing"}),
    "rating_max": (4.0, {"signing"}),  # which ratings are refused
    "tokens_max": (2, {"signing"}),
    "k": (7, {"signing"}),
    "languages": (("de", "en"), set()),  # but see the stopwords shingles below
    "stop_words": (("The", "for"), {"signing"}),
    "nfkc": (False, {"signing"}),
    "fold_case": (False, {"signing"}),
    "fold_space": (False, {"signing"}),
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
    "probe_two_per_band": (True, {"matching"}),
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
    "records:nicknames": (("bill=william",), {"matching"}),
    "grid_squares": (900, {"signing"}),
    "grid_functions": (1000, {"signing"}),
    "grid_groups": (1, {"matching"}),  # only the first group decides keys
    "grid_function_squares": (2, {"signing"}),
    "dimension": (4, {"signing"}),
    "vector_evidence": ("float16", {"signing"}),
    "planes": ("signs", {"signing"}),
    "distance_scale": (9.0, {"signing", "matching"}),
    "segment_width": (9.0, {"signing"}),
    "component_max": (8, {"signing", "matching"}),
    "norm_max": (11.0, {"signing", "matching"}),
    "token_order": (TokenOrder(AGAIN), {"signing"}),
    "identical_positions": (3, {"signing"}),
    "passage_gram": (30, {"signing"}),
    "passage_characters": (41, {"signing"}),
    "passage_templates": (("The quick brown fox finds strasse and strasse, again and again",), {"signing"}),
    "passage_part_min": (0.8, set()),
    "text_characters_max": (1000, {"signing"}),  # which texts are signed at all
    "id_bytes_max": (9, set()),
    "collection_field": ("collection", {"signing"}),
}
# Fields whose other value refuses what is signed here.
REFUSING = ("text_characters_max", "dimension", "rating_max", "tokens_max", "planes")
SHAPE_OF_SHINGLED = ("records:shingle_k", "records:bands", "records:rows")
# Field -> settings that give it a meaning, if the defaults give it none.
BASES: dict[str, dict[str, Any]] = {
    "stop_words": {"shingles": "stopwords"},
    "token_order": {"scheme": "prefix"},
    "identical_positions": {"scheme": "identical"},
    **{field: {"scheme_options": {"shingled": ("name",)}} for field in SHAPE_OF_SHINGLED},
    **{field: {"scheme": "grid"} for field in CHANGES if field.startswith("grid_")},
    **{field: {"scheme": "hyperplane", "dimension": 3} for field in ("dimension", "vector_evidence", "planes")},
    **{x: {"scheme": "p_stable", "dimension": 3, "distance_scale": 10} for x in ("distance_scale", "segment_width")},
    "component_max": {"scheme": "bit_sampling", "measure": "l1", "dimension": 3, "component_max": 9},
    "norm_max": {"scheme": "hyperplane_dot", "dimension": 3, "norm_max": 10.0},
    "groups": {"scheme": "partial_minhash"},
    **{field: {"scheme": "passages"} for field in CHANGES if field.startswith("passage_")},
    **{field: {"shingles": "tokens"} for field in ("ratings", "rating_high_min", "rating_max", "tokens_max")},
}


def given(field: str, value: Any = None) -> dict[str, Any]:
    """The settings that give a field a meaning, and the value; ``records:bands`` is an option of a scheme."""
    scheme, _, option = field.rpartition(":")
    settings = {**({"scheme": scheme} if scheme else {}), **BASES.get(field, {})}
    if value is None:
        return settings
    if not scheme:
        return {**settings, field: value}
    return {**settings, "scheme_options": {**settings.get("scheme_options", {}), option: value}}
