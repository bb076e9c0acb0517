"""The cache of compiled code if the home cannot be written; and the exit of a process."""

import os
import stat
import subprocess
import sys

import pytest
from command import PROCESS_SECONDS_MAX, clean_environment


@pytest.fixture
def installed(tmp_path):
    """Return a function that runs Python for a user whose home cannot be written."""
    (tmp_path / "tmp").mkdir()

    def run(*arguments, **environment):
        paths = {"HOME": "/dev/null/none", "XDG_CACHE_HOME": "", "TMPDIR": str(tmp_path / "tmp")}
        given = {**clean_environment(), **paths, "NUMBA_CACHE_DIR": "", **environment}
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, capture_output=True, cwd=tmp_path, env=given, check=False, timeout=PROCESS_SECONDS_MAX
        )

    return run


@pytest.mark.processes
def test_a_home_that_cannot_be_written_leaves_the_kernels_in_a_private_folder(installed, tmp_path):
    """The program warns once, without a traceback; only the user can access the folder."""
    done = installed("-m", "neardup", "run", "--threshold", "7", ".")
    folder = tmp_path / "tmp" / f"neardup-kernels-{os.getuid()}"
    messages = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert [
        line.startswith("neardup: /dev/null/none/.cache/neardup-kernels cannot be written") for line in messages
    ] == [True, False]
    assert str(folder) in messages[0]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.processes
def test_a_folder_that_others_can_write_is_not_used(installed, tmp_path):
    """The program would run the code in that folder."""
    open_folder = tmp_path / "tmp" / f"neardup-kernels-{os.getuid()}"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    messages = installed("-m", "neardup", "run", "--threshold", "7", ".").stderr.decode()
    assert f"kept in {open_folder}-" not in messages
    assert f"kept in {open_folder};" not in messages
    assert f"kept in {tmp_path}/tmp/neardup-kernels-" in messages


@pytest.mark.processes
def test_the_library_without_a_folder_warns_once_and_works(installed):
    """The library compiles at every start instead."""
    code = "import numpy as np; from neardup.machine.kernels.hashing import seed_of\n"
    code += "print(seed_of(*np.zeros(2, np.uint64)) > 0)"
    done = installed("-c", code)
    assert done.stdout == b"True\n"
    assert done.stderr.count(b"compiled code cannot be kept on disk") == 1


@pytest.mark.processes
def test_a_process_leaves_though_a_thread_of_a_library_does_not_end():
    """Earlier output is flushed."""
    code = (
        "import threading, time; from neardup_workers.outside.process.stop import leave\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "print('written'); leave(7)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env=clean_environment(),
        check=False,
        timeout=PROCESS_SECONDS_MAX,
    )
    assert (done.returncode, done.stdout) == (7, b"written\n")
