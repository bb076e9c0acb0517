"""The files for contributors: the paths and targets that they name exist, and a row of a table is enough."""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import partial
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest

from stream import Config, Deduplicator, Document
from stream.json_lines import Fields
from stream.schemes import SCHEMES
from stream.texts import shingles
from workers.sources import formats
from workers.telemetry import metrics

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.M))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


@pytest.mark.parametrize(
    "name",
    ["CONTRIBUTING.md", "SECURITY.md", "README.md", *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))],
)
def test_every_link_leads_to_a_file(name: str) -> None:
    """A list of files to touch is of no use when one of them has moved."""
    page = ROOT / name
    links = re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_every_code_path_of_contributing_exists() -> None:
    """Those in code spans too."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:stream|workers|tests|docs|deploy|benchmarks)/[\w/.-]+)`", text)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_make_alone_lists_every_target() -> None:
    """A newcomer types make, and sees what there is; every target that people call has its line."""
    shown = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  make ([a-z-]+) ", shown, re.M)) == TARGETS
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)
    assert phony is not None
    assert set(phony[1].split()) == TARGETS


def test_the_workflow_runs_targets_on_every_python_that_is_supported() -> None:
    """The versions are those of CONTRIBUTING; the first one is the oldest that the project can be installed with."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    jobs = workflow["jobs"]
    assert jobs["check"]["strategy"]["matrix"]["python"] == PYTHONS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={PYTHONS[0]}"
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {run.removeprefix("make ") for run in runs} <= TARGETS


def test_hooks_run_programs_of_the_environment() -> None:
    """A commit is judged by the versions that the tests use."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [hook["entry"].split()[0] for hook in hooks] == [
        ".venv/bin/ruff", ".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/python",
    ]  # fmt: skip


def test_a_row_is_enough_for_a_source_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that end as it says are read by its reader."""
    read = partial(formats._read_table, delimiter="|")
    row = formats.Format((".psv",), read, ("text",), formats._never)
    monkeypatch.setitem(formats.FORMATS, "pipes", row)
    chosen = formats.choose("news.psv", b"id|text\na|one\n", Fields())
    assert chosen is row
    _, line = row.read([b"id|text\n", b"a|one\n"], Fields(), 1000)
    assert b'"one"' in line.raw


def test_a_row_is_enough_for_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is exported at 0, and counts."""
    row = metrics.Row("probes", "counter", "probes", ("sign",), "Probes.")
    monkeypatch.setitem(metrics.METRICS, row.name, row)
    observer = metrics.Metrics("sign")
    assert b"neardup_probes_total 0.0" in generate_latest(observer.registry)
    observer.count("probes", 2)
    assert b"neardup_probes_total 2.0" in generate_latest(observer.registry)


def test_a_row_is_enough_for_a_shingling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are compared by it, and it has a signing fingerprint of its own."""
    row = shingles.Shingling(shingles.chars, k_default=4, rules=lambda stops: ("letters of a test 1",))
    monkeypatch.setitem(shingles.SHINGLES, "letters", row)
    config = Config(shingles="letters")
    assert pairs(config) == [("a", "b")]
    assert config.signing_fingerprint != Config(shingles="chars", k=4).signing_fingerprint


def test_a_row_is_enough_for_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is a value of the setting, and documents go through it."""
    monkeypatch.setitem(SCHEMES, "mine", SCHEMES["minhash"]._replace(guarantee="that of minhash"))
    assert pairs(Config(scheme="mine")) == [("a", "b")]


def pairs(config: Config) -> list[tuple[str, str]]:
    text = "The central bank raised its main interest rate by a quarter of a point on Thursday"
    documents = [Document(id="a", text=text), Document(id="b", text=f"{text}."), Document(id="c", text="Rain.")]
    return [(pair.older, pair.newer) for pair in Deduplicator(config).process(documents)]
