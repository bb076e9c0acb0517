"""The types of a kernel's arguments as its decorator declares them, for the compiler and in words.

A declaration is a text: ``"const u8[], i64[,], f64, (i64, bool), Items"``. These are an array of bytes that is only
read, a matrix, a number, a tuple, and a named tuple: the one that the kernel's module knows by this name, or else the
only one of the name. Its annotations say its fields (``neardup.machine.memory.tuple_type``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from numba.core import types

from neardup.machine.memory import read_only, tuple_type

# A word of a declaration -> the type.
NUMBERS = {
    "bool": types.boolean,
    **{f"{kind}{bits}": getattr(types, f"{name}{bits}") for kind, name in (("i", "int"), ("u", "uint"), ("f", "float"))
       for bits in (8, 16, 32, 64) if (kind, bits) not in (("f", 8), ("f", 16))},
}  # fmt: skip
_WORDS = {kind: word for word, kind in NUMBERS.items()}
_TOKEN = re.compile(r"const\b|[\w.]+|\[,*\]|[(),]")


def declared_types(kernel: Any, text: str) -> tuple[Any, ...]:
    """Return numba's types of the arguments of a kernel for one of its declarations.

    Raises:
        ValueError: the text is no declaration, or names a named tuple that is not known or not the only one.
    """
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text.replace(" ", ""):
        raise ValueError(f"{text!r} of {name_of(kernel)} is no declaration: see wheel/declared.py")
    return tuple(_listed(tokens, kernel.py_func.__globals__, None))


def in_words(kinds: tuple[Any, ...]) -> str:
    """Return the declaration of some types."""
    return ", ".join(_word(kind) for kind in kinds)


def accepts(declared: Any, given: Any) -> bool:
    """Return whether a value of one type can be given where another one is declared: an array that is only read may be
    writable."""
    if isinstance(declared, types.Array):
        return isinstance(given, types.Array) and (
            (given.dtype, given.ndim, given.layout) == (declared.dtype, declared.ndim, declared.layout)
            and given.aligned and (given.mutable or not declared.mutable)
        )  # fmt: skip
    if isinstance(declared, types.BaseTuple):
        return (
            isinstance(given, types.BaseTuple)
            and getattr(declared, "instance_class", None) is getattr(given, "instance_class", None)
            and accept(declared.types, given.types)
        )
    return bool(declared == given)


def accept(declared: tuple[Any, ...], given: tuple[Any, ...]) -> bool:
    """Return whether some types can be given where others are declared."""
    return len(declared) == len(given) and all(map(accepts, declared, given))


def name_of(kernel: Any) -> str:
    """Return the full name of a kernel."""
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"


def _listed(tokens: list[str], names: dict[str, Any], closing: str | None) -> Iterator[Any]:
    """The types up to a closing bracket, or to the end."""
    while tokens and tokens[0] != closing:
        token = tokens.pop(0)
        is_const = token == "const"
        token = tokens.pop(0) if is_const else token
        if token == "(":
            kind: Any = types.BaseTuple.from_types(tuple(_listed(tokens, names, ")")))
            tokens.pop(0)
        elif token in NUMBERS:
            kind = NUMBERS[token]
            if tokens and tokens[0].startswith("["):
                kind = types.Array(kind, len(tokens.pop(0)) - 1, "C")
        else:
            kind = tuple_type(_named_tuple(token, names))
        yield read_only(kind) if is_const else kind
        if tokens and tokens[0] == ",":
            tokens.pop(0)


def _named_tuple(name: str, names: dict[str, Any]) -> type:
    """The class that a module knows by this name, or else the only one whose full name ends like this."""
    if name in names:
        return names[name]  # type: ignore[no-any-return]
    found = [one for one in tuple.__subclasses__() if f"{one.__module__}.{one.__qualname__}".endswith(f".{name}")]
    if len(found) != 1:
        raise ValueError(f"{name} is the name of {len(found)} named tuples: {found}")
    return found[0]


def _word(kind: Any) -> str:
    """A type as a declaration has it; of what cannot be declared, its name."""
    if isinstance(kind, types.Array) and kind.layout == "C" and kind.aligned:
        return f"{'' if kind.mutable else 'const '}{_WORDS.get(kind.dtype, kind.dtype)}[{',' * (kind.ndim - 1)}]"
    if isinstance(kind, types.NamedTuple):
        return kind.instance_class.__name__
    if isinstance(kind, types.BaseTuple):
        return f"({in_words(kind.types)})"
    return _WORDS.get(kind, str(kind))
