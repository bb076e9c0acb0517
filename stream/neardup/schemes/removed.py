"""Names of settings of the library that were removed, each with the new way."""

from __future__ import annotations

_OPTION = "it is an option of its scheme, as in scheme = "
# Name of a setting -> what to do instead, as the end of a sentence.
REMOVED: dict[str, str] = {
    "nfkc": 'leave nfkc out of fold, as in fold = "case,space"',
    "fold_case": 'leave case out of fold, as in fold = "nfkc,space"',
    "fold_space": 'leave space out of fold, as in fold = "nfkc,case"',
    "tokens_max": "a document has at most 1,000,000 tokens",
    "id_bytes_max": "an id has at most 1,024 bytes, with its collection",
    "record_fields": f'{_OPTION}"records:fields=name,phone:50"',
    "record_keys": f'{_OPTION}"records:keys=email"',
    "record_shingled": f'{_OPTION}"records:shingled=name"',
    "record_shingle_k": f'{_OPTION}"records:shingle_k=3"',
    "record_bands": f'{_OPTION}"records:bands=16"',
    "record_rows": f'{_OPTION}"records:rows=4"',
    "record_penalty": f'{_OPTION}"records:penalty=4"',
    "record_missing": f'{_OPTION}"records:missing=0.5"',
    "record_nicknames": f'{_OPTION}"records:nicknames=english"',
    "shingle_bytes": f'{_OPTION}"one_permutation:shingle_bytes=4"',
    "groups": f'{_OPTION}"partial_minhash:groups=8"',
    "ratings": f'{_OPTION}"one_permutation:ratings=stars"',
    "rating_high_min": f'{_OPTION}"one_permutation:rating_high_min=3"',
    "rating_max": f'{_OPTION}"one_permutation:rating_max=5"',
    "token_order": f'{_OPTION}"prefix:token_order=FILE"',
    "identical_positions": f'{_OPTION}"identical:positions=8"',
    "grid_squares": f'{_OPTION}"grid:squares=1000"',
    "grid_functions": f'{_OPTION}"grid:functions=1024"',
    "grid_groups": f'{_OPTION}"grid:groups=2"',
    "grid_function_squares": f'{_OPTION}"grid:function_squares=3"',
    "dimension": f'{_OPTION}"hyperplane:dimension=300"',
    "vector_evidence": f'{_OPTION}"hyperplane:evidence=float16"',
    "planes": f'{_OPTION}"hyperplane:planes=signs"',
    "distance_scale": f'{_OPTION}"p_stable:distance_scale=10"',
    "segment_width": f'{_OPTION}"p_stable:segment_width=4"',
    "component_max": f'{_OPTION}"bit_sampling:component_max=255"',
    "norm_max": f'{_OPTION}"hyperplane_dot:norm_max=10"',
}
