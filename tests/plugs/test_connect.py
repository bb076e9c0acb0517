"""Recipes for Redpanda Connect and its relatives: the protocol of a subprocess line by line, and the program itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import IO, Any

import pytest
import yaml
from command import COMMAND, PROCESS_SECONDS_MAX, ROOT, clean_environment

pytestmark = pytest.mark.processes
RECIPES = ROOT / "docs" / "examples" / "connect"
TEXT = "Heavy rain is expected along the northern coast from Friday, and the ferries will not run before Sunday."
LINES = [
    *(json.dumps({"id": f"d{n}", "text": text}).encode() for n, text in enumerate(
        (TEXT, TEXT.replace("Sunday", "Monday"), "The harvest of apples was small, the farmers say.", TEXT)
    )),
    b'{"id": "refused"',
    json.dumps({"id": "last", "text": TEXT + " So it is."}).encode(),
]  # fmt: skip


def processors(name: str) -> list[dict[str, Any]]:
    """The processors of a recipe."""
    found: list[dict[str, Any]] = yaml.safe_load((RECIPES / name).read_text())["pipeline"]["processors"]
    return found


@pytest.fixture(scope="module")
def program() -> str:
    """The path of Benthos, Redpanda Connect or Bento."""
    found = next(filter(None, map(shutil.which, ("benthos", "redpanda-connect", "bento"))), None)
    if found is None:
        pytest.skip("neither benthos, redpanda-connect nor bento is on the path")
    return found


@pytest.fixture(scope="module")
def annotated(neardup_once: Callable[..., bytes]) -> list[bytes]:
    """What ``dedup --annotate`` writes of all lines at once."""
    return neardup_once(b"\n".join(LINES) + b"\n").splitlines()


@pytest.fixture(scope="module")
def neardup_once() -> Callable[..., bytes]:
    """Run ``dedup`` on some lines; return its output."""

    def run(lines: bytes) -> bytes:
        words = [*COMMAND, "dedup", "-", "--quiet", "--annotate", "--input-format", "lines"]
        return subprocess.run(words, input=lines, env=clean_environment(), capture_output=True, check=True).stdout

    return run


def _lines_of(stream: IO[bytes], name: str, queue: Queue[tuple[str, bytes]]) -> None:
    for line in stream:
        queue.put((name, line.rstrip(b"\n")))


def test_each_line_gets_one_line_before_the_next_is_sent(annotated: list[bytes]) -> None:
    """On standard output its verdict, byte for byte that of ``dedup``; on standard error itself, if it is refused."""
    subprocess_of = processors("subprocess.yaml")[0]["subprocess"]
    assert subprocess_of["name"] == "neardup"
    answers: Queue[tuple[str, bytes]] = Queue()
    got = []
    with subprocess.Popen(
        [*COMMAND, *subprocess_of["args"]], env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        for name in ("stdout", "stderr"):
            threading.Thread(target=_lines_of, args=(getattr(process, name), name, answers), daemon=True).start()
        for line in LINES:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            got.append(answers.get(timeout=PROCESS_SECONDS_MAX))
        process.stdin.close()
        assert process.wait(PROCESS_SECONDS_MAX) == 0
    assert answers.empty()
    assert [line for name, line in got if name == "stdout"] == annotated
    assert [line for name, line in got if name == "stderr"] == [LINES[4]]
    assert [json.loads(line)["neardup"]["status"] for line in annotated].count("duplicate") == 3


def _piped(program: str, recipe: str, folder: Path, **environment: str) -> list[bytes]:
    """What a pipeline writes of the lines; ``neardup`` is the one of this tree."""
    (folder / "neardup").write_text(f'#!/bin/sh\nexec {sys.executable} -m neardup "$@"\n')
    (folder / "neardup").chmod(0o755)
    done = subprocess.run(
        [program, "run", str(RECIPES / recipe)], input=b"\n".join(LINES) + b"\n", capture_output=True, check=False,
        env=clean_environment(PATH=f"{folder}:{os.environ['PATH']}", **environment), timeout=PROCESS_SECONDS_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_pipeline_with_a_subprocess_writes_what_dedup_writes(
    program: str, annotated: list[bytes], tmp_path: Path
) -> None:
    """Byte for byte; what is refused goes on unchanged, as failed."""
    written = _piped(program, "subprocess.yaml", tmp_path)
    assert [line for line in written if line != LINES[4]] == annotated
    assert LINES[4] in written


@pytest.fixture
def url(start: Any) -> Iterator[str]:
    """The address of a service."""
    process = start("serve", "--state", "window", "--port", "0")
    line = next(line for line in process.stderr if b"serving on" in line)
    yield line.decode().split()[-1]
    process.terminate()
    process.wait()


def test_a_pipeline_that_asks_the_service_has_the_same_verdicts(
    program: str, annotated: list[bytes], url: str, tmp_path: Path
) -> None:
    """Of each document, under the same key."""
    written = [json.loads(line) for line in _piped(program, "http.yaml", tmp_path, NEARDUP_URL=url) if line != LINES[4]]
    expected = [json.loads(line)["neardup"] for line in annotated]
    names = ("id", "status", "cluster")
    found = sorted([one["neardup"][name] for name in names] + [one["neardup"]["duplicate_of"]] for one in written)
    assert found == sorted([one[name] for name in names] + [one.get("duplicate_of")] for one in expected)
