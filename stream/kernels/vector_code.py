"""Pieces of the machine code that kernels generate with ``llvmlite``: addresses in arrays, and vectors of one value."""

from __future__ import annotations

from typing import Any

from llvmlite import ir


def address_of(
    context: Any, builder: Any, signature: Any, arguments: Any, array: int, place: int, kind: ir.Type
) -> Any:
    """Return the address of a value of a type in an array.

    ``array`` and ``place`` are the numbers of two arguments: the array, and the place of the value's first element.
    """
    data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
    return builder.bitcast(builder.gep(data, [arguments[place]]), kind.as_pointer())


def all_lanes(builder: Any, value: Any, lanes: int) -> Any:
    """Return a vector with one value in all lanes."""
    word = ir.IntType(32)
    nothing = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(word, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(word, lanes), [0] * lanes))
