"""S24: after how many documents a fault of a live window is noticed, and what canaries cost.

A stream of a document every two seconds runs over a window of six hours. Then a fault begins. The figures count the
documents until a canary is a fault, or the alarm rings. The streams have no near-duplicates, so what users see stays
the same. Canaries of a healthy stream must stay silent. Faults of signers are noticed by the constant texts that a
window keeps, before its first document.
"""

from __future__ import annotations

import gc
import random
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.report import Result, Size, Target
from benchmarks.speed.floods import one_word_apart
from benchmarks.texts import documents as texts_of
from neardup import Config, Deduplicator, Document, Matcher, Signer
from neardup.pairs.pipeline import match_step
from neardup.schemes.interface import Signing
from neardup.schemes.kinds import sets
from neardup.stories.canaries.allowance import Allowance
from neardup.stories.canaries.canaries import EVERY, FAULT, Canaries
from neardup.stories.canaries.looks import Looks
from neardup.stories.windows.constant_texts import signature_of
from neardup.window.band_table import BandTable
from neardup.window.chains import KEYS
from neardup_workers.outside.settings.serve import LIMITS, ServeSettings
from neardup_workers.outside.store.keeper import Keeper
from neardup_workers.outside.store.log import Log

ID, COST, SEED = "S24-faults", "S24-canaries-cost", 24
STEP = 64
WORDS = [f"w{n}" for n in range(20_000)]
# Six hours of a document every two seconds.
WINDOW = Config(window_seconds=6 * 3600.0, lateness_seconds=60.0)
SECONDS = 2.0
NOTICED_WITHIN, _NOTICED_MIN, WARM = 20_000, 0.95, 12_000
_STREAMS: dict[Size, int] = {"smoke": 1, "default": 40, "large": 200}
# Documents of the healthy stream, each with a canary: as many canaries as 100 times the documents have.
_HEALTHY: dict[Size, int] = {"smoke": 2_560, "default": 100_000, "large": 400_000}
_COST_DOCUMENTS: dict[Size, int] = {"smoke": 200, "default": 10_000, "large": 100_000}
_COST_TURNS: dict[Size, int] = {"smoke": 1, "default": 3, "large": 9}
_COST_TURN, _COST_MAX = 200, 0.01


def texts(rng: random.Random) -> Iterator[list[Document]]:
    """Steps of documents of 3 to 60 words without near-duplicates."""
    number = 0
    while True:
        step = []
        for _ in range(STEP):
            words = rng.choices(WORDS, k=rng.randint(3, 60))
            step.append(Document(f"d{number}", " ".join(words), SECONDS * number))
            number += 1
        yield step


class Watched:
    """A stream whose canaries are watched. The classes that follow say how it runs."""

    documents = 0

    @property
    def looks(self) -> Looks:
        """What came of its canaries."""
        raise NotImplementedError

    def run(self, documents: int) -> None:
        """Run until so many documents came in all."""
        raise NotImplementedError

    @property
    def notices(self) -> str:
        """The figure that notices something: a fault, the alarm, or none."""
        return FAULT if self.looks.outcomes[FAULT] else "alarm" if self.looks.alarm.rings else ""

    def until_noticed(self, documents_max: int) -> int | None:
        """Run until a fault or the alarm; return how many documents that took, ``None`` if it did not come."""
        began = self.documents
        while self.documents - began < documents_max:
            if self.notices:
                return self.documents - began
            self.run(self.documents + STEP)
        return None


_W = TypeVar("_W", bound=Watched)


def noticed(
    id_: str, faults: Mapping[str, Callable[[_W], None]], warm: Callable[[int], _W], streams: int, within: Target | None
) -> Iterator[Result]:
    """Inject each fault into the streams that ``warm`` returns for seeds; say how many notice it, and after how many
    documents."""
    for name, fault in faults.items():
        after, by = list[int](), list[str]()
        for seed in range(streams):
            world = warm(seed)
            fault(world)
            found = world.until_noticed(NOTICED_WITHIN)
            if found is not None:
                after.append(found)
                by.append(world.notices)
        details: dict[str, Any] = {"streams": streams, "by a fault": by.count(FAULT)}
        if after:
            details |= {"median documents": int(np.median(after)), "longest": max(after)}
        yield Result(id_, name, len(after) / streams, "noticed in 20,000 documents", within, details)


def silent(id_: str, healthy: Watched, **details: int) -> Result:
    """Say how many faults and alarms a healthy stream raised."""
    raised = float(healthy.looks.outcomes[FAULT] + healthy.looks.alarm.rings)
    shown = {"canaries": healthy.looks.trials.total(), "documents": healthy.documents, **details}
    name, none = "no fault, a canary for each document", Target("equal to", 0)
    return Result(id_, name, raised, "faults and alarms", none, shown)


