"""promtool checks configuration and rules; Prometheus checks the expressions of the dashboard."""

from __future__ import annotations

import copy
import json
import re
import subprocess

import pytest
import yaml
from deploy_files import DASHBOARD, DEPLOY, alerts, dashboard_expressions, exported, load, panels, services

CASES = load(DEPLOY / "alerts_test.yml")["tests"]


def promtool(prometheus, *arguments, folder=DEPLOY):
    """Run promtool in the folder of the rules; return its output on success."""
    done = subprocess.run(
        [prometheus.promtool, *arguments], cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_configuration_is_valid(prometheus):
    """promtool check config accepts the configuration and the rules that it names."""
    assert "SUCCESS" in promtool(prometheus, "check", "config", "prometheus.yml")


def test_the_configuration_for_kubernetes_is_valid_except_its_discovery(prometheus, tmp_path):
    """Debian's Prometheus cannot discover pods in Kubernetes; the test checks the rest of that file."""
    config = copy.deepcopy(load(DEPLOY / "prometheus-kubernetes.yml"))
    for job in config["scrape_configs"]:
        (discovery,) = job.pop("kubernetes_sd_configs")
        assert discovery == {"role": "pod", "namespaces": {"names": ["neardup"]}}
        job["static_configs"] = [{"targets": ["localhost:9464"]}]
    (tmp_path / "alerts.yml").write_text((DEPLOY / "alerts.yml").read_text())
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    assert "SUCCESS" in promtool(prometheus, "check", "config", "prometheus.yml", folder=tmp_path)


def test_the_rules_are_valid(prometheus):
    """promtool check rules reports no duplicate rule either."""
    assert "SUCCESS" in promtool(prometheus, "check", "rules", "--lint=all", "--lint-fatal", "alerts.yml")


def test_every_alert_passes_its_tests(prometheus, tmp_path):
    """promtool test rules passes on the series of alerts_test.yml. Each case has a folder with the alerts that it
    names: promtool computes all rules of a file at every minute."""
    groups = load(DEPLOY / "alerts.yml")["groups"]
    head, *cases = re.split(r"^(?=  - name: )", (DEPLOY / "alerts_test.yml").read_text(), flags=re.M)
    for number, case in enumerate(cases):
        named = {None, *re.findall(r"alertname: (\w+)$", case, re.M)}
        rules = [
            {**group, "rules": [rule for rule in group["rules"] if rule.get("alert") in named]} for group in groups
        ]
        (folder := tmp_path / str(number)).mkdir()
        (folder / "alerts.yml").write_text(json.dumps({"groups": rules}))
        (folder / "alerts_test.yml").write_text(head + case)
    files = [f"{number}/alerts_test.yml" for number in range(len(CASES))]
    assert promtool(prometheus, "test", "rules", *files, folder=tmp_path).count("SUCCESS") == len(cases)


def test_every_alert_is_shown_firing_and_keeping_quiet():
    """Every alert has a firing and a silent case, and every case names an existing alert."""
    tests = [test for case in CASES for test in case["alert_rule_test"]]
    assert {test["alertname"] for test in tests if test["exp_alerts"]} == set(alerts())
    assert {test["alertname"] for test in tests if not test["exp_alerts"]} == set(alerts())


def test_every_alert_has_a_severity_two_sentences_and_a_runbook():
    """Each alert has one of three severities, which route it; the address is that of its section."""
    assert {alert["labels"]["severity"] for alert in alerts().values()} == {"critical", "warning", "info"}
    for name, alert in alerts().items():
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
        assert alert["annotations"]["runbook_url"].endswith(f"/docs/OPERATIONS.md#{name.lower()}")


def test_prometheus_accepts_every_expression_of_the_dashboard(prometheus, tmp_path):
    """The test writes each expression as a recording rule, which promtool parses."""
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(dashboard_expressions())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool(prometheus, "check", "rules", "rules.yml", folder=tmp_path)


def test_the_dashboard_asks_the_data_source_that_is_provisioned():
    """The dashboard names the data source by a variable with its uid."""
    (source,) = load(DEPLOY / "grafana/provisioning/datasources/prometheus.yml")["datasources"]
    variables = {each["name"]: each for each in json.loads(DASHBOARD.read_text())["templating"]["list"]}
    assert variables["datasource"]["current"]["value"] == source["uid"]
    assert variables["datasource"]["query"] == source["type"]
    asked = [each["datasource"]["uid"] for panel in panels() for each in [panel, *panel["targets"]]]
    assert set(asked) == {"${datasource}"}


def test_the_dashboard_is_where_grafana_looks_for_it():
    """The mounted folder is the provisioned folder, and the first page is the dashboard."""
    (provider,) = load(DEPLOY / "grafana/provisioning/dashboards/neardup.yml")["providers"]
    grafana = services()["grafana"]
    mounts = dict(volume.split(":")[:2] for volume in grafana["volumes"])
    folder = provider["options"]["path"]
    assert mounts["./deploy/grafana/dashboards"] == folder
    assert mounts["./deploy/grafana/provisioning"] == "/etc/grafana/provisioning"
    assert grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == f"{folder}/{DASHBOARD.name}"


def test_panels_have_numbers_of_their_own_and_do_not_overlap():
    """Each panel has its own cells in the grid of 24 columns, and a description."""
    every = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    cells = [
        (x, y)
        for grid in (panel["gridPos"] for panel in every)
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert all(panel["title"] and panel["description"] for panel in panels())


@pytest.mark.parametrize("name", ["similarity_ratio", "bucket_length", "end_to_end_seconds", "verdict_seconds"])
def test_histograms_are_shown_as_heatmaps(name):
    """Heatmaps show the buckets as counts of an interval."""
    shown = [panel["targets"][0] for panel in panels() if panel["type"] == "heatmap"]
    (target,) = [each for each in shown if f"neardup_{name}_bucket" in each["expr"]]
    assert exported()[f"neardup_{name}_bucket"].kind == "histogram"
    assert target["format"] == "heatmap"
    assert target["expr"].startswith("sum by (le) (increase(")
