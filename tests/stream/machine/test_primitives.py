"""Primitives: instructions, models and the lines of Python on the page give equal results on random input."""

from __future__ import annotations

import copy
import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from python_calls import from_python

from neardup.machine import PRIMITIVES
from neardup_textbook.vectors import tiles

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/MACHINE_CODE.md").read_text(encoding="utf-8")
# Name -> its line of Python, and how long a kernel takes with the model.
LINES = {name: (line, gain) for name, line, gain in re.findall(r"^\| `(\w+)` \| `(.+?)` \| ([^|]+) \|$", PAGE, re.M)}
CONSTANTS = {"has_compress", "tile_vectors"}
DRAWS = 60
FULL = (1 << 64) - 1
TEXTS = ["plain text, and more of it to read", "größer als naïve Straßen, älter", "съешь ещё этих булок", "😀漢a" * 12]
Rng = np.random.Generator


class Case(NamedTuple):
    """Arguments of a primitive in their order; what the line says of the arguments after the call and the result;
    whether the line holds for these arguments; and the names that the line alone uses."""

    arguments: dict[str, Any]
    seen: Callable[[dict[str, Any], Any], Any] = lambda arguments, result: result
    has_line: bool = True
    unused: tuple[str, ...] = ()


def word(rng: Rng) -> np.uint64:
    """Any bits, of which often few are set."""
    return np.uint64(int(rng.integers(0, 1 << 63)) * 2 >> below(rng, 64) << below(rng, 8) & FULL)


def below(rng: Rng, bound: int) -> int:
    return int(rng.integers(0, bound))


def octets(rng: Rng, count: int) -> Any:
    return rng.integers(0, 256, count).astype(np.uint8)


def written(count: int, out: str = "out", at: str = "at") -> Callable[[dict[str, Any], Any], Any]:
    return lambda arguments, result: arguments[out][int(arguments[at]) : int(arguments[at]) + count]


def chosen(arguments: dict[str, Any], result: Any) -> Any:
    """As many numbers as the result says; what stands behind them is undefined."""
    count = result[0] if isinstance(result, tuple) else result
    return arguments["out"][int(arguments["at"]) : int(arguments["at"]) + count]


def ordered(rng: Rng) -> Case:
    kind = rng.choice([np.uint8, np.uint32])
    least, greatest = np.sort(rng.integers(0, 200, 2)).astype(kind)
    data = {"data": rng.integers(0, 256, 80).astype(kind), "index": below(rng, 16)}
    return Case(data | {"least": least, "greatest": greatest})


def line_of_heads(rng: Rng) -> Case:
    entries = rng.integers(0, 3, 24, np.uint64) << np.uint64(32) | rng.integers(0, 5, 24, np.uint64)
    names = {"tag": np.uint64(rng.integers(0, 3)), "base": np.uint64(rng.integers(0, 1 << 40))}
    names["base"] = rng.choice([names["base"], np.uint64(2)])
    return Case({"entries": entries, "line": below(rng, 16), **names, "alive": np.uint64(rng.integers(0, 4))})


def words_and_gaps(rng: Rng) -> Case:
    data = rng.choice(np.array([0, 0, 7, 9], np.uint8), 100)
    arguments = {"data": data, "first": np.uint64(rng.integers(0, 35)), "out": np.zeros(90, np.uint16)}
    return Case({**arguments, "at": np.uint64(rng.integers(0, 20))}, chosen)


def terms(rng: Rng) -> Case:
    codes = rng.integers(0, 256, 30).astype(rng.choice([np.uint8, np.uint32]))
    arguments = {
        "codes": codes,
        "factors": rng.integers(0, 1 << 63, 30, np.uint64),
        "first": np.uint64(rng.integers(20)),
    }
    return Case(
        {**arguments, "total": word(rng), "out": np.zeros(31, np.uint64)},
        lambda arguments, result: arguments["out"][int(arguments["first"]) + 1 :][:8],
    )


def competitors(rng: Rng) -> Case:
    data = {"data": rng.integers(0, 1 << 63, 30, np.uint64) * np.uint64(2), "index": np.uint64(rng.integers(0, 22))}
    bounds = {"factor": np.uint64(rng.integers(1, 4096)), "bound": np.uint32(rng.integers(0, 1 << 32))}
    return Case({**data, **bounds, "out": np.zeros(40, np.uint64), "at": np.uint64(rng.integers(0, 30))}, chosen)