class World(Watched):
    """A stream, its matcher and its canaries."""

    def __init__(self, seed: int, config: Config = WINDOW, every: int = EVERY) -> None:
        self.steps = texts(random.Random(seed))
        self.config, self.signer, self.matcher = config, Signer(config), Matcher(config)
        self.canaries = Canaries(self.matcher, every, seed=seed)

    @property
    def looks(self) -> Looks:
        """What came of its canaries."""
        return self.canaries.looks

    def run(self, documents: int) -> None:
        """Run until so many documents came in all."""
        while self.documents < documents:
            step = next(self.steps)
            batch = self.signer.sign(step).batch
            match_step(self.matcher, batch)
            self.canaries.after(step, batch)
            self.documents += STEP


def lose_a_band(world: World) -> None:
    """From now on the key of one band is not added."""
    lose_a_band_of(world.matcher.table)


def lose_a_band_of(table: BandTable) -> None:
    """From now on a table does not add the key of one band."""
    items_at = table.items_at

    def without(items: Any) -> int:
        if table.is_open:  # else it is only probed
            keys = items.keys.copy()
            keys[items.key_starts[:-1] + KEYS + 7] ^= np.uint64(0x9E3779B97F4A7C15)
            keys.flags.writeable = items.keys.flags.writeable
            items = items._replace(keys=keys)
        return items_at(items)

    table.items_at = without  # type: ignore[method-assign]


def shorten_the_window(world: World) -> None:
    """From now on documents leave the table an hour early."""
    limits = world.matcher.table.limits
    world.matcher.table.limits = limits._replace(window=limits.window - 3_600_000_000)


def restore_without_the_last_step(world: World) -> None:
    """A new table holds the window but for the last step; the canaries know the window from the store."""
    stored = []
    for _ in range(40):
        step = next(world.steps)
        stored.append(world.signer.sign(step).batch)
    world.matcher = Matcher(world.config)
    world.canaries = Canaries(world.matcher, seed=world.documents)
    slot = 0
    for batch in stored:
        if batch is not stored[-1]:
            match_step(world.matcher, batch)
        world.canaries.restored(batch, slot, STEP if batch is stored[-1] else 0)
        slot += batch.size


FAULTS: dict[str, Callable[[World], None]] = {
    "a lost band": lose_a_band,
    "a window an hour short": shorten_the_window,
    "a restore without its last step": restore_without_the_last_step,
}

Sign = Callable[..., Signing]


def of_another_unicode(sign: Sign) -> Sign:
    """Sign with tables of another version of Unicode: a letter of version 15 has another normal form."""
    letter = "\U0001e030"
    other = "\u0430" if unicodedata.normalize("NFKC", letter) == letter else "\ue000"

    def signed(scheme: Any, documents: Sequence[Document], plan: Any) -> Signing:
        return sign(scheme, [one._replace(text=one.text.replace(letter, other)) for one in documents], plan)

    return signed


def in_another_order(sign: Sign) -> Sign:
    """Sign with the rows of a sketch in another order."""

    def signed(scheme: Any, documents: Sequence[Document], plan: Any) -> Signing:
        made = sign(scheme, documents, plan)
        fixed = np.ascontiguousarray(made.evidence.fixed[:, ::-1])
        return made._replace(evidence=made.evidence._replace(fixed=fixed))

    return signed


SIGNERS: dict[str, Callable[[Sign], Sign]] = {
    "another Unicode version": of_another_unicode,
    "another order of rows": in_another_order,
}


def run(size: Size) -> Iterator[Result]:
    """Each fault on its streams, a flood, the signers, and a healthy stream."""
    within = Target("at least", _NOTICED_MIN) if size != "smoke" else None
    yield from noticed(ID, FAULTS, _warm, _STREAMS[size], within)
    cut, began = _flood()
    details = {"first truncated probe": cut, "first document without all its pairs": began}
    after_first = Target("at most", 0)
    yield Result(ID, "a truncated flood", cut - began, "documents from the first loss", after_first, details)
    for name, other in SIGNERS.items():
        refused = _noticed_by_constant_texts(other)
        yield Result(ID, name, refused, "of the settings refuse the window", Target("equal to", 1.0))
    healthy = World(SEED, every=1)
    healthy.run(_HEALTHY[size])
    yield silent(ID, healthy)


def _warm(seed: int) -> World:
    world = World(seed)
    world.run(WARM)
    return world


def _flood() -> tuple[int, int]:
    """Of texts one word apart, the first whose probe is counted as truncated, and the first that lacks a pair."""
    dedup, noticed = Deduplicator(WINDOW), 0
    for n, one in enumerate(one_word_apart(2_000, SEED)):
        pairs = dedup.process([one])
        noticed = noticed or n * (dedup.counts()["truncated"] > 0)
        if len(pairs) < n:
            return noticed, n
    raise AssertionError("no limit was reached")


