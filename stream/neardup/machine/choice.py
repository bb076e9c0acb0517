"""The machine code that runs: that of the wheel, and models of primitives instead of their instructions.

``NEARDUP_MACHINE_CODE`` names the primitives that run as their models, ``models`` means all of them; for that, numba
compiles. It is read once, when the library is imported, because kernels contain the code of primitives.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from neardup.kernel_folder import BUILT, KERNELS, MADE, MODELS, VARIABLE

ALL = "models"


def runs_as_model(name: str) -> bool:
    """Whether kernels call the model of this primitive."""
    return ALL in MODELS or name in MODELS


def refuse_unknown(primitives: Iterable[str]) -> None:
    """Raise ``ImportError`` if the switch names what is no primitive with a model."""
    known = [*sorted(primitives), ALL]
    for name in MODELS:
        if name not in known:
            raise ImportError(f"{VARIABLE} is {name!r}, which names no primitive; give some of {', '.join(known)}")


def described() -> str:
    """Return one line: which machine code runs."""
    if BUILT:
        _, level, _ = _opened()
        return f"built for {level}, {json.loads((MADE / 'made.json').read_text())['key']}"
    return "compiled when first used, for this processor"


def built_kernel(function: Callable[..., Any], locked: bool) -> Callable[..., Any]:
    """Return the machine code of a kernel in the wheel."""
    name = f"{function.__module__}.{function.__qualname__}"
    caller, _, (library, kernels) = _opened()
    if name not in kernels:
        raise ImportError(f"{name} is not in the machine code of this wheel: build it again")
    found: Any = caller.kernel(library, name, kernels[name], locked)
    functools.update_wrapper(found, function)
    return found  # type: ignore[no-any-return]


def table(name: str, make: functools.partial[Any], key: Hashable) -> list[npt.NDArray[Any]]:
    """Return the arrays that ``make`` returns, read-only, without making them where an earlier process or the wheel has
    them. The name, the sources and ``key`` say all that decides them."""
    if not BUILT:
        from neardup.machine.stored import stored

        arrays = list(stored(name, make, key))
    elif files := sorted(MADE.glob(f"{name}.*.npy")):
        return [np.asarray(np.load(file, mmap_mode="r")) for file in files]  # only the parts that are used
    else:
        arrays = list(make())
    for array in arrays:
        array.flags.writeable = False
    return arrays


@functools.cache
def _opened() -> tuple[Any, str, tuple[int, dict[str, Any]]]:
    """The module that calls kernels, the level of this processor, the open file and its kernels."""
    caller = importlib.import_module(f"{__package__}.made.caller")
    for level in caller.levels():
        file = MADE / f"{level}.so"
        if file.exists():
            return caller, level, (caller.open_library(str(file)), json.loads((MADE / "kernels.json").read_text()))
    raise ImportError(
        f"no machine code of this wheel runs on this processor: install neardup[jit], set {KERNELS} to jit"
    )


class Placeholder:
    """Stands for the compiler's names where nothing is compiled: primitives name them when they are declared."""

    def __call__(self, *_: object, **__: object) -> Placeholder:
        """Return a placeholder, as everything here does."""
        return self

    def __getattr__(self, name: str) -> Placeholder:
        """Return a placeholder for each name but Python's own."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self
