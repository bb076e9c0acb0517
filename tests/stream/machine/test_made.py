"""Machine code that is made beforehand: a few kernels, called by the module of C, and what is refused."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from command import ROOT, clean_environment
from import_path import ROOTS
from numba.core import types

from neardup import kernel_folder
from neardup.features.texts import raw_texts
from neardup.machine.closure import closure_key
from neardup.machine.kernels import hashing

NAMES = ("neardup.machine.kernels.hashing.seed_of", "neardup.machine.kernels.hashing.hash_strings",
         "neardup.features.texts.raw_texts._find", "neardup.window.views.keep_table")  # fmt: skip
pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, int, dict[str, list[list[str]]]]:
    """The module that calls, the open library, and the kernels in it."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler of C is installed: cc")
    folder = tmp_path_factory.mktemp("made")
    emit = [sys.executable, ROOT / "wheel" / "emit.py", folder]
    subprocess.run([*emit, "x86-64-v2", *NAMES], env=clean_environment(), check=True, capture_output=True)
    sys.path.insert(0, str(ROOT / "wheel"))
    import emit as maker

    maker.make_caller(folder)
    (file,) = folder.glob("caller.*.so")
    loader = importlib.machinery.ExtensionFileLoader("caller", str(file))
    spec = importlib.util.spec_from_loader("caller", loader)
    assert spec is not None
    caller = importlib.util.module_from_spec(spec)
    loader.exec_module(caller)
    if "x86-64-v2" not in caller.levels():
        pytest.skip("this processor is not x86-64-v2")
    return caller, caller.open_library(str(folder / "x86-64-v2.so")), json.loads((folder / "kernels.json").read_text())


def built(made: tuple[Any, int, dict[str, list[list[str]]]], name: str) -> Any:
    caller, library, kernels = made
    return caller.kernel(library, name, kernels[name], name.endswith("_find"))


def test_results_equal_those_of_the_compiler(made: Any) -> None:
    """Numbers of both types, and arrays that are read and written."""
    seed = built(made, NAMES[0])
    for pair in [(1, 2), (np.uint64(3), np.uint64(2**64 - 1))]:
        assert seed(*pair) == hashing.seed_of(*pair)
    data, starts = np.frombuffer(b"some bytes and more", np.uint8), np.array([0, 3, 3, 19])
    out, wanted = np.zeros((2, 3), np.uint64)
    built(made, NAMES[1])(data, starts, np.uint64(7), out)
    hashing.hash_strings(data, starts, np.uint64(7), wanted)
    assert out.tolist() == wanted.tolist()


def test_strings_are_read_in_place(made: Any) -> None:
    """By an address that the module of C gives to the library."""
    strings = ["ascii", "né", "東京", "\U0001f600"]
    found, wanted = (raw_texts.RawTexts(*np.zeros((3, 4), np.int64)) for _ in range(2))
    objects = np.array([id(one) for one in strings])
    built(made, NAMES[2])(objects, found)
    raw_texts._find(objects, wanted)
    assert [column.tolist() for column in found] == [column.tolist() for column in wanted]


def test_what_is_not_declared_is_refused(made: Any) -> None:
    """Another number of arguments, another type, an array that is not contiguous, not aligned, or read-only."""
    data, starts, out = np.zeros(16, np.uint8), np.array([0, 3, 16]), np.zeros(2, np.uint64)
    frozen = out.copy()
    frozen.flags.writeable = False
    crooked = np.zeros(25, np.uint8)[1:].view(np.int64)
    call = built(made, NAMES[1])
    call(data, starts, np.uint64(1), out)
    for wrong in [
        (data, starts, np.uint64(1)), (data, starts, 1, out), (data.view(np.int8), starts, np.uint64(1), out),
        (data[::2], starts, np.uint64(1), out), (data, crooked, np.uint64(1), out),
        (data, starts, np.uint64(1), frozen), (data, starts, np.uint64(1), [1, 2]),
    ]:  # fmt: skip
        with pytest.raises(TypeError, match="hash_strings was not compiled for"):
            call(*wrong)
    with pytest.raises(TypeError, match="takes no named arguments"):
        call(data=data)


