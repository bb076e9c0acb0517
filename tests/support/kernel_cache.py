"""Removal of compiled kernels that are older than the source."""

from __future__ import annotations

from pathlib import Path


def drop_stale_kernels(package: Path) -> int:
    """Delete the cached kernels of a package if a module is newer than the oldest kernel; return how many files.

    Numba compiles a kernel again only if its own file changes. A kernel of one module is also compiled into kernels of
    other modules (``mix64`` into every signature). Those files do not change, so their kernels would keep the old code,
    and tests would run it.
    """
    modules = [path.stat().st_mtime for path in package.rglob("*.py")]
    kernels = [time for path in package.rglob("*.nbc") if (time := _written(path)) is not None]
    if not modules or not kernels or max(modules) <= min(kernels):
        return 0
    stale = list(package.rglob("*.nbc"))
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def _written(path: Path) -> float | None:
    """When a file was written, or ``None`` if another run has just deleted it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
