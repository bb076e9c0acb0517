"""The table of metrics: every used name has a row, and every row is used."""

import ast
import re

import numpy as np
import pytest
from command import ROOT
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from python_files import nodes, text_of
from shell_harness import TEXT, Bench

from neardup.documents.document import REASONS
from neardup.stories.verdicts.rule import STATUSES, UPDATE
from neardup_workers.doing.http.problems import SERVICE_REASONS
from neardup_workers.doing.stages.matching.shard_table import COUNTED
from neardup_workers.doing.stages.transaction import _OUTCOMES, COMMITTED, RENEWED
from neardup_workers.outside.telemetry.metrics import (
    ANSWERS,
    CAUSES,
    FEED,
    HTTP_STATUSES,
    METRICS,
    OUTCOMES,
    PREFIX,
    PROCESSES,
    SERVE,
    STAGES,
    Metrics,
)  # fmt: skip
from neardup_workers.outside.topics.messages import MESSAGE_REASONS
from neardup_workers.running.service.shell import CAUSES as RESTART_CAUSES

KINDS = {"count": "counter", "set": "gauge", "set_all": "gauge", "sample": "histogram"}
MODULES_ROOT = ROOT / "workers" / "neardup_workers"
MODULES = sorted(MODULES_ROOT.rglob("*.py"))


def calls(names):
    """Method or function and first argument of every call of these names on an observer, or of ``stage``."""
    for path in MODULES:
        for node in nodes(path) if "observer" in text_of(path) else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
                owner = node.func.value
                owner_name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                if owner_name == "observer":
                    yield node.func.attr, node.args[0]


def used():
    """Kind and name of every metric that code reports; a name that is not a constant is a counter of the table."""
    for method, argument in calls(KINDS):
        if isinstance(argument, ast.Constant):
            yield KINDS[method], argument.value
        else:
            yield from (("counter", name) for name in COUNTED)
    yield from (("counter", name) for name in signer_counts())


def signer_counts():
    """The names that a signer counts a step by, which are those of metrics: as keys and as keywords."""
    for node in nodes(MODULES_ROOT / "doing" / "stages" / "signer.py"):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "self._counts":
            yield node.slice.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("Counter", "self._counts.update"):
            yield from (keyword.arg for keyword in node.keywords)


def test_every_name_that_is_used_is_a_row_of_its_kind():
    """Code counts counters, sets gauges and samples histograms."""
    assert {(kind, name) for kind, name in used()} <= {(row.kind, row.name) for row in METRICS.values()}


def test_every_row_is_used():
    """Code reports every exported metric; the registry creates the metric of kind info."""
    assert {row.name for row in METRICS.values() if row.kind != "info"} == {name for _, name in used()}


def test_every_stage_outcome_cause_and_reason_is_listed():
    """Labels are bounded this way, and each counter begins at 0."""
    stages = set()
    for path in MODULES:
        stages |= set(re.findall(r'stage\((?:self\.)?observer, "(\w+)"\)', path.read_text()))
    assert stages == set(STAGES)
    assert {*_OUTCOMES.values(), COMMITTED, RENEWED} == set(OUTCOMES)
    assert set(RESTART_CAUSES.values()) == set(CAUSES)
    assert METRICS["refused"].values == (*REASONS, *MESSAGE_REASONS)
    assert {*STATUSES[:2], STATUSES[UPDATE], "repeated", "refused"} == set(ANSWERS)
    assert {status for status, _, _ in SERVICE_REASONS.values()} - {401, 421} <= set(HTTP_STATUSES)


@pytest.mark.parametrize("row", METRICS.values(), ids=lambda row: row.name)
def test_names_follow_the_rules_of_prometheus(row):
    """A name has the prefix, its base unit at the end and, only for counters, ``_total``; the help is a sentence."""
    assert re.fullmatch(rf"{PREFIX}[a-z_]+", row.exported)
    assert row.exported.endswith("_total") == (row.kind == "counter")
    if row.unit in ("seconds", "bytes", "ratio"):
        assert row.name.endswith(row.unit)
    assert row.help.endswith(".")
    assert set(row.roles) <= set(PROCESSES)
    assert bool(row.bounds) == (row.kind == "histogram")
    assert list(row.bounds) == sorted(row.bounds)


