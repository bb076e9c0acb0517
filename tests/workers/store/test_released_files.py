"""The files that 0.1.0 left behind open in this version, and give the answers that 0.1.0 gave."""

import filecmp
import json
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import httpx
import pytest
from service_process import ROOT, Serving
from service_world import World

from neardup import Config
from neardup_workers.outside.store.salvage import salvage

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from make import FOLDER as RELEASED
from make import documents, lines

# The files were made with Python 3.11; the tables of Unicode decide the keys.
pytestmark = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="the files were signed with the tables of Unicode 14"
)


def answers(name):
    """What 0.1.0 answered."""
    return [json.loads(line) for line in (RELEASED / f"{name}.answers.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("command", ["run", "dedup"])
def test_a_window_of_the_released_version_continues(neardup, tmp_path, command):
    """The documents after the window get the pairs, and the decisions, that 0.1.0 found; similarities are rounded."""
    path = tmp_path / "then.jsonl"
    path.write_bytes(lines(documents(30, 60)))
    done = neardup(command, "-q", "--window-from", RELEASED / f"{command}.window", path)
    found, expected = [json.loads(line) for line in done.stdout.splitlines()], answers(command)
    similarities = [[one.pop("similarity", None) for one in these] for these in (found, expected)]
    assert found == expected
    assert len(found) > 10
    assert similarities[0] == pytest.approx(similarities[1], abs=1.01e-4)


def test_a_store_of_the_released_version_is_salvaged(tmp_path):
    """Its tables have fewer columns: every row is sound, and the service goes on with it."""
    shutil.copytree(RELEASED / "store", tmp_path / "state")
    found = salvage(tmp_path / "state", Config(threshold=0.8).plan.width)
    assert (found.sound, found.damaged) == (30, 0)
    world = World(tmp_path / "state", threshold=0.8)
    try:
        names = ("status", "duplicate_of", "cluster", "place")
        for answer in answers("store")[:30]:
            stored = world.ask("GET", f"/v1/documents/{answer['id']}").json()
            assert [stored[name] for name in names] == [answer[name] for name in names]
    finally:
        world.close()


def test_a_store_of_the_released_version_continues(tmp_path):
    """The service gives the stored answers again, and the later documents the verdicts of 0.1.0."""
    shutil.copytree(RELEASED / "store", tmp_path / "state")
    world = World(tmp_path / "state", threshold=0.8)
    try:
        expected = answers("store")
        for answer in expected[:30]:
            stored = world.ask("GET", f"/v1/documents/{answer['id']}").json()
            names = ("status", "duplicate_of", "cluster", "place")
            assert [stored[name] for name in names] == [answer[name] for name in names]
        for document, answer in zip(documents(30, 60), expected[30:], strict=True):
            found = world.ask("POST", "/v1/check", json=document).json()
            assert found.pop("similarity") == pytest.approx(answer.pop("similarity"), abs=1.01e-4)
            found.pop("late")
            for name in ("matched", "source", "url", "title"):  # 0.1.0 did not say them
                found.pop(name)
            for one in (found, answer):
                one["pairs"] = sorted((pair["id"], pair["buckets"]) for pair in one["pairs"])
            assert found == answer
    finally:
        world.close()


@pytest.mark.processes
def test_the_commands_of_the_upgrade_of_files_run(tmp_path):
    """The copy is the way back: it stays as 0.1.0 left it, while the service gives the stored answers."""
    shutil.copytree(RELEASED / "store", tmp_path / "state")
    section = (ROOT / "docs" / "UPGRADING.md").read_text().split("## Files\n")[1].split("\n## ")[0]
    copy, serve = re.findall(r"^    (.+)$", section, re.M)
    subprocess.run(copy, shell=True, cwd=tmp_path, check=True)
    program, command, *options = shlex.split(serve)
    assert (program, command) == ("neardup", "serve")
    serving = Serving(tmp_path, *options, "--threshold", "0.8")
    try:
        for answer in answers("store")[:30]:
            stored = httpx.get(f"{serving.url}/v1/documents/{answer['id']}", timeout=60).raise_for_status().json()
            assert (stored["status"], stored["place"]) == (answer["status"], answer["place"])
    finally:
        serving.stop()
    same, other, missing = filecmp.cmpfiles(
        RELEASED / "store", tmp_path / "state.before", [path.name for path in (RELEASED / "store").iterdir()], False
    )
    assert same
    assert not other + missing
