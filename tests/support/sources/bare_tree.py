"""The program as a wheel installs it, with machine code and without a compiler, for processes of tests.

    python tests/support/sources/bare_tree.py build/made build/bare

copies the packages to the second folder and adds the machine code of the first, which wheel/emit.py made. With the
second folder as ``PYTHONPATH``, numba cannot be imported.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from import_path import ROOTS, TESTS

COMPILERS = ("numba", "llvmlite")


def make_tree(made: Path, tree: Path) -> None:
    """Write the packages with the files in ``made``, and modules that cannot be imported under the compilers' names."""
    shutil.rmtree(tree, ignore_errors=True)
    for root in ROOTS:
        shutil.copytree(TESTS.parent / root, tree, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    shutil.copytree(made, tree / "neardup" / "machine" / "made")
    for name in COMPILERS:
        (tree / f"{name}.py").write_text(f"raise ModuleNotFoundError('no compiler is installed', name='{name}')\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("made", type=Path, help="the folder of the machine code")
    parser.add_argument("tree", type=Path, help="the folder of the program, which is removed first")
    make_tree(**vars(parser.parse_args()))
