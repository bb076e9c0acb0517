"""Each alert is followed once: a real Prometheus with the project's rules, an incident, and the runbook's commands.

The times of the rules are shortened by a program: windows to a sixtieth, ``for`` to a three-hundredth and at most
three scrapes, less where the machine is busy. The expressions are unchanged otherwise.
"""

from __future__ import annotations

import copy
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from debian_packages import absent
from deploy_files import DEPLOY, OPERATIONS, alerts, load
from incident_place import ABSENT, Exporter, Place, Ran
from ports import free_port
from programs import Prometheus
from runbook_rows import ROWS, Row
from scraping import Scraped, prometheus_in

WAIT_SECONDS_MAX = 240.0  # with a scrape a second
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
WINDOWS, FOR = 60, 300
# A scrape that fails restarts ``for``, and on a busy machine one of twelve in a row fails too often.
FOR_SCRAPES_MAX = 3
# The command line of the client asks a real broker: tests/kafka/transport/test_kafka_transport.py runs it.
NOT_RUN = "kafka-python"
# Fires where a scrape takes too long, which happens on a busy machine.
BUSY = "NeardupWorkerDown"


def unit_seconds() -> int:
    """The seconds between two scrapes: one, or more where this process gets a part of a processor."""
    wall, own = time.perf_counter(), time.process_time()
    while time.process_time() - own < 0.3:
        pass
    return max(1, min(6, round((time.perf_counter() - wall) / 0.3 / 2)))


def shortened(groups: list[dict[str, Any]], unit: int = 1) -> list[dict[str, Any]]:
    """The rules with shorter windows and shorter ``for``."""

    def by(divisor: int, time: str, seconds_max: int = 3_600) -> str:
        return f"{min(int(time[:-1]) * _SECONDS[time[-1]] * 1000 // divisor, seconds_max * 1000) * unit}ms"

    made = copy.deepcopy(groups)
    for rule in (rule for group in made for rule in group["rules"]):
        rule["expr"] = re.sub(r"\[(\d+[smhd])\]", lambda found: f"[{by(WINDOWS, found[1])}]", rule["expr"])
        if "for" in rule:
            rule["for"] = by(FOR, rule["for"], FOR_SCRAPES_MAX)
    return made


def commands_of(alert: str) -> list[str]:
    """The commands in the section of an alert that are run here."""
    section = re.search(rf"^### {alert}\n((?:(?!##).*\n)+)", OPERATIONS.read_text(), re.M)
    assert section, f"{alert} has no section"
    return [line for line in re.findall(r"^    (.+)$", section[1], re.M) if not line.startswith(NOT_RUN)]


class Followed(NamedTuple):
    """What came of all rows: the alerts of each place before its incident and in it, and what the commands did."""

    before: dict[str, set[str]]
    fired: dict[str, set[str]]
    ran: dict[str, list[Ran]]


