"""Memory that kernels have no other way to: Python strings, arrays at an address, and lines that are needed soon."""

from __future__ import annotations

from typing import Any

from neardup.machine.code import (
    I8,
    I32,
    I64,
    Code,
    Instructions,
    Value,
    alloca_once,
    ir,
    pack_array,
    primitive,
    types,
    without_model,
)


def _string_parts(code: Code, string: Value) -> Value:
    builder, object_ = code.builder, I8.as_pointer()
    length, kind, is_ascii, hash_ = (alloca_once(builder, part) for part in (I64, I32, I32, I64))
    at = builder.inttoptr(string, object_)
    data = code.call("numba_extract_unicode", object_, at, length, kind, is_ascii, hash_)
    parts = [builder.ptrtoint(data, I64), builder.load(length)]
    return code.results([*parts, *(builder.zext(builder.load(part), I64) for part in (kind, is_ascii))])


@without_model(_string_parts, types.UniTuple(types.int64, 4), string=types.int64)
def string_parts(string):
    """Address and number of the characters of the Python string at an address, the bytes of each, and whether all are
    ASCII (``int64``, 4 times).

    A kernel that calls this holds the interpreter lock. Numba reads the strings that it is called with in this way.
    """


def _view(number: Any) -> Instructions:
    """Writes the code of a view of numbers of one type."""

    def write(code: Code, address: Value, length: Value) -> Value:
        builder = code.builder
        view = code.context.make_array(code.returns)(code.context, builder)
        size = I64(number.bitwidth // 8)
        view.data = builder.inttoptr(address, view.data.type)
        view.itemsize, view.nitems = size, length
        view.shape, view.strides = (pack_array(builder, [one]) for one in (length, size))
        view.meminfo, view.parent = (ir.Constant(owner.type, None) for owner in (view.meminfo, view.parent))
        return view._getvalue()

    return write


@without_model(_view(types.uint8), types.Array(types.uint8, 1, "C"), address=types.int64, length=types.int64)
def bytes_at(address, length):
    """The array of ``length`` numbers ``uint8`` at an address. The caller keeps what owns the memory."""


@without_model(_view(types.uint16), types.Array(types.uint16, 1, "C"), address=types.int64, length=types.int64)
def halves_at(address, length):
    """The array of ``length`` numbers ``uint16`` at an address. The caller keeps what owns the memory."""


@without_model(_view(types.uint32), types.Array(types.uint32, 1, "C"), address=types.int64, length=types.int64)
def words_at(address, length):
    """The array of ``length`` numbers ``uint32`` at an address. The caller keeps what owns the memory."""


@without_model(_view(types.int64), types.Array(types.int64, 1, "C"), address=types.int64, length=types.int64)
def longs_at(address, length):
    """The array of ``length`` numbers ``int64`` at an address. The caller keeps what owns the memory."""


@without_model(_view(types.float64), types.Array(types.float64, 1, "C"), address=types.int64, length=types.int64)
def floats_at(address, length):
    """The array of ``length`` numbers ``float64`` at an address. The caller keeps what owns the memory."""


def _prefetch(code: Code, array: Value, index: Value) -> None:
    for_reading, keep, data = I32(0), I32(3), I32(1)
    address = code.address(array, index, I8)
    code.call("llvm.prefetch.p0", ir.VoidType(), address, for_reading, keep, data)


@primitive(_prefetch, types.void)
def prefetch(array, index):
    """Ask for the cache line of ``array[index]``, which is read soon. Computes nothing."""
