"""``neardup status`` on a real broker, from topics and offsets alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from kafka_world import READS, World, stories
from typer.testing import CliRunner

from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.process.watchdog import Watchdog
from neardup_workers.outside.telemetry.health import Health
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.outside.transport.kafka.transport import KafkaTransport
from neardup_workers.outside.transport.protocol import Reader
from neardup_workers.running.cli.app import app
from neardup_workers.running.service.roles import ROLES
from neardup_workers.running.service.shell import Outside, Shell


def test_a_deployment_is_well_then_without_matchers_then_without_documents(worlds: Callable[..., World]) -> None:
    """Markers of transactions at the end of the logs are no unread records, and each incident has its exit code."""
    world = worlds(verdicts=True)
    given = {f"NEARDUP_{name.upper()}": str(value) for name, value in world.given.items()}

    def shown() -> tuple[int, dict[str, Any], list[str]]:
        command = ["status", "--json", "--bootstrap-servers", world.kafka.bootstrap_servers]
        done = CliRunner().invoke(app, command, env=given)
        found = json.loads(done.stdout)
        return done.exit_code, found, [one["what"] for one in found["problems"] if one["code"]]

    for role in (SIGN, MATCH, LINK, FILTER):
        world.place(role)
    world.load(stories(30))
    world.settle()
    # An offset that was committed counts when the broker has written the end of its transaction.
    world.run(lambda: not any(map(world.unread, READS)), "each role has committed all")
    code, found, wrong = shown()
    assert (code, wrong) == (Exit.SUCCESS, [])
    roles = {role["role"]: role for role in found["roles"]}
    assert {name: (role["members"], role["lag_records"]) for name, role in roles.items()} == {
        SIGN: (1, 0), MATCH: (1, 0), LINK: (1, 0), FILTER: (1, 0),
    }  # fmt: skip
    assert roles[LINK]["last_output"] > 0
    _, matcher, _, _ = world.places
    matcher.leave()
    world.load(stories(30))
    world.run(lambda: world.unread(SIGN) == 0 < world.unread(MATCH), "the documents are signed, and can be read")
    code, found, wrong = shown()
    assert (code, found["held_back_by"]) == (Exit.STUCK, MATCH)
    assert any(what.startswith(f"no matcher is a member of {world.names.group(MATCH)}, and ") for what in wrong)
    world.places[0].leave()
    world.load(stories(30))
    world.transport.trim(world.topics.documents, world.ends(world.topics.documents))
    code, found, wrong = shown()
    assert code == Exit.GAP
    assert any(f"of {world.topics.documents} were deleted before a signer had read them" in what for what in wrong)


class Held(KafkaTransport):
    """A broker whose topics show nothing to readers until they are let go."""

    is_held = True

    def reader(self, topic: str, *given: int) -> Reader:
        reader = super().reader(topic, *given)
        poll = reader.poll
        reader.poll = lambda *given: [] if self.is_held else poll(*given)  # type: ignore[method-assign]
        return reader


class Asking(Stop):
    """A signal that comes when the condition holds; it is asked between turns."""

    def __init__(self, is_so: Callable[[], bool]) -> None:
        self._is_so, self._held = is_so, False

    @property
    def signal(self) -> int:  # type: ignore[override]
        self._held = self._held or self._is_so()
        return int(self._held)


def test_a_matcher_that_restores_says_how_far_it_is_and_takes_it_back(worlds: Callable[..., World]) -> None:
    """The notes are offsets of a group without members, and those of the matchers stay what they were."""
    world = worlds()
    given = {f"NEARDUP_{name.upper()}": str(value) for name, value in world.given.items()}
    for role in (SIGN, MATCH):
        world.place(role)
    world.load(stories(30))
    world.settle()
    world.places[-1].leave()
    group, links = world.names.group(MATCH), world.topics.links
    committed = world.transport.group_offsets(group, links)
    transport, health, seen = Held(world.kafka_of_workers), Health(120), []

    def is_over() -> bool:
        command = ["status", "--json", "--bootstrap-servers", world.kafka.bootstrap_servers]
        waiting = json.loads(CliRunner().invoke(app, command, env=given).stdout)["waiting"]
        seen.extend(waiting)
        if "restoring" in [one["state"] for one in waiting]:
            assert world.transport.group_offsets(group, links) == committed
            transport.is_held = False
        return not transport.is_held and not waiting and health.ready().holds

    begun = time.monotonic()
    outside = Outside(
        lambda: transport, Observer(), health, Watchdog(), Asking(is_over), lambda: 10 * (time.monotonic() - begun)
    )
    assert Shell(ROLES[MATCH], world.settings, outside, world.limits).run() == Exit.SUCCESS
    restoring = [one for one in seen if one["state"] == "restoring"]
    assert {one["worker"] for one in restoring} == {world.names.worker(MATCH, world.settings.instance)}
    assert restoring[0]["says"].startswith("has read 0 of about ")
    assert world.transport.group_offsets(group, links) == committed
