"""A version of the program that is tried from outside: its command, its interpreter, and a checkout of it.

``make reproduce REF=bd41b02`` installs the wheel of a commit in ``build/reproduce`` and runs the tests of this folder
with it. Without a commit, the tests try the tree that they are in.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# The commit that was released as 0.1.0. Not every clone has tags.
RELEASED = {"0.1.0": "bd41b02"}
# The tests of each version bring topics in memory, and workers that a test drives.
TESTS = """
import os, sys
for folder in ("simulation", "processes", "support"):
    sys.path.extend(path for path, _, _ in os.walk(sys.argv[1] + "/tests/" + folder))
"""
LINK_WORLD = f"""{TESTS}
from sim_links import LinkWorld
if not hasattr(LinkWorld, "clock"):  # of 0.1.0
    LinkWorld.memory = property(lambda world: world.cluster)
"""
# 0.1.0 had its two packages at the top level, without layers. Code that is tried has today's names for both.
_PRELUDE = """
import importlib, importlib.abc, importlib.util, re, sys
RENAMED = {
    "neardup.window": "stream.table", "neardup.schemes.kinds": "stream.schemes",
    "neardup.schemes.rows": "stream.schemes",
    "neardup.schemes.interface": "stream.scheme_interface", "neardup.documents.document": "stream.documents",
    "neardup.machine.kernels": "stream.kernels", "neardup_textbook.theory.measures": "stream.theory.measures",
}
class _Old(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("neardup.", "neardup_workers")):
            return importlib.util.spec_from_loader(name, self)
    def create_module(self, spec):
        old = spec.name
        for new, one in RENAMED.items():
            old = re.sub(rf"^{new}(?![a-z_])", one, old)
        old = re.sub(r"^neardup\\.(documents|features|schemes|pairs|stories)(?![a-z_])", "stream", old)
        old = re.sub(r"^neardup_workers\\.(outside|doing|running)(?![a-z_])", "workers", old)
        old = re.sub(r"^neardup_workers(?![a-z_])", "workers", re.sub(r"^neardup\\.", "stream.", old))
        module = importlib.import_module(old)
        self.real = module.__spec__
        return module
    def exec_module(self, module):
        module.__spec__ = self.real
import neardup
try:
    import neardup_workers
except ImportError:
    sys.meta_path.insert(0, _Old())
"""
_VARIABLE_PYTHON, _VARIABLE_TREE = "NEARDUP_TRIED_PYTHON", "NEARDUP_TRIED_TREE"


class Program(NamedTuple):
    """One version: ``python`` is its interpreter, ``tree`` a checkout; ``forked`` starts this tree as a fork."""

    python: Path
    tree: Path
    forked: tuple[str, ...] = ()

    def run(
        self,
        *arguments: object,
        input: bytes = b"",
        cwd: Path | None = None,
        timeout: float = 120.0,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the command ``neardup``, and capture what it writes."""
        words = ["-m", "neardup", *map(str, arguments)]
        return self._started(words, input, cwd, timeout, env or {}, () if env else self.forked)

    def code(
        self,
        source: str,
        *arguments: object,
        input: bytes = b"",
        cwd: Path | None = None,
        timeout: float = 120.0,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run Python; the code imports by today's names in every version."""
        words = self.code_command(source, *arguments)[2:]
        return self._started(words, input, cwd, timeout, env or {}, () if env else self.forked)

    def code_command(self, source: str, *arguments: object) -> list[str]:
        """The command that ``code`` runs."""
        return [str(self.python), "-P", "-c", _PRELUDE + source, *map(str, arguments)]

    def start(self, *arguments: object, **settings: object) -> subprocess.Popen[str]:
        """Start the command ``neardup`` with settings, and read what it reports from ``stderr``. The caller ends it."""
        command = [str(self.python), "-P", "-m", "neardup", *map(str, arguments)]
        given = {f"NEARDUP_{name.upper()}": str(value) for name, value in settings.items()}
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**kept_environment(), **given})

    def _started(
        self,
        arguments: list[str],
        input: bytes,
        cwd: Path | None,
        timeout: float,
        env: dict[str, str],
        forked: tuple[str, ...] = (),
    ) -> subprocess.CompletedProcess[bytes]:
        command = [*(forked or (str(self.python), "-P")), *arguments]
        return subprocess.run(
            command,
            input=input,
            cwd=cwd,
            env={**kept_environment(), **env},
            capture_output=True,
            check=False,
            timeout=timeout,
        )


def kept_environment() -> dict[str, str]:
    """The environment without settings: the program refuses a variable that it does not know."""
    return {name: value for name, value in os.environ.items() if not name.startswith("NEARDUP_")}


def this_tree() -> Program:
    """The tree that this file is in, with the interpreter that runs it."""
    return Program(Path(sys.executable), ROOT)


def tried() -> Program:
    """The version that the environment names, or this tree."""
    python, tree = os.environ.get(_VARIABLE_PYTHON), os.environ.get(_VARIABLE_TREE)
    return Program(Path(python or sys.executable), Path(tree or ROOT)) if python or tree else this_tree()


def environment_of(program: Program) -> dict[str, str]:
    """The variables with which ``tried`` returns this program."""
    return {_VARIABLE_PYTHON: str(program.python), _VARIABLE_TREE: str(program.tree)}
