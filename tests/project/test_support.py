"""What tests share is listed with its purpose."""

from __future__ import annotations

import ast
import contextlib
import os
import random
import re
import select
from pathlib import Path
from types import SimpleNamespace

import pytest
from all_parts import PYTEST, main, run
from cases import random_stream
from python_files import ROOT, nodes
from sizes import SEEDS, some_of

SUPPORT = Path(__file__).resolve().parents[1] / "support"
SOME_TESTS = """
import pytest

@pytest.mark.parametrize("n", range(3))
def test_skips(n): pytest.skip("no real data")

def test_skips_for_another_reason(): pytest.skip("no Java on the path\\nmore of it")

@pytest.mark.xfail
def test_known(): assert 0

@pytest.fixture
def broken(): raise OSError

def test_right(): pass

def test_wrong(): assert 0

def test_in_error(broken): pass
"""


def test_the_list_of_shared_folders_names_each_of_them_and_each_file_says_its_purpose() -> None:
    """One row a folder; the first line of each file is a purpose that no other file has."""
    rows = re.findall(r"^\| `(\S+)` \| .+ \|$", (SUPPORT / "README.md").read_text(encoding="utf-8"), re.M)
    files = [path for path in SUPPORT.rglob("*.py") if path.parent != SUPPORT]
    assert sorted(rows) == sorted({str(path.parent.relative_to(SUPPORT)) for path in files})
    purposes = [(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0] for path in files]
    assert "" not in purposes
    assert len(set(purposes)) == len(purposes)


@pytest.mark.parametrize("name", ["reference.py", "textbook_index.py", "exact_chances.py"])
def test_a_model_shares_no_code_with_what_it_models(name: str) -> None:
    """A model that called the library would repeat its errors."""
    text = (SUPPORT / "models" / name).read_text(encoding="utf-8")
    assert re.findall(r"^(?:from|import) (?:neardup|neardup_textbook|neardup_workers)\b", text, re.M) == []


def test_one_file_knows_where_the_real_data_is() -> None:
    """So tests without it are skipped for one reason, which ``make test`` prints once."""
    named = re.compile(r'"shared" / "data"|shared/data')
    files = [path for path in (ROOT / "tests").rglob("*.py") if named.search(path.read_text(encoding="utf-8"))]
    assert {path.name for path in files} - {Path(__file__).name} == {"real_sets.py"}


@pytest.mark.parametrize("opens", [True, False])
def test_a_skip_comes_before_a_test_opens_something(
    opens: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that skips while a file is open fails: the file would be closed in a later test, and fail that one."""
    (conftest,) = (
        plugin for plugin in request.config.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(ROOT / "tests" / "conftest.py")
    )  # fmt: skip
    monkeypatch.setattr(conftest.time, "sleep", lambda seconds: None)  # what leaks here stays open for any wait
    for hook in (conftest.pytest_pyfunc_call, conftest.pytest_fixture_setup):
        call = hook()
        next(call)
        with (
            Path(__file__).open(encoding="utf-8") if opens else contextlib.nullcontext(),
            pytest.raises(pytest.fail.Exception if opens else pytest.skip.Exception),
        ):
            call.throw(pytest.skip.Exception("no data"))


def test_a_stream_is_drawn_once_and_the_generator_goes_on_behind_it() -> None:
    """Two laws that ask for the same one get equal documents in lists of their own; other settings are another one."""
    one, two, other = (random.Random(9) for _ in range(3))
    first = random_stream(one, 20, copies=0.5)
    first.append(second := random_stream(two, 20, copies=0.5)[0])
    assert first == [*random_stream(random.Random(9), 20, copies=0.5), second]
    assert second is first[0]
    assert one.random() == two.random()
    assert random_stream(other, 20, copies=0.1) != first[:20]


@pytest.mark.skipif(SEEDS > 1, reason="make torture takes all")
def test_cases_take_turns_at_the_sizes_of_a_law() -> None:
    """So that all of them occur in the tests."""
    assert [size for turn in range(4) for size in some_of((2, 5, 8), turn)] == [2, 5, 8, 2]


@pytest.mark.processes
def test_every_part_of_make_test_runs_and_the_sum_fails_if_one_did(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A red part stops no other one; each reason of skipped tests comes once, with its number."""
    (tmp_path / "test_some.py").write_text(SOME_TESTS)
    pytest_alone = [*PYTEST, "-n", "2", "-c", "/dev/null", "-p", "no:cacheprovider"]
    parts = {
        "style": ["-c", "print('a line too long'); raise SystemExit(3)"],
        "tests": [*pytest_alone, "test_some.py"],
        "types": ["-c", "print('no issues')"],
        "broken": ["-m", "pytest", "--no-such-option"],
    }
    assert main(parts, tmp_path) == 1
    before, _, total = capfd.readouterr().out.partition("== sum\n")
    assert total.splitlines() == [
        "style                FAILED",
        "tests                FAILED  1 passed, 1 failed, 1 in error",
        "types                ok",
        "broken               FAILED",
        "4 tests were skipped:",
        "      3  no real data",
        "      1  no Java on the path",
        "3 of 4 parts failed: style, tests, broken",
    ]
    assert {"a line too long", "no issues"} <= set(before.splitlines())
    assert "FAILED test_some.py::test_wrong" in before
    assert "no real data" not in before


@pytest.mark.processes
def test_parts_run_side_by_side_and_the_sum_of_those_that_are_ok_is_a_success(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each end of a pipe is opened once the other one is; what the second part prints comes after the first."""
    os.mkfifo(tmp_path / "pipe")
    parts = {"types": ["-c", "print(open('pipe').read())"], "tests": ["-c", "open('pipe', 'w').write('no issues')"]}
    assert main(parts, tmp_path) == 0
    shown = capfd.readouterr().out.splitlines()
    assert shown[:4] == ["== tests", "== types", "no issues", "== sum"]
    assert shown[-1] == "all parts are ok"


def test_the_files_that_run_first_are_there() -> None:
    """Each name of the list leads to a file of tests."""
    given = [
        ast.literal_eval(node.value)
        for node in nodes(ROOT / "tests" / "conftest.py")
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LONGEST"
    ]
    assert len(given) == 1
    assert [name for name in given[0] if not (ROOT / "tests" / name).is_file()] == []


@pytest.mark.processes
def test_a_part_that_hangs_is_ended_with_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both processes hold a pipe open; when its time is over the part fails, and the pipe has no writer left."""
    os.mkfifo(pipe := tmp_path / "pipe")
    read = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    hangs = (
        f"import os, time; held = os.open({str(pipe)!r}, os.O_WRONLY); os.write(held, b'x'); os.fork(); time.sleep(300)"
    )
    part = run(["-I", "-S", "-c", hangs], tmp_path / "none.xml", tmp_path)
    next(part)
    assert select.select([read], [], [], 60)[0]
    assert os.read(read, 9) == b"x"
    monkeypatch.setattr("all_parts.time", SimpleNamespace(monotonic=lambda: float("inf")))
    with pytest.raises(StopIteration) as ended:
        next(part)
    assert ended.value.value.code == 1
    assert select.select([read], [], [], 60)[0], "a process that was killed ends a moment later"
    assert os.read(read, 9) == b""
    os.close(read)
    assert "so a test of it hangs" in capfd.readouterr().out
