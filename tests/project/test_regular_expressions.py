"""Every regular expression of the product takes linear time: on 128 KiB of each class of characters."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper, cache
from pathlib import Path

import pytest
import regex
from command import clean_environment
from import_path import folders

import neardup
import neardup_textbook
import neardup_workers

PACKAGES = (neardup, neardup_textbook, neardup_workers)
SIZE = 1 << 17
# Of the processor, for all inputs of one expression: linear ones take 1, the fastest quadratic one 7 for one input.
CPU_SECONDS_MAX = 5.0
PROCESS_SECONDS_MAX = 1800.0
METHODS = ("match", "fullmatch", "search", "sub", "split", "finditer", "findall")
# What is repeated, and what the whole ends with: most expressions fail late only if the end does not fit.
PIECES = (
    "a", "A", " ", "\t", "\n", "\r\n", "0", "<", ">", '"', "'", "\\", "&", ";", "-", "=", ".", ":", "/", "[", "{",
    "<!--", "<!-- -->", "<!----> \n", "<?xml", "<a ", '<a "', "</style", "&#1", "From ", ">From ", "\n>", "\nFrom ",
    "a: b\r\n", "a:\r\n ", '"\\', '"",', "1.", "1e", "\u0301", "\u00e9", "\u6f22", "\U0001f600", "\x7f",
)  # fmt: skip
ENDS = ("", "!")
# Expressions that read only what is typed: settings and options, at most a line.
TYPED = {"neardup_workers.outside.settings.durations._PART"}


@cache
def expressions() -> dict[str, str]:
    """Names and methods of all compiled expressions, in order."""
    return dict(sorted(_expressions()))


def _expressions() -> Iterator[tuple[str, str]]:
    """Name and methods of each expression that a module compiles at its top, or in a function that it keeps."""
    sources = (path for package in PACKAGES for path in Path(str(package.__file__)).parent.rglob("*.py"))
    product = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            source = Path(str(module.__file__)).read_text(encoding="utf-8")
            for name, value in vars(module).items():
                kept = isinstance(value, _lru_cache_wrapper) and "re.Pattern[str]" in value.__annotations__.values()
                if not kept and not isinstance(value, re.Pattern | regex.Pattern):
                    continue
                if f"\n{f'def {name}(' if kept else f'{name} = '}" not in f"\n{source}":
                    continue
                readers = source if name.startswith("_") else product
                called = set(re.findall(rf"\b{name}(?:\(\))?\.(\w+)", readers))
                used = [method for method in METHODS if method in called]
                yield f"{found.name}.{name}", " ".join(used or ["match", "search"])


TRY = f"""
import importlib, signal, sys
sys.path[:0] = {[str(Path(__file__).parent), *folders("support")]!r}
from test_regular_expressions import CPU_SECONDS_MAX, ENDS, PIECES, SIZE, TYPED, expressions
for name in expressions().keys() - TYPED:
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)  # its signal ends the process
    module, _, short = name.rpartition(".")
    pattern = getattr(importlib.import_module(module), short)
    pattern = pattern if hasattr(pattern, "pattern") else pattern()
    for piece in PIECES:
        for end in ENDS:
            text = piece * (SIZE // len(piece)) + end
            text = text.encode() if isinstance(pattern.pattern, bytes) else text
            for method in expressions()[name].split():
                if end and method not in ("match", "fullmatch", "search"):
                    continue  # the others read on after each hit, so their end is one of many
                print(name, repr(piece), repr(end), method, flush=True)
                if method == "sub":
                    pattern.sub(b"" if isinstance(text, bytes) else "", text)
                elif method == "finditer":
                    sum(1 for _ in pattern.finditer(text))
                else:
                    getattr(pattern, method)(text)
"""


@pytest.mark.processes
def test_every_expression_takes_linear_time() -> None:
    """A nested or adjacent unbounded repeat would make an ordinary file hang the program."""
    done = subprocess.run(
        [sys.executable, "-c", TRY],
        capture_output=True,
        check=False,
        timeout=PROCESS_SECONDS_MAX,
        env=clean_environment(),
    )
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, f"{done.stderr.decode()}{done.returncode} after {lines[-1:]}"
    assert {line.split()[0] for line in lines} == expressions().keys() - TYPED


def test_expressions_are_found() -> None:
    """The readers of mail, WARC and pages are among them."""
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in expressions()} >= {
        "message",
        "mbox",
        "warc",
        "markup",
        "marks",
    }
