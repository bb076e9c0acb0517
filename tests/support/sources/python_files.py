"""The Python files of the project, each read and parsed once in a run of the tests."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

from import_path import ROOTS

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (*ROOTS, "benchmarks", "docs", "tests", "wheel")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def named(path: Path) -> str:
    """The path from the root of the project."""
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    """The text of a file."""
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file. The garbage collector passes it over, because all trees live to the end."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text_of(path))
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a file, in the order of ``ast.walk``."""
    return list(ast.walk(tree(path)))
