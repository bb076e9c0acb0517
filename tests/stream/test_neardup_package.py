"""The package ``neardup``: the public names, windows in files, ``python -m neardup``."""

import subprocess
import sys

import pytest
from command import ROOT, WORDS, clean_environment

import neardup
from neardup import stream

TEXT = f"{WORDS}; " * 5


def test_it_has_every_public_name_of_the_library():
    """The objects are the same."""
    for name in stream.__all__:
        assert getattr(neardup, name) is getattr(stream, name)
    assert set(neardup.__all__) - set(stream.__all__) == {"load_window", "save_window"}
    assert set(stream.__all__) <= set(neardup.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        neardup.other  # noqa: B018


@pytest.mark.processes
def test_python_m_neardup_is_the_command(tmp_path):
    """It works in any folder, and its help does not load the library."""
    environment = clean_environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-m", "neardup", "--version"], capture_output=True, cwd=tmp_path, env=environment, check=True
    )
    assert done.stdout.startswith(b"neardup ")


def test_a_window_in_a_file_continues_in_another_deduplicator(tmp_path):
    """A configuration with another signing fingerprint refuses the window."""
    dedup = neardup.Deduplicator()
    dedup.process([neardup.Document("a", TEXT)])
    neardup.save_window(dedup, tmp_path / "window")
    loaded = neardup.load_window(tmp_path / "window")
    assert [pair[:2] for pair in loaded.process([neardup.Document("b", TEXT)])] == [("a", "b")]
    with pytest.raises(neardup.NeardupError, match="signed under"):
        neardup.load_window(tmp_path / "window", neardup.Config(seed=2))
    assert [path.name for path in tmp_path.iterdir()] == ["window"]