def test_a_kernel_of_nested_tuples_counts_its_fields(made: Any) -> None:
    """The table has the most; a tuple with too few fields is refused."""
    with pytest.raises(TypeError, match="keep_table was not compiled for"):
        built(made, NAMES[3])(((), (), ()), 0)


def test_an_unknown_entry_or_a_file_that_is_none_is_refused(made: Any, tmp_path: Path) -> None:
    """With the name of what is missing."""
    caller, library, _ = made
    with pytest.raises(ImportError, match="neardup_9999"):
        caller.kernel(library, "name", [["ll", "L", "neardup_9999"]], False)
    with pytest.raises(ImportError, match="no types of arguments"):
        caller.kernel(library, "name", [["xy", "L", "neardup_0"]], False)
    with pytest.raises(ImportError, match=r"nothing\.so"):
        caller.open_library(str(tmp_path / "nothing.so"))


def test_another_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    """Of the sources, of what is compiled, and of what is made."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler of C is installed: cc")
    found = []
    for name in ("first", "another folder"):
        clone = tmp_path / name
        for folder in (*ROOTS, "wheel"):
            shutil.copytree(ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__"))
        sources = os.pathsep.join(str(clone / root) for root in ROOTS)
        environment = clean_environment(PYTHONPATH=sources, NUMBA_CACHE_DIR=str(clone / "compiled"))
        emit = [sys.executable, clone / "wheel" / "emit.py", clone / "made", "x86-64-v2", NAMES[0], NAMES[2]]
        subprocess.run(emit, env=environment, check=True, capture_output=True)
        found.append({path.name: path.read_bytes() for path in (clone / "made").iterdir()})
    assert {"x86-64-v2.so", "kernels.json", "made.json"} < found[0].keys()
    assert [name for name in found[0] if found[0][name] != found[1].get(name)] == []


@pytest.mark.parametrize("fields", [{"first": int}, {"other": int}, {"first": int, "other": int}])
def test_an_object_is_kept_for_the_fields_of_its_named_tuples(
    fields: dict[str, type], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their annotations are read when the object is made: a column more made a wheel whose kernel had one too few."""
    monkeypatch.syspath_prepend(ROOT / "wheel")
    import declared
    import emit as maker

    keys: list[str] = []
    monkeypatch.setattr(maker, "kernels", lambda: [hashing.seed_of])
    monkeypatch.setattr("neardup.machine.stored.stored", lambda name, make, key: keys.append(closure_key(key)) or [])
    for names in ({"first": int}, fields):
        kind = types.NamedTuple((types.int64,) * len(names), NamedTuple("Row", list(names.items())))
        monkeypatch.setattr(declared, "declared_types", lambda *_, kind=kind: (kind,))
        list(maker.entries("x86-64-v2", []))
    assert (keys[0] == keys[-1]) == (fields == {"first": int})


@pytest.mark.parametrize(
    ("kernels", "models", "message"),
    [("made", "", "neither built nor jit"), ("built", "", "has no machine code: install a wheel")],
)
def test_a_choice_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, kernels, models, message) -> None:  # type: ignore[no-untyped-def]
    """At the import, in one sentence."""
    monkeypatch.setenv(kernel_folder.KERNELS, kernels)
    with pytest.raises(ImportError, match=message):
        kernel_folder._is_built()


def test_an_installation_without_machine_code_and_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the extra."""
    monkeypatch.setattr(kernel_folder, "find_spec", lambda name: None)
    monkeypatch.delenv(kernel_folder.KERNELS, raising=False)
    with pytest.raises(ImportError, match=r"install a wheel that has machine code for this system, or neardup\[jit\]"):
        kernel_folder._is_built()
