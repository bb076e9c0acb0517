"""A standby takes over on a real broker: the window is not read again, and nothing is lost or repeated."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from kafka_deployment import Deployment, get, wait_until
from kafka_world import World, stories
from ports import free_port
from test_kafka_verdicts import check, lines_of

from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN

DOCUMENTS = stories(160)
EARLIER, LATER = DOCUMENTS[:120], DOCUMENTS[120:]
STEP_DOCUMENTS = 6  # so that the log has many messages
SESSION_SECONDS = 6.0  # a heartbeat may come late on a busy machine
LONG_SESSION = {"session.timeout.ms": 30_000}
LEVEL = "(0 messages, 0.0 s behind)"  # of /readyz


class Counts(Observer):
    """Keeps what a matcher counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        self.counts[f"{name} {label}".strip()] += int(amount)


def is_level(standby: MatchWorker, owner: MatchWorker) -> bool:
    """Whether a standby has the tables of an owner at its position: one that is ready may be some messages behind."""
    tables = standby.standbys.tables
    return all(shard in tables and tables[shard].position >= table.position for shard, table in owner.tables.items())


def test_a_standby_takes_over_without_reading_the_window_again(worlds: Callable[..., World]) -> None:
    """The owner is gone without leaving; its shards go to the member that has their tables."""
    world = worlds({"session_timeout_seconds": SESSION_SECONDS}, standbys=1)
    world.place(SIGN)
    owner, standby = world.place(MATCH, "owner"), world.place(MATCH, "standby")
    world.load(EARLIER)
    world.settle(STEP_DOCUMENTS)
    both = [owner.worker, standby.worker]
    world.run(
        lambda: all(len(one.tables) == len(one.standbys.ready) == 1 for one in both),
        "each runs one shard, and has the table of the other",
    )
    world.run(lambda: is_level(standby.worker, owner.worker), "the standby has applied all that the owner has")
    counts = Counts()
    standby.worker.observer = standby.worker.member.observer = counts
    owner.kill()  # the group keeps its place until its session ends
    world.places.remove(owner)
    world.load(LATER)
    world.settle()
    assert standby.worker.running == {0, 1}
    assert world.pairs() == world.expected(DOCUMENTS)
    assert (counts.counts["takeovers kept"], counts.counts["takeovers restored"]) == (1, 0)
    assert counts.counts["restored_documents"] + counts.counts["standby_documents"] <= len(LATER)
    owner.close()


def counted(port: int) -> Counter[str]:
    """The counters of a worker process, with their labels."""
    _, text = get(port, "/metrics")
    found = re.findall(r"^neardup_(\w+)_total(?:\{\w+=\"(\w+)\"\})? (\S+)$", text, re.MULTILINE)
    return Counter({f"{name} {label}".strip(): int(float(value)) for name, label, value in found})


def status(deployment: Deployment) -> dict[str, Any]:
    """What ``neardup status`` says of a deployment."""
    done = deployment.run("status", "--json")
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def test_the_shards_of_a_killed_process_go_to_its_standby(worlds: Callable[..., World], tmp_path: Path) -> None:
    """`neardup status` shows who stands by; after SIGKILL the survivor's metrics say that it read no window again."""
    world = worlds(standbys=1)
    killed, survivor = (world.names.worker(MATCH, instance) for instance in ("0", "1"))
    port = free_port()
    limits = {"step_messages_max": STEP_DOCUMENTS}
    with closing(
        Deployment(world.kafka.bootstrap_servers, tmp_path, LONG_SESSION, limits, **world.given)
    ) as deployment:
        # A survivor that stands still for longer than its own session takes over its own shard, too.
        short = deployment.written("short.properties", session_timeout_ms=round(SESSION_SECONDS * 1_000))

        def shown() -> list[tuple[str, list[str]]]:
            # A shard has no owner while its group moves it.
            return sorted((one["owner"] or "", one["standbys"]) for one in status(deployment)["shards"])

        start = ("--from", "earliest", "--supervised", "--instance")
        deployment.start(SIGN, *start, "0")
        process = deployment.start(MATCH, *start, "0", "--kafka-config", short)
        deployment.start(MATCH, *start, "1", "--health-port", str(port))
        world.load(EARLIER)
        wait_until(lambda: world.pairs() == world.expected(EARLIER), "the first documents are matched")
        both = sorted([(killed, [survivor]), (survivor, [killed])])
        wait_until(
            lambda: shown() == both, f"each owns one shard and stands by for the other\n{deployment.log[-2000:]}"
        )
        wait_until(lambda: LEVEL in get(port, "/readyz")[1], "the standby has all")
        before = counted(port)
        process.kill()
        world.load(LATER)
        wait_until(lambda: world.pairs() == world.expected(DOCUMENTS), "the standby has taken over")
        more = counted(port) - before
        assert (more["takeovers kept"], more["takeovers restored"]) == (1, 0)
        assert more["restored_documents"] + more["standby_documents"] <= len(LATER)
        wait_until(lambda: shown() == [(survivor, [])] * 2, "the survivor owns both, and nothing stands by")


def test_a_killed_linker_goes_to_its_standby(worlds: Callable[..., World], tmp_path: Path) -> None:
    """The standby restores while the owner works; after SIGKILL it decides the rest, each document once, as if nothing
    had happened, and reads no window. `neardup status` shows both, then that nothing stands by."""
    world = worlds(verdicts=True, standbys=1)
    for role in (SIGN, MATCH, FILTER):
        world.place(role)
    killed, survivor = (world.names.worker(LINK, instance) for instance in ("0", "1"))
    port, limits = free_port(), {"trim_seconds": 1e6}  # the model reads all links
    with closing(
        Deployment(world.kafka.bootstrap_servers, tmp_path, LONG_SESSION, limits, **world.given)
    ) as deployment:
        short = deployment.written("short.properties", session_timeout_ms=round(SESSION_SECONDS * 1_000))

        def held() -> tuple[str | None, list[str], int]:
            found = status(deployment)
            remarks = sum("the linker has fewer standbys" in problem["what"] for problem in found["problems"])
            return found["linker"]["owner"], found["linker"]["standbys"], remarks

        def verdicts() -> int:
            return sum(map(len, lines_of(world).values()))

        start = (LINK, "--from", "earliest", "--supervised", "--instance")
        process = deployment.start(*start, "0", "--kafka-config", short)
        world.load(EARLIER[:60])
        world.run(lambda: verdicts() == 60, f"the linker has decided\n{deployment.log[-2000:]}")
        assert held() == (killed, [], 1)
        deployment.start(*start, "1", "--health-port", str(port))
        world.run(lambda: LEVEL in get(port, "/readyz")[1], "the standby has restored")
        world.load(EARLIER[60:])
        world.run(lambda: verdicts() == len(EARLIER), "the linker has decided more")
        wait_until(lambda: counted(port)["standby_documents"] >= 60, "the standby has decided what the linker has")
        assert held() == (killed, [survivor], 0)
        before = counted(port)
        process.kill()
        world.load(LATER)
        world.run(lambda: verdicts() == len(DOCUMENTS), "the standby has taken over")
        more = counted(port) - before
        assert (more["takeovers kept"], more["takeovers restored"], more["restored_documents"]) == (1, 0, 0)
        assert held() == (survivor, [], 1)
        world.settle()
        check(world)
