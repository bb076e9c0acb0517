"""The evidence that a linker compares: of documents of the window by their messages, of stories in memory.

Theory of operation. ``signed`` holds the evidence of every document of the window: matchers trim it below the windows
of the linker too. So the linker keeps the messages that it used last, ``bytes_max`` at most, and reads others again by
their offset. Messages whose rows have left the window are dropped, at the latest when they are as many as the others. A
story with a second member is met again and again, and may outlive its rows. So the evidence of its
contents is copied when it gets a record, and is kept while it lives; so is the id of its original.

Evidence above ``EVIDENCE_BYTES_MAX`` does not fit a record of ``originals``. Such a content is compared with nothing,
before a restart as after it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from neardup.pairs.comparing import NO_PAIR, RESULT_FIELDS, SIMILARITY
from neardup.pairs.pair_rule import compares_directly
from neardup.schemes.config import Config, is_weighted
from neardup.schemes.interface import Evidence, in_parts
from neardup.stories.verdicts.deciding import Compare
from neardup.stories.verdicts.kept import Holdings, joined_parts, parts_of
from neardup.stories.verdicts.rule import is_document
from neardup_workers.doing.stages.verdicts.columns import MessagesByRow
from neardup_workers.doing.stages.verdicts.weighing import Weighed, Weighing, compared_by
from neardup_workers.outside.telemetry.observer import SILENT, Observer
from neardup_workers.outside.topics.signed import ROW_BITS, decode_signed

# Bytes of evidence of a content at most that is compared.
EVIDENCE_BYTES_MAX = 512 << 10
# Bytes of evidence of both sides that are compared at once, about.
_COMPARED_BYTES = 32 << 20
_Longs = npt.NDArray[np.int64]


class Compared:
    """The evidence of rows, and of the contents of stories; see the module. ``read`` returns the message of ``signed``
    at an offset, and may raise the errors of a reader. Messages in memory have at most ``bytes_max``, besides one. The
    observer counts the comparisons that were not made because of the size of the evidence."""

    def __init__(
        self, config: Config, read: Callable[[int], bytes], bytes_max: int, observer: Observer = SILENT
    ) -> None:
        self._config, self._read, self._bytes_max, self.observer = config, read, bytes_max, observer
        self._messages: OrderedDict[int, tuple[Evidence, int]] = OrderedDict()  # by offset, the last used at the end
        self._bytes = 0
        self._fresh = 0  # messages that were added since others were last dropped
        self.rows = MessagesByRow()
        self.held = Holdings()  # of stories with records; evidence is empty if it is not known
        self.weighing = Weighing(config) if is_weighted(config) else None

    @property
    def counted(self) -> int | None:
        """The position in ``signed`` from which on documents count for the rarity of elements, if they do."""
        return None if self.weighing is None else self.weighing.counted

    def begin(self) -> None:
        """Begin a step."""
        if self.weighing is not None:
            self.weighing.begin()

    def undo(self, end: int) -> None:
        """Reverse a step, whose rows have numbers from ``end`` on."""
        self.rows.cut(end)
        if self.weighing is not None:
            self.weighing.undo()

    def keep(self, offset: int, evidence: Evidence, size: int) -> None:
        """Keep a message of so many bytes that was read."""
        if offset in self._messages:
            self._bytes -= self._messages.pop(offset)[1]
        self._messages[offset] = evidence, size
        self._bytes += size
        self._fresh += 1
        while self._bytes > self._bytes_max and len(self._messages) > 1:
            self._bytes -= self._messages.popitem(last=False)[1][1]

    def release(self, first: int) -> None:
        """Release the rows before number ``first``, which have left the window, and now and then their messages."""
        self.rows.release(first)
        if 2 * self._fresh > len(self._messages):
            self._fresh, oldest = 0, self.rows.oldest
            for offset in [offset for offset in self._messages if offset < oldest]:
                self._bytes -= self._messages.pop(offset)[1]

    def parts(self, numbers: _Longs) -> list[bytes]:
        """Return the evidence of rows of the window, the fixed part first; empty where it is not known."""
        positions = self.rows.find(numbers)
        offsets, index = positions >> ROW_BITS, positions & ((1 << ROW_BITS) - 1)
        out = [b""] * len(numbers)
        for offset in np.unique(offsets[positions >= 0]).tolist():
            evidence = self._message(offset)
            rows = np.flatnonzero((offsets == offset) & (index < len(evidence.fixed)))
            for n, part in zip(rows.tolist(), parts_of(evidence.select(index[rows])), strict=True):
                out[n] = part
        return out

    def weigh(self, kinds: npt.NDArray[np.uint8], positions: _Longs, stands: _Longs) -> Weighed | None:
        """Count arrivals of these kinds at these positions, whose evidence stands there, in a step; ``None`` if rarity
        weighs nothing."""
        if self.weighing is None:
            return None
        weighed, held = Weighed([], np.zeros(len(kinds), np.int64)), np.flatnonzero(is_document(kinds))
        offsets, index = stands[held] >> ROW_BITS, stands[held] & ((1 << ROW_BITS) - 1)
        for offset in np.unique(offsets).tolist():
            of = offsets == offset
            evidence = self._message(offset).select(index[of])
            weighed.epochs[held[of]] = self.weighing.count(evidence, positions[held[of]], weighed.weights)
        return weighed

    def comparing(
        self, numbers: _Longs, sizes: Callable[[_Longs], _Longs], weighed: Weighed | None = None
    ) -> Compare | None:
        """Return how the arrivals with these rows are compared, by these weights; ``sizes`` returns the bytes of the
        evidence of rows of the window."""
        config = self._config
        if not compares_directly(config):
            return None

        def compare(items: _Longs, others: _Longs) -> npt.NDArray[np.float32]:
            results = np.zeros((len(items), RESULT_FIELDS), np.float32)
            results[:, SIMILARITY] = NO_PAIR
            for rows in in_parts(2 * sizes(numbers[items]), _COMPARED_BYTES):
                newer, older, fit = self.parts(numbers[items[rows]]), self._contents(others[rows]), []
                for n, sides in enumerate(zip(newer, older, strict=True)):
                    if max(map(len, sides)) > EVIDENCE_BYTES_MAX:
                        self.observer.count("uncompared_contents")
                    elif all(sides):  # else one is not known
                        fit.append(n)
                if fit:
                    a, b = (joined_parts([side[n] for n in fit], config.plan.width) for side in (newer, older))
                    results[rows[fit]] = compared_by(config, a, b, weighed, items[rows[fit]])
            return results

        return compare

    def _contents(self, numbers: _Longs) -> list[bytes]:
        out = [self.held.evidence.get(row) for row in numbers.tolist()]
        others = [n for n, part in enumerate(out) if part is None]
        read = dict(zip(others, self.parts(numbers[others]), strict=True)) if others else {}
        return [read[n] if part is None else part for n, part in enumerate(out)]

    def _message(self, offset: int) -> Evidence:
        if offset in self._messages:
            self._messages.move_to_end(offset)
            return self._messages[offset][0]
        data = self._read(offset)
        rows = decode_signed(data, self._config.signing_fingerprint, self._config.plan.width)
        self.keep(offset, rows.evidence, len(data))
        return rows.evidence
