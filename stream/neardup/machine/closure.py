"""The key of everything that a kernel's machine code can contain: its closure.

Numba compiles into a kernel the functions that it calls, the constants that they name, and the instructions of its
primitives. The key is a hash of all of them: of the bytecode of each function, of its defaults, and of what its global
names mean, by the same rule from there on. The functions that write the instructions of a primitive are ordinary
Python, and so are the classes that they use: the same walk reaches them. So an edit of anything that a kernel reaches
changes its key, wherever it stands, and nothing else does: no comment, no docstring, no folder, no other function.

A function of another package counts by its name: numba, NumPy, LLVM, Python. Their versions are in the key of a stored
kernel (``neardup.machine.stored``).
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import types
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.types import BaseTuple
from numba.core.types import Dispatcher as DispatcherType

# What has a digest of its own: a kernel, a primitive, a function or a class.
Node: TypeAlias = Any

_DIGEST_BYTES = 16
# Functions and classes of these packages count by what they do.
_PACKAGES = ("neardup", "neardup_textbook", "neardup_workers")
# These print alike only if they are equal and of one type.
_PLAIN = frozenset((types.NoneType, types.EllipsisType, bool, int, float, complex, str, bytes))


class _Own(NamedTuple):
    """The digest of a node by itself, and the nodes that it names, in the order of its text."""

    digest: bytes
    reached: list[Node]


def closure_key(*roots: Any) -> str:
    """Return the key of some kernels, functions or values, and of everything that they reach.

    Raises:
        TypeError: a function names a value whose content no key can hold, such as an open file.
    """
    parts: list[str] = []
    first: list[Node] = []
    for root in roots:
        if isinstance(root, types.FunctionType):
            first.append(root)
        else:
            _write(root, parts, first)
    hasher = hashlib.blake2b("\n".join(parts).encode(), digest_size=_DIGEST_BYTES)
    numbers: dict[Node, int] = {}  # of the nodes, in the order in which they are found
    waiting = [iter(first)]
    while waiting:
        for node in waiting[-1]:
            known = len(numbers)
            number = numbers.setdefault(node, known)
            hasher.update(b"%d," % number)
            if number == known:
                own = _own(node)
                hasher.update(own.digest)
                waiting.append(iter(own.reached))
                break
        else:
            waiting.pop()
    return hasher.hexdigest()


@functools.cache
def _own(node: Node) -> _Own:
    """Return the digest of one node. Its sources do not change while the process runs."""
    parts = [f"{node.__module__}.{node.__qualname__}"]
    reached: list[Node] = []
    if isinstance(node, Dispatcher):
        parts.append(repr(sorted(node.targetoptions.items())))
        _write_function(node.py_func, parts, reached)
    elif isinstance(node, _Intrinsic):
        _write_function(node._defn, parts, reached)
    elif isinstance(node, type):
        _write_class(node, parts, reached)
    else:
        _write_function(node, parts, reached)
    return _Own(hashlib.blake2b("\n".join(parts).encode(), digest_size=_DIGEST_BYTES).digest(), reached)


def _write_function(function: Any, parts: list[str], reached: list[Node]) -> None:
    """Bytecode, constants, defaults, and what the names of other functions mean."""
    code = function.__code__
    _write_code(code, function.__doc__, parts, reached)
    if function.__defaults__ or function.__kwdefaults__ or function.__closure__:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        _write((function.__defaults__, function.__kwdefaults__, cells), parts, reached)
    for name, value in _named(code, function.__globals__):
        parts.append(name)
        _write(value, parts, reached)


def _write_code(code: types.CodeType, docstring: str | None, parts: list[str], reached: list[Node]) -> None:
    """A code object without its lines, its place and its docstring, which is the first constant."""
    constants = code.co_consts
    if docstring is not None and constants and constants[0] == docstring:
        constants = (None, *constants[1:])
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    parts.append(f"{code.co_code!r}{code.co_exceptiontable!r}{code.co_flags}{code.co_names}{arguments}")
    _write(constants, parts, reached)


def _named(code: types.CodeType, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The global names that code uses, with their values; of a module of this package, the attributes that it can use.

    The code lists names of globals and of attributes as one. So an attribute with the name of a global counts as the
    global, too: a value more in the key does no harm.
    """
    used = dict.fromkeys(_names(code))
    for name in used:
        if name in names:
            value = names[name]
            yield name, value
            if isinstance(value, types.ModuleType) and _is_ours(value.__name__):
                yield from ((f"{name}.{one}", vars(value)[one]) for one in used if one in vars(value))


def _names(code: types.CodeType) -> Iterator[str]:
    """The names in a code object, and in those of the functions and comprehensions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _write_class(node: type, parts: list[str], reached: list[Node]) -> None:
    """Bases, the names of fields in their order, methods, properties and constants."""
    _write((node.__bases__, getattr(node, "_fields", ())), parts, reached)
    for name, value in vars(node).items():
        is_field = inspect.isdatadescriptor(value) and not isinstance(value, property)
        if isinstance(value, types.FunctionType) or not (name.startswith("__") or is_field):
            parts.append(name)
            _write(value, parts, reached)


def _write(value: Any, parts: list[str], reached: list[Node]) -> None:
    """A value as text that is equal for equal values in every process; nodes go to ``reached``."""
    kind = type(value)
    if kind in _PLAIN:
        parts.append(repr(value))
        return
    parts.append(kind.__name__)
    if isinstance(value, np.generic):
        parts.append(f"{value.dtype.str} {value!r}")
    elif isinstance(value, (Dispatcher, _Intrinsic)) or (
        isinstance(value, (types.FunctionType, type)) and _is_ours(value.__module__)
    ):
        reached.append(value)
    elif isinstance(value, types.CodeType):
        _write_code(value, None, parts, reached)
    elif isinstance(value, np.ndarray):
        parts.append(f"{value.dtype.str} {value.shape} {value.tobytes()!r}")
    else:
        inside = _inside(value, reached)
        parts.append(str(len(inside)))
        for one in inside:
            _write(one, parts, reached)


def _inside(value: Any, reached: list[Node]) -> list[Any]:
    """The values that decide another one."""
    match value:
        case enum.Enum():
            return [type(value), value.name, value.value]
        case tuple() | list():
            return [type(value), *value] if hasattr(value, "_fields") else list(value)
        case dict() | types.MappingProxyType():
            return [one for pair in value.items() for one in pair]
        case set() | frozenset():
            return sorted(map(repr, value))
        case functools.partial():
            return [value.func, value.args, value.keywords]
        case property() | functools.cached_property() | staticmethod() | classmethod():
            return [getattr(value, name) for name in ("fget", "func", "__func__") if hasattr(value, name)]
        case BaseTuple():  # the type of a tuple: a kernel reads a field by its place
            reached.append(getattr(value, "instance_class", tuple))
            return list(value.types)  # type: ignore[attr-defined]
        case DispatcherType():  # the type of a kernel that is given to another
            return [value.dispatcher]
        case types.ModuleType():
            return [value.__name__]
        case _:
            return [_name(value)]


def _name(value: Any) -> str:
    """The name of a function or a class of another package, or how an object of another package prints."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    text = f"{module}.{name}" if module and name else repr(value)
    if " at 0x" in text or _is_ours(type(value).__module__):
        raise TypeError(f"a kernel reaches {text}, a {type(value).__qualname__}, whose content its key cannot hold")
    return text


def _is_ours(module: str | None) -> bool:
    """Whether a module is of this distribution."""
    return (module or "").partition(".")[0] in _PACKAGES