def two_sets(rng: Rng) -> Case:
    """Few numbers, of which the two sides have some in common, at any address."""
    at = {"i": below(rng, 20), "j": below(rng, 20)}
    sides = {name: octets(rng, 60) for name in "ab"}
    for side, first in zip(sides.values(), at.values(), strict=True):
        side[first : first + 32] = rng.choice(np.arange(1, 9) << 40, 4, replace=False).astype("<u8").view(np.uint8)
    return Case({"a": sides["a"], "i": at["i"], "b": sides["b"], "j": at["j"]})


def utf8(rng: Rng) -> Case:
    is_utf8 = bool(rng.integers(2))
    data = np.frombuffer(str(rng.choice(TEXTS)).encode()[:40].ljust(40), np.uint8).copy()
    if not is_utf8:
        data[rng.integers(0, 40, 6)] = rng.choice(np.frombuffer(bytes.fromhex("7f80bfc0dfe0edeff0f4f8ff"), np.uint8), 6)
    arguments = {"data": data, "index": below(rng, 21), "required": np.uint64(rng.integers(0, 8))}
    return Case({**arguments, "out": np.zeros(40, np.uint32), "at": np.uint64(rng.integers(0, 24))}, chosen, is_utf8)


def escapes(rng: Rng) -> Case:
    """Whole escapes among plain bytes, with the masks of them; or any masks."""
    masks = dict.fromkeys(("kept", "first", "middle", "narrow", "last", "single"), 0)
    data = bytearray(rng.integers(97, 123, 70).astype(np.uint8).tobytes())
    index = int(rng.integers(1, 5))
    at = index
    is_real = bool(rng.integers(2))
    while is_real and at + 6 <= index + 64:
        if rng.integers(2):
            code = int(rng.choice([rng.integers(0, 0x80), rng.integers(0x80, 0x800), rng.integers(0x800, 0xD800)]))
            data[at : at + 6] = f"\\u{code:04{rng.choice(['x', 'X'])}}".encode()
            digits = 1 << (at - index + 2)
            masks["last"] |= digits << 3
            masks["single"] |= digits << 3 if code < 0x80 else 0
            masks["middle"] |= digits << 1 if code >= 0x80 else 0
            masks["narrow"] |= digits << 1 if code < 0x800 else 0
            masks["first"] |= digits if code >= 0x800 else 0
            masks["kept"] |= 0x3F << (at - index)  # of all six, for now
            at += 5
        at += 1
    masks["kept"] = (FULL ^ masks["kept"]) | masks["last"] | masks["middle"] | masks["first"]
    bits = {name: np.uint64(mask) if is_real else word(rng) for name, mask in masks.items()}
    out = {"out": np.zeros(90, np.uint8), "at": below(rng, 20)}
    kept = int(bits["kept"]).bit_count()
    return Case({"data": np.frombuffer(data, np.uint8).copy(), "index": index, **out, **bits}, written(kept), is_real)


def tile(rng: Rng) -> Case:
    """Whole numbers, whose sums are exact in any order."""
    dimension = int(rng.integers(1, 20))
    vectors, panel = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((12, dimension), (dimension, 16)))
    sums = {"sums": np.zeros((12, 40), np.float32), "row": below(rng, 4), "column": below(rng, 24)}
    return Case(
        {"vectors": vectors, "first": below(rng, 4), "panel": panel, **sums},
        lambda a, _: a["sums"][a["row"] :, a["column"] :][: tile_vectors(), :16],
    )


def string(rng: Rng) -> Case:
    text = str(rng.choice(TEXTS))
    return Case({"string": id(text), "text": text}, lambda arguments, result: result[1:], unused=("text",))


def memory(dtype: type) -> Callable[[Rng], Case]:
    def draw(rng: Rng) -> Case:
        data = rng.integers(0, 256, 40).astype(dtype)
        return Case({"address": data.ctypes.data, "length": below(rng, 40), "data": data}, unused=("data",))

    return draw


