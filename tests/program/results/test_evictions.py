"""Documents that leave the window of a file before its end."""

from __future__ import annotations

import json
import re

import pytest
from command import ROOT, Run

# A copy of the first line comes after more lines than the window holds.
LINES = [json.dumps({"id": str(n), "text": f"{n * 7919} {n * 104729} words of no other line {n}"}) for n in range(40)]
INPUT = "\n".join([*LINES, LINES[0].replace('"id": "0"', '"id": "copy"')]).encode()


@pytest.mark.parametrize("command", ["dedup", "run"])
def test_the_last_line_says_loudly_what_was_not_looked_for(neardup: Run, command: str) -> None:
    """A window that is smaller than the file is the last word of the summary, and a failure with ``--strict``."""
    small = ("--window-documents", "30")
    done = neardup(command, *small, "-", stdin=INPUT)
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("WARNING: duplicates may be missing: the first 11 documents left the window")
    assert "window_documents (30)" in last
    assert done.returncode == 0
    assert neardup(command, "--strict", *small, "-", stdin=INPUT).returncode == 13
    assert neardup(command, "--strict", "-", stdin=INPUT).returncode == 0


def test_the_window_of_files_is_as_large_as_memory_allows(python: Run) -> None:
    """A copy of line 1 was kept at line 1,050,002: the window held a million documents, whatever the memory."""
    code = (
        "import sys\n"
        "from neardup.window.band_table import BandTable\n"
        "seen = []\n"
        "close = BandTable.commit\n"
        "BandTable.commit = lambda self: (seen.append(self.limits.items), close(self))[1]\n"
        "from neardup_workers.running.cli.app import main\n"
        "for words in (['dedup', '-q', '-'], ['run', '-q', '-']):\n"
        "    sys.argv = ['neardup', *words]\n"
        "    main()\n"
        "print(min(seen), file=sys.stderr)\n"
    )
    done = python("-c", code, stdin=b'{"id": "a", "text": "one"}\n')
    assert int(done.stderr.decode().splitlines()[-1]) > 1_050_002, done.stderr


@pytest.mark.parametrize("command", ["dedup", "run"])
def test_a_window_in_bytes_names_its_bound(neardup: Run, command: str) -> None:
    """The setting is in bytes; what left the window for it is the last word of the summary."""
    lines = "".join(json.dumps({"id": str(n), "text": f"{n * 7919} {n * 104729} line {n}"}) + "\n" for n in range(6000))
    done = neardup(command, "-", stdin=lines.encode(), environment={"NEARDUP_WINDOW_BYTES_MAX": str(1 << 20)})
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("WARNING: duplicates may be missing: the first ")
    assert "Raise what is too small of window_bytes_max (1,048,576); --strict" in last


def test_the_memory_of_a_document_is_stated_for_each_way_to_run(python: Run) -> None:
    """It was 500 bytes for all of them. The figure of a window in one process is measured here."""
    page = (ROOT / "docs" / "FAQ.md").read_text(encoding="utf-8").split("How much memory", 1)[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| (`run`|`dedup`|`serve`|Kafka)[^|]* \| ([\d,]+)", page, re.M))
    assert list(rows) == ["`run`", "`dedup`", "`serve`", "Kafka"]
    code = (
        "import random; from neardup import Deduplicator, Document\n"
        "word, dedup, count = random.Random(1), Deduplicator(), 20_000\n"
        "texts = (' '.join(f'{word.getrandbits(36):x}' for _ in range(20)) for _ in range(count))\n"
        "dedup.process(Document(f'https://example.org/item/{n:06}', text) for n, text in enumerate(texts))\n"
        "print(dedup.matcher.table.memory_bytes()[0] / count)\n"
    )
    measured = float(python("-c", code).stdout)
    assert measured == pytest.approx(float(rows["`run`"]), rel=0.1)


_RESTORED = """
import random
from neardup import Config, Deduplicator, Document
rng = random.Random(1)
settings = Config(window_seconds=1e9, evidence_bytes_max=1 << 20, scheme="identical")
names = [f"{i:08}" + "x" * rng.randrange(800, 1000) for i in range(6000)]
documents = [Document(id=name, text=name[:8], timestamp=1.6e9) for name in names]
first, restored = Deduplicator(settings), Deduplicator(settings)
first.process(documents[:3000])
evicted = first.counts()["evicted"]
restored.process(documents[evicted:3000])
differences = 0
for i in range(3000, 6000, 100):
    first.process(documents[i : i + 100])
    restored.process(documents[i : i + 100])
    differences += first.counts()["evicted"] != evicted + restored.counts()["evicted"]
print(differences, first.counts()["evicted"] > 4000)
"""


def test_a_table_that_is_restored_from_its_window_evicts_what_the_other_would(python: Run) -> None:
    """``evidence_bytes_max`` counted the gaps at the ends of pages, which depend on where a table begins."""
    done = python("-c", _RESTORED)
    assert done.stdout.decode().split() == ["0", "True"], done.stderr.decode()