def _noticed_by_constant_texts(other: Callable[[Sign], Sign]) -> float:
    """The fraction of some settings whose signature changes with the signer."""
    settings = [
        Config(shingles=shingles, threshold=threshold) for shingles in ("chars", "words") for threshold in (0.6, 0.8)
    ]
    known, scheme = [signature_of(one) for one in settings], sets.SCHEME
    try:
        sets.SCHEME = scheme._replace(sign=other(scheme.sign))
        return float(np.mean([signature_of(one) != was for one, was in zip(settings, known, strict=True)]))
    finally:
        sets.SCHEME = scheme


class Spent:
    """The CPU time within some functions of an object, from now on: that of the threads that call them. The time of
    the clock itself, which some kernels ask in several microseconds, does not count."""

    def __init__(self, of: object, *names: str) -> None:
        self.seconds, self._clock = 0.0, -max(time.thread_time() - time.thread_time() for _ in range(1_000))
        for name in names:
            setattr(of, name, self._timed(getattr(of, name)))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **named: Any) -> Any:
            begin = time.thread_time()
            try:
                return function(*args, **named)
            finally:
                self.seconds += max(0.0, time.thread_time() - begin - self._clock)

        return timed


def cost(size: Size) -> Iterator[Result]:
    """What canaries add to the CPU time of the service, by documents of a request, and of the library: the time within
    their functions by all other time. *Difference* is that to one without canaries, which takes the same documents in
    turns. The canaries of a second come in a second of the one without them."""
    users: dict[str, tuple[_Opened, int]] = {
        "library": (_in_library, 100), "serve, 50 a request": (_in_service, 50), "serve, 1 a request": (_in_service, 1)
    }  # fmt: skip
    for kind, count in (("20w", _COST_DOCUMENTS[size]), ("5kb", _COST_DOCUMENTS[size] // 5)):
        documents = [one._replace(timestamp=float(n)) for n, one in enumerate(texts_of(kind, count, SEED))]
        for user, (opened, step) in users.items():
            plain = _both(opened, documents[: count // 4], step, 1.0)[0] / (count // 4)  # compiles
            turns = [_both(opened, documents, step, plain) for _ in range(_COST_TURNS[size])]
            without, watched, spent, canaries = (np.array(column) for column in zip(*turns, strict=True))
            target = Target("at most", _COST_MAX) if user != "library" and size != "smoke" else None
            details = {
                "documents": count, "canaries": int(canaries[0]), "microseconds a document": plain * 1e6,
                "microseconds a canary": float(spent.sum() / max(1, canaries.sum())) * 1e6,
                "difference": float(np.median(watched / without)) - 1,
            }  # fmt: skip
            share = float(np.median(spent / (watched - spent)))
            yield Result(COST, f"{kind}, {user}", share, "of the time", target, details)


# Takes documents; the canaries that are looked up meanwhile.
_User = tuple[Callable[[Sequence[Document]], object], Canaries]
_Opened = Callable[[int, Callable[[], float]], AbstractContextManager[_User]]


def _both(
    opened: _Opened, documents: Sequence[Document], step: int, document_seconds: float
) -> tuple[float, float, float, int]:  # fmt: skip
    """The CPU time without and with canaries, in turns, of that the time of canaries, and their number. A document
    takes ``document_seconds`` of the time that bounds them."""
    used, done = [0.0, 0.0], 0
    with opened(0, time.monotonic) as plain, opened(EVERY, lambda: done * document_seconds) as watched:
        spent = Spent(watched[1], "after")
        gc.collect()
        for first in range(0, len(documents), _COST_TURN):
            for which in (0, 1) if first // _COST_TURN % 2 else (1, 0):
                take, begin = (plain, watched)[which][0], time.process_time()
                for at in range(first, min(first + _COST_TURN, len(documents)), step):
                    take(documents[at : at + step])
                    done += step * which
                used[which] += time.process_time() - begin
        return used[0], used[1], spent.seconds, watched[1].looks.trials.total()


@contextmanager
def _in_library(every: int, clock: Callable[[], float]) -> Iterator[_User]:
    dedup = Deduplicator(canaries_every=every)
    yield dedup.process, dedup._canaries


@contextmanager
def _in_service(every: int, clock: Callable[[], float]) -> Iterator[_User]:
    """Without HTTP: the deduplicator of the service with its store."""
    settings = ServeSettings()
    with tempfile.TemporaryDirectory() as folder:
        log = Log(Path(folder), {"signing": settings.signing_fingerprint}, "normal", settings)
        allowance = Allowance(LIMITS.canaries_per_second_max, clock)
        keeper = Keeper(settings, log, canaries_every=every, canaries_allowance=allowance)
        yield keeper.check, keeper.canaries
        log.close()


SCENARIOS = {ID: run, COST: cost}
