"""The shell around a signer or a matcher: it connects, turns the loop, starts anew when it must, and ends in order.

Theory of operation. The shell goes through these states; each change is logged once, and shows in the metrics:

- *starting*: transport, producer, consumer and worker are made. The producer first: its start ends what a predecessor
  of the same name left open, which the first question for committed offsets would wait for.
- *working*: turns of the worker, and between them what is due at intervals. ``UnreachableError`` from a turn leaves all
  as it is; turns go on, with a nap between them, until the broker answers again.
- *starting over*: ``FencedError``, ``OutcomeUnknownError``, a start that failed, or a partition whose committed offset
  cannot be had for ``stall_seconds_max`` while the broker answers. Everything is closed and made anew from what is
  committed, after a wait that grows with each failure in a row. ``STEADY_SECONDS`` of work end the row. A partition
  that waits as long again ends the process: a new one may run elsewhere, and somebody hears of it.
- *stopped*: a signal came. The turn at hand ends, and with it its transaction; everything is closed, and the place in
  the group is given up (``leave_group``).

What no restart can mend ends the process with one sentence and its exit code: the table ``ENDINGS``. A crash at any
moment is a restart, only later: nothing is kept outside of the log. A member keeps its partitions for the session after
it died or started over, so that it finds them again when it comes back at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple, Protocol

from stream.bands_message import WireError
from stream.errors import CapacityError, ConfigError, NeardupError
from workers.process.backoff import backoff_seconds
from workers.process.exits import Exit, Failure
from workers.process.watchdog import Stall, Waits, Watchdog, end_process
from workers.service.roles import Kept, Made, Role, Worker, wait_seconds, warm
from workers.settings.kafka import StreamSettings
from workers.telemetry.health import START_SECONDS_MAX, Answer, Health
from workers.telemetry.observer import Observer
from workers.topics.names import names_of
from workers.transport.protocol import (
    AbortedError,
    Consumer,
    FencedError,
    OffsetGoneError,
    OutcomeUnknownError,
    Transport,
    TransportError,
    UnknownTopicError,
    UnreachableError,
    UnreadableError,
)

_log = logging.getLogger(__name__)

# What ends a process. The order matters: the first row that fits.
ENDINGS: dict[type[NeardupError], Exit] = {
    ConfigError: Exit.USAGE,
    WireError: Exit.GENERATION,
    OffsetGoneError: Exit.GAP,
    UnknownTopicError: Exit.TOPIC,
    CapacityError: Exit.CAPACITY,
    UnreadableError: Exit.TOPIC,
    TransportError: Exit.BROKER,
}


class WaitedError(TransportError):
    """A partition waits for its committed offset, though the broker answers."""


# What makes the shell start over, and the cause that the metrics name.
CAUSES: dict[type[TransportError], str] = {
    FencedError: "fenced",
    OutcomeUnknownError: "unknown",
    UnreachableError: "unreachable",
    AbortedError: "aborted",
    WaitedError: "waited",
}
# So long without a failure, and what was before no longer counts: longer than the longest wait.
STEADY_SECONDS = 30.0
# A rebalance fences a step in flight now and then; so often in a row means that two processes have one name.
_FENCED_MAX = 10
_OBSERVE_SECONDS = 1.0
# A broker looks for overdue transactions at this interval, unless it is told otherwise.
_OVERDUE_SECONDS = 10.0
# Asks the broker for the ends of all partitions.
_CHECK_SECONDS = 10.0


class Stopping(Protocol):
    """Whether a signal has asked for the end, and a nap that it breaks: ``workers.process.stop.Stop``."""

    signal: int

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond a signal."""


class Outside(NamedTuple):
    """What the shell takes from its process; tests bring their own."""

    connect: Callable[[], Transport]
    observer: Observer
    health: Health
    watchdog: Watchdog
    stop: Stopping
    now: Callable[[], float] = time.monotonic
    stuck: Callable[[str], None] = end_process


class _Chore(NamedTuple):
    every_seconds: float
    run: Callable[[], None]


