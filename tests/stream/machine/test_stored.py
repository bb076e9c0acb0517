"""Tables next to the compiled kernels: made once, by whichever process needs them first."""

from __future__ import annotations

from errno import ENOSPC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config
from numba.core.caching import IndexDataCacheFile, NullCache, UserProvidedCacheLocator

from neardup.features.texts import normalize, unicode_table
from neardup.features.texts.normalize import NormalForm, code_points
from neardup.machine import stored as module
from neardup.machine.compile import kernel
from neardup.machine.stored import stored


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for what is stored.

    Numba's compiler reads the variables again if one of them has changed, so a value in ``config`` alone may be lost.
    """
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


def owner() -> None:
    """The function in whose name the values of these tests are stored."""


class Maker:
    """Makes arrays, and counts how many."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> np.ndarray[Any, Any]:
        self.count += 1
        return np.arange(self.count, self.count + 5)


def files_of(folder: Path, ending: str) -> list[Path]:
    return sorted(path for path in folder.rglob(f"*{ending}") if path.is_file())


def test_a_value_is_made_once_for_each_key(folder: Path) -> None:
    """A value that is read is equal to the one that was made."""
    make = Maker()
    first = [stored(owner, key, make) for key in ("a", ("b", 1))]
    again = [stored(owner, key, make) for key in ("a", ("b", 1))]
    assert make.count == 2
    for made, read in zip(first, again, strict=True):
        assert made is not read
        assert np.array_equal(made, read)
    assert len(files_of(folder, ".nbc")) == 2


@pytest.mark.parametrize("content", [b"", b"\x80\x05", b"not a pickle"], ids=["empty", "cut", "other"])
def test_a_damaged_file_is_made_again(folder: Path, content: bytes) -> None:
    """Once: the next process finds the value."""
    make = Maker()
    stored(owner, "a", make)
    for path in files_of(folder, ".nbc"):
        path.write_bytes(content)
    assert [stored(owner, "a", make)[0] for _ in range(3)] == [2, 2, 2]


def test_a_file_with_the_value_of_another_key_is_not_believed(folder: Path) -> None:
    """A file holds its key, and a value under a name that is not its own is made again."""
    make = Maker()
    for key in ("a", "b"):
        stored(owner, key, make)
    first, second = files_of(folder, ".nbc")
    first.write_bytes(second.read_bytes())
    assert sorted(stored(owner, key, make)[0] for key in ("a", "b")) in ([1, 3], [2, 3])
    assert make.count == 3


def test_a_value_of_an_earlier_version_of_the_module_is_not_believed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is written again."""
    make = Maker()
    stored(owner, "a", make)
    (value,) = files_of(folder, ".nbc")
    old = value.read_bytes()
    stamp = UserProvidedCacheLocator.get_source_stamp
    monkeypatch.setattr(UserProvidedCacheLocator, "get_source_stamp", lambda self: (*stamp(self), "changed"))
    stored(owner, "a", make)
    value.write_bytes(old)
    assert [stored(owner, "a", make)[0] for _ in range(2)] == [3, 3]


def compiled_sum() -> Any:
    """A kernel as a new process has it: nothing is compiled yet."""

    def total(values: Any) -> Any:
        """Return the sum."""
        found = values[0]
        for i in range(1, len(values)):
            found += values[i]
        return found

    return kernel(total)


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

    def full(files: IndexDataCacheFile, name: str) -> None:
        raise OSError(ENOSPC, "No space left on device", name)

    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", full)
    assert compiled_sum()(WIDE) == 3 << 40
    assert files_of(folder, "") == []


def test_without_a_folder_the_value_is_made_by_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """And if the folder is lost later, the value is still returned."""
    make = Maker()
    monkeypatch.setattr(module.StoredKernel, "_files", NullCache())
    assert [stored(owner, "a", make)[0] for _ in range(2)] == [1, 2]


def test_a_folder_that_can_no_longer_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has the name of the folder."""
    make, folder = Maker(), tmp_path / "cache"
    monkeypatch.setattr(config, "CACHE_DIR", str(folder))
    files = module.StoredKernel(owner)._files
    (place,) = tmp_path.rglob(Path(files.cache_path).name)
    place.rmdir()
    place.write_text("")
    monkeypatch.setattr(module.StoredKernel, "_files", files)
    assert [stored(owner, "a", make)[0] for _ in range(2)] == [1, 2]


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
    monkeypatch.setattr(normalize, "UNICODE_VERSION", "0.0.0")
    normalize._table.cache_clear()
    assert folded() == expected
    assert len(built) == 2
    assert len(files_of(folder, ".nbc")) >= 3
    normalize._table.cache_clear()


def test_kernels_with_instructions_and_with_models_are_kept_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The choice is a part of the key: neither runs the code of the other."""
    monkeypatch.setattr(module, "MODELS", ())
    compiled_sum()(WIDE)
    monkeypatch.setattr(module, "MODELS", ("models",))
    for misses in (1, 0):
        total = compiled_sum()
        assert total(WIDE) == 3 << 40
        assert len(total.stats.cache_misses) == misses
    assert len(files_of(folder, ".nbc")) == 2
