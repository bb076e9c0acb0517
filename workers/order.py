"""``neardup learn-order``: which tokens are frequent in a sample, as a file for ``--token-order``; and reading it.

The file is a NumPy array (.npy) of ``uint64``: hashes of tokens under the settings of the text, from the rarest to the
most frequent. Tokens that the sample does not have count as rare, so the frequent ones are what matters, and a part of
a stream is enough of a sample. Memory is bounded: a counter for sixteen times as many tokens as are kept.
"""

from __future__ import annotations

import signal

from workers.exits import Exit

# Tokens counted at once: a merge with all counters each time, in 32 MiB.
_TOKENS_A_MERGE = 1 << 22
_COUNTERS_EACH = 16
_ENDED: dict[int, Exit] = {0: Exit.SUCCESS, signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
