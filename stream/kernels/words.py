"""Words of eight bytes at any place of a byte array; one instruction reads or writes a word.

No bounds checks: the caller guarantees eight readable bytes.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from neardup.stream.kernels.compile import machine_code
from neardup.stream.kernels.vector_code import address_of

# An array must have so many bytes from the place of its last word on.
WORD_BYTES = 8


@machine_code
def word_at(context, data, place):
    """The eight bytes of ``data`` (``uint8``) from ``place`` on, the first lowest, as a ``uint64``."""

    def code(context, builder, signature, arguments):
        return builder.load(_address(context, builder, signature, arguments), align=1)

    return types.uint64(data, place), code


@machine_code
def word_from(context, data, place):
    """The eight bytes of ``data`` (``uint8``) from ``place`` on, the first highest, as a ``uint64``."""

    def code(context, builder, signature, arguments):
        return builder.bswap(builder.load(_address(context, builder, signature, arguments), align=1))

    return types.uint64(data, place), code


@machine_code
def put_word(context, data, place, word):
    """Write a ``uint64`` to the eight bytes of ``data`` (``uint8``) from ``place`` on, the lowest first."""

    def code(context, builder, signature, arguments):
        builder.store(arguments[2], _address(context, builder, signature, arguments), align=1)
        return context.get_dummy_value()

    return types.void(data, place, types.uint64), code


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of a word in a byte array; it need not be a multiple of eight."""
    return address_of(context, builder, signature, arguments, 0, 1, ir.IntType(64))
