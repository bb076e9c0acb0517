"""The project has one import name."""

from __future__ import annotations

from pathlib import Path

from program import Program

# What ``pip install stream-python`` brings, among others.
FOREIGN = "def read():\n    raise AssertionError('another project')\n"
SESSION = """
import sys
from neardup import Config, Deduplicator, Document
dedup = Deduplicator(Config(threshold=0.8, window_seconds=86_400))
text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
for pair in dedup.process([Document(id="a", text=text), Document(id="b", text=text)]):
    print(pair.older, pair.newer, pair.similarity)
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("stream", "workers")))
"""


def test_a_package_stream_of_another_project_does_not_hide_ours(program: Program, tmp_path: Path) -> None:
    """With another distribution's ``stream`` and ``workers`` installed first, the session of the README works."""
    for name in ("stream", "workers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN)
    done = program.code(SESSION, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout.decode().splitlines() == ["a b 1.0", "[]"], done.stderr.decode()
