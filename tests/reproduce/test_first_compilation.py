"""A worker that compiles for the first time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from program import Program


def test_a_worker_that_compiles_says_so_and_ends_at_a_signal(program: Program, tmp_path: Path) -> None:
    """There is no work to finish: it ends before its kernels are loaded."""
    settings = ["--bootstrap-servers", "localhost:9", "--health-port", "0", "--window-seconds", "3600"]
    command = [str(program.python), "-P", "-m", "neardup", "sign", *settings]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}
    environment["NUMBA_CACHE_DIR"] = str(tmp_path)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "compiling for this machine" in line or "kernels loaded" in line:
                process.terminate()
    assert process.returncode == 0
    assert any("compiling for this machine" in line for line in lines), lines
    assert not any("kernels loaded" in line for line in lines), lines
