"""Primitives: functions for kernels whose instructions are written here, each with a model in Python.

A primitive is written as its model, a plain function of arrays and numbers that a kernel could run. The decorator adds
the instructions (LLVM) that run instead of it, and the types of its result and of those arguments that it converts.
``Code`` writes the instructions. Its methods are named after what they do to arrays of NumPy.

Primitives check no bounds: the caller guarantees that all numbers that they read and write exist.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from neardup.kernel_folder import BUILT
from neardup.machine.choice import Placeholder, runs_as_model
from neardup.machine.compile import Kernel, inlined

# Names of the compiler that primitives use, when they are declared and when they write instructions.
ir: Any = Placeholder()
types: Any = Placeholder()
alloca_once: Any = Placeholder()
alloca_once_value: Any = alloca_once
for_range: Any = alloca_once
get_or_insert_function: Any = alloca_once
intrinsic: Any = alloca_once
pack_array: Any = alloca_once
if not BUILT:
    ir, types = import_module("llvmlite.ir"), import_module("numba.core.types")
    intrinsic = import_module("numba.extending").intrinsic
    _utils = import_module("numba.core.cgutils")
    alloca_once, alloca_once_value, for_range = _utils.alloca_once, _utils.alloca_once_value, _utils.for_range
    get_or_insert_function, pack_array = _utils.get_or_insert_function, _utils.pack_array

# What an instruction gives: a number, a vector of numbers, an address, or numba's record of an array.
Value: TypeAlias = Any
Instructions: TypeAlias = Callable[..., Value]
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()


class Primitive(NamedTuple):
    """Both forms of a primitive; ``model`` is ``None`` where no kernel can do it otherwise."""

    machine: Kernel
    model: Kernel | None


# All primitives by name.
PRIMITIVES: dict[str, Primitive] = {}


def vector(kind: ir.Type, lanes: int) -> ir.Type:
    """The type of a register with so many numbers."""
    return ir.VectorType(kind, lanes)


class Code:
    """Writes the instructions of one primitive into the function that calls it.

    Attributes:
        context: numba's compiler for one processor.
        builder: llvmlite's writer of single instructions, where no method is needed.
        returns: numba's type of the result.
    """

    def __init__(self, context: Any, builder: Any, returns: Any) -> None:
        self.context, self.builder, self.returns = context, builder, returns

    def full(self, kind: ir.Type, value: int | None) -> Value:
        """``np.full(lanes, value)``, known when the code is written; ``None`` for zeros of any kind."""
        return ir.Constant(kind, None if value is None else [value] * kind.count)

    def spread(self, value: Value, lanes: int) -> Value:
        """``np.full(lanes, value)`` of a value that is known when the code runs."""
        nothing = ir.Constant(vector(value.type, lanes), ir.Undefined)
        first = self.builder.insert_element(nothing, value, I32(0))
        return self.builder.shuffle_vector(first, nothing, ir.Constant(vector(I32, lanes), [0] * lanes))

    def address(self, array: Value, index: Value, kind: ir.Type) -> Value:
        """Where a value of this type begins in an array: at element ``index``."""
        return self.builder.bitcast(self.builder.gep(array.data, [index]), kind.as_pointer())

    def load(self, array: Value, index: Value, kind: ir.Type, further: int = 0) -> Value:
        """``array[index + further : index + further + lanes]``; an ``I64`` of bytes is eight of them."""
        index = self.builder.add(index, index.type(further)) if further else index
        return self.builder.load(self.address(array, index, kind), align=_element_bytes(array))

    def store(self, value: Value, array: Value, index: Value) -> None:
        """``array[index : index + lanes] = value``."""
        self.builder.store(value, self.address(array, index, value.type), align=_element_bytes(array))

    def bits(self, choices: Value) -> Value:
        """``np.packbits(choices, bitorder="little")`` as a number of 64 bits: the first choice is the lowest bit."""
        word = self.builder.bitcast(choices, ir.IntType(choices.type.count))
        return word if choices.type.count == I64.width else self.builder.zext(word, I64)

    def any_of(self, first: Value, *further: Value) -> Value:
        """``first | second | ...``."""
        for one in further:
            first = self.builder.or_(first, one)
        return first

    def chosen(self, values: Value, choices: Value) -> Value:
        """``values[choices]``; what stands in the lanes behind them is undefined."""
        kind = values.type
        name = f"llvm.experimental.vector.compress.v{kind.count}{kind.element.intrinsic_name}"
        return self.call(name, kind, values, choices, ir.Constant(kind, ir.Undefined))

    def call(self, name: str, returns: ir.Type, *arguments: Value) -> Value:
        """The result of a function that LLVM knows, or that has been given to it by name."""
        shape = ir.FunctionType(returns, [argument.type for argument in arguments])
        return self.builder.call(get_or_insert_function(self.builder.module, shape, name), arguments)

    def results(self, parts: Sequence[Value]) -> Value:
        """Several results at once."""
        return self.context.make_tuple(self.builder, self.returns, parts)

    @property
    def has_avx512(self) -> bool:
        """Whether the processor has AVX-512. The stored kernels of each processor are kept apart."""
        return self._processor == "x86-64-v4" or "+avx512f" in self._features

    @property
    def has_byte_compress(self) -> bool:
        """Whether it moves chosen bytes of a vector together (AVX-512 VBMI2)."""
        return "+avx512vbmi2" in self._features

    @property
    def has_bit_extract(self) -> bool:
        """Whether it moves chosen bits of a word together (BMI2, as all processors with AVX2)."""
        return self._processor in ("x86-64-v3", "x86-64-v4") or "+bmi2" in self._features

    @property
    def _processor(self) -> str:
        return str(self.context.codegen().magic_tuple()[1])

    @property
    def _features(self) -> str:
        return str(self.context.codegen().magic_tuple()[2])


def primitive(instructions: Instructions, returns: Any, **kinds: Any) -> Callable[[Kernel], Kernel]:
    """Make a primitive of a model.

    ``instructions`` writes the code; it is called with ``Code`` and the arguments of the primitive. ``returns`` is
    numba's type of the result, ``kinds`` are those of arguments that are converted; a function is called with the type
    of the first argument.
    """

    def of(model: Kernel) -> Kernel:
        made = Primitive(intrinsic_of(model, instructions, returns, kinds), inlined(model))
        PRIMITIVES[model.__name__] = made
        return made.model if made.model and runs_as_model(model.__name__) else made.machine

    return of


def without_model(instructions: Instructions, returns: Any, **kinds: Any) -> Callable[[Kernel], Kernel]:
    """Make a primitive that no kernel could do otherwise, or that says what the processor has. The function has no
    body: its docstring and its arguments count."""

    def of(function: Kernel) -> Kernel:
        made = Primitive(intrinsic_of(function, instructions, returns, kinds), None)
        PRIMITIVES[function.__name__] = made
        return made.machine

    return of


def intrinsic_of(function: Kernel, instructions: Instructions, returns: Any, kinds: dict[str, Any]) -> Kernel:
    """Return what numba calls to get the type and the code of a primitive for the types of some arguments."""
    if BUILT:
        return function
    parameters = inspect.signature(function).parameters

    def write(context: Any, builder: Any, signature: Any, arguments: Sequence[Value]) -> Value:
        values = [
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        ]
        result = instructions(Code(context, builder, signature.return_type), *values)
        return context.get_dummy_value() if signature.return_type == types.void else result

    def typed(context: Any, *given: Any) -> Any:
        wanted = [kinds.get(name, kind) for name, kind in zip(parameters, given, strict=True)]
        return returns(*(kind(given[0]) if inspect.isfunction(kind) else kind for kind in wanted)), write

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    typed.__signature__ = inspect.Signature([context, *parameters.values()])  # type: ignore[attr-defined]
    typed.__name__, typed.__qualname__, typed.__doc__ = function.__name__, function.__qualname__, function.__doc__
    return intrinsic(typed)  # type: ignore[no-any-return]


def _element_bytes(array: Value) -> int:
    """Bytes of a number of an array: no more is known of its address, so vectors are read as if unaligned."""
    kind = array.data.type.pointee
    return {F32: 4, F64: 8}.get(kind) or kind.width // 8
