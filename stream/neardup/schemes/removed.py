"""Names of settings that became options of their schemes, each with the new way."""

from __future__ import annotations

_OPTION = "it is an option of its scheme, as in scheme = "
# Name of a setting -> what to do instead, as the end of a sentence.
REMOVED: dict[str, str] = {
    "record_fields": f'{_OPTION}"records:fields=name,phone:50"',
    "record_keys": f'{_OPTION}"records:keys=email"',
    "record_shingled": f'{_OPTION}"records:shingled=name"',
    "record_shingle_k": f'{_OPTION}"records:shingle_k=3"',
    "record_bands": f'{_OPTION}"records:bands=16"',
    "record_rows": f'{_OPTION}"records:rows=4"',
    "record_penalty": f'{_OPTION}"records:penalty=4"',
    "record_missing": f'{_OPTION}"records:missing=0.5"',
    "record_nicknames": f'{_OPTION}"records:nicknames=english"',
}
