"""0.1.0 and this version on one set of topics: each role old while others are new, then all new; rollback."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka_deployment
import pytest
from broker import Broker, tail
from import_path import SOURCES
from kafka_deployment import COMMAND, ROOT, Deployment, documents
from kafka_harness import quick_settings
from kafka_world import PATIENT

sys.path.insert(0, str(ROOT / "tests" / "reproduce"))

from against import installed
from program import RELEASED, Program

from neardup import Deduplicator, Document
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN, names_of
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.kafka.transport import KafkaTransport
from neardup_workers.outside.transport.protocol import Committed, Record

REF = RELEASED["0.1.0"]
# No session ends because the machine is busy.
SETTINGS = {
    "window_seconds": 864_000, "lateness_seconds": 3_600, "retention_seconds": 10_000_000,
    "session_timeout_seconds": 30,
}  # fmt: skip
WARM_SECONDS_MAX = 900.0
_WARM = """
from neardup_workers.running.service.roles import ROLES
from neardup_workers.outside.settings.kafka import StreamSettings
for role in ROLES.values():
    role.warm(StreamSettings(verdicts=True, window_seconds=10.0))
"""


@pytest.fixture(scope="module")
def old() -> Program:
    """0.1.0 in an environment of its own."""
    if subprocess.run(["git", "cat-file", "-e", REF], cwd=ROOT, check=False, capture_output=True).returncode:
        pytest.skip(f"this clone has no history: commit {REF}, which was 0.1.0, is not in it")
    program = installed(REF)
    # Four processes that compile the same kernels at the same time would take minutes.
    warmed = program.code(_WARM, timeout=WARM_SECONDS_MAX)
    assert warmed.returncode == 0, warmed.stderr.decode()
    return program


class Mixed(Deployment):
    """A deployment whose processes are of either version."""

    def __init__(self, bootstrap: str, folder: Path, program: Program, verdicts: bool) -> None:
        super().__init__(bootstrap, folder, **SETTINGS, verdicts=str(verdicts).lower())
        self._old_command = [str(program.python), "-P", "-m", "neardup"]
        self._new_environment = self.environment
        self._old_environment = dict(self.environment)
        self._old_environment["NEARDUP_BANDS_PARTITIONS"] = self._old_environment.pop("NEARDUP_SHARDS")
        del self._old_environment["PYTHONPATH"]
        given = {
            name.removeprefix("NEARDUP_").lower(): value
            for name, value in self.environment.items()
            if name.startswith("NEARDUP_")
        }
        self.settings = load_stream(given)
        self.names = names_of(self.settings)
        self.transport = KafkaTransport(quick_settings(bootstrap, **PATIENT))

    def do(self, *arguments: str, old: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command of a version."""
        command = self._old_command if old else COMMAND
        return subprocess.run(
            [*command, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=600, check=False,
            env=self._old_environment if old else self._new_environment,
        )  # fmt: skip

    def begin(self, role: str, *arguments: str, old: bool = False) -> subprocess.Popen[bytes]:
        """Start a worker of a version; the instances of the two differ."""
        self.environment = self._old_environment if old else self._new_environment
        command = self._old_command if old else COMMAND
        instance = "old" if old else "new"
        return self.start(role, "--instance", instance, *arguments, command=command)

    def follow_page(self, section: str, *, old: bool = False) -> subprocess.Popen[bytes]:
        """Start the commands of a section of the page in one shell, with the command of a version."""
        page = (ROOT / "docs" / "UPGRADING.md").read_text(encoding="utf-8")
        found = re.search(rf"^## {section}\n.*?^```sh\n(.*?)^```", page, re.M | re.S)
        assert found
        # The environment of the version before, so that the page changes it.
        self.environment = self._new_environment if old else self._old_environment
        quoted = shlex.join(self._old_command if old else COMMAND)
        path = "unset PYTHONPATH" if old else f"export PYTHONPATH={shlex.quote(SOURCES)}"
        lines = re.sub(r"^neardup up", "exec neardup up", found[1], flags=re.M).replace(
            "exec neardup", f"exec {quoted}"
        )
        script = f'{path}\nneardup() {{ {quoted} "$@"; }}\n{lines}'
        return self.start("-e", "-c", script, command=["bash"])

    def load(self, some: list[dict[str, object]]) -> None:
        path = self.folder / "some.jsonl"
        path.write_text("".join(json.dumps({**one, "timestamp": time.time()}) + "\n" for one in some))
        done = self.do("load", str(path))
        assert done.returncode == 0, done.stderr

    def records(self, topic: str) -> list[Record]:
        bounds = self.transport.bounds(topic)
        return [r for p, (first, end) in bounds.items() for f in self.transport.read(topic, p, first, end) for r in f]

    def verdicts(self) -> list[tuple[tuple[int, int], dict[str, Any]]]:
        """The verdicts with their places, as they stand in the topic."""
        return [
            ((record.partition, line["offset"]), line)
            for record in self.records(self.names.topics.verdicts)
            for line in parse_run(record.value)
        ]

    def pairs(self) -> set[frozenset[str]]:
        values = [json.loads(record.value or b"") for record in self.records(self.names.topics.candidates)]
        return {frozenset((value["older"], value["newer"])) for value in values if "older" in value}

    def forwarded(self) -> Counter[bytes | None]:
        return Counter(record.key for record in self.records(self.names.topics.unique))

    def decided(self, count: int) -> None:
        self.wait(lambda: len(self.verdicts()) >= count, f"{count} verdicts")

    def committed(self, role: str, topic: str) -> dict[int, Committed]:
        return self.transport.group_offsets(self.names.group(role), topic)

    def signed(self, count: int) -> None:
        """Wait until the group of signers has committed offsets behind this number of documents."""
        topic = self.names.topics.documents

        def is_so() -> bool:
            at = {partition: one.offset for partition, one in self.committed(SIGN, topic).items()}
            return sum(one.offset < at.get(one.partition, 0) for one in self.records(topic)) >= count

        self.wait(is_so, f"{count} documents are signed")

    def ids(self, some: list[dict[str, object]]) -> frozenset[str]:
        return frozenset(str(one["id"]) for one in some)

    def expected(self, some: list[dict[str, object]]) -> set[frozenset[str]]:
        """The pairs of the library."""
        made = [Document(str(one["id"]), str(one["text"]), 1.0) for one in some]
        return {frozenset((pair.older, pair.newer)) for pair in Deduplicator(self.settings).process(made)}

    def begin_up(self, *, old: bool) -> subprocess.Popen[bytes]:
        """Start signer and matcher of a version."""
        self.environment = self._old_environment if old else self._new_environment
        options = ["--signers", "1", "--matchers", "1", "--from", "earliest"]
        return self.start("up", *options, command=self._old_command if old else COMMAND)

    def ended(self, up: subprocess.Popen[bytes]) -> None:
        """End what ``up`` runs, in order."""
        up.terminate()
        assert up.wait() in (0, 143), tail(self.log)
        self.wait(lambda: self.transport.members(self.names.group(SIGN)) == 0, "the signers have left")

    def left(self, role: str, process: subprocess.Popen[bytes]) -> None:
        """End the old worker of a role, and wait until it is no member of its group."""
        group, name = self.names.group(role), self.names.worker(role, "old")
        process.terminate()
        process.wait()
        self.wait(lambda: name not in self.instances(group), f"the {role} worker has left")

    def instances(self, group: str) -> list[str]:
        return [member["group_instance_id"] for member in self.transport.admin.described(group)["members"]]

    def close(self) -> None:
        super().close()
        self.transport.close()


@pytest.fixture
def make(
    broker: Broker, tmp_path: Path, old: Program, compiled: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[bool], Mixed]]:
    """Make a deployment. Processes of two versions start side by side, so they have time."""
    monkeypatch.setattr(kafka_deployment, "WAIT_SECONDS_MAX", 600.0)
    made: list[Mixed] = []

    def deployment(verdicts: bool) -> Mixed:
        made.append(Mixed(broker.bootstrap, tmp_path, old, verdicts))
        return made[-1]

    yield deployment
    for one in made:
        one.close()


