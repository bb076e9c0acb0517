"""Near-duplicates in one process: the signer and the matcher of ``stream.pipeline``, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from stream.config import Config
from stream.documents import Document, Pair, Refusal, Verdict
from stream.pipeline import Matcher, Signer, chunks, match_step, step
from stream.verdicts.decider import Decider


class Deduplicator:
    """Near-duplicates in one process: give it documents as they arrive, get the pairs they make.

    Threads may share one: documents are signed in parallel, and one lock guards the table. Of the documents of one call
    the order is kept; those of another thread may come between its chunks.

    Args:
        config: what to find and within which limits; ``Config()`` by default.
        candidates: report the candidates below the minimum score as well.

    Attributes:
        refusals: the refused documents of the call to ``process`` or ``probe`` that ended last.
        refused: how many documents were refused so far.

    Example:
        >>> dedup = Deduplicator(Config(threshold=0.7))
        >>> text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
        >>> dedup.process([Document("a", text), Document("b", text.replace("dog,", "cat,"))])[0][:2]
        ('a', 'b')
    """

    def __init__(self, config: Config | None = None, *, candidates: bool = False) -> None:
        self.config = config or Config()
        self.signer = Signer(self.config)
        self.matcher = Matcher(self.config, candidates=candidates)
        self.refusals: list[Refusal] = []
        self.refused = 0
        self._lock = Lock()
        self._decider = Decider(self.matcher)

    def process(self, documents: Iterable[Document]) -> list[Pair]:
        """Probe with each document, then add it.

        A document with a value that cannot be used is a refusal with a reason; the others are processed.

        Args:
            documents: in order of arrival.

        Returns:
            The pairs that they make with earlier ones and with each other, in order of the newer.

        Raises:
            Exception: whatever the iterable raises. The documents before it are added, and the exception has an
                attribute ``pairs`` with the pairs that they made.
        """
        return self._run(documents, add=True)

    def probe(self, documents: Iterable[Document]) -> list[Pair]:
        """The pairs that ``process`` would report for each document alone; adds nothing, changes nothing."""
        return self._run(documents, add=False)

    def decide(self, documents: Iterable[Document]) -> list[Verdict]:
        """Add each document and decide whether to keep it.

        A document is dropped only if its content was compared with that of an original in its window, and their
        similarity reaches the least score of a pair. Verdicts are final, and do not depend on how the documents are
        divided into calls. Documents that ``process`` added before the first call count for nothing.

        Args:
            documents: in order of arrival.

        Returns:
            One verdict for each document, in order.

        Raises:
            ConfigError: documents were processed between two calls, or the deduplicator reports candidates.
            Exception: whatever the iterable raises; its attribute ``verdicts`` has those of the documents before.

        >>> dedup = Deduplicator(Config(threshold=0.7))
        >>> text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
        >>> [verdict.status for verdict in dedup.decide([Document("a", text), Document("b", text + "!")])]
        ['original', 'duplicate']
        """
        verdicts: list[Verdict] = []
        refusals: list[Refusal] = []
        try:
            for chunk in chunks(documents):
                signed = self.signer.sign(chunk)
                refusals += [refusal._replace(place=len(verdicts) + refusal.place) for refusal in signed.refusals]
                with self._lock:
                    self.refused += len(signed.refusals)
                    verdicts += self._decider.decide(chunk, signed)
        except BaseException as error:
            error.__dict__["verdicts"] = verdicts
            raise
        finally:
            self.refusals = refusals
        return verdicts

    def remove(self, id_: str) -> int:
        """Remove every version of an id: it is never reported again. Returns how many versions there were."""
        # An id with a lone surrogate was never added, so its bytes are those of no id.
        id_bytes = id_.encode("utf-8", "surrogatepass")
        with self._lock, step(self.matcher.table):
            self._decider.remove(id_bytes)
            return self.matcher.remove(id_bytes)

    def counts(self) -> dict[str, int]:
        """What has happened so far, by the names of ``stream.table.COUNTERS``, and ``refused``."""
        with self._lock:
            return {**self.matcher.table.counts(), "refused": self.refused}

    def _run(self, documents: Iterable[Document], *, add: bool) -> list[Pair]:
        pairs: list[Pair] = []
        refusals: list[Refusal] = []
        first = 0
        try:
            for chunk in chunks(documents):
                signed = self.signer.sign(chunk)
                refusals += [refusal._replace(place=first + refusal.place) for refusal in signed.refusals]
                first += len(chunk)
                with self._lock:
                    self.refused += len(signed.refusals)
                    pairs += match_step(self.matcher, signed.batch, add=add).pairs()
        except BaseException as error:
            error.__dict__["pairs"] = pairs
            raise
        finally:
            self.refusals = refusals
        return pairs
