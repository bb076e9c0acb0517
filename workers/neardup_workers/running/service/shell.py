"""The shell around a worker: it connects, runs the loop, restarts when it must, and stops in order.

Theory of operation. The shell has these states. It logs each change once, and exports it as a metric:

- *starting*: it makes transport, producer, consumer and worker. The producer comes first: its start ends an open
  transaction of a predecessor with the same name, for which the first request of committed offsets would wait.
- *working*: it runs turns of the worker, with chores between them at intervals. After an ``UnreachableError`` of a turn
  the worker keeps its state, and turns continue, with a nap between them, until the broker answers again.
- *restarting*: ``FencedError``, ``OutcomeUnknownError``, a start that failed, or a state of the table ``STATES`` at its
  deadline. The shell closes all of its parts and starts again from the committed offsets, after a wait that grows with
  each consecutive failure. After ``STEADY_SECONDS`` of work the count restarts. At the same deadline a second time the
  process ends: another process may start elsewhere, and an operator sees it.
- *stopped*: after a signal. The current turn and its transaction end, the shell closes all of its parts, and the worker
  leaves its group.

A failure that no restart can repair ends the process with one sentence and its exit code: the table ``ENDINGS``. A
crash at any moment is no more than a restart, because all state is in the log. A member that dies or restarts keeps its
partitions until its session ends, so it gets them back if it returns before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from neardup.errors import CapacityError, ConfigError, NeardupError
from neardup.pairs.window_message import WireError
from neardup_workers.doing.stages.agreement import Watch
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.verdicts.beginning.restore import RecordsLostError
from neardup_workers.outside.process.backoff import backoff_seconds
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.process.watchdog import Stall, Waits, Watchdog, end_process
from neardup_workers.outside.settings.kafka import StreamLimits, StreamSettings
from neardup_workers.outside.telemetry.health import START_SECONDS_MAX, Health, HealthAnswer
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.telemetry.state_notes import NOTE_SECONDS, encode_notes
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Consumer,
    FencedError,
    OffsetGoneError,
    OutcomeUnknownError,
    Producer,
    Transport,
    TransportError,
    UnknownTopicError,
    UnreachableError,
    UnreadableError,
)
from neardup_workers.running.service.roles import Made, Role, Tables, wait_seconds
from neardup_workers.running.service.states import Lasting, begun, waiting

_log = logging.getLogger(__name__)

# Error -> exit code of the process. The order matters: the first row that matches applies.
ENDINGS: dict[type[NeardupError], Exit] = {
    ConfigError: Exit.USAGE,
    WireError: Exit.GENERATION,
    OffsetGoneError: Exit.GAP,
    RecordsLostError: Exit.LOST,
    UnknownTopicError: Exit.TOPIC,
    CapacityError: Exit.CAPACITY,
    UnreadableError: Exit.TOPIC,
    TransportError: Exit.BROKER,
}


class WaitedError(TransportError):
    """A worker, a partition or a restore waits until its deadline although the broker answers."""


# Errors that restart the worker -> the cause in the metrics.
CAUSES: dict[type[TransportError], str] = {
    FencedError: "fenced",
    OutcomeUnknownError: "unknown",
    UnreachableError: "unreachable",
    AbortedError: "aborted",
    WaitedError: "waited",
}
# After this time without a failure, earlier failures no longer count. It is longer than the longest wait.
STEADY_SECONDS = 30.0
# A rebalance sometimes fences a transaction. This many consecutive ones mean that two processes have the same name.
_FENCED_MAX = 10
_OBSERVE_SECONDS = 1.0
# The broker looks for overdue transactions at this interval by default.
_OVERDUE_SECONDS = 10.0
# A check asks the broker for the ends of all partitions, and notes what keeps the worker from its work.
_CHECK_SECONDS = NOTE_SECONDS
# The client's objects refer to one another, so only a garbage collection frees a closed client. The same holds for a
# failed worker: its error refers to the frames that raised it. A collection takes some milliseconds, and so does giving
# memory back.
_COLLECT_SECONDS = 60.0


class Outside(NamedTuple):
    """What the process provides for the shell; tests provide their own."""

    connect: Callable[[], Transport]
    observer: Observer
    health: Health
    watchdog: Watchdog
    stop: Stop
    now: Callable[[], float] = time.monotonic
    stuck: Callable[[str], None] = end_process
    loaded: Callable[[], None] = lambda: None  # called once, after the kernels are loaded
    collect: Callable[[], object] = lambda: None  # frees memory; called at intervals


class _Chore(NamedTuple):
    every_seconds: float
    run: Callable[[], object]


class Shell:
    """The life of one worker; the module describes its states."""

    def __init__(self, role: Role, settings: StreamSettings, outside: Outside, limits: StreamLimits) -> None:
        self.role, self.settings, self.outside, self.limits = role, settings, outside, limits
        self.names = names_of(settings)
        self.name = self.names.worker(role.name, settings.instance)
        self.topic = role.topic(self.names.topics)
        self._failures = 0  # consecutive
        self._fenced = 0
        self._logged: object = None  # the last state that the log shows
        self._tables: Tables = {}  # the tables of the last worker, for the next one
        self._is_away = False  # the broker did not answer the last request
        self._stall = Stall(limits.stall_seconds_max)
        usual = settings.client.transaction_timeout_seconds + _OVERDUE_SECONDS
        deadline = max(usual, limits.stall_seconds_max)
        self._waits, self._shown = Waits(usual, deadline), Waits(deadline, deadline)
        self._lasting = Lasting(deadline)
        self._has_notes = True  # a process before this one may have left some
        self._is_unheard = False  # the last note was refused

    def run(self) -> Exit:
        """Work until a signal arrives; raises ``Failure`` for an error that no restart can repair."""
        outside = self.outside
        with _endings():
            started = time.monotonic()
            self.role.warm(self.settings)
            outside.loaded()
            _log.info("%s: kernels loaded after %.1f s", self.name, time.monotonic() - started)
            while not outside.stop.signal:
                try:
                    self._live()
                except tuple(CAUSES) as error:
                    self._restart(error)
        self._log_change("stopped", f"{self.name}: stopped; open work is committed, or will be done again")
        return Exit.SUCCESS

    def _live(self) -> None:
        """Make all parts, work until a signal or a failure, and close all parts in the order that loses least."""
        self._is_away = False
        with ExitStack() as closing:
            self.outside.health.start()
            with self.outside.watchdog.guard("the start", START_SECONDS_MAX):
                transport = self.outside.connect()
                closing.callback(transport.close)
                closing.callback(self._leave, transport)
                producer = transport.producer(self.name)
                consumer = transport.consumer(self.topic, self.names.group(self.role.name), self.name)
                closing.callback(consumer.close)
                closing.callback(producer.close)  # first: an open transaction holds up readers
                watch = Watch(transport, self.settings, self.role.name)
                member = WorkerMember(transport, consumer, producer, self.outside.observer, check=watch.look)
                made = self.role.make(member, self.settings, self.limits)
                closing.callback(made.close)
                watch.look()
                made.inherit(self._tables)
                self._tables = {}
                self.outside.health.reports = made.reports
            try:
                self._turns(made, producer, self._chores(made, watch, consumer))
            except OffsetGoneError:
                watch.look()  # a topic that was made again is why
                raise
            except tuple(CAUSES):
                self._tables = made.hand_over()
                raise

    def _leave(self, transport: Transport) -> None:
        """Leave the group if a signal came, so that others take over at once."""
        if self.outside.stop.signal:
            with suppress(TransportError):
                transport.leave(self.names.group(self.role.name), self.name)

    def _turns(self, made: Made, producer: Producer, chores: list[_Chore]) -> None:
        outside, limits = self.outside, self.limits
        records_max, wait = self.role.records_max(limits), wait_seconds(self.role, limits)
        due = [outside.now()] * len(chores)
        began = outside.now()
        while not outside.stop.signal:
            with outside.watchdog.guard("a turn", limits.turn_seconds_max):
                try:
                    started = outside.now()
                    made.worker.turn(wait, records_max)
                    wait = wait_seconds(self.role, limits, wait, outside.now() - started)
                    for i, chore in enumerate(chores):
                        if due[i] <= outside.now() or self._is_away:
                            chore.run()
                            due[i] = outside.now() + chore.every_seconds
                except UnreachableError as error:
                    # The broker does not answer: keep all state until a request for the ends of the topic succeeds.
                    self._is_away = True
                    self._forget()
                    self.outside.observer.set("connected", 0.0)
                    self._log_change("away", f"{self.name}: {error}", bad=True)
            self._beat(made, producer)
            if outside.now() - began > STEADY_SECONDS and not self._is_away:
                self._failures = self._fenced = 0
            if self._is_away or made.worker.member.aborted_in_row:
                self._nap(max(1, made.worker.member.aborted_in_row))

    def _beat(self, made: Made, producer: Producer) -> None:
        """Report the state of the worker to the probes, and to the log if it has changed."""
        worker, member, restoring = made.worker, made.worker.member, made.restoring()
        owned = sorted(worker.running | member.waiting | set(restoring))
        listed = f"partitions: {', '.join(map(str, owned)) or 'none'}"
        if self._is_away:
            answer = HealthAnswer(False, "the broker does not answer")
        elif not member.joined:
            answer = HealthAnswer(False, "waiting for the group")
        elif not worker.ready:
            late = self._waits.late
            waits = f"; too long, though the broker answers: {', '.join(late)}" if late else ""
            waits += f"; it waits for {member.awaited}" if member.awaited else ""
            answer = HealthAnswer(False, f"{listed}; waiting: {sorted(member.waiting)}, restoring: {restoring}{waits}")
            self._log_change(("restoring", owned, late), f"{self.name}: restoring; {answer.text}", bad=bool(late))
        elif member.aborted_in_row > 1:
            in_time = not self._shown.late
            answer = HealthAnswer(in_time, f"{listed}; transactions are aborted: {producer.last_error}")
            text = f"{self.name}: transactions are aborted; waiting longer each time: {producer.last_error}"
            self._log_change(("aborting", producer.last_error), text, bad=True)
        else:
            lags = sorted(made.standbys().items())
            stands = [f"{shard} ({messages} messages, {seconds:.1f} s behind)" for shard, (messages, seconds) in lags]
            answer = HealthAnswer(True, f"{listed}; standby of: {', '.join(stands)}" if stands else listed)
            if not member.aborted_in_row:
                self._log_change(("ready", *owned), f"{self.name}: ready on {self.topic}; {listed}")
        self.outside.health.beat(answer)

    def _chores(self, made: Made, watch: Watch, consumer: Consumer) -> list[_Chore]:
        observer, worker, member = self.outside.observer, made.worker, made.worker.member
        transport = member.transport
        labels: set[str] = set()

        def observe() -> None:
            nonlocal labels
            owned = worker.running | member.waiting | set(made.restoring())
            gone, labels = labels - set(map(str, owned)), set(map(str, owned))
            for label in gone:
                observer.forget(label)
            observer.set("assigned_partitions", len(owned))
            observer.set("ready", float(member.joined and worker.ready and not self._shown.late))
            waiting = made.waiting_records()
            lags = consumer.lag() if made.reads is None else made.reads.lag()
            for partition, lag in lags.items():
                observer.set("lag_records", lag + waiting.get(partition, 0), str(partition))
            made.observe()

        def check() -> None:
            member.check()
            ends = {p: end for p, (_, end) in transport.bounds(self.topic).items()}
            at: Mapping[int, int] = consumer.positions()
            if made.reads is not None:
                _, end = transport.bounds(made.reads.topic)[0]
                ends, at = dict.fromkeys(ends, end), made.reads.positions()
            if self._is_away:
                self._is_away = False
                self._log_change("back", f"{self.name}: the broker answers again")
            observer.set("connected", float(member.joined))
            # A partition with pending records is not stalled. Its records wait for other partitions, or their pairs for
            # later steps.
            running = worker.running - (set() if member.aborted_in_row else made.waiting_records().keys())
            positions = {p: position for p, position in at.items() if p in running}
            stalled = self._stall.look(positions, ends, self.outside.now())
            if stalled is not None:
                self.outside.stuck(
                    f"{self.name}: partition {stalled} of {self.topic} stays at {positions[stalled]} of "
                    f"{ends[stalled]} for {self.limits.stall_seconds_max:g} s"
                )
            self._check_waits(made)
            self._note(made, watch)

        return [
            _Chore(_OBSERVE_SECONDS, observe),
            _Chore(_CHECK_SECONDS, check),
            _Chore(self.limits.trim_seconds, made.trim),
            _Chore(_COLLECT_SECONDS, self.outside.collect),
        ]

    def _check_waits(self, made: Made) -> None:
        """Restart if something waits beyond its deadline; the second time, end the process."""
        now, found = self.outside.now(), waiting(made, ends=True)
        self._shown.look({what: progress for what, (_, progress) in waiting(made, ends=False).items()}, (), now)
        wait = self._waits.look({what: progress for what, (_, progress) in found.items()}, begun(made), now)
        if wait is None:
            return
        state, _ = found[wait.what]
        text = f"{wait.what} of {self.topic} {state.why} ({wait.seconds:.0f} s)"
        if wait.again:
            self.outside.stuck(f"{self.name}: {text}, also after a restart; see {state.look}")
        raise WaitedError(text)

    def _note(self, made: Made, watch: Watch) -> None:
        """Note for ``neardup status`` what keeps the worker from its work, or once that nothing does any longer."""
        notes = self._lasting.look(made, {*self._waits.late, *self._shown.late}, self.outside.now())
        if not notes and not self._has_notes:
            return
        try:
            watch.note(self.name, encode_notes(made.worker.member.clock(), notes))
            self._has_notes, self._is_unheard = bool(notes), False
        except TransportError as error:  # the work does not depend on it
            if not self._is_unheard:
                _log.warning("%s: neardup status cannot show what keeps it from its work: %s", self.name, error)
            self._is_unheard = True

    def _forget(self) -> None:
        """Begin all deadlines again: the broker was away, or the worker restarts."""
        self._stall.forget()
        self._waits.forget()
        self._shown.forget()

    def _restart(self, error: TransportError) -> None:
        """Count and log a failure, and wait; raises ``Failure`` if another process has the same name."""
        self._failures += 1
        self._fenced += isinstance(error, FencedError)
        cause = next(cause for kind, cause in CAUSES.items() if isinstance(error, kind))
        observer, health = self.outside.observer, self.outside.health
        observer.count("restarts", 1, cause)
        observer.set("connected", 0.0)
        observer.set("ready", 0.0)
        observer.set("assigned_partitions", 0.0)
        observer.forget()  # the next worker may get other partitions
        health.beat(HealthAnswer(False, f"restarting: {error}"))
        self._forget()
        self._log_change(("over", cause), f"{self.name}: restarting from the committed offsets: {error}", bad=True)
        if self._fenced >= _FENCED_MAX:
            raise Failure(
                Exit.FENCED,
                f"{self.name} was fenced {self._fenced} times in a row, the last time by: {error}; another process "
                "uses the same --instance: give each worker of a role its own",
            ) from error
        self._nap(self._failures)

    def _nap(self, attempt: int) -> None:
        self.outside.stop.sleep(backoff_seconds(attempt, self.name))

    def _log_change(self, state: object, text: str, *, bad: bool = False) -> None:
        """Log a change of state, once."""
        if state != self._logged:
            self._logged = state
            _log.log(logging.WARNING if bad else logging.INFO, "%s", text)


@contextmanager
def _endings() -> Iterator[None]:
    """Convert errors of the table ``ENDINGS`` to failures with their exit code."""
    try:
        yield
    except tuple(ENDINGS) as error:
        raise failure_of(error) from error


def failure_of(error: NeardupError) -> Failure:
    """Return the failure by which an error ends the process."""
    code = next(code for kind, code in ENDINGS.items() if isinstance(error, kind))
    return Failure(code, str(error))