tile_vectors = from_python(tiles.tile_vectors)
CASES: dict[str, Callable[[Rng], Case]] = {
    "word_at": lambda rng: Case({"data": octets(rng, 40), "index": below(rng, 33)}),
    "word_from": lambda rng: Case({"data": octets(rng, 40), "index": below(rng, 33)}),
    "put_word": lambda rng: Case(
        {"data": octets(rng, 40), "index": below(rng, 33), "word": word(rng)}, written(8, "data", "index")
    ),
    "lowest_bit": lambda rng: Case({"word": word(rng)}),
    "bit_count": lambda rng: Case({"word": word(rng)}),
    "mask_below": lambda rng: Case(
        {"data": rng.integers(0, 9, 80, np.uint32), "index": below(rng, 16), "bound": np.uint32(rng.integers(0, 10))}
    ),
    "mask_between": ordered,
    "mask_of_breaks": lambda rng: Case(
        {"data": rng.choice(np.frombuffer(b'\0\x1f !"#[\\]a\xff', np.uint8), 80), "index": below(rng, 16)}
    ),
    "mask_of_line": line_of_heads,
    "copy_bits": lambda rng: Case(
        {
            "data": rng.integers(0, 1 << 32, 80).astype(np.uint32), "index": below(rng, 16),
            "bits": np.uint32(rng.integers(0, 1 << 32)), "out": np.zeros(90, np.uint32), "at": below(rng, 26),
        },
        written(64),
    ),
    "copy_bytes": lambda rng: Case(
        {"data": octets(rng, 80), "index": below(rng, 16), "out": octets(rng, 90), "at": below(rng, 26)},
        written(64),
    ),
    "changes": words_and_gaps,
    "running_sums": terms,
    "keep_below": competitors,
    "common_longs": two_sets,
    "decode_block": utf8,
    "widen": lambda rng: Case(
        {"data": octets(rng, 40), "index": below(rng, 24), "out": np.zeros(40, np.uint32), "at": np.uint64(9)},
        written(16),
    ),
    "put_escapes": escapes,
    "prefetch": lambda rng: Case({"array": octets(rng, 40), "index": below(rng, 40)}),
    "string_parts": string,
    "bytes_at": memory(np.uint8),
    "halves_at": memory(np.uint16),
    "words_at": memory(np.uint32),
    "longs_at": memory(np.int64),
    "floats_at": memory(np.float64),
    "put_tile": tile,
}  # fmt: skip


def of_line(name: str, arguments: dict[str, Any]) -> Any:
    """What the line of Python on the page gives."""
    known = {"np": np, "re": re, "ctypes": ctypes, "tile_vectors": tile_vectors}
    numbers = {key: value.item() if isinstance(value, np.generic) else value for key, value in arguments.items()}
    return eval(LINES[name][0], known | numbers)


def test_every_primitive_has_its_line_on_the_page() -> None:
    """And a case here; those that a kernel can do otherwise have a model, and a figure."""
    assert list(LINES) == list(CASES)
    assert LINES.keys() | CONSTANTS == PRIMITIVES.keys()
    for name, (_, gain) in LINES.items():
        assert bool(PRIMITIVES[name].model) == bool(re.fullmatch(r"\d+\.\d+", gain)), name


def outcome(form: Callable[..., Any], case: Case) -> tuple[Any, Any]:
    """The result, and what the line of Python speaks of; the arguments of the case stay as they are."""
    arguments = copy.deepcopy(case.arguments)
    result = form(*(arguments[name] for name in case.arguments if name not in case.unused))
    return result, case.seen(arguments, result)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_instructions_model_and_line_are_equal_on_random_input(name: str) -> None:
    """To the last bit: results, what is written, and the types that a kernel sees."""
    rng = np.random.default_rng(1)
    machine, model = ((form and from_python(form)) for form in PRIMITIVES[name])
    for _ in range(DRAWS):
        case = CASES[name](rng)
        result, seen = outcome(machine, case)
        if model:
            result_of_model, seen_of_model = outcome(model, case)
            assert np.array_equal(result, result_of_model)
            assert np.array_equal(seen, seen_of_model)
        if case.has_line:
            assert np.array_equal(seen, of_line(name, case.arguments))
    if model:
        kinds = [[one.return_type for one in form.nopython_signatures] for form in (machine, model)]
        assert kinds[0] == kinds[1]
