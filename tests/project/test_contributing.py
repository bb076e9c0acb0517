"""The files for contributors: their paths and targets exist, and one row of a table is enough for an extension."""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import partial
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest

from neardup import Config, Deduplicator, Document
from neardup.features.texts import shingles
from neardup.pairs.json_lines import Fields
from neardup.schemes import rows as schemes
from neardup.schemes.kinds import sets
from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.readers import formats
from neardup_workers.outside.settings.declared import GROUPS, helps_of_all_commands
from neardup_workers.outside.telemetry import metrics

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
    """Every linked file exists."""
    page = ROOT / name
    links = re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_every_code_path_of_contributing_exists() -> None:
    """Paths in code spans exist too."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:stream|textbook|workers|tests|docs|deploy|benchmarks)/[\w/.-]+)`", text)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_recipe_for_a_setting_names_every_file_that_has_settings() -> None:
    """Each group of settings stands in a file that the recipe links."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = text.partition("## How to add a setting\n")[2].partition("\n## ")[0]
    links = set(re.findall(r"\]\(([^)]+)\)", recipe))
    files = {group.__module__.replace(".", "/") + ".py" for group in GROUPS}
    assert files <= {link.removeprefix("stream/").removeprefix("workers/") for link in links}


def test_security_names_settings_that_exist_and_every_boundary() -> None:
    """What the operator decides is a field of some model; service, feeds and pages have their row."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")][1:]
    named = {name for *_, decided in rows for name in re.findall(r"`(\w+)`", decided)}
    assert named - helps_of_all_commands().keys() == set()
    assert {"token_file", "allow_private", "text_characters_max"} <= named


@pytest.mark.processes
def test_make_alone_lists_every_target() -> None:
    """The bare command make lists every target that users call."""
    shown = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  make ([a-z-]+) ", shown, re.M)) == TARGETS
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)
    assert phony is not None
    assert set(phony[1].split()) == TARGETS


def test_the_workflow_runs_targets_on_every_python_that_is_supported() -> None:
    """The versions equal those of CONTRIBUTING; the first is the oldest that the project supports."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    jobs = workflow["jobs"]
    assert jobs["check"]["strategy"]["matrix"]["python"] == PYTHONS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={PYTHONS[0]}"
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {run.removeprefix("make ") for run in runs} <= TARGETS


def test_hooks_run_programs_of_the_environment() -> None:
    """Hooks and tests use the same versions of the tools."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [hook["entry"].split()[0] for hook in hooks] == [
        ".venv/bin/ruff", ".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/python",
    ]  # fmt: skip


def test_a_row_is_enough_for_a_source_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row's reader reads files with the row's ending."""
    read = partial(formats.read_table, delimiter="^")
    row = formats.Format((".hat",), read, ("text",), lambda head, needed, in_folder: False)
    monkeypatch.setitem(formats.FORMATS, "hats", row)
    chosen = formats.choose("news.hat", b"id^text\na^one\n", Fields())
    assert chosen is row
    _, line = row.read([b"id^text\n", b"a^one\n"], Fields(), 1000)
    assert b'"one"' in line.raw


def test_a_row_is_enough_for_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metric is exported at 0 and counts."""
    row = metrics.Row("probes", "counter", "probes", ("sign",), "Probes.")
    monkeypatch.setitem(metrics.METRICS, row.name, row)
    observer = metrics.Metrics("sign")
    assert b"neardup_probes_total 0.0" in generate_latest(observer.registry)
    observer.count("probes", 2)
    assert b"neardup_probes_total 2.0" in generate_latest(observer.registry)


def test_a_row_is_enough_for_a_shingling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are compared by the shingling, which has its own signing fingerprint."""
    row = shingles.Shingling(shingles.chars, k_default=4, rules=lambda stops: ("letters of a test 1",))
    monkeypatch.setitem(shingles.SHINGLES, "letters", row)
    config = Config(shingles="letters")
    assert pairs(config) == [("a", "b")]
    assert config.signing_fingerprint != Config(shingles="chars", k=4).signing_fingerprint


def test_a_row_is_enough_for_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting accepts its name, and documents pass through it."""
    monkeypatch.setattr(sets, "MINE", SCHEMES["minhash"]._replace(guarantee="that of minhash"), raising=False)
    monkeypatch.setitem(schemes._MODULES, "mine", ("neardup.schemes.kinds.sets", "MINE"))
    assert pairs(Config(scheme="mine")) == [("a", "b")]


def pairs(config: Config) -> list[tuple[str, str]]:
    text = "The central bank raised its main interest rate by a quarter of a point on Thursday"
    documents = [Document(id="a", text=text), Document(id="b", text=f"{text}."), Document(id="c", text="Rain.")]
    return [(pair.older, pair.newer) for pair in Deduplicator(config).process(documents)]
