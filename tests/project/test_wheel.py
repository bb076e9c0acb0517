"""The wheel: its metadata, and the installed program without a writable installation or home."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import tomllib
from email.parser import HeaderParser
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest
from command import ROOT, clean_environment
from debian_packages import absent
from import_path import ROOTS

from neardup.kernel_folder import kernel_folder

COMPILED = "views."  # the kernels of a module that the first run needs


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone as it is here, with what is changed and not committed, after ``make dist``."""
    if find_spec("hatchling") is None:
        absent("hatchling, which builds the wheel, is not installed: make renews .venv")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, text=True)
    if listed.returncode:
        pytest.skip(f"no clone: {listed.stderr}")
    folder = tmp_path_factory.mktemp("clone")
    for name in listed.stdout.split("\0"):
        if name and os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    # In the environment of the tests, since a new one needs the network; and not as a part of "make test".
    make = ["make", "--old-file", ".venv/.installed", f"BIN={Path(sys.executable).parent}", "dist"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(make, cwd=folder, env=alone, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == sorted(path.name for path in (folder / "dist").iterdir())
    return folder


@pytest.fixture(scope="module")
def wheel(clone: Path) -> Path:
    """The wheel of ``make dist``, which is made from the archive of the sources."""
    (found,) = (clone / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel and the dependencies of this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        wheel,
    ]
    done = subprocess.run(install, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # Only the path: Python does not read the path files in it, such as the file of an editable installation.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    for name in ROOTS:  # as another distribution brings them
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text("raise ImportError('the package of another project')\n")
    return folder


@pytest.mark.processes
def test_the_metadata_of_the_wheel_is_complete(clone: Path, wheel: Path) -> None:
    """An index of packages shows the metadata; the wheel contains each file of the packages, and no other."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (path,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(path).decode())
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "neardup = neardup_workers.main:main" in archive.read(entry_points).decode()
    assert (metadata["Name"], metadata["Author"]) == ("neardup", "neardup contributors")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {value.split(", ")[0] for value in metadata.get_all("Project-URL")} >= {"Homepage", "Changelog", "Issues"}
    assert len(metadata.get_all("Classifier")) >= 5
    packages = [path for root in ROOTS for path in (clone / root).iterdir()]
    files = [path for package in packages for path in package.rglob("*") if path.is_file()]
    assert {name for name in names if ".dist-info" not in name} == {
        "/".join(x.relative_to(clone).parts[1:]) for x in files
    }


@pytest.mark.processes
def test_the_archive_of_sources_is_the_tree_of_a_clone(clone: Path, tmp_path: Path) -> None:
    """It has each file of the repository, docs and tests too, and links stay links."""
    (archive,) = (clone / "dist").glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", archive], cwd=tmp_path, check=True)
    sources = tmp_path / archive.name.removesuffix(".tar.gz")
    links, files = (
        {path.relative_to(tree): path.is_symlink() for path in tree.rglob("*")} for tree in (clone, sources)
    )
    assert files == {name: links[name] for name in links if name.parts[0] != "dist"} | {Path("PKG-INFO"): False}


@pytest.mark.processes
def test_an_editable_installation_warns_of_nothing(clone: Path, tmp_path: Path) -> None:
    """``make demo`` and ``make test`` make it first; a newcomer reads a box of asterisks as an error."""
    backend = tomllib.loads((clone / "pyproject.toml").read_text())["build-system"]["build-backend"]
    build = f"import sys; from {backend} import build_editable as b; b(sys.argv[1])"
    command = [sys.executable, "-W", "default", "-c", build, tmp_path]
    done = subprocess.run(command, cwd=clone, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if "warning" in line.lower() or "***" in line] == []
    assert [path.suffix for path in tmp_path.iterdir()] == [".whl"]


@pytest.mark.processes
def test_the_installed_program_runs_where_nothing_can_be_written(installed: Path, tmp_path: Path) -> None:
    """The first run compiles into a private temporary folder, warns, and finds the pairs.

    All but a few kernels are there already, if they are on this machine: what comes from a clone is the installation's.
    """
    kept = tmp_path / "temporary" / f"neardup-kernels-{os.getuid()}" / "neardup-kernels"
    (temporary := tmp_path / "temporary").mkdir()
    kept.parent.mkdir(mode=0o700)
    kept.mkdir()
    for path in kernel_folder().glob("*"):
        if not path.name.startswith(COMPILED):
            (kept / path.name).symlink_to(path)
    environment = clean_environment(HOME="/dev/null/none", XDG_CACHE_HOME="", TMPDIR=str(temporary))
    done = subprocess.run(
        [installed / "bin" / "neardup", "run", ROOT / "docs" / "examples" / "news.jsonl"], capture_output=True,
        cwd=tmp_path, env={name: environment[name] for name in environment.keys() - {"PYTHONPATH", "NUMBA_CACHE_DIR"}},
        check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["newer"] for line in done.stdout.splitlines()] == [
        "evening-wire",
        "mirror-of-harbour-post",
    ]
    first, *messages = done.stderr.splitlines()
    assert first.startswith("neardup: /dev/null/none/.cache/neardup-kernels cannot be written")
    assert list(kept.glob(f"{COMPILED}*"))
    assert [line for line in messages if "Traceback" in line or "Warning" in line] == []


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """README's Python in a file, with the data frame that it mentions."""
    found = re.search(r"^## In Python\n\n((?:    .*\n|\n)+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert found
    frame = "from typing import Any\n\nimport pyarrow  # type: ignore[import-untyped]\n\n"
    frame += "frame: Any = pyarrow.table({'id': ['c', 'd'], 'text': ['one', 'two']})\n"
    path = tmp_path_factory.mktemp("session") / "session.py"
    path.write_text(frame + textwrap.dedent(found[1]))
    return path


def outside(session: Path, command: list[object]) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder of the session, with nothing of the checkout on its path. What the clone has compiled
    serves the installation, too."""
    kept = {name: value for name, value in clean_environment().items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=session.parent, env=kept, capture_output=True, check=False, text=True)


@pytest.mark.processes
def test_the_python_of_the_readme_runs_next_to_foreign_packages(installed: Path, session: Path) -> None:
    """Another distribution's ``stream`` and ``workers`` are in the same environment."""
    done = outside(session, [installed / "bin" / "python", session])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "a b 1.0"


@pytest.mark.processes
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_the_python_of_the_readme_has_no_type_errors(installed: Path, session: Path, checker: str) -> None:
    """Neither checker needs a plugin for the settings of ``Config``; a wrong setting is an error."""
    python = installed / "bin" / "python"
    options = {
        "mypy": ["--strict", "--python-executable", python],
        "basedpyright": ["--level", "error", "--pythonpath", python],
    }
    wrong = session.with_name("wrong.py")
    wrong.write_text("from neardup import Config\n\nConfig(threshhold=0.8)\n")
    (session.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    done = outside(session, [sys.executable, "-m", checker, *options[checker], session, wrong])
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert (done.returncode, len(errors)) == (1, 1), done.stdout + done.stderr
    assert f"{wrong.name}:3:" in errors[0]
