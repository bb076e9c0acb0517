"""Readers of the deployment files for the tests: documents, expressions, names of metrics, commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from neardup_workers.outside.telemetry.metrics import METRICS, Row

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = ROOT / "docker-compose.yml"
OPERATIONS = ROOT / "docs" / "OPERATIONS.md"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "neardup.json"
DOCKERFILE = DEPLOY / "Dockerfile"
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}
# Client library and Prometheus itself export these for every process.
OTHERS = {"process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total"}
TARGET_LABELS = {"job", "instance"}


class Selector(NamedTuple):
    """A metric in an expression, with the required values of its labels."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]  # label, operator, value


@cache
def load(path: Path) -> Any:
    """The only document of a YAML file, read once: who changes it copies it first."""
    return yaml.safe_load(path.read_text())


@cache
def documents(path: Path) -> list[dict[str, Any]]:
    """All documents of a YAML file, read once."""
    return list(yaml.safe_load_all(path.read_text()))


def rules() -> list[dict[str, Any]]:
    """All recording and alerting rules."""
    return [rule for group in load(DEPLOY / "alerts.yml")["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """The alerts by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@cache
def recorded() -> set[str]:
    """The names of the series that recording rules make."""
    return {rule["record"] for rule in rules() if "record" in rule}


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard that show data."""
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def dashboard_expressions() -> list[str]:
    """The expressions of the panels, in the form that Prometheus receives."""
    raw = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [text.replace("$__rate_interval", "1m").replace("$instance", ".*") for text in raw]


@cache
def expressions() -> list[str]:
    """All expressions of rules and dashboard."""
    return [rule["expr"] for rule in rules()] + dashboard_expressions()


@cache
def exported() -> dict[str, Row]:
    """Every series of the metrics' table, by its name in Prometheus."""
    return {row.exported + suffix: row for row in METRICS.values() for suffix in SUFFIXES.get(row.kind, ("",))}


_SELECTOR = re.compile(r"\b((?:neardup|process|job|job_partition)[a-z0-9_:]*[_:][a-z0-9_:]*)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


def selectors(expression: str) -> Iterator[Selector]:
    """The metrics in an expression, without label values and words of the language."""
    bare = re.sub(r'(?<![=~])"[^"]*"', "", expression)
    for name, braces in _SELECTOR.findall(bare):
        yield Selector(name, tuple(_MATCHER.findall(braces)))


def grouping_labels(expression: str) -> set[str]:
    """The labels in the grouping and join clauses of an expression."""
    lists = re.findall(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)", expression)
    return {label.strip() for each in lists for label in each.split(",") if label.strip()}


def manifests() -> list[tuple[str, dict[str, Any]]]:
    """Every Kubernetes object, with the name of its file."""
    paths = sorted((DEPLOY / "kubernetes").glob("*.yml"))
    return [(path.name, document) for path in paths for document in documents(path)]


def pods() -> dict[str, dict[str, Any]]:
    """The pod of each workload, by the workload's name."""
    kinds = ("Deployment", "StatefulSet", "Job")
    return {d["metadata"]["name"]: d["spec"]["template"] for _, d in manifests() if d["kind"] in kinds}


def services() -> dict[str, dict[str, Any]]:
    """The services of the compose file by name, after YAML has merged their shared parts."""
    found: dict[str, dict[str, Any]] = load(COMPOSE)["services"]
    return found


def compose_command(service: dict[str, Any]) -> list[str]:
    """The neardup arguments of a service in the compose file; variables of the shell stay unexpanded."""
    if "entrypoint" in service:
        words = [word.strip('"') for word in service["entrypoint"][-1].split()]
        return words[words.index("neardup") + 1 :]
    return list(service["command"])


def bytes_of(text: str) -> int:
    """A size in bytes; the files write ``4g`` or ``4Gi``, both with a factor of 1,024."""
    number, unit = re.fullmatch(r"(\d+)([kmg])i?", text.lower()).groups()  # type: ignore[union-attr]
    return int(number) * 1024 ** ("kmg".index(unit) + 1)
