"""The switch of the machine code: ``NEARDUP_MACHINE_CODE`` names the primitives that run as their models.

``models`` means all of them. Read once, when the library is imported, because kernels contain the code of primitives.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

VARIABLE = "NEARDUP_MACHINE_CODE"
ALL = "models"
# Names of primitives, or ``ALL``. A part of the key of every stored kernel.
MODELS = tuple(sorted({name.strip() for name in os.environ.get(VARIABLE, "").split(",")} - {""}))


def runs_as_model(name: str) -> bool:
    """Whether kernels call the model of this primitive."""
    return ALL in MODELS or name in MODELS


def refuse_unknown(primitives: Iterable[str]) -> None:
    """Raise ``ImportError`` if the switch names what is no primitive with a model."""
    known = [*sorted(primitives), ALL]
    for name in MODELS:
        if name not in known:
            raise ImportError(f"{VARIABLE} is {name!r}, which names no primitive; give some of {', '.join(known)}")