class Shell:
    """One worker's life; see the module for its states."""

    def __init__(self, role: Role, settings: StreamSettings, outside: Outside) -> None:
        self.role, self.settings, self.outside = role, settings, outside
        self.names = names_of(settings)
        self.name = self.names.worker(role.name, settings.instance)
        self.topic = role.topic(self.names.topics)
        self._failures = 0  # in a row
        self._fenced = 0
        self._told: object = None
        self._kept: Kept = {}  # what the last worker left, between two
        self._is_away = False  # the last question to the broker was not answered
        self._stall = Stall(settings.stall_seconds_max)
        usual = settings.transaction_timeout_seconds + _OVERDUE_SECONDS
        self._waits = Waits(usual, max(usual, settings.stall_seconds_max))

    def run(self) -> Exit:
        """Work until a signal; raises ``Failure`` for what no restart can mend."""
        outside = self.outside
        with _endings():
            started = time.monotonic()
            warm(self.settings, self.settings.bands_partitions)
            _log.info("%s: kernels are there after %.1f s", self.name, time.monotonic() - started)
            while not outside.stop.signal:
                try:
                    self._live()
                except tuple(CAUSES) as error:
                    self._start_over(error)
        self._tell("stopped", f"{self.name}: stopped; what was begun is committed or will be begun anew")
        return Exit.SUCCESS

    def _live(self) -> None:
        """Make everything, turn until a signal, close everything in the order that loses least."""
        self._is_away = False
        with ExitStack() as held:
            self.outside.health.start()
            with self.outside.watchdog.guard("the start", START_SECONDS_MAX):
                transport = self.outside.connect()
                held.callback(transport.close)
                held.callback(self._leave, transport)
                producer = transport.producer(self.name)
                consumer = transport.consumer(self.topic, self.names.group(self.role.name), self.name)
                held.callback(consumer.close)
                held.callback(producer.close)  # first: an open transaction holds up readers
                made = self.role.make(transport, consumer, producer, self.settings, self.outside.observer)
                made.take(self._kept)
                self._kept = {}
            try:
                self._turns(made, self._chores(made, transport, consumer))
            except tuple(CAUSES):
                self._kept = made.leave()
                raise

    def _leave(self, transport: Transport) -> None:
        """Give up the place in the group, when stopped and nothing else was asked for."""
        if self.outside.stop.signal and self.settings.leave_group:
            with suppress(TransportError):
                transport.leave(self.names.group(self.role.name), self.name)

    def _turns(self, made: Made, chores: list[_Chore]) -> None:
        outside, settings = self.outside, self.settings
        records_max, wait = self.role.records_max(settings), wait_seconds(self.role, settings)
        due = [outside.now()] * len(chores)
        began = outside.now()
        while not outside.stop.signal:
            with outside.watchdog.guard("a turn", settings.turn_seconds_max):
                try:
                    started = outside.now()
                    made.worker.turn(wait, records_max)
                    wait = wait_seconds(self.role, settings, wait, outside.now() - started)
                    for i, chore in enumerate(chores):
                        if due[i] <= outside.now() or self._is_away:
                            chore.run()
                            due[i] = outside.now() + chore.every_seconds
                except UnreachableError as error:
                    self._away(error)
            self._beat(made)
            if outside.now() - began > STEADY_SECONDS and not self._is_away:
                self._failures = self._fenced = 0
            if self._is_away or made.worker.aborted_in_row:
                self._nap(max(1, made.worker.aborted_in_row))

    def _beat(self, made: Made) -> None:
        """Tell how the worker stands: to probes, and to the log when it changed."""
        worker, restoring = made.worker, made.restoring()
        held = sorted(worker.running | worker.waiting | set(restoring))
        listed = f"partitions: {', '.join(map(str, held)) or 'none'}"
        if self._is_away:
            answer = Answer(False, "the broker does not answer")
        elif not worker.joined:
            answer = Answer(False, "waiting for the group")
        elif not worker.ready:
            late = self._waits.late
            told = f"; no committed offset, though the broker answers: {list(late)}" if late else ""
            answer = Answer(False, f"{listed}; waiting: {sorted(worker.waiting)}, restoring: {restoring}{told}")
            self._tell(("restoring", held, late), f"{self.name}: restoring; {answer.text}", bad=bool(late))
        elif worker.aborted_in_row > 1:
            answer = Answer(True, f"{listed}; transactions are aborted")
            self._tell("aborting", f"{self.name}: transactions are aborted; trying again, slower each time", bad=True)
        else:
            answer = Answer(True, listed)
            if not worker.aborted_in_row:
                self._tell(("ready", *held), f"{self.name}: ready on {self.topic}; {listed}")
        self.outside.health.beat(answer)

    def _chores(self, made: Made, transport: Transport, consumer: Consumer) -> list[_Chore]:
        observer, worker = self.outside.observer, made.worker
        labels: set[str] = set()

        def observe() -> None:
            nonlocal labels
            held = worker.running | worker.waiting | set(made.restoring())
            gone, labels = labels - set(map(str, held)), set(map(str, held))
            for label in gone:
                observer.forget(label)
            observer.set("assigned_partitions", len(held))
            observer.set("ready", float(worker.joined and worker.ready))
            in_hand = made.in_hand()
            for partition, lag in consumer.lag().items():
                observer.set("lag_records", lag + in_hand.get(partition, 0), str(partition))
            made.observe()

        def check() -> None:
            ends = {partition: end for partition, (_, end) in transport.bounds(self.topic).items()}
            self._is_away = False
            observer.set("connected", float(worker.joined))
            # A partition in hand advances inside its messages, unless steps are aborted.
            moves = () if worker.aborted_in_row else made.in_hand()
            positions = {p: at for p, at in consumer.positions().items() if p in worker.running and p not in moves}
            stalled = self._stall.look(positions, ends, self.outside.now())
            if stalled is not None:
                self.outside.stuck(
                    f"{self.name}: partition {stalled} of {self.topic} stands at {positions[stalled]} of "
                    f"{ends[stalled]} for {self.settings.stall_seconds_max:g} s"
                )
            self._check_waits(worker, {*worker.running, *made.restoring()})

        return [
            _Chore(_OBSERVE_SECONDS, observe),
            _Chore(_CHECK_SECONDS, check),
            _Chore(self.settings.trim_interval_seconds, made.trim),
        ]

    def _check_waits(self, worker: Worker, begun: set[int]) -> None:
        """Start over, and at the second time end, when a partition waits too long for its committed offset."""
        wait = self._waits.look(worker.waiting, begun, self.outside.now())
        if wait is None:
            return
        text = (
            f"partition {wait.partition} of {self.topic} has no committed offset for {wait.seconds:.0f} s, though the "
            "broker answers: a transaction of the group does not end"
        )
        if wait.again:
            self.outside.stuck(f"{self.name}: {text}, after a new start either; see kafka-transactions.sh find-hanging")
        raise WaitedError(text)

    def _away(self, error: UnreachableError) -> None:
        """The broker does not answer: keep everything, and try again until the ends of the topic can be had."""
        self._is_away = True
        self._stall.forget()
        self._waits.forget()
        self.outside.observer.set("connected", 0.0)
        self._tell("away", f"{self.name}: {error}", bad=True)

    def _start_over(self, error: TransportError) -> None:
        """Count and tell a failure, and wait; raises ``Failure`` when another process has this one's name."""
        self._failures += 1
        self._fenced += isinstance(error, FencedError)
        cause = next(cause for kind, cause in CAUSES.items() if isinstance(error, kind))
        observer, health = self.outside.observer, self.outside.health
        observer.count("restarts", 1, cause)
        observer.set("connected", 0.0)
        observer.set("ready", 0.0)
        observer.set("assigned_partitions", 0.0)
        health.beat(Answer(False, f"starting over: {error}"))
        self._stall.forget()
        self._waits.forget()
        self._tell(("over", cause), f"{self.name}: starting over from what is committed: {error}", bad=True)
        if self._fenced >= _FENCED_MAX:
            raise Failure(
                Exit.FENCED,
                f"{self.name} was put out {self._fenced} times in a row, the last time by: {error}; another process "
                "runs under this name: give each worker of a role its own --instance",
            ) from error
        self._nap(self._failures)

    def _nap(self, attempt: int) -> None:
        self.outside.stop.sleep(backoff_seconds(attempt, self.name))

    def _tell(self, state: object, text: str, *, bad: bool = False) -> None:
        """Log a change of state; the same state again is silent."""
        if state != self._told:
            self._told = state
            _log.log(logging.WARNING if bad else logging.INFO, "%s", text)


@contextmanager
def _endings() -> Iterator[None]:
    """Errors of the table ``ENDINGS`` become failures with their exit code."""
    try:
        yield
    except tuple(ENDINGS) as error:
        raise failure_of(error) from error


def failure_of(error: NeardupError) -> Failure:
    """The failure that an error ends a process with."""
    code = next(code for kind, code in ENDINGS.items() if isinstance(error, kind))
    return Failure(code, str(error))
