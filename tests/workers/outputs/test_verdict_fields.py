"""A field of verdicts is added by its row and the place that computes it: every output follows from the table."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import added_fields
import pytest
from command import PROCESS_SECONDS_MAX, clean_environment
from import_path import SOURCES
from verdict_schemas import FOLDER, SCHEMAS, up_to_date

from neardup import Config, Deduplicator, Document, Verdict
from neardup.stories.verdicts.fields import MESSAGE_FIELDS, NAMES, Verdicts
from neardup_workers.outside.store.answers import verdict_of
from neardup_workers.outside.store.rows import StoredRow

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each output shows of two fields that another process has added to the table."""
    folder = tmp_path_factory.mktemp("added")
    path = {"PYTHONPATH": ":".join([SOURCES, *sys.path])}
    done = subprocess.run(
        [sys.executable, added_fields.__file__, str(folder)],
        capture_output=True,
        timeout=PROCESS_SECONDS_MAX,
        env=clean_environment(**path),
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return dict(json.loads(done.stdout.splitlines()[-1]))  # behind the pairs that ``batch`` prints


# Of an original, a near-duplicate and a copy, in values and in lines.
VALUES = [[False, None], [False, 0], [True, 0]]
LINES = [["absent", "absent"], ["absent", 0], [True, 0]]
OUTPUTS = {
    "arrow": VALUES,
    "dedup lines": LINES,
    "dedup Parquet": VALUES,
    "batch lines": LINES,
    "batch Parquet": VALUES,
    "answers": VALUES,
    "versions": VALUES,
    "events": VALUES,
    "messages": [["absent", "absent"], ["absent", "0-0"], [True, "0-0"]],
    "read back": [[False, -1], [False, 0], [True, 0]],
    "view": VALUES,
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_added_field_is_in_every_output(found: dict[str, Any], output: str) -> None:
    """The table has two rows more, and nothing else has changed."""
    assert found[output] == OUTPUTS[output]


def test_an_added_field_is_described(found: dict[str, Any]) -> None:
    """The schemas of lines and messages have its sentence and its type; answers, stored versions and events have it."""
    flag, place = added_fields.ADDED
    flag_schema = {"description": flag.says, "const": True}
    assert found["verdict"] == [flag_schema, {"description": place.says, "type": "integer", "minimum": 0}]
    [of_flag, of_place] = found["topic_verdict"]
    assert of_flag == flag_schema
    assert (of_place["description"], of_place["type"]) == (place.says, "string")
    assert min(found["OpenAPI"]) >= 2, "the schemas of an answer and of a stored version"


def test_the_keys_of_events_and_versions_keep_their_order() -> None:
    """Place, whether it repeats and the times stand where they stood before the table."""
    row = StoredRow(0, b"a", 0, b"", b"", 0, 0, 0, None, None, None, None)
    assert list(verdict_of(row, None)) == [
        "status", "duplicate_of", "similarity", "cluster", "related", "previous", "matched", "against", "said",
        "new_numbers", "signal", "new", "place", "repeated",
        "late", "time", "date", "source", "url", "title",
    ]  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_of_a_verdict_has_the_fields_of_the_table(name: str) -> None:
    """Otherwise run ``python tests/support/sources/verdict_schemas.py``."""
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert up_to_date(name, schema) == schema


def test_a_field_has_a_column_and_an_attribute_of_the_public_verdict() -> None:
    """The one class that a type checker reads is written by hand."""
    assert {field.column for field in MESSAGE_FIELDS} == set(Verdicts._fields)
    assert set(NAMES) | {"id", "collection", "relation", "reason"} == set(Verdict._fields)


def test_a_verdict_without_more_has_its_fields_in_their_places() -> None:
    """They are written as one row of values."""
    dedup = Deduplicator(Config(collection_field="collection"))
    [verdict] = dedup.decide([Document("a", "a text of some words", collection="c")])
    assert verdict == Verdict("a", "original", cluster=0, collection="c")
    assert len(verdict) == len(Verdict._fields)