def refused(mixed: Mixed, role: str, *, old: bool) -> str:
    """What a worker says that may not begin. It has not left its group: it is removed, as at the end of its session."""
    instance = "old" if old else "new"
    done = mixed.do(role, "--instance", instance, "--from", "earliest", old=old)
    assert done.returncode == 2, done.stderr
    mixed.transport.leave(mixed.names.group(role), mixed.names.worker(role, instance))
    return done.stderr


def refused_signer(mixed: Mixed) -> None:
    """A new signer does not begin at offsets of 0.1.0."""
    assert "End them, then run neardup topics replay" in refused(mixed, SIGN, old=False)


def all_forwarded(mixed: Mixed) -> None:
    """Each document that is kept comes once."""
    wanted = Counter(line["id"].encode() for _, line in mixed.verdicts() if line["status"] in ("original", "update"))
    mixed.wait(lambda: mixed.forwarded() >= wanted, "what is decided is forwarded")
    assert mixed.forwarded() == wanted


def test_each_role_of_0_1_0_works_next_to_new_ones_or_is_refused(make: Callable[[bool], Mixed]) -> None:
    """One set of topics. Every document gets one verdict and is forwarded once, whatever worked next to what."""
    mixed, some = make(True), documents(60)
    assert mixed.do("topics", "create", old=True).returncode == 0
    signer, matcher, linker, filter_ = (
        mixed.begin(role, "--from", "earliest", old=True) for role in (SIGN, MATCH, LINK, FILTER)
    )
    mixed.load(some[:30])
    mixed.decided(30)
    before = dict(mixed.verdicts())
    assert mixed.do("topics", "create").returncode == 0

    # An old linker: a new one is refused next to it.
    assert "they are linkers of 0.1.0, and both would decide the same documents" in refused(mixed, LINK, old=False)
    mixed.left(LINK, linker)

    # An old signer, and an old matcher next to a new one, while the linker is new: it signs for old matchers only.
    new_matcher, new_linker = mixed.begin(MATCH, "--from", "earliest"), mixed.begin(LINK, "--from", "earliest")
    shards, signed = mixed.names.topics.links, mixed.names.topics.signed
    mixed.wait(lambda: len(mixed.committed(MATCH, shards)) == 4, "new matchers have begun")
    mixed.wait(lambda: len(mixed.committed(LINK, signed)) == 1, "the new linker has begun")
    mixed.load(some[30:50])
    mixed.signed(50)
    refused_signer(mixed)
    mixed.wait(lambda: any(pair & mixed.ids(some[30:50]) for pair in mixed.pairs()), "the old matcher publishes pairs")
    assert dict(mixed.verdicts()) == before

    # A new linker: an old one is refused next to it.
    assert "which no linker wrote" in refused(mixed, LINK, old=True)

    # An old signer or filter: nothing is set back. A new filter has not begun, and an old one is refused from now on.
    assert "1 signers are members of group" in mixed.do("topics", "replay").stderr
    mixed.left(SIGN, signer)
    assert "1 filters are members of group" in mixed.do("topics", "replay").stderr
    mixed.left(FILTER, filter_)
    replayed = mixed.do("topics", "replay")
    assert "No document gets a second verdict" in replayed.stdout, replayed.stderr
    assert "which no filter wrote" in refused(mixed, FILTER, old=True)

    # All new; an original gets another version.
    mixed.left(MATCH, matcher)
    new_signer, new_filter = mixed.begin(SIGN), mixed.begin(FILTER)
    mixed.decided(50)
    originals = (line["id"] for place, line in mixed.verdicts() if line["status"] == "original" and place not in before)
    original = next(originals)
    mixed.load([*some[50:], *({**one, "text": f"{one['text']} more"} for one in some if one["id"] == original)])
    mixed.decided(61)
    assert [line["status"] for _, line in mixed.verdicts() if line["id"] == original] == ["original", "update"]
    all_forwarded(mixed)
    after = mixed.verdicts()
    assert len(after) == len(dict(after)) == 61
    assert {place: line for place, line in after if place in before} == before
    assert [one.poll() for one in (new_signer, new_matcher, new_linker, new_filter)] == [None] * 4, tail(mixed.log)


