"""Run the tests of this folder against an earlier version and against the tree: ``make reproduce REF=bd41b02``.

Each test reproduces a finding. A finding is closed if its test fails on the version that had it and passes on the tree.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path
from xml.etree import ElementTree

from program import RELEASED, ROOT, Program, environment_of

FOLDER = Path(__file__).parent
BUILD = ROOT / "build" / "reproduce"


def installed(ref: str) -> Program:
    """A checkout of a commit, and an environment with its wheel and the dependencies of this one."""
    tree, environment = BUILD / ref / "tree", BUILD / ref / "environment"
    python = environment / "bin" / "python"
    if not python.exists():
        tree.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", ref], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
        wheels = BUILD / ref / "wheels"
        pip = [sys.executable, "-m", "pip", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, tree], check=True)
        venv.create(environment, with_pip=False)
        (wheel,) = wheels.glob("*.whl")
        install = ["--python", python, "install", "--no-deps", "--no-compile", wheel]
        subprocess.run([*pip, *install], check=True)
        (packages,) = (environment / "lib").glob("python*/site-packages")
        (dependencies,) = {path for path in sys.path if path.endswith("site-packages")}
        (packages / "dependencies.pth").write_text(dependencies)
    return Program(python, tree)


def outcomes(program: Program, selected: list[str], report: Path) -> dict[str, str]:
    """Test -> ``passed``, ``failed`` or ``skipped``."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--junit-xml={report}", *(selected or [str(FOLDER)])]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment_of(program)}, check=False)
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{case.get('classname', '').rpartition('.')[2]}: {case.get('name')}"] = outcome
    return found


def main() -> int:
    """Print a line per finding; exit code 1 if one passes on the earlier version or does not pass on the tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ref", default=RELEASED["0.1.0"], help="the earlier commit")
    parser.add_argument("selected", nargs="*", help="tests, as pytest takes them; all of this folder by default")
    options = parser.parse_args()
    (BUILD / options.ref).mkdir(parents=True, exist_ok=True)
    before = outcomes(installed(options.ref), options.selected, BUILD / options.ref / "before.xml")
    after = outcomes(Program(Path(sys.executable), ROOT), options.selected, BUILD / options.ref / "after.xml")
    closed = {name: before.get(name) == "failed" and outcome == "passed" for name, outcome in after.items()}
    for name in sorted(after):
        mark = "closed" if closed[name] else "OPEN  "
        sys.stdout.write(f"{mark} {options.ref} {before.get(name, '-'):8} tree {after[name]:8} {name}\n")
    sys.stdout.write(f"{sum(closed.values())} of {len(closed)} findings are closed\n")
    return 0 if all(closed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
