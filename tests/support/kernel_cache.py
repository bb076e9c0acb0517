"""Compiled kernels that a later edit has made wrong, and their removal."""

from __future__ import annotations

from pathlib import Path


def drop_stale_kernels(package: Path) -> int:
    """Delete the cached kernels of a package if one of its modules is newer than the oldest of them; how many files.

    Numba compiles a kernel again only when the file that holds it changes. A kernel of one module is compiled
    into the kernels of others (``mix64`` into every signature), whose files stay as they were: they would go on with
    the old code, and tests of the new code would pass or fail on it.
    """
    modules = [path.stat().st_mtime for path in package.rglob("*.py")]
    indexes = [time for path in package.rglob("*.nbi") if (time := _written(path)) is not None]
    if not modules or not indexes or max(modules) <= min(indexes):
        return 0
    stale = [path for pattern in ("*.nbi", "*.nbc") for path in package.rglob(pattern)]
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def _written(path: Path) -> float | None:
    """When a file was written, or ``None`` if another run has just deleted it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
