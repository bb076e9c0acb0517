"""``neardup status`` on a real broker, from topics and offsets alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kafka_world import READS, World, stories
from typer.testing import CliRunner

from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.running.cli.app import app


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
