"""The key of a stored kernel: a result follows an edit of anything that the kernel reaches, and of nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest
from command import PROCESS_SECONDS_MAX, ROOT, clean_environment
from numba.core.dispatcher import Dispatcher

import neardup
import neardup_textbook
from neardup.machine import closure
from neardup.machine.closure import closure_key
from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels import hashing
from neardup.schemes.signatures import banding
from neardup_textbook.vectors import packed_bits

PACKAGE = Path(neardup.__file__).parent
# The packages whose functions are compiled.
COMPILED = [PACKAGE, Path(neardup_textbook.__file__).parent]
HASHING = Path(hashing.__file__).relative_to(PACKAGE)
MACHINE = Path(closure.__file__).parent.relative_to(PACKAGE)

# Prints what kernels return, how often each had to be compiled, and which functions the compiler needed for which.
RESULTS = f"""
import json
import numpy as np
from numba.core import event
from {hashing.__name__} import hash_bags, seed_of
from {banding.__package__} import banding
from {packed_bits.__package__} import packed_bits

class Needed(event.Listener):
    stack, edges = [], []
    def on_start(self, one):
        function = one.data["dispatcher"].py_func
        if function.__module__.startswith({PACKAGE.name!r}):  # and not the compiler's own
            self.edges += [(outer, function.__qualname__) for outer in self.stack]
        self.stack.append(function.__qualname__)
    def on_end(self, one):
        self.stack.pop()

