"""The tutorial's commands on Kafka run on a real broker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_deployment import Deployment

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def deployment(bootstrap_servers: str, tmp_path: Path) -> Deployment:
    return Deployment(bootstrap_servers, tmp_path)


def said(deployment: Deployment, section: int) -> subprocess.CompletedProcess[str]:
    """The commands of a section run unchanged in one shell; the environment gives broker, prefix and ports."""
    page = (ROOT / "docs" / "TUTORIAL.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {section}\..*?^```sh\n(.*?)^```", page, re.M | re.S)
    assert found
    shutil.copytree(ROOT / "docs" / "examples", deployment.folder / "docs" / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in deployment.environment.items() if "_SECONDS" not in name}
    done = subprocess.run(
        ["bash", "-e", "-c", found[1]], capture_output=True, cwd=deployment.folder, check=False, timeout=180,
        env={**kept, "PATH": path}, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "5 documents loaded, 1 refused" in done.stderr
    return done


def test_the_commands_of_the_tutorial_find_its_pairs_and_end_the_workers(deployment: Deployment) -> None:
    """Signers and matchers end in order with the shell."""
    lines = said(deployment, 11).stdout.splitlines()
    pairs = [json.loads(line) for line in lines if line.startswith('{"older"')]
    assert sorted((pair["older"], pair["newer"]) for pair in pairs) == [
        ("evening-wire", "mirror-of-harbour-post"),
        ("harbour-post", "evening-wire"),
        ("harbour-post", "mirror-of-harbour-post"),
    ]


def test_the_commands_of_the_tutorial_decide_every_document(deployment: Deployment) -> None:
    """All four roles start, decide, and end in order with the shell."""
    lines = said(deployment, 12).stdout.splitlines()
    verdicts = [json.loads(line) for line in lines if line.startswith('{"partition"')]
    assert sorted(verdict["status"] for verdict in verdicts) == ["duplicate"] * 2 + ["original"] * 3
    (cluster,) = {verdict["cluster"] for verdict in verdicts if verdict["status"] == "duplicate"}
    assert [verdict["id"] for verdict in verdicts if verdict["cluster"] == cluster and verdict["status"] == "original"]
