"""Kernels: what the decorators promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import undeclared
from python_calls import from_python, inner_kernels, python_calls

from neardup.features.texts import normalize, shingles
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels import hashing
from neardup.schemes.signatures import banding
from neardup_textbook.signatures import bit_sampling, hyperplanes, p_stable


def squares(values, out):  # type: ignore[no-untyped-def]
    """Of each value."""
    for i in range(len(values)):
        out[i] = values[i] * values[i]


@pytest.mark.parametrize("decorator", [kernel(), inner, inlined])
def test_a_kernel_is_the_loop_it_was_written_as(decorator) -> None:  # type: ignore[no-untyped-def]
    """A kernel computes what Python computes, releases the interpreter lock, and is stored on disk."""
    compiled = decorator(squares)
    out = np.empty(4, np.uint64)
    from_python(compiled)(np.arange(4, dtype=np.uint64), out)
    assert out.tolist() == [0, 1, 4, 9]
    assert compiled.targetoptions["nogil"]
    assert Path(compiled.stats.cache_path).is_dir()


def test_a_direct_call_is_the_same_loop() -> None:
    """The first call compiles, later ones go to the machine code, also with an array that is only read."""
    compiled: Any = kernel("const u64[], u64[]")(squares)
    call, out = undeclared.without_look(compiled), np.empty(3, np.uint64)
    for first in (0, 3, 6):
        values = np.arange(first, first + 3, dtype=np.uint64)
        values.setflags(write=first == 3)
        call(values, out)
        assert out.tolist() == (values**2).tolist()
    assert len(compiled.overloads) == 1


@pytest.mark.processes
def test_a_stored_kernel_is_loaded_without_the_compiler() -> None:
    """A process that compiles nothing prepares neither the compiler nor SciPy, and its kernels allocate arrays."""
    code = """
import sys
from neardup import Config, Deduplicator, Document
texts = ["The quick brown fox jumps over the lazy dog, and back", "The quick brown fox jumps over the lazy dog: back"]
verdicts = Deduplicator(Config(threshold=0.5, recall=0.8)).decide([Document(text, text) for text in texts])
print(verdicts[1].status, "numba.cpython.unicode" in sys.modules, "scipy.linalg" in sys.modules)
"""
    run = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True) for _ in range(2)]
    assert run[1].stdout == b"duplicate False False\n"


@pytest.mark.long
def test_no_python_code_calls_a_kernel_that_only_kernels_can_call():
    """Python cannot call such a kernel: it would end the process."""
    assert ("neardup.machine.kernels.hashing", "mix64") in inner_kernels()
    assert list(python_calls()) == []


@pytest.mark.parametrize("module", [banding, hashing, normalize, shingles, hyperplanes, p_stable, bit_sampling])
def test_no_kernel_of_the_library_needs_the_interpreter_lock(module) -> None:  # type: ignore[no-untyped-def]
    """So threads sign at the same time."""
    compiled = [value for value in vars(module).values() if hasattr(value, "targetoptions")]
    assert compiled
    assert all(value.targetoptions["nogil"] for value in compiled)
