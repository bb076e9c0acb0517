"""Mutants of linkers and their standbys, for ``tests/mutants.py``."""

from __future__ import annotations

from mutant_runs import Mutant

VERDICTS = "workers/neardup_workers/doing/stages/verdicts/"
SOURCES = "tests/simulation/stories/test_sources_on_topics.py"
STANDBY = "tests/simulation/test_linker_standby.py"

LINKER_MUTANTS = (
    Mutant("the window of a restart passes what the ledger of sources needs",
        "simulation",
        VERDICTS + "linker.py",
        "self._marks.oldest(min(first, self.sources.first))",
        "self._marks.oldest(first)", (SOURCES,)),
    Mutant("a standby of the linker decides what its owner has not committed",
        "simulation",
        VERDICTS + "held.py",
        "watermark if end is None else min(watermark, end)",
        "watermark", (STANDBY,)),
    Mutant("a standby restores stories of another commit",
        "simulation",
        VERDICTS + "beginning/restore.py",
        "if originals.is_at(metadata.step) and ledger.is_at(metadata.sources):",
        "if metadata.arrivals >= 0:", (STANDBY,)),
    Mutant("a standby reads no links while it restores",
        "simulation",
        VERDICTS + "held.py",
        "            self._early = []\n",
        "            self._early = None\n", (STANDBY,)),
    Mutant("a linker deletes links of which its standby is behind",
        "simulation",
        VERDICTS + "linker.py",
        "            bound, self._bound = self._bound, {",
        "            self._bound = bound = {", (STANDBY,)),
    Mutant("a standby that is ahead of the commit takes over",
        "simulation",
        VERDICTS + "held.py",
        "and state.arrivals == metadata.arrivals",
        "and state.arrivals >= metadata.arrivals", (STANDBY,)),
    Mutant("a standby takes as written what its owner has not counted",
        "simulation",
        VERDICTS + "beginning/standby.py",
        "        left = metadata.sources - before\n",
        "        left = 0\n", (STANDBY,)),
)  # fmt: skip
