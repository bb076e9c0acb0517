"""Tables next to the compiled kernels: made once, by whichever process needs them first."""

from __future__ import annotations

import os
from errno import ENOSPC
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neardup.features.texts import normalize, unicode_table
from neardup.features.texts.normalize import NormalForm, code_points
from neardup.machine import PRIMITIVES
from neardup.machine import stored as module
from neardup.machine.compile import kernel
from neardup.machine.stored import stored


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for what is stored."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    module._remove_oldest.cache_clear()
    module._warn.cache_clear()
    MADE.clear()
    return tmp_path


# The arrays that a test has made.
MADE: list[Any] = []


def numbers() -> Any:
    """Five numbers, which tell from which call they are."""
    MADE.append(np.arange(len(MADE) + 1, len(MADE) + 6))
    return MADE[-1]


make = partial(numbers)


def files_of(folder: Path, ending: str) -> list[Path]:
    return sorted(path for path in folder.rglob(f"*{ending}") if path.is_file())


def test_a_value_is_made_once_for_each_key(folder: Path) -> None:
    """A value that is read is equal to the one that was made."""
    first = [stored("numbers", make, key) for key in ("a", ("b", 1))]
    again = [stored("numbers", make, key) for key in ("a", ("b", 1))]
    assert len(MADE) == 2
    for made, read in zip(first, again, strict=True):
        assert made is not read
        assert np.array_equal(made, read)
    assert len(files_of(folder, ".nbc")) == 2


@pytest.mark.parametrize("content", [b"", b"\x80\x05", b"not a pickle"], ids=["empty", "cut", "other"])
def test_a_damaged_file_is_made_again(folder: Path, content: bytes) -> None:
    """Once: the next process finds the value."""
    stored("numbers", make, "a")
    for path in files_of(folder, ".nbc"):
        path.write_bytes(content)
    assert [stored("numbers", make, "a")[0] for _ in range(3)] == [2, 2, 2]


def test_a_file_with_the_value_of_another_key_is_not_believed(folder: Path) -> None:
    """A file holds its key, and a value under a name that is not its own is made again."""
    for key in ("a", "b"):
        stored("numbers", make, key)
    first, second = files_of(folder, ".nbc")
    first.write_bytes(second.read_bytes())
    assert sorted(stored("numbers", make, key)[0] for key in ("a", "b")) in ([1, 3], [2, 3])
    assert len(MADE) == 3


def test_a_value_follows_what_makes_it(folder: Path) -> None:
    """Another function, or the same with another argument, makes its own."""
    doubled = partial(np.add, 2)
    found = [stored("sums", make, "a") for make in (partial(np.add, 1, 1), partial(np.add, 1, 2), partial(doubled, 2))]
    assert found == [2, 3, 4]
    assert len(files_of(folder, ".nbc")) == 3


def compiled_sum() -> Any:
    """A kernel as a new process has it: nothing is compiled yet."""

    def total(values: Any) -> Any:
        """Return the sum."""
        found = values[0]
        for i in range(1, len(values)):
            found += values[i]
        return found

    return kernel()(total)


NARROW, WIDE = np.full(3, 200, np.uint8), np.full(3, 1 << 40, np.uint64)


def test_the_code_for_other_types_is_not_run(folder: Path) -> None:
    """Two processes that compile one kernel for two types at once cannot take each other's file."""
    total = compiled_sum()
    expected = [total(NARROW), total(WIDE)]
    first, second = files_of(folder, ".nbc")
    held = first.read_bytes(), second.read_bytes()
    first.write_bytes(held[1])
    second.write_bytes(held[0])
    total = compiled_sum()
    assert [total(NARROW), total(WIDE)] == expected
    assert len(total.stats.cache_misses) == 2
    total = compiled_sum()
    assert [total(NARROW), total(WIDE)] == expected
    assert len(total.stats.cache_hits) == 2


