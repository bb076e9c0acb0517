"""The commands of the tutorial on Kafka run on a real broker, one after the other."""

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
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    return Deployment(bootstrap_servers, tmp_path)


def said(deployment: Deployment, block: str) -> list[dict[str, object]]:
    """The lines of JSON that commands print. They run unchanged in one shell, from the folder of a clone; the
    environment gives broker, prefix and ports."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in deployment.environment.items() if "_SECONDS" not in name}
    done = subprocess.run(
        ["bash", "-e", "-c", block], capture_output=True, cwd=deployment.folder, check=False, timeout=180,
        env={**kept, "PATH": path}, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def section(number: int) -> str:
    """The commands of a section of the tutorial."""
    page = (ROOT / "docs" / "TUTORIAL.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {number}\..*?^```sh\n(.*?)^```", page, re.M | re.S)
    assert found
    return found[1]


PAIRS = [
    ("harbour-post", "evening-wire"),
    ("harbour-post", "mirror-of-harbour-post"),
]


def test_the_tutorial_decides_what_it_has_matched_before(deployment: Deployment) -> None:
    """Its sections run one after the other on one broker; all workers end in order with their shell."""
    assert sorted((pair["older"], pair["newer"]) for pair in said(deployment, section(11))) == PAIRS
    verdicts = said(deployment, section(12))
    assert sorted(str(verdict["status"]) for verdict in verdicts) == ["duplicate"] * 2 + ["original"] * 3
    (cluster,) = {verdict["cluster"] for verdict in verdicts if verdict["status"] == "duplicate"}
    assert [verdict["id"] for verdict in verdicts if verdict["cluster"] == cluster and verdict["status"] == "original"]