def firing(answers: Scraped) -> dict[str, set[str]]:
    """Job -> its alerts that fire."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in answers.ask('ALERTS{alertstate="firing"}'):
        found[each["metric"]["job"]].add(each["metric"]["alertname"])
    return found


def configuration(places: dict[str, Place], exporter: str, unit: int) -> dict[str, Any]:
    """Each place is a target under its job."""
    targets = [
        {
            "targets": [place.target or exporter],
            "labels": {
                "job": place.job, "instance": name.lower(),
                "__metrics_path__": "/metrics" if place.target else f"/{name}/metrics",
            },
        }
        for name, place in places.items()
    ]  # fmt: skip
    times = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), f"{unit}s")
    job = {"job_name": "places", "static_configs": targets}
    return {"global": times, "rule_files": ["alerts.yml"], "scrape_configs": [job]}


class Rounds:
    """Turns of the incidents that have begun, while Prometheus looks on."""

    def __init__(self, answers: Scraped, incidents: dict[str, Iterator[None]], unit: int) -> None:
        self.answers, self.incidents, self.seconds_max = answers, incidents, WAIT_SECONDS_MAX * (1 + unit) / 2
        self.begun: set[str] = set()

    def until(self, holds: Callable[[], bool]) -> bool:
        """Give each incident a turn a second until Prometheus sees it, or the time is over; returns whether it does."""
        deadline = time.monotonic() + self.seconds_max
        while not (found := self._holds(holds)) and time.monotonic() < deadline:
            began = time.monotonic()
            for name in self.begun:
                next(self.incidents[name])
            time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
        return found

    def _holds(self, holds: Callable[[], bool]) -> bool:
        try:
            return holds()
        except OSError:  # it does not listen yet
            return False


def follow(rounds: Rounds, rows: dict[str, Row], places: dict[str, Place], exporter: str, done: Followed) -> None:
    """Let the incidents of these rows happen; when its alerts have fired, run the commands of one, and it is over."""
    for name in rows:
        done.before[name] = firing(rounds.answers)[places[name].job]
    rounds.begun |= {name for name, row in rows.items() if not row.by_scrape}
    for name in rows.keys() - rounds.begun:
        places[name].moments = rounds.incidents[name]
    for place in places.values():  # a rule about all workers of a job is about those of earlier rows, too
        place.is_down |= any(row.last and place.job == row.job for row in rows.values())
    wanted = {name: {name, *row.also} for name, row in rows.items()}
    seen: dict[str, set[str]] = defaultdict(set)

    def all_fire() -> bool:
        for job, found in firing(rounds.answers).items():
            seen[job] |= found
        for name in [name for name, rules in wanted.items() if rules <= seen[places[name].job]]:
            end(name)
        return not wanted

    def end(name: str) -> None:
        del wanted[name]
        done.fired[name] = set(seen[places[name].job])
        rounds.begun.discard(name)
        places[name].stand_still()
        done.ran[name] = [places[name].run(command, exporter) for command in commands_of(name)]

    rounds.until(all_fire)
    for name in list(wanted):  # the test of an alert that does not fire says so
        end(name)


@pytest.fixture(scope="module")
def followed(prometheus: Prometheus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """All rows, followed: first those of single processes, then those of all workers of a role."""
    folder: Path = tmp_path_factory.mktemp("runbooks")
    with ExitStack() as closing:
        places: dict[str, Place] = {}
        for name, row in ROWS.items():
            (folder / name).mkdir()
            places[name] = Place(name, row.job or f"neardup-{name.lower()}", folder / name)
            closing.enter_context(places[name].closing)
        incidents = {name: row.incident(places[name]) for name, row in ROWS.items()}
        for incident in incidents.values():
            next(incident)  # all is well
        exporter = Exporter(places)
        closing.callback(exporter.close)
        unit = unit_seconds()
        rules = {"groups": shortened(load(DEPLOY / "alerts.yml")["groups"], unit)}
        (folder / "alerts.yml").write_text(yaml.safe_dump(rules))
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration(places, exporter.address, unit)))
        answers = closing.enter_context(prometheus_in(folder, prometheus.server, free_port()))
        rounds, done = Rounds(answers, incidents, unit), Followed({}, {}, {})
        scraped = "count_over_time(up[1h]) > 3"
        assert rounds.until(lambda: len(answers.ask(scraped)) == len(places)), "no answer, or not from all"
        for last in (False, True):
            rows = {name: row for name, row in ROWS.items() if row.last == last}
            follow(rounds, rows, places, exporter.address, done)
        yield done


def test_the_table_has_every_alert() -> None:
    """A new alert needs a row: an incident, and what its commands say."""
    assert ROWS.keys() == alerts().keys()


def test_only_times_are_shortened() -> None:
    """Each expression is that of the project but for the times in brackets."""
    given, made = load(DEPLOY / "alerts.yml")["groups"], shortened(load(DEPLOY / "alerts.yml")["groups"])
    changed = 0
    for old, new in zip(given, made, strict=True):
        for before, after in zip(old["rules"], new["rules"], strict=True):
            assert re.sub(r"\[\w+\]", "[]", before["expr"]) == re.sub(r"\[\w+\]", "[]", after["expr"])
            assert {**after, "expr": 0, "for": 0} == {**before, "expr": 0, "for": 0}
            changed += before != after
    assert changed > len(ROWS) / 2


@pytest.mark.parametrize("name", ROWS)
def test_an_alert_fires_in_its_incident_and_not_before(name: str, followed: Followed) -> None:
    """Nothing fires there while all is well; the incident brings this alert, and those that it is known to bring."""
    row = ROWS[name]
    earlier = {one for one, other in ROWS.items() if row.last and not other.last and other.job == row.job}
    more = {*row.perhaps, *earlier, BUSY} - {name, *row.also}
    assert followed.before[name] <= more
    assert followed.fired[name] - more == {name, *row.also}


@pytest.mark.parametrize("name", ROWS)
def test_the_commands_of_a_runbook_name_the_cause(name: str, followed: Followed) -> None:
    """Each runs with the exit code and the sentence of the table, and the address of the section is right."""
    address = alerts()[name]["annotations"]["runbook_url"]
    assert address.rpartition("#")[2] in {
        line[4:].lower() for line in OPERATIONS.read_text().splitlines() if line[:4] == "### "
    }
    ran = followed.ran[name]
    assert len(ran) == len(ROWS[name].says), "a row says what each command of its section says"
    for done, (code, pattern) in zip(ran, ROWS[name].says, strict=True):
        if done.code == ABSENT:
            absent(f"no {done.output}")
        assert done.code == code, done
        assert re.search(pattern, done.output), done
