"""The memory that is free: of the machine, and of the container around the process."""

from __future__ import annotations

from pathlib import Path

from neardup_workers.outside.process.memory import free_bytes

MACHINE = {"proc/meminfo": "MemTotal: 900 kB\nMemAvailable:     500 kB\n"}
CONTAINER = {
    "sys/fs/cgroup/memory.max": "300000\n",
    "sys/fs/cgroup/memory.current": "250000\n",
    "sys/fs/cgroup/memory.stat": "anon 50000\ninactive_file 90000\nactive_file 10000\n",
}


def free(root: Path, files: dict[str, str]) -> int:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return free_bytes(root)


def test_the_smaller_of_machine_and_container_counts(tmp_path: Path) -> None:
    """Copies of files that a container holds in memory are free: the kernel drops them."""
    assert free(tmp_path, MACHINE) == 500 << 10
    assert free(tmp_path, CONTAINER) == 300_000 - 250_000 + 100_000
    assert free(tmp_path, {"proc/meminfo": "MemAvailable: 10 kB\n"}) == 10 << 10
    assert free(tmp_path, {**MACHINE, "sys/fs/cgroup/memory.max": "max\n"}) == 500 << 10


def test_an_older_kernel_keeps_the_figures_of_containers_elsewhere(tmp_path: Path) -> None:
    """And a machine without such files has at most the memory that it has."""
    old = {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "900\n",
        "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 40\n",
    }
    assert free(tmp_path, {**MACHINE, **old}) == 140
    assert free_bytes(tmp_path / "absent") > 0
