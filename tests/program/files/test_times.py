"""A followed file that is written again."""

from __future__ import annotations

from pathlib import Path

from command import Run

FOLLOW = """
import os, sys
from neardup_workers.outside.readers.blocks import Blocks, Interrupted
path = sys.argv[1]
class Stop:
    signal, naps = None, 0
    read = staticmethod(os.read)
    def sleep(self, seconds):
        self.naps += 1
        if self.naps == 1:
            open(path, "w").write("third\\\\nfourth\\\\nfifth\\\\n")
        else:
            self.signal = 15
found = []
try:
    for block in Blocks(Stop()).following(path, os.open(path, os.O_RDONLY), 1.0):
        found.append(block)
except Interrupted:
    print([block for block in found if block != b""])
""".replace("\\\\", "\\")


def test_a_followed_file_that_is_written_again_and_longer_loses_no_line(python: Run, tmp_path: Path) -> None:
    """Between two reads the file is truncated and becomes longer than before."""
    path = tmp_path / "log.jsonl"
    path.write_text("first\nsecond\n")
    done = python("-c", FOLLOW, path)
    assert done.stdout.decode().strip() == str([b"first\nsecond\n", None, b"third\nfourth\nfifth\n"]), done.stderr
