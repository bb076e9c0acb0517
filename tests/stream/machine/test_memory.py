"""Memory: what is kept for kernels from call to call."""

from __future__ import annotations

import copy
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from python_calls import from_python

from neardup.machine.compile import inner, kernel
from neardup.machine.memory import Kept, put, reader_of


class Inside(NamedTuple):
    """A part of what is kept."""

    flags: npt.NDArray[np.bool_]
    least: float


class Outside(NamedTuple):
    """What is kept."""

    is_open: bool
    inside: Inside
    table: Annotated[npt.NDArray[np.uint16], "[,]"]
    count: int


_outside_at = reader_of(Outside)


@kernel("Outside, i64")
def _keep(value, address):  # type: ignore[no-untyped-def]
    put(value, address)


@inner
def _total(address):  # type: ignore[no-untyped-def]
    """Of all numbers; the first of each array counts for the next one."""
    value = _outside_at(address)
    total = value.is_open + value.inside.least + value.count + value.table.shape[0]
    for row in range(len(value.table)):
        for column in range(value.table.shape[1]):
            total += value.table[row, column]
    total += value.inside.flags.sum()
    value.inside.flags[0], value.table[0, 0] = True, value.table[0, 0] + 1
    return total


def test_a_kernel_reads_and_writes_what_is_kept() -> None:
    """Each field of nested tuples; a larger value takes the place of one before."""
    total, kept = from_python(_total), Kept[Outside](_keep)
    for size in (1, 70, 3):
        value = Outside(size == 3, Inside(np.arange(size) % 2 == 1, 0.5), np.full((size, 2), size, np.uint16), -size)
        kept.renew(value)
        assert kept.value is value
        for further in range(3):
            ones = size // 2 + (further > 0)
            assert total(kept.address) == (size == 3) + 0.5 + 2 * size**2 + ones + further
        assert value.table[0, 0] == size + 3


def test_a_copy_of_what_is_kept_writes_memory_of_its_own() -> None:
    """The address of the first one is none of the copy."""
    kept = Kept[Outside](_keep)
    kept.renew(Outside(True, Inside(np.zeros(1, np.bool_), 0.5), np.zeros((1, 1), np.uint16), 1))
    again = copy.deepcopy(kept)
    assert (again.value, again.address) == (None, 0)