event.register("numba:compile", Needed())
bags, keys = np.empty((1, 2), np.uint64), np.empty((1, 2), np.uint64)
sketches, counts = np.arange(48, dtype=np.uint8).reshape(2, 24), np.empty((2, 1), np.int32)
hash_bags(np.array([1 << 40, 3], np.uint64), np.array([0, 2]), bags)
looked_at = banding._keys.__wrapped__
banding._keys(np.arange(32, dtype=np.uint8).reshape(1, 32), np.array([5, 6], np.uint64), keys)
packed_bits._agreement(sketches[:1], sketches[1:], 2, 64, *counts)
results = {{"seed_of": seed_of(np.uint64(3), np.uint64(4)), "hash_bags": bags, "_keys": keys, "_agreement": counts}}
used = (seed_of, hash_bags, looked_at, packed_bits._agreement)
print(json.dumps([
    {{name: np.asarray(result).tolist() for name, result in results.items()}},
    {{one.__name__: sum(one.stats.cache_misses.values()) for one in used}},
    Needed.edges,
]))
"""
KEYS = f"""
import json
from importlib import import_module
from pkgutil import walk_packages
import neardup, neardup_textbook
from numba.core.dispatcher import Dispatcher
from {closure_key.__module__} import closure_key
packages = neardup, neardup_textbook
names = [one.name for package in packages for one in walk_packages(package.__path__, package.__name__ + ".")]
modules = [import_module(name) for name in names if name != "neardup.__main__"]
values = [value for module in modules for value in vars(module).values()]
both = [one for value in values for one in (value, getattr(value, "__wrapped__", None))]
kernels = [one for one in both if isinstance(one, Dispatcher)]
print(json.dumps({{f"{{one.__module__}}.{{one.__qualname__}}": closure_key(one) for one in kernels}}))
"""


USED = {
    "seed_of": hashing.seed_of,
    "hash_bags": hashing.hash_bags,
    "_keys": banding._keys,
    "_agreement": packed_bits._agreement,
}


class Edit(NamedTuple):
    """A change of one file: every ``old`` becomes ``new``."""

    file: Path
    old: str
    new: str


CONSTANT = [Edit(HASHING, "_M1 = np.uint64(0xBF", "_M1 = np.uint64(0xBD")]
BODY = [Edit(HASHING, "return value ^ (value >> _S29)", "return value ^ (value >> _S30)")]
INSTRUCTIONS = [
    Edit(MACHINE / "words.py", "code.builder.bswap(code.load(data, index, I64))", "code.load(data, index, I64)"),
    Edit(MACHINE / "bits.py", "code.builder.ctpop(word)", "code.builder.add(word, word)"),
]


def clone(folder: Path, edits: list[Edit]) -> Path:
    """A copy of the packages in a folder of its own, with edits of the library."""
    for package in COMPILED:
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__", "*.js", "*.css"))
    root = folder / PACKAGE.name
    for edit in edits:
        text = (root / edit.file).read_text(encoding="utf-8")
        assert edit.old in text
        (root / edit.file).write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return folder


def printed(code: str, folder: Path, cache_folder: Path) -> Any:
    """What code prints as JSON in a process that imports the packages in a folder, or those of this tree."""
    sources = {} if folder == ROOT else {"PYTHONPATH": str(folder)}
    environment = clean_environment(NUMBA_CACHE_DIR=str(cache_folder), **sources)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, check=False, cwd=folder, env=environment,
        timeout=PROCESS_SECONDS_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.processes
def test_the_result_of_a_kernel_follows_every_edit_of_what_it_reaches(tmp_path: Path) -> None:
    """Clones with different sources share a folder of compiled kernels: a constant, a body of a function that is
    inlined, and the instructions of a primitive are edited. Equal kernels are loaded in every folder, others never."""
    cache_folder = tmp_path / "cache"
    plain, compiled, edges = printed(RESULTS, clone(tmp_path / "plain", []), cache_folder)
    assert set(compiled.values()) == {1}
    reached = {(name, inner.__qualname__) for name in plain for inner in reached_by(USED[name])}
    assert {tuple(edge) for edge in edges} >= {("_keys", "put_keys"), ("hash_bags", "mix64")}
    assert {(outer, inner) for outer, inner in edges if outer in plain} <= reached
    for number, (edits, changed) in enumerate(
        [
            ([], set()),
            (CONSTANT, {"seed_of", "hash_bags", "_keys"}),
            ([*BODY, *INSTRUCTIONS], {"hash_bags", "_keys", "_agreement"}),
        ]
    ):
        found, compiled, _ = printed(RESULTS, clone(tmp_path / str(number), edits), cache_folder)
        assert {name for name in plain if found[name] != plain[name]} == changed
        assert {name for name, count in compiled.items() if count} == changed
    again, compiled, _ = printed(RESULTS, tmp_path / "plain", cache_folder)
    assert (again, set(compiled.values())) == (plain, {0})


@pytest.mark.processes
def test_a_comment_a_docstring_or_another_folder_changes_no_key(tmp_path: Path) -> None:
    """Nor does another seed of Python's hashes; a constant changes the keys of those that reach it, and no other."""
    commented = clone(tmp_path / "commented", [])
    for path in commented.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r'^( *)("""|r""")(?=\S)', r"\1\2Changed. ", text, flags=re.M)
        path.write_text(f"# A comment, and another.\n\n{text}", encoding="utf-8")
    here, there = (printed(KEYS, folder, tmp_path) for folder in (ROOT, commented))
    assert len(here) > 300
    assert {name for name in here if here[name] != there[name]} == set()
    edited = printed(KEYS, clone(tmp_path / "edited", CONSTANT), tmp_path)
    mix64 = hashing.mix64
    assert {name for name in here if here[name] != edited[name]} == {
        name for name, one in kernels().items() if mix64 in {one, *reached_by(one)}
    }


@cache
def kernels() -> dict[str, Any]:
    """All kernels of the library and of the textbook by name."""
    packages = (neardup, neardup_textbook)
    names = [one.name for package in packages for one in walk_packages(package.__path__, f"{package.__name__}.")]
    modules = [import_module(name) for name in names if name != "neardup.__main__"]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, Dispatcher)]
    return {f"{one.__module__}.{one.__qualname__}": one for one in found}


