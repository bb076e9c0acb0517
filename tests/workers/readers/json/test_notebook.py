"""Of a notebook the text is the source of its cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from read_entries import found

from neardup.documents.document import Document

PICTURE = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo" * 400}}
SOURCE = "import pandas\nframe = pandas.read_csv('a.csv')"


def cell(source: Any, kind: str = "code") -> dict[str, Any]:
    return {"cell_type": kind, "execution_count": 7, "metadata": {}, "outputs": [PICTURE], "source": source}


# A notebook -> its text.
NOTEBOOKS: dict[str, tuple[dict[str, Any], str]] = {
    "lines": (
        {"cells": [cell(SOURCE.splitlines(keepends=True)), cell("# A title", "markdown")]},
        f"{SOURCE}\n\n# A title",
    ),
    "one string": ({"cells": [cell(SOURCE)]}, SOURCE),
    "an empty cell": ({"cells": [cell([]), cell("x"), cell("")]}, "x"),
    "version 3": ({"worksheets": [{"cells": [{"input": ["a\n", "b"], "outputs": []}, {"source": "c"}]}]}, "a\nb\n\nc"),
    "no cells": ({"cells": []}, ""),
    "cells of other types": ({"cells": [7, None, {"source": 7}, cell(["x", 8])]}, "x"),
}


@pytest.mark.parametrize(("notebook", "text"), NOTEBOOKS.values(), ids=NOTEBOOKS)
def test_the_text_of_a_notebook_is_the_source_of_its_cells(tmp_path: Path, notebook: dict[str, Any], text: str) -> None:
    """Outputs and counters are left out, written with white space or without."""
    for indent in (None, 1):
        path = tmp_path / "book.ipynb"
        whole = {**notebook, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        assert found(path, json.dumps(whole, indent=indent).encode()) == [Document(str(path), text)]


def test_a_notebook_is_known_by_its_content(tmp_path: Path) -> None:
    """Without its ending."""
    path = tmp_path / "book"
    assert found(path, json.dumps({"cells": [cell(SOURCE)], "nbformat": 4}, indent=1).encode()) == [
        Document(str(path), SOURCE)
    ]


@pytest.mark.parametrize("content", ["no JSON", '{"cells": [', '{"a": 1}', "[1]", '{"cells": []}'])
def test_a_file_with_the_ending_that_is_no_notebook_is_read_as_a_text(tmp_path: Path, content: str) -> None:
    """Nothing of it is lost."""
    path = tmp_path / "book.ipynb"
    assert found(path, content.encode()) == [Document(str(path), content)]
