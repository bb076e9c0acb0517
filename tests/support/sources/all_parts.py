"""``make test``: each part runs, also when another one fails. Then the sum, and what was skipped, by reason."""

from __future__ import annotations

import argparse
import contextlib
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
    "tests": [*PYTEST, "-n", "2", "--ignore", "tests/kafka"],
    "tests with a broker": [*PYTEST, "-n", "3", "tests/kafka"],  # each has a broker
}
# Its tests often wait, for brokers and for groups, so it runs next to the last of the other parts; from so many seconds
# on, since kernels are compiled first: a test that waits for a worker would wait for them too.
WAITS, AFTER_SECONDS = "tests with a broker", 300.0


class Outcome(NamedTuple):
    """What became of a part: its exit code, how many tests of each outcome, and how many were skipped for a reason."""

    code: int
    tests: dict[str, int]
    skipped: Counter[str]


class Part:
    """A part that runs, and what became of it. Pytest writes its report to a file of a folder."""

    def __init__(self, arguments: Sequence[str], folder: Path, room: Path, late: bool = False) -> None:
        """Start it in a folder; one that is ``late`` says what it has to say when it has ended."""
        self._report, self._said = room / "report.xml", room / "said.txt" if late else None
        reported = ["--junit-xml", str(self._report)] if list(arguments[:2]) == PYTEST[:2] else []
        with self._said.open("wb") if self._said else contextlib.nullcontext() as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments, *reported],
                cwd=folder,
                process_group=0,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
            )

    def wait(self, seconds: float) -> None:
        """Wait for its end, for so many seconds at most."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def end(self) -> None:
        """End it with the processes of its group, which cannot be asked if they hang."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def outcome(self, most_seconds: float = PART_SECONDS) -> Outcome:
        """Wait for it; one that takes too long is ended, and failed."""
        try:
            code = self._process.wait(most_seconds)
        except subprocess.TimeoutExpired:
            code = 1
            sys.stdout.write(f"\nended: the part took longer than {most_seconds:g} seconds, so a test of it hangs\n")
        finally:
            self.end()
        if self._said:
            sys.stdout.write(self._said.read_text(encoding="utf-8", errors="replace"))
        if not self._report.exists():
            return Outcome(code, {}, Counter())
        [suite] = ElementTree.parse(self._report).iter("testsuite")
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


def main(parts: Mapping[str, Sequence[str]] = PARTS, folder: Path = ROOT, after_seconds: float = AFTER_SECONDS) -> int:
    """Run the parts and print the sum; 1 if a part failed, else 0."""
    outcomes = {}
    names = sorted(parts, key=lambda name: name == WAITS)
    with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as to_end:
        begun: dict[str, Part] = {}

        def begin(name: str) -> None:
            (room := Path(made) / name).mkdir()
            begun[name] = Part(parts[name], folder, room, name == WAITS)
            to_end.callback(begun[name].end)

        for name, following in zip(names, [*names[1:], ""], strict=True):
            sys.stdout.write(f"== {name}\n")
            sys.stdout.flush()
            if name not in begun:
                begin(name)
            if following == WAITS:
                begun[name].wait(after_seconds)
                begin(following)
            outcomes[name] = begun[name].outcome()
    sys.stdout.write(f"== sum\n{sum_of(outcomes)}")
    return int(any(outcome.code for outcome in outcomes.values()))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(main())
