"""``make test``: each part runs, also after one that fails. Then the sum, and what was skipped, by reason."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[3]
# Reasons of skipped tests come with the sum, once; failures come with their part.
PYTEST = ["-m", "pytest", "-r", "fE", "--dist", "loadfile", "--no-loadscope-reorder"]
# A part that takes longer hangs: it fails, and the others run. The stacks of a test that hangs are in its output.
PART_SECONDS = 2_700
# Name -> what Python gets.
PARTS = {
    "style": ["-m", "ruff", "check", "."],
    "format": ["-m", "ruff", "format", "--check", "."],
    "types": ["-m", "mypy"],
    # A quarter of the time a test waits, so two cores have work for three processes; with a broker each has its own.
    "tests": [*PYTEST, "-n", "3", "--ignore", "tests/kafka"],
    "tests with a broker": [*PYTEST, "-n", "3", "tests/kafka"],
}


class Outcome(NamedTuple):
    """What became of a part: its exit code, how many tests of each outcome, and how many were skipped for a reason."""

    code: int
    tests: dict[str, int]
    skipped: Counter[str]


def run(arguments: Sequence[str], report: Path, folder: Path, most_seconds: float = PART_SECONDS) -> Outcome:
    """Run a part in a folder, with its output on the terminal; pytest writes its report to a file.

    A part that takes too long is ended with the processes of its group, which cannot be asked if they hang.
    """
    is_pytest = list(arguments[:2]) == PYTEST[:2]
    reported = ["--junit-xml", str(report)] if is_pytest else []
    process = subprocess.Popen([sys.executable, *arguments, *reported], cwd=folder, process_group=0)
    try:
        code = process.wait(most_seconds)
    except subprocess.TimeoutExpired:
        code = 1
        sys.stdout.write(f"\nended: the part took longer than {most_seconds:g} seconds, so a test of it hangs\n")
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if not report.exists():
        return Outcome(code, {}, Counter())
    [suite] = ElementTree.parse(report).iter("testsuite")
    bad = {name: int(suite.attrib[f"{name}s"]) for name in ("failure", "error")}
    reasons = [skip.attrib["message"] for skip in suite.iter("skipped") if skip.attrib["type"] == "pytest.skip"]
    passed = int(suite.attrib["tests"]) - sum(bad.values()) - int(suite.attrib["skipped"])
    # A reason is one sentence; what a program said in addition stays in its lines below the first.
    skipped = Counter(reason.partition("\n")[0] for reason in reasons)
    return Outcome(code, {"passed": passed, "failed": bad["failure"], "in error": bad["error"]}, skipped)


def sum_of(outcomes: Mapping[str, Outcome]) -> str:
    """The lines for people: one a part, one a reason, and the verdict."""
    lines = []
    for name, outcome in outcomes.items():
        counts = ", ".join(f"{count:,} {kind}" for kind, count in outcome.tests.items() if count)
        lines.append(f"{name:<20} {'ok' if outcome.code == 0 else 'FAILED':<8}{counts}".rstrip())
    skipped = sum((outcome.skipped for outcome in outcomes.values()), Counter[str]())
    if skipped:
        lines.append(f"{skipped.total():,} tests were skipped:")
        lines += [f"{count:>7,}  {reason}" for reason, count in skipped.most_common()]
    failed = [name for name, outcome in outcomes.items() if outcome.code]
    lines.append(
        f"{len(failed)} of {len(outcomes)} parts failed: {', '.join(failed)}" if failed else "all parts are ok"
    )
    return "\n".join(lines) + "\n"


def main(parts: Mapping[str, Sequence[str]] = PARTS, folder: Path = ROOT) -> int:
    """Run the parts and print the sum; 1 if a part failed, else 0."""
    outcomes = {}
    with tempfile.TemporaryDirectory() as room:
        for number, (name, arguments) in enumerate(parts.items()):
            sys.stdout.write(f"== {name}\n")
            sys.stdout.flush()
            outcomes[name] = run(arguments, Path(room) / f"{number}.xml", folder)
    sys.stdout.write(f"== sum\n{sum_of(outcomes)}")
    return int(any(outcome.code for outcome in outcomes.values()))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(main())
