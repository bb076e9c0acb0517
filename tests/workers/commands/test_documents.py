"""The pages of ``docs`` run: each command of a session prints the output that the page shows."""

from __future__ import annotations

import contextlib
import doctest
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import PROCESS_SECONDS_MAX, ROOT, clean_environment, without_compilation

import neardup

PAGES = ("CRAWL.md", "FEEDS.md", "TUTORIAL.md", "COOKBOOK.md", "FAQ.md", "BOOK.md")
# Chapter 3 of the book: how many figures it has, and how many exercises each of its sections.
FIGURES = 16
EXERCISES = {1: 3, 2: 3, 3: 9, 4: 4, 5: 10, 6: 4, 7: 5, 8: 5, 9: 6}
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


def test_the_pages_name_the_least_threshold_and_the_bytes_of_a_sketch() -> None:
    """Of the default settings: what is refused, and how many bytes thresholds below and above .55 take."""
    bytes_: dict[float, int] = {}
    for hundredths in range(15, 101):
        with contextlib.suppress(neardup.ConfigError):
            tuning = neardup.Config(threshold=hundredths / 100).tuning
            bytes_[hundredths / 100] = tuning.bands * tuning.rows * tuning.sketch_bits // 8
    low = [value for threshold, value in bytes_.items() if threshold < 0.55]
    high = [value for threshold, value in bytes_.items() if threshold >= 0.55]
    least = f"{min(bytes_):.2f}".removeprefix("0")
    pages = {
        name: " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())
        for name in ("GUARANTEES.md", "TUTORIAL.md", "FAQ.md")
    }
    for page in pages.values():
        assert f"Thresholds from {least} on work" in page
    assert f"8 bits and sketches of {min(high)} to {max(high)} bytes" in pages["GUARANTEES.md"]
    assert f"16 bits and {min(low)} to {max(low)} bytes" in pages["GUARANTEES.md"]
    for name in ("TUTORIAL.md", "FAQ.md"):
        assert re.search(rf"up to {max(low)} bytes .* instead of {max(high)} at most", pages[name])


def test_the_page_of_the_book_has_its_sections_figures_and_exercises_in_order() -> None:
    """Each exercise is a row, in its section; each figure is named once or more."""
    page = (ROOT / "docs" / "BOOK.md").read_text(encoding="utf-8")
    rows = [tuple(map(int, numbers)) for numbers in re.findall(r"^\| Exercise 3\.(\d+)\.(\d+)", page, re.M)]
    assert rows == [(section, number) for section, count in EXERCISES.items() for number in range(1, count + 1)]
    assert re.findall(r"^## 3\.(\d)", page, re.M) == [str(section) for section in EXERCISES]
    figures = {int(number) for line in re.findall(r"Figures? [^|:]*", page) for number in re.findall(r"3\.(\d+)", line)}
    assert figures == set(range(1, FIGURES + 1))


def test_the_page_of_the_book_names_tests_that_there_are() -> None:
    """And each row of an exercise has one."""
    page = (ROOT / "docs" / "BOOK.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 80
    assert named - there == set()
    assert [row for row in page.splitlines() if row.startswith("| Exercise") and "`test_" not in row] == []


@pytest.mark.processes
def test_the_site_has_every_page_and_public_name_and_no_broken_link(tmp_path: Path) -> None:
    """``make site``: with files that pages link to, settings and docstrings, and with what its search reads."""
    command = [sys.executable, str(ROOT / "docs" / "make_site.py"), str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, cwd=ROOT, env=clean_environment(), check=False, timeout=PROCESS_SECONDS_MAX,
        text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "api" / "neardup.html").read_text(encoding="utf-8")
    missing = [name for name in (*neardup.__all__, "Config.threshold") if f'id="{name}"' not in page]
    assert missing == []
    assert "Threads may share one" in page
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages == {path.stem for path in (tmp_path / "docs").glob("*.html")}
    searched = json.loads((tmp_path / "search" / "search_index.json").read_text())["docs"]
    assert {f"docs/{name}.html" for name in pages} < {one["location"].partition("#")[0] for one in searched}
    assert (tmp_path / "deploy" / "grafana" / "dashboards" / "neardup.json").is_file()


def test_a_link_of_the_site_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    """To a file, or to an anchor of a page."""
    addresses = ("b.html#no", "b.html#yes", "c.png", "https://a.example")
    (tmp_path / "a.html").write_text("".join(f'<a href="{address}">x</a>' for address in addresses))
    (tmp_path / "b.html").write_text('<p id="yes"></p><a href="#yes">x</a>')
    values = runpy.run_path(str(ROOT / "docs" / "make_site.py"))
    assert values["broken"](tmp_path) == ["a.html: b.html#no", "a.html: c.png"]
