"""The package ``neardup``: the public names, windows in files, ``python -m neardup``."""

import subprocess
import sys

import pytest
from command import WORDS, clean_environment
from import_path import SOURCES

import neardup

TEXT = f"{WORDS}; " * 5


def test_it_has_every_public_name():
    """Each is loaded when it is used, and ``dir`` shows it before."""
    assert {name for name in neardup.__all__ if getattr(neardup, name).__module__.startswith("neardup")} == set(
        neardup.__all__
    )
    assert {*neardup.__all__, "__version__"} == set(dir(neardup))
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        neardup.other  # noqa: B018


@pytest.mark.processes
def test_python_m_neardup_is_the_command(tmp_path):
    """It works in any folder, and its help does not load the library."""
    environment = clean_environment(PYTHONPATH=SOURCES)
    done = subprocess.run(
        [sys.executable, "-m", "neardup", "--version"], capture_output=True, cwd=tmp_path, env=environment, check=True
    )
    assert done.stdout.startswith(b"neardup ")


def test_a_window_in_a_file_continues_in_another_deduplicator(tmp_path, monkeypatch):
    """A configuration with another signing fingerprint refuses the window, and a path that is none leaves no file."""
    dedup = neardup.Deduplicator()
    dedup.process([neardup.Document("a", TEXT)])
    neardup.save_window(dedup, tmp_path / "window")
    loaded = neardup.load_window(tmp_path / "window")
    assert [pair[:2] for pair in loaded.process([neardup.Document("b", TEXT)])] == [("a", "b")]
    with pytest.raises(neardup.NeardupError, match="signed under"):
        neardup.load_window(tmp_path / "window", neardup.Config(seed=2))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match="a int is given, but the path of a window is a string or a Path"):
        neardup.save_window(dedup, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["window"]
