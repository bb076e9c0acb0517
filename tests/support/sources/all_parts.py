"""``make test``: each part runs, also after one that fails. Then the sum, and what was skipped, by reason."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TextIO
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[3]
# Reasons of skipped tests come with the sum, once; failures come with their part.
PYTEST = ["-m", "pytest", "-r", "fE", "--dist", "loadfile", "--no-loadscope-reorder"]
# A part that takes longer hangs: it fails, and the others run. The stacks of a test that hangs are in its output.
PART_SECONDS = 5_400
# Name -> what Python gets.
PARTS = {
    "style": ["-m", "ruff", "check", "."],
    "format": ["-m", "ruff", "format", "--check", "."],
    "types": ["-m", "mypy"],
    "tests": [*PYTEST, "-n", "3", "--ignore", "tests/kafka"],
    # Each of its processes has a broker.
    "tests with a broker": [*PYTEST, "-n", "2", "tests/kafka"],
}
# These run one after the other while the other parts run, so that two cores have work while tests wait. What they
# print comes last.
MEANWHILE = ("types", "tests with a broker")
POLL_SECONDS = 0.05


class Outcome(NamedTuple):
    """What became of a part: its exit code, how many tests of each outcome, and how many were skipped for a reason."""

    code: int
    tests: dict[str, int]
    skipped: Counter[str]


def run(
    arguments: Sequence[str], report: Path, folder: Path, out: TextIO | None = None
) -> Generator[None, None, Outcome]:
    """Run a part in a folder, with its output on the terminal or in a file; pytest writes its report to a file.

    It yields while the part runs. A part that takes too long is ended with the processes of its group, which cannot be
    asked if they hang; so is one that is not waited for.
    """
    is_pytest = list(arguments[:2]) == PYTEST[:2]
    reported = ["--junit-xml", str(report)] if is_pytest else []
    process = subprocess.Popen(
        [sys.executable, *arguments, *reported], cwd=folder, process_group=0, stdout=out, stderr=out
    )  # fmt: skip
    deadline = time.monotonic() + PART_SECONDS
    try:
        while (code := process.poll()) is None and time.monotonic() < deadline:
            yield
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code is None:
        code = 1
        (out or sys.stdout).write(f"\nended: the part took longer than {PART_SECONDS} seconds, so a test of it hangs\n")
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


def lane(
    parts: Mapping[str, Sequence[str]], room: Path, folder: Path, out: TextIO | None, outcomes: dict[str, Outcome]
) -> Generator[None]:
    """Run parts one after the other, and note what became of them."""
    for name, arguments in parts.items():
        print(f"== {name}", file=out, flush=True)
        outcomes[name] = yield from run(arguments, room / f"{name}.xml", folder, out)


def main(parts: Mapping[str, Sequence[str]] = PARTS, folder: Path = ROOT) -> int:
    """Run the parts and print the sum; 1 if a part failed, else 0."""
    outcomes: dict[str, Outcome] = {}
    now, meanwhile = ({n: parts[n] for n in parts if (n in MEANWHILE) == is_second} for is_second in (False, True))
    with tempfile.TemporaryDirectory() as made, (Path(made) / "later").open("w+") as later:
        with (
            closing(lane(now, Path(made), folder, None, outcomes)) as first,
            closing(lane(meanwhile, Path(made), folder, later, outcomes)) as second,
        ):
            running = [first, second]
            while running := [one for one in running if next(one, running) is None]:
                time.sleep(POLL_SECONDS)
        later.seek(0)
        sys.stdout.write(later.read())
    sys.stdout.write(f"== sum\n{sum_of({name: outcomes[name] for name in parts})}")
    return int(any(outcome.code for outcome in outcomes.values()))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(main())
