"""The pages of ``docs`` run: each command of a session prints the output that the page shows."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import PROCESS_SECONDS_MAX, ROOT, clean_environment, without_compilation

import neardup

PAGES = ("CRAWL.md", "FEEDS.md", "TUTORIAL.md", "COOKBOOK.md", "FAQ.md")
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)


def sessions(page: str) -> list[tuple[str, str]]:
    """The commands of a page in order, each with its output; ``\\`` joins the lines of a command."""
    found: list[tuple[str, str]] = []
    for block in CONSOLE.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            lines = part.splitlines(keepends=True)
            end = next(i for i, line in enumerate(lines) if not line.endswith("\\\n")) + 1
            found.append(("".join(lines[:end]), "".join(lines[end:])))
    return found


@pytest.mark.processes
@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_shows(page: str, forked: list[str], tmp_path: Path) -> None:
    """The commands run one after the other in an empty folder with the examples; ``...`` matches anything.

    The command ``neardup`` is a fork; ``test_first_use.py`` and ``test_wheel.py`` start the installed one.
    """
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    program = tmp_path / "bin" / "neardup"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(forked)} -m neardup "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    commands = sessions(page)
    assert commands
    for command, shown in commands:
        done = subprocess.run(
            ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            cwd=tmp_path, env=clean_environment(COLUMNS="80", PATH=path), check=False, text=True,
            timeout=PROCESS_SECONDS_MAX,
        )  # fmt: skip
        checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.DONT_ACCEPT_BLANKLINE
        printed = "".join(without_compilation(done.stdout.splitlines(keepends=True)))
        assert checker.check_output(shown, printed, flags), f"$ {command}{done.stdout}"


@pytest.mark.processes
def test_the_reference_of_the_api_has_every_public_name(tmp_path: Path) -> None:
    """``make api`` builds a page from the docstrings, with each name and its first sentence."""
    options = re.search(r"/pdoc (.*) --output-directory", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert options
    command = [sys.executable, "-m", "pdoc", *options[1].split(), "--output-directory", str(tmp_path), "neardup"]
    done = subprocess.run(
        command,
        capture_output=True,
        cwd=ROOT,
        env=clean_environment(),
        check=False,
        timeout=PROCESS_SECONDS_MAX,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "neardup.html").read_text(encoding="utf-8")
    missing = [name for name in neardup.__all__ if f'id="{name}"' not in page]
    assert missing == []
    assert "Threads may share one" in page
