"""Kernels that only kernels can call: a way to call them in tests, and the places where Python code uses them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
from import_path import ROOTS
from python_files import FILES, ROOT, named, nodes, tree

# Decorators of kernels without a Python entry point, and decorators of all functions whose body is compiled.
INNER = {"inner", "inlined", "primitive", "without_model"}
COMPILED = INNER | {"kernel"}


@cache
def from_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that only calls ``function``, compiled once for all calls of a test."""

    @numba.njit
    def call(*arguments):  # type: ignore[no-untyped-def]
        return function(*arguments)

    return call  # type: ignore[no-any-return]


def inner_kernels() -> set[tuple[str, str]]:
    """Module and name of every kernel without a Python entry point."""
    return {
        (_module(path), node.name)
        for root in ("stream", "textbook")
        for path in (ROOT / root).rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and decorators(node) & INNER
    }


def python_calls() -> Iterator[str]:
    """The places where Python code calls such a kernel: file, line and name."""
    inner = inner_kernels()
    for path in FILES:
        names = {name: (_module(path), name) for where, name in inner if where == _module(path)}
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {one.asname or one.name: (node.module, one.name) for one in node.names}
        for call in _calls(tree(path)):
            called = call.func
            found = names.get(called.id) if isinstance(called, ast.Name) else None
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id in names:
                found = (".".join(names[called.value.id]), called.attr)
            if found in inner:
                yield f"{named(path)}:{call.lineno}: {found[1]}"


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls below a node that are not part of a kernel."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and decorators(child) & COMPILED:
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _calls(child)


def decorators(node: ast.FunctionDef) -> set[str]:
    """The names of a function's decorators, with arguments or without."""
    called = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
    return {name.id for name in called if isinstance(name, ast.Name)} | (
        {"kernel"} if any("njit" in ast.dump(name) for name in node.decorator_list) else set()
    )


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] in ROOTS else parts)
