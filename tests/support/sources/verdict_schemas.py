"""The schemas of verdicts in ``docs/schemas``, brought up to date with the table of fields: run this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from neardup.stories.verdicts.fields import FIELDS, MESSAGE_FIELDS, RELATION_FIELDS, Field, schema_of
from neardup.stories.verdicts.rule import STATUSES

FOLDER = Path(__file__).parents[3] / "docs" / "schemas"
PLACE = {"type": "string", "pattern": "^(0|[1-9][0-9]*)-(0|[1-9][0-9]*)$"}
# Of each schema its fields, its statuses, and the kinds that are written in another way than in an answer.
SCHEMAS: dict[str, tuple[tuple[Field, ...], list[str], dict[str, Any]]] = {
    "verdict": ((*FIELDS, *RELATION_FIELDS), [one for one in STATUSES if one != "removed"], {"flag": {"const": True}}),
    "topic_verdict": (MESSAGE_FIELDS, list(STATUSES), {"flag": {"const": True}, "place": PLACE}),
}


def up_to_date(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the fields of verdicts as the table has them; a new one stands behind the one before it.

    What a schema says about the parts of a field (``items``) stays.
    """
    fields, statuses, written = SCHEMAS[name]
    written = {**written, "status": {"enum": statuses}}
    properties = list(schema["properties"].items())
    for n, field in enumerate(fields):
        found = {"description": field.says, **written[field.kind]} if field.kind in written else schema_of(field)
        names = [one for one, _ in properties]
        if field.name in names:
            at = names.index(field.name)
            kept = {part: value for part, value in properties[at][1].items() if part == "items"}
            properties[at] = field.name, {**found, **kept}
        else:
            properties.insert(names.index(fields[n - 1].name) + 1, (field.name, found))
    return {**schema, "properties": dict(properties)}


def main() -> None:
    """Write the schemas."""
    for name in SCHEMAS:
        path = FOLDER / f"{name}.json"
        schema = up_to_date(name, json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
