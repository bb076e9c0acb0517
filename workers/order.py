"""``neardup learn-order``: which tokens are frequent in a sample, as a file for ``--token-order``; and reading it.

The file is a NumPy array (.npy) of ``uint64``: hashes of tokens under the settings of the text, from the rarest to the
most frequent. Tokens that the sample does not have count as rare, so the frequent ones are what matters, and a part of
a stream is enough of a sample. Memory is bounded: a counter for sixteen times as many tokens as are kept.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from stream.bags import sorted_sets
from stream.documents import Document
from stream.pipeline import chunks
from stream.schemes import SCHEMES
from stream.token_order import NO_FREQUENCIES, Frequencies, counted, most_frequent
from workers.exits import Exit, Failure, input_failure, output_failure
from workers.report import Report
from workers.settings import Settings
from workers.stop import Stop
from workers.transports.files import Reader, check_paths, total_bytes

# Tokens counted at once: a merge with all counters each time, in 32 MiB.
_TOKENS_A_MERGE = 1 << 22
_COUNTERS_EACH = 16
_ENDED: dict[int, Exit] = {0: Exit.SUCCESS, signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
