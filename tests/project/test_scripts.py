"""Every script, and every target of the Makefile, starts: from the folder of a clone, as a person types it."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from all_parts import PARTS
from fork_server import STARTED, forks

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tests", "benchmarks", "docs")
    for path in (ROOT / folder).rglob("*.py")
    if re.search(r'^if __name__ == "__main__":', path.read_text(encoding="utf-8"), re.M)
)
# The lines of the Makefile that run a program of the environment -> a target that has it.
RECIPES = {
    line.strip().removeprefix("@").partition("  #")[0]: target
    for target, recipe in re.findall(r"^([a-z-]+):.*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(), re.M)
    for line in recipe.splitlines()
    if "$(BIN)/" in line and "-m pip" not in line
}
RECIPES |= {" ".join(["$(BIN)/python", *arguments]): "test" for arguments in PARTS.values()}
VARIABLES = {
    "$(REF)": "HEAD",
    "$(HOURS)": "1",
    "$(DATA)": ".",
    "$(CHECKED)": "tests",
    "$(QUICK)": "not long",
    "$(DEMO_PATHS)": "docs",
}
Start = Callable[..., subprocess.CompletedProcess[str]]


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True, timeout=120)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def started() -> Iterator[Start]:
    """Starts Python with arguments, in the folder of a clone."""
    with forks({name: value for name, value in os.environ.items() if name != "PYTHONPATH"}) as python:
        yield lambda *arguments: run(*python, *arguments)


@pytest.mark.processes
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_starts(script: str, started: Start) -> None:
    """It finds what it imports; if it has options, it shows them."""
    path = ROOT / script
    if "ArgumentParser" not in path.read_text(encoding="utf-8"):  # its code up to its main part: every import is made
        done = started(STARTED, str(ROOT if script.startswith("benchmarks") else path.parent), str(path))
    elif script.startswith("benchmarks"):
        done = started("-m", script.removesuffix(".py").replace("/", ".").removesuffix(".__main__"), "--help")
    else:
        done = started(script, "--help")
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.processes
@pytest.mark.parametrize(("script", "said"), [("absent.py", "absent.py"), ("broken.py", "NameError"), ("left.py", "3")])
def test_a_script_that_does_not_start_is_seen(script: str, said: str, started: Start, tmp_path: Path) -> None:
    """One that is not there, one that fails, and one that ends with another exit code than 0."""
    (tmp_path / "broken.py").write_text("absent_name\n")
    (tmp_path / "left.py").write_text("import sys\nprint(3, file=sys.stderr)\nsys.exit(3)\n")
    for arguments in ((str(tmp_path / script),), (STARTED, str(tmp_path), str(tmp_path / script))):
        done = started(*arguments)
        assert done.returncode == (3 if script == "left.py" else 1)
        assert said in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("line", RECIPES)
def test_a_target_of_the_makefile_starts(line: str, started: Start) -> None:
    """Its program exists and knows every option that the recipe gives it, and the tests that it names are there."""
    target, filled = RECIPES[line], line
    for name, value in VARIABLES.items():
        filled = filled.replace(name, value)
    words = shlex.split(filled)
    while "=" in words[0]:
        del words[0]
    program = Path(sys.executable).parent / words[0].removeprefix("$(BIN)/")
    if program.name == "python":
        done = started(*words[1:], "--help")
    elif program.name == "neardup":
        done = started(str(program), *words[1:], "--help")
    else:
        done = run(program, *words[1:], "--help")
    assert done.returncode == 0, f"{target}: {done.stderr[-2000:]}"
    assert [word for word in words if word.startswith("--") and word not in done.stdout] == []
    assert [word for word in words if word.startswith("tests/") and not (ROOT / word).exists()] == []


@pytest.mark.processes
def test_the_page_of_the_demonstration_ends_with_it() -> None:
    """Its address answers while it runs, with stories of several sources and with corrections; not after Ctrl-C."""
    command = [sys.executable, "tests/browser/demo_page.py", "--seconds", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = list(itertools.takewhile(lambda line: not line.startswith("All"), process.stdout))
            [url] = re.findall(r"http://\S+/", "".join(said))
            stories = httpx.get(f"{url}v1/clusters", timeout=60).json()["clusters"]
            corrected = httpx.get(f"{url}v1/documents?status=update", timeout=60).json()["documents"]
            assert len({one["source"] for one in stories}) > 1
            assert max(story["size"] for story in stories) > 2
            assert corrected != []
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, timeout=60)


@pytest.mark.processes
def test_the_makefile_lists_each_of_its_targets() -> None:
    """``make`` alone shows them."""
    listed = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert set(re.findall(r"^  make ([a-z-]+)", listed, re.M)) == set(" ".join(phony).split())


@pytest.mark.processes
def test_the_fresh_machine_shows_its_help() -> None:
    """The steps are named, and nothing is tried."""
    done = subprocess.run(["bash", "tests/fresh.sh", "--help"], cwd=ROOT, capture_output=True, check=True, text=True)
    assert "install" in done.stdout
    assert done.stderr == ""


@pytest.mark.processes
@pytest.mark.parametrize("step", ["install", "demo", "dist", "test", "docs"])
def test_a_step_of_the_fresh_machine_that_fails_ends_it(step: str, tmp_path: Path) -> None:
    """In a clone without Makefile and sources, whatever comes after the first failure of the step."""
    inside = {**os.environ, "FRESH_INSIDE": str(tmp_path), "HOME": str(tmp_path)}
    command = ["bash", str(ROOT / "tests" / "fresh.sh"), step]
    done = subprocess.run(command, cwd=tmp_path, env=inside, capture_output=True, check=False, text=True)
    assert done.returncode != 0
    assert "done" not in done.stdout


@pytest.mark.processes
@pytest.mark.parametrize("wrong", ["tests", "--as nurse test", "--data", "--java"])
def test_the_fresh_machine_refuses_what_it_does_not_know(wrong: str) -> None:
    """Before anything is tried, with its arguments and their values."""
    command = ["bash", "tests/fresh.sh", *wrong.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"has no argument '{' '.join(wrong.split()[:2])}'" in done.stderr
    assert "--java yes|no" in done.stderr


@pytest.mark.processes
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="mounts need root and unshare")
def test_a_fresh_machine_that_fails_leaves_the_data_next_to_the_clone(tmp_path: Path) -> None:
    """The folder of data is mounted in the machine. It stays when the machine is removed, and the machine does not."""
    clone, data, programs, rooms = (tmp_path / name for name in ("clone", "shared", "programs", "rooms"))
    for folder in (clone / "tests", data, programs, rooms):
        folder.mkdir(parents=True)
    (data / "kept").write_text("data")
    shutil.copy(ROOT / "tests" / "fresh.sh", clone / "tests")
    subprocess.run(["git", "init", "--quiet", clone], check=True)
    made = 'for last; do :; done; mkdir -p "$last"/{proc,dev,sys,etc/ssl/certs,root}'  # a machine without a shell
    (programs / "debootstrap").write_text(f"#!/bin/bash\n{made}\n")
    (programs / "debootstrap").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FRESH_")}
    done = subprocess.run(
        ["bash", clone / "tests" / "fresh.sh", "--as", "root", "--data", "yes", "--java", "no", "install"],
        cwd=tmp_path, capture_output=True, check=False, text=True,
        env={**kept, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(rooms)}, timeout=120,
    )  # fmt: skip
    if "unshare" in done.stderr:  # denied, or the root of a chroot, which is no mount
        pytest.skip(f"no mounts here: {done.stderr}")
    assert done.returncode != 0
    assert "chroot" in done.stderr
    assert (data / "kept").read_text() == "data"
    assert list(rooms.iterdir()) == []
