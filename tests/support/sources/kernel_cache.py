"""Removal of compiled kernels that are older than the source."""

from __future__ import annotations

import ast
from pathlib import Path

# The key of a kernel stands first in its file, and this many bytes hold it.
_KEY_BYTES = 8192


def drop_stale_kernels(package: Path) -> int:
    """Delete the cached kernels of a package that may contain older code; return how many files.

    Numba compiles a kernel again only if its own file changes. A kernel of one module is also compiled into kernels of
    the modules that import it (``mix64`` into every signature). Those files do not change, so their kernels would keep
    the old code, and tests would run it. A kernel that takes another one as an argument contains code of a module that
    it need not import, so a change of any module drops it.
    """
    written = {path: time for path in package.rglob("*.py") if (time := _written(path)) is not None}
    kernels = {path: time for path in package.rglob("*.nbc") if (time := _written(path)) is not None}
    if not written or not kernels or max(written.values()) < min(kernels.values()):
        return 0
    uses = {path: _imported(path, package) for path in written}
    newest = {path: max(written[one] for one in _reachable(path, uses)) for path in written}
    stale = [
        path
        for path, time in kernels.items()
        if time <= newest.get(path.parent.parent / f"{path.name.split('.')[0]}.py", time)
        or (time <= max(written.values()) and _takes_a_kernel(path))
    ]
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def _imported(path: Path, package: Path) -> set[Path]:
    """The modules of the package that a module imports, also inside functions, by the last parts of their names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            inside = parts[parts.index(package.name) + 1 :] if package.name in parts else []
            place = package.joinpath(*inside)
            found |= {one for one in (place.with_suffix(".py"), place / "__init__.py") if inside and one.is_file()}
    return found


def _reachable(path: Path, uses: dict[Path, set[Path]]) -> set[Path]:
    """A module and all that it imports, itself or through others."""
    found = {path}
    rest = [path]
    while rest:
        new = uses.get(rest.pop(), set()) - found
        found |= new
        rest += new
    return found & uses.keys()


def _takes_a_kernel(kernel: Path) -> bool:
    """Whether the types in the key of a stored kernel name another kernel; true if the file cannot be read."""
    try:
        with kernel.open("rb") as file:
            return b"ispatcher" in file.read(_KEY_BYTES)
    except OSError:
        return True


def _written(path: Path) -> float | None:
    """When a file was written, or ``None`` if another run has just deleted it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
