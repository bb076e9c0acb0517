"""The memory that this machine, or the container around the process, has to give; and sizes as users write them."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ByteSize, TypeAdapter, ValidationError

from neardup.errors import ConfigError

# Of both versions of control groups: the files with the limit of a container, what it uses and of what that consists,
# and the rows of the last one that are copies of files, which the kernel drops when memory is short.
_GROUPS = (
    ("memory.max", "memory.current", "memory.stat", ("inactive_file", "active_file")),
    (
        "memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
        ("total_inactive_file", "total_active_file"),
    ),
)  # fmt: skip


def bytes_of(option: str, size: str) -> int:
    """Return the bytes of a size such as 512MB or 16GiB. Raises ``ConfigError`` with the name of the option.

    >>> bytes_of("--memory", "1.5GiB")
    1610612736
    """
    try:
        # Kubernetes writes 16Gi.
        return TypeAdapter(ByteSize).validate_python(f"{size}B" if size.endswith("i") else size)
    except ValidationError:
        raise ConfigError(f"{option}={size!r}: must be a number with a unit, as in 16GiB or 512MB") from None


def free_bytes(root: Path = Path("/")) -> int:
    """Return the bytes of memory that are free now, or that the kernel can free without writing to a disk: on the
    machine or in the container, whichever has less. ``root`` has the folders ``proc`` and ``sys``."""
    sizes = [_available(root / "proc" / "meminfo")]
    for limit, used, parts, copies in _GROUPS:
        folder = root / "sys" / "fs" / "cgroup"
        try:
            most, now = int((folder / limit).read_text()), int((folder / used).read_text())
            rows = dict(line.split() for line in (folder / parts).read_text().splitlines())
            sizes.append(max(0, most - now + sum(int(rows.get(name, 0)) for name in copies)))
        except (OSError, ValueError):  # no container, or one without a limit ("max")
            continue
    return min(sizes)


def _available(path: Path) -> int:
    try:
        rows = dict(line.split(":", 1) for line in path.read_text().splitlines())
        return int(rows["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):  # another kernel than that of Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
