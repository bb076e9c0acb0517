"""Escapes of JSON strings in vector code: the same UTF-8 on every processor."""

from __future__ import annotations

import json

import numba
import numpy as np
import pytest

from neardup.machine.code import Code
from neardup.machine.kernels import escapes

# Of one, two and three bytes, with plain bytes between them, so that escapes begin at every place of 59 bytes.
TEXT = "".join(
    chr(code) + "x" * (code % 4) for code in [*range(0x80, 0xD800, 37), *range(0xE000, 0x10000, 37), *range(32)]
)


@pytest.mark.parametrize("missing", [(), ("has_byte_compress",), ("has_byte_compress", "has_bit_extract")])
def test_escapes_become_the_same_bytes_with_any_instructions(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With AVX-512 VBMI2, with BMI2, and with neither."""
    for name in missing:
        monkeypatch.setattr(Code, name, False)
    line = b'"' + "".join(f"\\u{ord(one):04x}" if one != "x" else one for one in TEXT).encode() + b'"'
    assert json.loads(line) == TEXT
    data, out = np.frombuffer(line + bytes(65), np.uint8), np.empty(len(line) + 65, np.uint8)
    end, size = numba.njit(escapes.unescape.py_func)(data, 1, out, 0)
    assert end == len(line) - 1
    assert out[:size].tobytes().decode() == TEXT
