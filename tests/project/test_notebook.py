"""The notebook of ``docs/examples``: its cells run, and print what it shows."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "examples" / "frames.ipynb"


def test_the_cells_of_the_notebook_print_what_it_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All cells, in order and in one process; no cell shows anything but what it prints."""
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    names: dict[str, object] = {}
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell.source, f"cell {cell.execution_count}", "exec"), names)
        shown = [output.text for output in cell.outputs if output.output_type == "stream"]
        assert len(shown) == len(cell.outputs)
        assert printed.getvalue() == "".join(shown)
    assert len(cells) > 3
    assert list(tmp_path.iterdir()) == []
