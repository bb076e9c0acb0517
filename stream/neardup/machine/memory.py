"""Memory that kernels have no other way to: Python strings, arrays at an address, and lines that are needed soon.

A call of a kernel reads each array that it is given: sixty arrays take a microsecond. What stays the same from call to
call is *kept*: written to memory once, from where kernels read it (``Kept``).
"""

from __future__ import annotations

import typing
from functools import cache
from typing import Any, Generic, TypeVar

import numpy as np

from neardup.kernel_folder import BUILT
from neardup.machine.code import (
    I8,
    I32,
    I64,
    Code,
    Instructions,
    Value,
    alloca_once,
    intrinsic_of,
    ir,
    pack_array,
    primitive,
    types,
    without_model,
)
from neardup.machine.compile import Kernel

_OF_PYTHON = {int: "int64", float: "float64", bool: "boolean"}
_T = TypeVar("_T", bound=tuple[Any, ...])


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

    The caller keeps the string, which never changes. Numba reads the strings that it is called with in this way.
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


@cache
def tuple_type(kind: type) -> Any:
    """Return numba's type of a named tuple, by its annotations: ``npt.NDArray[np.int64]`` has one dimension,
    ``Annotated[npt.NDArray[np.int64], "[,]"]`` two; ``Annotated[Tables, "const"]`` are tables that are only read."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return types.NamedTuple(tuple(_field_type(hints[name]) for name in kind._fields), kind)  # type: ignore[attr-defined]


def _field_type(hint: Any) -> Any:
    """The type of a field by its annotation."""
    if typing.get_origin(hint) is typing.Annotated:
        inside, how = typing.get_args(hint)
        kind = _field_type(inside)
        return read_only(kind) if how == "const" else kind.copy(ndim=len(how) - 1)
    if typing.get_origin(hint) is np.ndarray:
        ((number,),) = [typing.get_args(one) for one in typing.get_args(hint)[1:]]
        return types.Array(types.boolean if number is np.bool_ else getattr(types, number.__name__), 1, "C")
    if hasattr(hint, "_fields"):
        return tuple_type(hint)
    return getattr(types, _OF_PYTHON.get(hint) or hint.__name__)


def read_only(kind: Any) -> Any:
    """Return a type whose arrays are only read."""
    if isinstance(kind, types.Array):
        return kind.copy(readonly=True)
    if isinstance(kind, types.NamedTuple):
        return types.NamedTuple(tuple(map(read_only, kind.types)), kind.instance_class)
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types(tuple(map(read_only, kind.types)))
    return kind


def reader_of(kind: type, *, const: bool = False) -> Kernel:
    """Return the primitive that reads a named tuple from where ``put`` wrote it; with ``const`` its arrays are only
    read. The caller keeps the arrays."""

    def value_at(address: int) -> None:
        """The named tuple at an address."""

    if BUILT:
        return value_at
    found = tuple_type(kind)
    return intrinsic_of(value_at, _read_value, read_only(found) if const else found, {"address": types.int64})


def _put(value: Any, address: int) -> None:
    """Write a named tuple to an address."""


def _put_value(code: Code, value: Value, address: Value) -> None:
    _write_parts(code.builder, value, code.builder.inttoptr(address, value.type.as_pointer()))


def _read_value(code: Code, address: Value) -> Value:
    kind = code.context.get_value_type(code.returns)
    return _read_parts(code.builder, code.builder.inttoptr(address, kind.as_pointer()))


def _parts(kind: ir.Type) -> int:
    """How many parts a value has that is no number."""
    return len(kind) if isinstance(kind, (ir.ArrayType, ir.LiteralStructType)) else 0


def _write_parts(builder: Any, value: Value, at: Value) -> None:
    for i in range(_parts(value.type)):
        _write_parts(builder, builder.extract_value(value, i), builder.gep(at, [I32(0), I32(i)]))
    if not _parts(value.type):
        builder.store(value, at)


def _read_parts(builder: Any, at: Value) -> Value:
    """The value at an address, read number by number: those that no one needs are not read."""
    kind = at.type.pointee
    value = ir.Constant(kind, ir.Undefined)
    for i in range(_parts(kind)):
        value = builder.insert_value(value, _read_parts(builder, builder.gep(at, [I32(0), I32(i)])), i)
    return value if _parts(kind) else builder.load(at)


put = intrinsic_of(_put, _put_value, types.void, {"address": types.int64})


class Kept(Generic[_T]):
    """A named tuple of arrays and numbers that a kernel ``keep`` has written, with ``put``, to memory of its own.

    Attributes:
        value: what was written, ``None`` if an array of it may have moved: then it must be written again.
        address: where it is.
    """

    __slots__ = ("_keep", "_words", "address", "value")

    def __init__(self, keep: Kernel) -> None:
        self._keep, self._words = keep, np.empty(0, np.int64)
        self.value: _T | None = None
        self.address = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, (self._keep,)  # a copy must not write where this one does

    def renew(self, value: _T) -> None:
        """Write a value in place of the one before."""
        self.value = None
        if not self.address:
            self._words = np.zeros(_words(value), np.int64)
            self.address = self._words.ctypes.data
        self._keep(value, self.address)
        self.value = value


def _words(value: Any) -> int:
    """At most so many words of eight bytes hold a value."""
    if isinstance(value, tuple):
        return sum(map(_words, value))
    return 5 + 2 * value.ndim if isinstance(value, np.ndarray) else 1