@pytest.mark.parametrize(
    "content", [b"", b"cstream.missing\nName\n.", b"not a pickle"], ids=["empty", "moved", "other"]
)
def test_a_kernel_in_a_damaged_file_is_compiled_again(folder: Path, content: bytes) -> None:
    """Also one of an older tree, whose modules had other names."""
    compiled_sum()(WIDE)
    (path,) = files_of(folder, ".nbc")
    path.write_bytes(content)
    total = compiled_sum()
    assert total(WIDE) == 3 << 40
    assert len(total.stats.cache_misses) == 1
    again = compiled_sum()
    assert again(WIDE) == 3 << 40
    assert len(again.stats.cache_hits) == 1


def test_a_kernel_that_cannot_be_kept_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk does not break the step in which a kernel is first needed."""

    def full(path: Path, data: bytes) -> None:
        raise OSError(ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(RuntimeWarning, match="No space left on device.: set NUMBA_CACHE_DIR"):
        assert compiled_sum()(WIDE) == 3 << 40
    assert files_of(folder, "") == []


def test_without_a_folder_every_process_makes_the_value_and_says_so_once(folder: Path) -> None:
    """A file has the name of the folder."""
    (folder / "neardup-kernels").write_text("")
    with pytest.warns(RuntimeWarning, match="every start compiles it") as warned:
        assert [stored("numbers", make, "a")[0] for _ in range(2)] == [1, 2]
    assert len(warned) == 1


def test_a_folder_that_can_only_be_read_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a container whose file system is read-only: nothing is tried but to read."""
    stored("numbers", make, "a")
    monkeypatch.setattr(Path, "mkdir", None)
    monkeypatch.setattr(Path, "write_bytes", None)
    assert [stored("numbers", make, "a")[0] for _ in range(2)] == [1, 1]


def test_the_oldest_files_go_when_the_folder_is_large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of them, before the first file that a process writes; those of other programs next to the folder stay."""
    monkeypatch.setattr(module, "_FOLDER_BYTES_MAX", 4_000)
    kept = folder / "neardup-kernels"
    kept.mkdir()
    for age, name in enumerate("dcba"):
        (kept / f"{name}.nbc").write_bytes(bytes(1_500))
        os.utime(kept / f"{name}.nbc", (1_000 - age, 1_000 - age))
    stored("numbers", make, "a")
    stored("numbers", make, "b")
    assert [path.name for path in files_of(folder, "")][:2] == ["c.nbc", "d.nbc"]
    assert len(files_of(folder, ".nbc")) == 4


def test_the_unicode_table_of_a_form_is_built_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later process reads it, and normalises as before; another form or version of Unicode has its own table."""

    def folded() -> list[int]:
        codes = code_points(["Größe ﬁ é 東京 １"], form)
        return codes.wide[: codes.lengths[0]].tolist()  # type: ignore[no-any-return]

    normalize._table.cache_clear()
    form = NormalForm()
    expected = folded()
    normalize._table.cache_clear()
    built: list[str] = []
    chunks = unicode_table._chunks
    monkeypatch.setattr(unicode_table, "_chunks", lambda: built.append("table") or chunks())
    assert folded() == expected
    assert built == []
    assert not any(column.flags.writeable for column in normalize._table(form))
    code_points(["é"], NormalForm(nfkc=False))
    monkeypatch.setattr(normalize, "FOLD_RULES", "0.0.0")
    normalize._table.cache_clear()
    assert folded() == expected
    assert len(built) == 2
    assert len(files_of(folder, ".nbc")) >= 3
    normalize._table.cache_clear()


def test_kernels_with_instructions_and_with_models_are_kept_apart(folder: Path) -> None:
    """The primitive is a part of what they reach: neither runs the code of the other."""

    def first_word(word_at: Any) -> Any:
        def word(data: Any) -> Any:
            return word_at(data, 0)

        return kernel()(word)

    for misses in (1, 0):
        for word_at in PRIMITIVES["word_at"]:
            compiled = first_word(word_at)
            assert compiled(np.arange(8, dtype=np.uint8)) == 0x0706050403020100
            assert len(compiled.stats.cache_misses) == misses
    assert len(files_of(folder, ".nbc")) >= 2
