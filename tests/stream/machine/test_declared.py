"""What kernels declare: the types of their arguments, as texts."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from declared import accepts, declared_types, in_words
from numba.core import types
from python_calls import COMPILED, decorators
from python_files import FILES, ROOT, named, nodes

from neardup.machine.compile import kernel
from neardup.window.chains import Items


def total(values, out):  # type: ignore[no-untyped-def]
    """Of all values."""
    for i in range(len(values)):
        out[0] += values[i]


def test_every_kernel_of_the_product_declares_its_types() -> None:
    """What it does not declare is not in a wheel."""
    bare = [
        f"{named(path)}: {node.name}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] in ("stream", "textbook", "workers")
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and "kernel" in decorators(node) & COMPILED
        for one in node.decorator_list
        if isinstance(one, ast.Name) or (isinstance(one, ast.Call) and not one.args)
    ]
    assert not bare, f"{bare}: declare the types of their arguments, as stream/neardup/machine/compile.py says"


def test_a_declaration_is_the_types_of_arrays_numbers_and_tuples() -> None:
    """An array that is only read, one of two dimensions, a number, a tuple, a named tuple of arrays that are read."""
    made = kernel("const u8[], i64[,], f64, (i64, bool), const Items")(total)
    kinds = declared_types(made, made.declared[0])  # type: ignore[attr-defined]
    assert kinds[:3] == (types.Array(types.uint8, 1, "C", readonly=True), types.Array(types.int64, 2, "C"), types.f8)
    assert kinds[3] == types.Tuple((types.int64, types.boolean))
    assert kinds[4].instance_class is Items
    assert [kind.mutable for kind in kinds[4].types] == [False] * len(Items._fields)
    assert in_words(kinds) == "const u8[], i64[,], f64, (i64, bool), Items"


@pytest.mark.parametrize("text", ["u8[", "uint8[]", "u8[]; i64", "Nothing"])
def test_what_is_no_declaration_is_refused(text: str) -> None:
    """A typing error does not become another type."""
    with pytest.raises((ValueError, AttributeError)):
        declared_types(kernel(text)(total), text)


def test_an_array_that_is_only_read_may_be_writable_and_nothing_else_differs() -> None:
    """As in machine code that is made beforehand."""
    read, written = types.Array(types.uint8, 1, "C", readonly=True), types.Array(types.uint8, 1, "C")
    assert accepts(read, written)
    assert not accepts(written, read)
    others = [types.uint8, types.Array(types.int8, 1, "C"), types.Array(types.uint8, 2, "C"), written.copy(layout="A")]
    assert not any(accepts(read, other) for other in [*others, types.Array(types.uint8, 1, "C", aligned=False)])


def test_a_call_with_other_types_than_declared_fails() -> None:
    """In tests, so that no user finds it: a wheel has the declared types alone."""
    made = kernel("const i64[], i64[]")(total)
    out = np.zeros(1, np.int64)
    made(np.arange(5), out)
    assert out[0] == 10
    with pytest.raises(TypeError, match=r"is called with 'u8\[\], i64\[\]'"):
        made(np.zeros(5, np.uint8), out)
