"""Benchmarks: speed, memory and recall together, each next to its target. ``python -m benchmarks`` runs them."""

import sys
from pathlib import Path

# Workers without a broker are measured on the transport in memory, which tests share.
sys.path.append(str(Path(__file__).parents[1] / "tests/support/workers/memory"))
