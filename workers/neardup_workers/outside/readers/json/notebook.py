"""Notebooks of Jupyter -> the source of their cells. Outputs, pictures and counters are no text of the writer.

Source: nbformat 4 and 3 (a list of worksheets, and ``input`` for code).
"""

from __future__ import annotations

import re
from typing import Any

import orjson

# How a notebook begins that has its keys in the order in which they are written.
LOOKS_LIKE_NOTEBOOK = re.compile(rb'\s*\{\s*"cells"\s*:\s*\[\s*(?:\]|\{)')


def notebook_text(content: bytes) -> str | None:
    """Return the source of the cells with an empty line between them, ``None`` if the content is no notebook.

    >>> notebook_text(b'{"cells": [{"source": ["a = 1\\\\n", "b"], "outputs": [7]}, {"source": "c"}], "nbformat": 4}')
    'a = 1\\nb\\n\\nc'
    """
    try:
        notebook = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        return None
    holders = [notebook, *_objects(notebook.get("worksheets"))]
    cells = [cell for holder in holders for cell in _objects(holder.get("cells"))]
    sources = (_source(cell.get("source", cell.get("input"))) for cell in cells)
    return "\n\n".join(source for source in sources if source)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _source(value: Any) -> str:
    """Return a source, which is a string or a list of lines."""
    lines = value if isinstance(value, list) else [value]
    return "".join(line for line in lines if isinstance(line, str))
