"""Torture of the stream workers on a real broker: ``python tests/kafka/torture/torture.py --documents 50000 --seed 7``.

Theory of operation. Brokers of its own (``--nodes``), topics, and workers of all four roles as processes. One thread
loads the documents (``torture_documents``) at a pace, in transactions; the main thread goes through a schedule that the
seed gives, by the number of documents loaded:

- *kill*: SIGKILL to a worker, and a new one of its name after a moment;
- *stop*: SIGSTOP to a worker for longer than its session, now and then longer than its transaction too, then SIGCONT:
  a zombie, whose partitions others have by then;
- *scale*: one worker more of a role, or the one more asked to go: rebalances;
- *broker*: SIGKILL to nodes, one, two or all, and their start on the same data;
- *freeze*: SIGSTOP to nodes, one, two or all, for some seconds;
- *outage*: SIGKILL to all signers; the loader runs ahead by several times ``lateness_seconds``; then they start again;
- *burst*: the loader runs ahead as far while the signers work;
- *grow*, *shards*: partitions are added to ``documents``, once, and used; and shards, where ``--shards`` says so;
- *hot*: SIGKILL to all matchers while many near-copies of one text come; then they start again.

The run ends when all logs stand still for longer than session and transaction timeout together, no transaction is open
and nothing is left to read; then ``torture_oracle`` and ``torture_verdicts`` compare what is committed, as librdkafka
reads it.

Exit codes: 0 nothing lost, repeated or wrong; 1 something was, or it did not end; 76 the same, but the log of a single
broker says that it dropped transaction markers (``torture_cluster.DROPPED_MARKERS``), so nothing follows for the
workers; 77 this machine cannot run a broker.
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
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from import_path import folders

sys.path.extend(folders("support", "kafka"))

from broker import Broker, BrokerUnavailableError, tail
from torture_cluster import (
    DOCUMENTS_PARTITIONS,
    DOCUMENTS_PARTITIONS_GROWN,
    OVERDUE_SECONDS,
    SESSION_SECONDS,
    SHARDS,
    TRANSACTION_SECONDS,
    Cluster,
    TortureError,
    patient,
)
from torture_documents import hot_at, items
from torture_loader import Loader
from torture_oracle import Verdict, judge
from torture_reader import PATIENCE_SECONDS, Follower, committed_records
from torture_verdicts import Published, judge_held, judge_verdicts

from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.topics.names import ROLES
from neardup_workers.running.service.supervisor import FINAL

QUIET_SECONDS = SESSION_SECONDS + TRANSACTION_SECONDS + 1
# Where a transaction is still open: until the broker must have ended it, were it not for markers that it drops.
QUIET_OPEN_SECONDS = QUIET_SECONDS + OVERDUE_SECONDS
SETTLE_SECONDS_MAX = 300.0
# An outage or a burst spans so many times the lateness.
AHEAD_LATENESSES = 5
VOID, UNAVAILABLE = 76, 77
# What a run must have seen of each kind, or its verdict says nothing of that.
KINDS = (
    "promised", "links", "forbidden", "late", "poison", "removals", "versions",
    "verdict original", "verdict duplicate", "verdict removed", "verdict refused",
    "clusters",
)  # fmt: skip
tell = partial(print, flush=True)


class VoidError(Exception):
    """The broker broke its own promise."""


class Torture:
    """Goes through the schedule, and keeps the workers running meanwhile."""

    def __init__(self, cluster: Cluster, loader: Loader) -> None:
        given = cluster.given
        self.cluster, self.loader, self.given = cluster, loader, given
        self.chance = random.Random(given.seed + 1)
        self.done: Counter[str] = Counter()
        self.marks: list[float] = []  # when it began, when all was done, when all was at rest
        self.endings: Counter[str] = Counter()  # of workers that ended by themselves
        self.later: list[tuple[Callable[[], bool], Callable[[], None]]] = []  # what is done once something is so
        self.moves: set[tuple[str, int, int]] = set()  # topic, partition, and a node that led it
        self.is_frozen = False  # some node is
        address, topics = cluster.brokers.bootstrap, cluster.names.topics
        # Matchers trim ``signed``, and a linker trims ``links`` when it starts again.
        self.followers = [Follower(address, topics.signed), Follower(address, topics.links, range(SHARDS))]
        actions = ["kill"] * given.kills + ["stop"] * given.stops + ["scale"] * given.scales
        actions += ["broker"] * given.brokers + ["freeze"] * given.freezes
        places = sorted(self.chance.uniform(0.03, 0.95) for _ in actions)
        self.chance.shuffle(actions)
        schedule = list(zip(places, actions, strict=True))
        ahead = ["outage"] * given.outages + ["burst"] * given.bursts
        schedule += [((i + 1) / (len(ahead) + 1), action) for i, action in enumerate(ahead)]
        schedule += [(0.45, "grow")] if given.grow else []
        schedule += [(0.55, "shards")] if given.shards > SHARDS else []
        schedule += [(hot_at(cluster.shape) / given.documents, "hot")] if given.hot else []
        self.schedule = [(round(place * given.documents), action) for place, action in sorted(schedule)]

    def run(self) -> None:
        """Until everything is loaded, the schedule is over, and all logs stand still."""
        while not all(self._has_begun(role) for role in ROLES):  # at the end of nothing, so that all is read
            self._tend()
            time.sleep(0.2)
        self.marks.append(time.monotonic())
        for follower in self.followers:
            follower.start()
        self.loader.start()
        while self.loader.is_alive() or self.schedule or self.later:
            while self.schedule and self.schedule[0][0] <= self.loader.loaded:
                self._act(self.schedule.pop(0)[1])
            self._tend()
            if self.loader.error:
                raise TortureError("the loader failed") from self.loader.error
            time.sleep(0.05)
        self.marks.append(time.monotonic())
        self._settle()
        self.marks.append(time.monotonic())

    def _has_begun(self, role: str) -> bool:
        return self.cluster.committed(role).keys() == self.cluster.bounds(self.cluster.topic(role)).keys()

    def _act(self, action: str) -> None:
        running = [one for one in self.cluster.workers if one.process is not None and one.wakes is None]
        running = [one for one in running if not one.leaving]
        # All workers are down or stopped: the action waits until one is back. A frozen node: until it goes on, because
        # without a quorum no other node can start, and only this thread can thaw it.
        if not running if action in ("kill", "stop") else self.is_frozen and action in ("broker", "freeze", "shards"):
            self.schedule.insert(0, (self.loader.loaded, action))
            self._tend()
            time.sleep(0.1)
            return
        self.done[action] += 1
        now = time.monotonic()
        if action == "kill":
            worker = self.chance.choice(running)
            worker.kill()
            worker.due = now + self.chance.choice((0.0, 0.5, 1.0, SESSION_SECONDS + 1))
        elif action == "stop":
            worker = self.chance.choice(running)
            worker.signal(signal.SIGSTOP)
            over = self.chance.choice((0.0, 0.0, TRANSACTION_SECONDS))
            worker.wakes = now + SESSION_SECONDS + 1 + over + self.chance.uniform(0.0, 1.0)
        else:
            {
                "scale": lambda: self._scale(self.chance.choice(ROLES)), "broker": self._kill_nodes,
                "freeze": self._freeze_nodes, "outage": lambda: self._end_all("sign", self._ahead()),
                "burst": self._ahead, "grow": self._grow, "shards": self._add_shards,
                "hot": lambda: self._end_all("match", self.loader.loaded + self.cluster.shape.hot),
            }[action]()  # fmt: skip

    def _some_nodes(self) -> list[Broker]:
        """One node, two or all; more often one."""
        nodes = list(self.cluster.brokers.nodes)
        self.chance.shuffle(nodes)
        return nodes[: self.chance.choice((1, 1, 1, 2, 2, len(nodes)))]

    def _kill_nodes(self) -> None:
        nodes = self._some_nodes()
        for node in nodes:
            node.kill()
        time.sleep(self.chance.uniform(0.5, 3.0))
        if len(nodes) == 1:
            self._note_leaders()
        self.cluster.brokers.start()

    def _freeze_nodes(self) -> None:
        nodes, until = self._some_nodes(), time.monotonic() + self.chance.uniform(1.0, 8.0)
        for node in nodes:
            self.cluster.brokers.freeze(node)
        self.is_frozen = True
        self.later.append((lambda: time.monotonic() > until, lambda: self._thaw(nodes)))

    def _thaw(self, nodes: list[Broker]) -> None:
        if len(nodes) == 1:
            self._note_leaders()
        for node in nodes:
            self.cluster.brokers.thaw(node)
        self.is_frozen = False

    def _note_leaders(self) -> None:
        if self.given.nodes > 1:  # with one dead or frozen, the others have a quorum
            self.moves.update((topic, p, node) for (topic, p), node in self.cluster.leaders().items())

    def _ahead(self) -> int:
        """Let the loader run ahead; returns up to which item."""
        count = round(AHEAD_LATENESSES * self.cluster.shape.lateness / self.cluster.shape.stride)
        self.loader.burst_until = min(self.given.documents, self.loader.loaded + count)
        return self.loader.burst_until

    def _end_all(self, role: str, until: int) -> None:
        """No worker of a role runs until so many items are loaded."""
        mine = [worker for worker in self.cluster.workers if worker.role == role]
        for worker in mine:
            worker.kill()
            worker.due = float("inf")

        def start() -> None:
            for worker in mine:
                worker.due = 0.0

        self.later.append((lambda: self.loader.loaded >= min(until, self.given.documents), start))

    def _grow(self) -> None:
        self.cluster.grow()
        self.loader.partitions = DOCUMENTS_PARTITIONS_GROWN

    def _add_shards(self) -> None:
        self.cluster.grow_shards(self.given.shards)
        topic = self.cluster.names.topics.links
        self.followers.append(Follower(self.cluster.brokers.bootstrap, topic, range(SHARDS, self.given.shards)))
        self.followers[-1].start()

    def _scale(self, role: str) -> None:
        mine = [worker for worker in self.cluster.workers if worker.role == role and not worker.leaving]
        if len(mine) <= self.cluster.wanted(role):
            self.cluster.add(role)
            return
        worker = mine[-1]
        worker.leaving = True
        worker.signal(signal.SIGTERM)  # a stopped one hears it when it wakes

    def _tend(self) -> None:
        """Wake and start whose time has come; note who ended by itself."""
        for one in [one for one in self.later if one[0]()]:
            self.later.remove(one)
            one[1]()
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
            is_quiet = waited > QUIET_OPEN_SECONDS or (waited > QUIET_SECONDS and not self.cluster.is_open())
            if is_quiet and not any(self.cluster.unread(role) for role in ROLES):
                return
            if time.monotonic() > deadline:
                raise TortureError(f"not at rest in {SETTLE_SECONDS_MAX:.0f} s: {state}")
            time.sleep(0.3)

    def verdict(self) -> Verdict:
        """What the oracle says; and faults of a run that did not hold what it is for."""
        topics, settings = self.cluster.names.topics, self.cluster.settings
        self._note_leaders()
        documents, candidates, dead, *published = (
            patient(f"read {topic}", lambda topic=topic: committed_records(self.cluster.brokers.bootstrap, topic))  # type: ignore[misc]
            for topic in (
                topics.documents, topics.candidates, topics.dead,
                topics.verdicts, topics.unique, topics.clusters,
            )
        )  # fmt: skip
        signed, *parts = (follower.all(PATIENCE_SECONDS) for follower in self.followers)
        out = judge(documents, candidates, dead, settings, max(SHARDS, self.given.shards))
        judge_held(out, signed, self.cluster.held(), settings)
        judge_verdicts(out, documents, Published(signed, [one for part in parts for one in part], *published), settings)
        keys = {record.key for record in documents}
        out.fault("lost", "items that the loader counted", len({item.key for item in self.loader.items} - {
            (key or b"").decode() for key in keys}))  # fmt: skip
        for kind in (*KINDS, *(("hot",) if self.given.hot >= settings.bucket_candidates_max else ())):
            out.fault("wrong", f"the run held nothing of the kind {kind!r}", int(not out.seen[kind]))
        out.fault("wrong", "signed was never trimmed", int(not self.cluster.is_trimmed()))
        return out

    def story(self, started: float) -> str:
        """What happened, for the reader of the log."""
        loader, cluster = self.loader, self.cluster
        led = Counter((topic, partition) for topic, partition, _ in self.moves)
        return (
            f"done: {dict(self.done)}; ended by themselves: {dict(self.endings)}; loaded: {loader.loaded:,}, "
            f"{loader.aborted} transactions aborted, {loader.unknown} in doubt; signed, first and end: "
            f"{cluster.bounds(cluster.names.topics.signed)[0]}; {cluster.brokers.controllers} terms of controllers, "
            f"{sum(n > 1 for n in led.values())} of {len(led)} partitions had several leaders; "
            f"markers dropped by the broker: {cluster.dropped_markers()}; "
            f"began, done, at rest after {[round(mark - started) for mark in self.marks]} s"
        )


def run(given: argparse.Namespace, folder: Path) -> bool:
    """One run in a folder for the logs of the workers; says what came of it, and whether it is right."""
    started = time.monotonic()
    cluster = Cluster(given, folder)
    try:
        cluster.start()
        pace, shape = given.documents / given.seconds, cluster.shape
        topic, made = cluster.names.topics.documents, items(shape, given.seed)
        torture = Torture(cluster, Loader(cluster.brokers.bootstrap, topic, DOCUMENTS_PARTITIONS, shape, made, pace))
        try:
            torture.run()
            verdict = torture.verdict()
        except TortureError as error:
            tell(f"seed {given.seed}: {error}")
            if cluster.dropped_markers():
                raise VoidError from error
            raise
        finally:
            tell(torture.story(started))
            dropped = cluster.dropped_markers()
    finally:
        cluster.close()
    for example in verdict.examples:
        tell(example)
    done = ", ".join(f"{count} {action}" for action, count in sorted(torture.done.items()))
    tell(
        f"seed {given.seed}, {given.nodes} nodes: {done}; {dict(verdict.seen)}: "
        f"lost {verdict.lost}, repeated {verdict.repeated}, wrong {verdict.wrong}; {time.monotonic() - started:.0f} s"
    )
    if not verdict.good and dropped:
        raise VoidError
    return verdict.good


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1, help="brokers; with three, every partition has three replicas")
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=30, help="kill -9 of a worker")
    parser.add_argument("--stops", type=int, default=10, help="SIGSTOP of a worker for longer than its session")
    parser.add_argument("--scales", type=int, default=6, help="workers added or removed")
    parser.add_argument("--brokers", type=int, default=1, help="kill -9 of nodes")
    parser.add_argument("--freezes", type=int, default=0, help="SIGSTOP of nodes")
    parser.add_argument("--outages", type=int, default=2, help="phases without signers, while the loader runs ahead")
    parser.add_argument("--bursts", type=int, default=2, help="phases in which the loader runs ahead of the signers")
    parser.add_argument("--hot", type=int, default=400, help="near-copies of one text while no matcher runs")
    parser.add_argument("--grow", type=int, default=1, help="whether partitions are added to documents")
    parser.add_argument("--shards", type=int, default=0, help=f"to which the {SHARDS} shards grow; 0: they do not")
    parser.add_argument("--standbys", type=int, default=0, help="of each shard")
    parser.add_argument("--window", type=float, default=300.0, help="window_seconds")
    parser.add_argument("--lateness", type=float, default=60.0, help="lateness_seconds")
    parser.add_argument("--signers", type=int, default=2)
    parser.add_argument("--matchers", type=int, default=2)
    parser.add_argument("--linkers", type=int, default=2, help="one works, the others stand by")
    parser.add_argument("--filters", type=int, default=2)
    parser.add_argument("--templates", type=int, default=0, help="from which half of the new texts have two thirds")
    parser.add_argument("--seconds", type=float, default=300.0, help="that loading takes, if no process has to wait")
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
