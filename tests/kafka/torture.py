"""Torture of the stream workers on a real broker: ``python tests/kafka/torture.py --documents 50000 --seed 7``.

Theory of operation. A broker of its own, topics, signers and matchers as processes. One thread loads documents at a
pace, in transactions; the main thread goes through a schedule that the seed gives, by the number of documents loaded:

- *kill*: SIGKILL to a worker, and a new one of its name after a moment;
- *stop*: SIGSTOP to a worker for longer than its session, now and then longer than its transaction too, then SIGCONT:
  a zombie, whose partitions others have by then;
- *scale*: one worker more of a role, or the one more asked to go: rebalances;
- *broker*: SIGKILL to the broker, and its start on the same data.

The run ends when all logs stand still for longer than session and transaction timeout together, no transaction is open
and nothing is left to read; then ``torture_oracle`` compares what is committed.

Exit codes: 0 nothing lost, repeated or wrong; 1 something was, or it did not end; 76 the same, but the broker's own log
says that it dropped transaction markers (``torture_cluster.DROPPED_MARKERS``), so nothing follows for the workers; 77
this machine cannot run a broker.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import orjson
from broker import BrokerUnavailableError, tail
from torture_cluster import (
    OVERDUE_SECONDS,
    ROLES,
    SESSION_SECONDS,
    TRANSACTION_SECONDS,
    Cluster,
    Loader,
    TortureError,
)
from torture_oracle import Verdict, judge

from workers.process.exits import Exit
from workers.service.supervisor import FINAL

QUIET_SECONDS = SESSION_SECONDS + TRANSACTION_SECONDS + 1
# Where a transaction is still open: until the broker must have ended it, were it not for markers that it drops.
QUIET_OPEN_SECONDS = QUIET_SECONDS + OVERDUE_SECONDS
SETTLE_SECONDS_MAX = 240.0
VOID, UNAVAILABLE = 76, 77


class VoidError(Exception):
    """The broker broke its own promise."""


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Torture:
    """Goes through the schedule, and keeps the workers running meanwhile."""

    def __init__(self, cluster: Cluster, loader: Loader) -> None:
        given = cluster.given
        self.cluster, self.loader, self.given = cluster, loader, given
        self.chance = random.Random(given.seed + 1)
        self.done: Counter[str] = Counter()
        self.marks: list[float] = []  # when it began, when all was done, when all was at rest
        self.endings: Counter[str] = Counter()  # of workers that ended by themselves
        actions = ["kill"] * given.kills + ["stop"] * given.stops + ["scale"] * given.scales
        places = sorted(self.chance.uniform(0.03, 0.95) for _ in actions)
        self.chance.shuffle(actions)
        schedule = list(zip(places, actions, strict=True))
        schedule += [((i + 1) / (given.brokers + 1), "broker") for i in range(given.brokers)]
        self.schedule = [(round(place * given.documents), action) for place, action in sorted(schedule)]

    def run(self) -> None:
        """Until everything is loaded, the schedule is over, and all logs stand still."""
        while not all(self.cluster.committed(role) for role in ROLES):  # at first, of no document
            self._tend()
            time.sleep(0.2)
        self.marks.append(time.monotonic())
        self.loader.start()
        while self.loader.is_alive() or self.schedule:
            while self.schedule and self.schedule[0][0] <= self.loader.loaded:
                self._act(self.schedule.pop(0)[1])
            self._tend()
            if self.loader.error:
                raise TortureError("the loader failed") from self.loader.error
            time.sleep(0.05)
        self.marks.append(time.monotonic())
        self._settle()
        self.marks.append(time.monotonic())

    def _act(self, action: str) -> None:
        running = [one for one in self.cluster.workers if one.process is not None and one.wakes is None]
        running = [one for one in running if not one.leaving]
        now = time.monotonic()
        if action == "broker":
            self.cluster.broker.kill()
            time.sleep(self.chance.uniform(0.5, 3.0))
            self.cluster.broker.start()
        elif action == "scale":
            self._scale(self.chance.choice(ROLES))
        elif not running:  # all are down or stopped: when one is back
            self.schedule.insert(0, (self.loader.loaded, action))
            self._tend()
            time.sleep(0.1)
            return
        elif action == "kill":
            worker = self.chance.choice(running)
            worker.kill()
            worker.due = now + self.chance.choice((0.0, 0.5, 1.0, SESSION_SECONDS + 1))
        else:
            worker = self.chance.choice(running)
            worker.signal(signal.SIGSTOP)
            over = self.chance.choice((0.0, 0.0, TRANSACTION_SECONDS))
            worker.wakes = now + SESSION_SECONDS + 1 + over + self.chance.uniform(0.0, 1.0)
        self.done[action] += 1

    def _scale(self, role: str) -> None:
        mine = [worker for worker in self.cluster.workers if worker.role == role and not worker.leaving]
        count = self.given.signers if role == "sign" else self.given.matchers
        if len(mine) <= count:
            self.cluster.add(role)
            return
        worker = mine[-1]
        worker.leaving = True
        worker.signal(signal.SIGTERM)  # a stopped one hears it when it wakes

    def _tend(self) -> None:
        """Wake and start whose time has come; note who ended by itself."""
        now = time.monotonic()
        for worker in list(self.cluster.workers):
            if worker.wakes is not None and now >= worker.wakes:
                worker.signal(signal.SIGCONT)
                worker.wakes = None
            code = None if worker.process is None else worker.process.poll()
            if worker.leaving and (worker.process is None or code is not None):
                self.endings[f"left:{code}"] += 1
                self.cluster.workers.remove(worker)
            elif code is not None:
                self.endings[f"{worker.role}:{code}"] += 1
                worker.process, worker.wakes, worker.due = None, None, now + 0.5
                if code in (*FINAL, Exit.BROKEN, Exit.SUCCESS):
                    raise TortureError(f"{worker.name} ended with {code}:\n{tail(worker.log.read_text())}")
            elif worker.process is None and now >= worker.due:
                worker.start()

    def _settle(self) -> None:
        topics = self.cluster.names.topics
        deadline, quiet, last = time.monotonic() + SETTLE_SECONDS_MAX, time.monotonic(), None
        while True:
            self._tend()
            asleep = any(worker.wakes is not None or worker.process is None for worker in self.cluster.workers)
            state = [self.cluster.bounds(topic) for topic in topics] + [self.cluster.committed(role) for role in ROLES]
            if state != last or asleep:
                quiet, last = time.monotonic(), state
            waited = time.monotonic() - quiet
            if waited > QUIET_OPEN_SECONDS or (waited > QUIET_SECONDS and not self.cluster.is_open()):
                left = [self.cluster.unread("sign", topics.documents), self.cluster.unread("match", topics.bands)]
                if left == [0, 0]:
                    return
            if time.monotonic() > deadline:
                raise TortureError(f"not at rest in {SETTLE_SECONDS_MAX:.0f} s: {state}")
            time.sleep(0.3)

    def verdict(self) -> Verdict:
        topics = self.cluster.names.topics
        rows = [orjson.loads(record.value or b"") for record in self.cluster.records(topics.documents)]
        rows.sort(key=lambda row: int(row["id"][1:]))
        values = [record.value or b"" for record in self.cluster.records(topics.candidates)]
        out = judge(rows, values, self.cluster.settings)
        dead = len(self.cluster.records(topics.dead))
        out.fault("wrong", f"{dead} dead letters", dead)
        out.fault("lost", "documents that the loader counted", self.given.documents - out.documents)
        return out


def run(given: argparse.Namespace, folder: Path) -> bool:
    """One run in a folder for the logs of the workers; says what came of it, and whether it is right."""
    started = time.monotonic()
    cluster = Cluster(given, folder)
    try:
        cluster.start()
        torture = Torture(cluster, Loader(cluster))
        try:
            torture.run()
            verdict = torture.verdict()
        except TortureError as error:
            if cluster.dropped_markers():
                raise VoidError from error
            raise
        finally:
            trimmed = [first for first, _ in cluster.bounds(cluster.names.topics.bands).values()]
            dropped = cluster.dropped_markers()
            tell(
                f"done: {dict(torture.done)}; ended by themselves: {dict(torture.endings)}; loaded: "
                f"{torture.loader.loaded:,}, {torture.loader.unknown} transactions in doubt, waited "
                f"{torture.loader.waited} times for signers; bands trimmed to {trimmed}; "
                f"markers dropped by the broker: {dropped}; "
                f"began, done, at rest after {[round(mark - started) for mark in torture.marks]} s"
            )
    finally:
        cluster.close()
    for example in verdict.examples:
        tell(example)
    tell(
        f"seed {given.seed}: {verdict.documents:,} documents, {torture.done['kill']} kills, "
        f"{torture.done['stop']} stops, {torture.done['scale']} scales, {torture.done['broker']} broker kills; "
        f"{verdict.expected:,} pairs and {verdict.links:,} links promised, {verdict.forbidden:,} pairs forbidden, "
        f"{verdict.undecided:,} undecided, {verdict.published:,} published: "
        f"lost {verdict.lost}, repeated {verdict.repeated}, wrong {verdict.wrong}; {time.monotonic() - started:.0f} s"
    )
    if not verdict.good and dropped:
        raise VoidError
    return verdict.good


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=30, help="kill -9 of a worker")
    parser.add_argument("--stops", type=int, default=10, help="SIGSTOP of a worker for longer than its session")
    parser.add_argument("--scales", type=int, default=6, help="workers added or removed")
    parser.add_argument("--brokers", type=int, default=1, help="kill -9 of the broker")
    parser.add_argument("--signers", type=int, default=2)
    parser.add_argument("--matchers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300.0, help="that loading takes, if nobody has to wait")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    return parser.parse_args()


def main() -> int:
    given = arguments()
    folder = Path(tempfile.mkdtemp(prefix="neardup-torture-"))
    good = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end like Ctrl-C, through the clean-up
    tell(f"seed {given.seed}; logs in {folder} while it runs, kept if it fails")
    try:
        good = run(given, folder)
    except BrokerUnavailableError as error:
        tell(str(error))
        return UNAVAILABLE
    except VoidError as error:
        tell(f"seed {given.seed}: void, for the broker dropped transaction markers; {error.__cause__ or ''}")
        return VOID
    except TortureError as error:
        tell(f"seed {given.seed}: {error}; cause: {error.__cause__}")
    finally:
        if good:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