def reached_by(node: Any) -> set[Any]:
    """All functions, primitives and classes that a kernel reaches, without itself."""
    found: set[Any] = set()
    waiting = [node]
    while waiting:
        new = set(closure._own(waiting.pop()).reached) - found
        found |= new
        waiting += new
    return found


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing is known of functions, before and after."""
    closure._own.cache_clear()
    yield
    closure._own.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_an_edit_of_any_function_changes_the_keys_of_all_kernels_that_reach_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each function that a kernel of the library reaches, also one that writes instructions, gets another constant."""
    every = kernels()
    before = {name: closure_key(one) for name, one in every.items()}
    reached = {name: {one, *reached_by(one)} for name, one in every.items()}
    functions = {node for nodes in reached.values() for node in nodes if not isinstance(node, type)}
    assert len(functions) > 400
    users: dict[Any, set[str]] = {}
    for name, nodes in reached.items():
        for node in nodes:
            users.setdefault(node, set()).add(name)
    for node in functions:
        edited = closure._own(node)
        function = getattr(node, "py_func", getattr(node, "_defn", node))
        code = function.__code__
        with monkeypatch.context() as patch:
            patch.setattr(function, "__code__", code.replace(co_consts=(*code.co_consts, 12345)))
            changed = closure._own.__wrapped__(node)
        assert changed.digest != edited.digest
        assert changed.reached == edited.reached
    # The digest of each node is in the key of every kernel that reaches it: shown for the one that most kernels reach.
    most = max((node for node in functions if isinstance(node, FunctionType)), key=lambda node: len(users[node]))
    code = most.__code__
    monkeypatch.setattr(most, "__code__", code.replace(co_consts=(*code.co_consts, 12345)))
    closure._own.cache_clear()
    after = {name: closure_key(one) for name, one in every.items()}
    assert {name for name in every if before[name] != after[name]} == users[most]


class Pair(NamedTuple):
    """Two numbers, which a kernel reads by name and its machine code by place."""

    first: int
    second: int


class Swapped(NamedTuple):
    """The same in the other order."""

    second: int
    first: int


def test_a_kernel_follows_the_order_of_the_fields_that_it_reads() -> None:
    """Both types print alike, and a kernel for one would read the wrong number of the other."""
    Swapped.__name__, Swapped.__qualname__ = Pair.__name__, Pair.__qualname__

    def difference(pair: Any) -> Any:
        return pair.first - pair.second

    for made in (Pair(first=5, second=3), Swapped(first=5, second=3)):
        assert kernel()(difference)(made) == 2


def test_a_kernel_follows_the_function_that_it_is_given() -> None:
    """The type of an argument can be a kernel."""

    def twice(x: Any) -> Any:
        return x + x

    def square(x: Any) -> Any:
        return x * x

    square.__qualname__ = twice.__qualname__

    def apply(function: Any, x: Any) -> Any:
        return function(x)

    assert [kernel()(apply)(inlined(function), 5) for function in (twice, square)] == [10, 25]


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (1, True), (1, 1.0), (0.0, -0.0), ("1", b"1"), (np.uint64(1), np.int64(1)), (np.uint32(1), np.uint64(1)),
        ((1, 2), [1, 2]), ((1, (2,)), ((1, 2),)), ({"a": 1}, {"a": 2}), (frozenset("ab"), frozenset("ac")),
        (np.zeros(2), np.zeros((2, 1))), (np.zeros(2), np.ones(2)), (Pair(1, 2), (1, 2)), (int, float), (len, abs),
        (np.dtype(np.int8), np.dtype(np.uint8)), (range(3), range(4)),
    ],
)  # fmt: skip
def test_different_constants_have_different_keys(value: Any, other: Any) -> None:
    """Also those that Python holds to be equal."""
    assert closure_key(value) != closure_key(other)
    assert closure_key((value, value)) == closure_key((value, value))


def test_a_value_that_no_key_can_hold_is_an_error() -> None:
    """It names the value: its address would change the key in every process."""
    thing = object()

    def reads() -> Any:
        return thing

    with pytest.raises(TypeError, match="whose content its key cannot hold"):
        closure_key(reads)
