"""The types of the public names, as a user's type checker sees them."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import public_types
import pytest

import neardup

ROOT = Path(__file__).resolve().parents[2]
USER = Path(public_types.__file__)


def test_the_file_of_the_user_names_every_public_name() -> None:
    """So that none of them is without a type."""
    tree = ast.parse(USER.read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert set(neardup.__all__) <= used


def test_the_type_checker_reads_it_and_refuses_any() -> None:
    """It is among the files of the type checker, with the rule that no expression may have the type Any."""
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert str(USER.relative_to(ROOT)) in mypy["files"]
    rows = [row for row in mypy["overrides"] if row.get("disallow_any_expr")]
    assert [row["module"] for row in rows] == [["public_types"]]


def test_what_it_asserts_of_types_is_so_when_it_runs(tmp_path: Path) -> None:
    """The same file runs: a copy is found, and a wrong setting is refused."""
    config = public_types.use_a_configuration()
    assert [pair[:2] for pair in public_types.use_the_halves(config).pairs()] == [("a", "b")]
    assert public_types.use_one_process(config) == []
    assert public_types.use_a_window(config, tmp_path / "window").process([]) == []
    assert "threshold=2.0" in public_types.use_the_errors()


WRONG = {
    "reveal: int = Deduplicator().process([])": "Incompatible types in assignment",
    "Config(threshhold=0.8)": "Unexpected keyword argument",
    "Config(threshold='high')": "Argument",
    "Document('a').texts": 'has no attribute "texts"',
    "sets.SCHEME._replace(keys=prefix.keys)": "Argument",
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The errors of one run of the type checker over all wrong lines, by line number."""
    file = tmp_path_factory.mktemp("types") / "wrong.py"
    imports = "from neardup import Config, Deduplicator, Document\nfrom neardup.schemes.kinds import prefix, sets\n"
    file.write_text(imports + "\n".join(WRONG))
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[int, str] = {}
    for line in done.stdout.splitlines():
        place, _, message = line.partition(": error: ")
        if message and "wrong.py" in place:
            number = int(place.rpartition(":")[2])
            found[number] = found.get(number, "") + message
    return found


@pytest.mark.processes
def test_the_signature_of_a_configuration_names_every_setting() -> None:
    """Also before its first use: ``help`` and notebooks showed ``**values``."""
    code = (
        "import inspect, neardup; shown = inspect.signature(neardup.Config).parameters; "
        "print(set(shown) == set(neardup.Config.model_fields), shown['threshold'].default)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True 0.8\n"


@pytest.mark.processes
@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_use_is_an_error_of_the_type_checker(errors: dict[int, str], line: str) -> None:
    """A wrong type, setting, field, or a function of another scheme: an error on its own line."""
    number = 3 + list(WRONG).index(line)
    assert WRONG[line] in errors[number]
    assert set(errors) == set(range(3, 3 + len(WRONG)))