@pytest.mark.parametrize("role", PROCESSES)
def test_a_registry_holds_the_metrics_of_its_role_and_those_of_the_process(role):
    """Prometheus can parse the text; listed labels start at 0."""
    text = generate_latest(Metrics(role, {"role": role}).registry).decode()
    found = {family.name for family in text_string_to_metric_families(text)}
    wanted = {PREFIX + row.name for row in METRICS.values() if role in row.roles}
    assert {name for name in found if name.startswith(PREFIX)} == {
        f"{name}_info" if name == f"{PREFIX}worker" else name for name in wanted
    }
    assert "process_resident_memory_bytes" in found
    assert f'neardup_worker_info{{role="{role}"}} 1.0' in text
    listed = {SERVE: 'service_answers_total{status="duplicate"}', FEED: ""}.get(
        role, 'transactions_total{outcome="aborted"}'
    )
    assert not listed or f"neardup_{listed} 0.0" in text


def test_numbers_come_out_as_they_were_reported():
    """Counters add up, gauges keep the last value, histograms count up to each bound."""
    metrics = Metrics("match")
    metrics.count("pairs", 2)
    metrics.count("pairs")
    metrics.count("stage_seconds", 0.5, "poll")
    metrics.set("lag_records", 7, "3")
    metrics.set("lag_records", 5, "3")
    metrics.sample("similarity_ratio", np.array([0.8, 0.81, 1.0]))
    metrics.sample("similarity_ratio", [])
    read = metrics.registry.get_sample_value
    assert (read("neardup_pairs_total"), read("neardup_stage_seconds_total", {"stage": "poll"})) == (3, 0.5)
    assert read("neardup_lag_records", {"partition": "3"}) == 5
    assert [read("neardup_similarity_ratio_bucket", {"le": le}) for le in ("0.75", "0.8", "0.85", "+Inf")] == [
        0,
        1,
        2,
        3,
    ]
    assert read("neardup_similarity_ratio_sum") == pytest.approx(2.61)
    assert (metrics.value("pairs"), metrics.value("similarity_ratio"), metrics.value("lag_records", "3")) == (3, 3, 5)


def test_a_partition_that_went_away_takes_its_gauges_along():
    """Otherwise the old owner would still report its lag."""
    metrics = Metrics("match")
    for partition in ("1", "2"):
        metrics.set("lag_records", 7, partition)
        metrics.set("table_documents", 7, partition)
    metrics.forget("1")
    read = metrics.registry.get_sample_value
    assert read("neardup_lag_records", {"partition": "1"}) is None
    assert read("neardup_table_documents", {"partition": "1"}) is None
    assert read("neardup_lag_records", {"partition": "2"}) == 7


def test_an_unknown_name_is_a_bug():
    """Every metric needs a row of the table."""
    with pytest.raises(KeyError):
        Metrics("sign").count("postings")


def test_a_matcher_counts_documents_with_a_near_duplicate_and_shows_the_recall_it_promises():
    """A document counts once, however many pairs it makes in a partition."""
    bench = Bench(shards=1)
    bench.add(("a", TEXT), ("b", TEXT + " again"), ("c", TEXT + " and again"), ("d", "nothing of the kind, at all"))
    bench.run("sign", lambda: bench.has_taken_all("sign"))
    bench.run("match", lambda: bench.has_taken_all("match"))
    metrics = bench.metrics["match"]
    assert metrics.value("pairs") == 3
    assert metrics.value("paired_documents") == 2
    assert 0.95 <= metrics.value("promised_recall_ratio") < 1