def test_the_steps_of_the_page_lead_to_this_version_and_back(make: Callable[[bool], Mixed]) -> None:
    """Windows are not empty: documents of 0.1.0 have pairs with later ones. Back, 0.1.0 goes on behind them."""
    mixed, some = make(False), documents(120)
    assert mixed.do("topics", "create", old=True).returncode == 0
    up = mixed.begin_up(old=True)
    mixed.load(some[:40])
    expected = mixed.expected(some[:40])
    mixed.wait(lambda: mixed.pairs() >= expected, "0.1.0 publishes the pairs")
    mixed.ended(up)
    up = mixed.follow_page("On Kafka, from 0.1.0")
    mixed.load(some[40:80])
    expected = mixed.expected(some[:80])
    assert any(len(pair & mixed.ids(some[:40])) == 1 for pair in expected)
    mixed.wait(lambda: mixed.pairs() >= expected, "this version publishes the pairs with documents of 0.1.0")
    assert mixed.pairs() == expected
    mixed.ended(up)
    up = mixed.follow_page("Back", old=True)
    mixed.load(some[80:])
    expected = mixed.expected(some[80:])
    mixed.wait(lambda: mixed.pairs() >= expected, "0.1.0 goes on")
    assert mixed.pairs() <= mixed.expected(some)
    mixed.ended(up)
    refused_signer(mixed)
    forward = mixed.do("topics", "replay", "--no-window")
    assert "0 offsets are signed again" in forward.stdout, forward.stderr
