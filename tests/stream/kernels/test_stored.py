"""Tables next to the compiled kernels: made once, by whichever process needs them first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config
from numba.core.caching import NullCache, UserProvidedCacheLocator

from neardup.stream.kernels import stored as module
from neardup.stream.kernels.stored import stored
from neardup.stream.texts import normalize, unicode_table
from neardup.stream.texts.normalize import NormalForm, code_points


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for what is stored."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
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


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80\x05", b"not a pickle"], ids=["empty", "cut", "other"])
def test_a_damaged_file_is_made_again(folder: Path, ending: str, content: bytes) -> None:
    """Once: the next process finds the value."""
    make = Maker()
    stored(owner, "a", make)
    for path in files_of(folder, ending):
        path.write_bytes(content)
    assert [stored(owner, "a", make)[0] for _ in range(3)] == [2, 2, 2]


def test_a_file_with_the_value_of_another_key_is_not_believed(folder: Path) -> None:
    """Two processes that store different values at once can take the same file for them."""
    make = Maker()
    for key in ("a", "b"):
        stored(owner, key, make)
    first, second = files_of(folder, ".nbc")
    first.write_bytes(second.read_bytes())
    assert [stored(owner, key, make)[0] for key in ("a", "b", "a")] == [3, 2, 3]


def test_a_value_of_an_earlier_version_of_the_module_is_not_believed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ends between the index and the value leaves the old value under the new index."""
    make = Maker()
    stored(owner, "a", make)
    (value,) = files_of(folder, ".nbc")
    old = value.read_bytes()
    stamp = UserProvidedCacheLocator.get_source_stamp
    monkeypatch.setattr(UserProvidedCacheLocator, "get_source_stamp", lambda self: (*stamp(self), "changed"))
    stored(owner, "a", make)
    value.write_bytes(old)
    assert [stored(owner, "a", make)[0] for _ in range(2)] == [3, 3]


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
