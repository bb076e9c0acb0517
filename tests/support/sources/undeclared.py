"""In tests, a call of a kernel with types that its decorator does not declare fails: machine code that is made
beforehand has the declared types alone. A kernel that declares nothing, as those of tests, takes any."""

from __future__ import annotations

import sys
from typing import Any

from import_path import TESTS
from numba.core.dispatcher import Dispatcher

sys.path.append(str(TESTS.parent / "wheel"))
from declared import accept, declared_types, in_words, name_of

from neardup.machine import compile as kernels

_compile_for_args = Dispatcher._compile_for_args


def _declared_or_fail(self: Any, *arguments: Any, **named: Any) -> Any:
    """Numba calls this with arguments of types that are new to a kernel."""
    declared = getattr(self, "declared", ())
    given = tuple(map(self.typeof_pyval, arguments))
    if declared and not any(accept(declared_types(self, text), given) for text in declared):
        raise TypeError(f"{name_of(self)} declares {declared}, and is called with {in_words(given)!r}")
    return _compile_for_args(self, *arguments, **named)


Dispatcher._compile_for_args = _declared_or_fail
without_look = kernels.without_look
kernels.without_look = lambda compiled: compiled  # each call looks
