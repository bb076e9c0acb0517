"""``python -m benchmarks.labelled.bring --into FOLDER [SET]...``: public sets that stand in repositories, as they were.

A set is the files of one commit. They stay outside of this project: each has its own licence.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """Where a set is: the repository, the commit, and the folders or files in it, also as patterns."""

    repository: str
    commit: str
    paths: tuple[str, ...]


# Name of the folder of a set -> its source.
SOURCES: dict[str, Source] = {
    "abt_buy": Source(
        "https://github.com/dchud/ddbench", "3bbedeaea67dc1b53bcd2e7d34c7da7e4edfdb66", ("data/abt-buy",)
    ),
    "scoop": Source(
        "https://github.com/janitrai/scoop", "e2a4726d49820c795862435a24e9dce3a17a8abb", ("backend/testdata",)
    ),
    "news_titles": Source(
        "https://github.com/jackyin12/MStream", "ac894075f2bbb93405679e237d2d5d11a325078c", ("MStream/data/News-T",)
    ),
    "mccormick_minhash": Source(
        "https://github.com/chrisjmccormick/MinHash",
        "b3b334341b4d064faad49d066ee15456f1178051",
        ("data/articles_1000.*", "data/articles_2500.*"),
    ),
    "clough_stevenson": Source(
        "https://github.com/clips/pattern",
        "d25511f9ca7ed9356b801d8663b8b5168464e68f",
        ("test/corpora/plagiarism-clough&stevenson.csv",),
    ),
    "old_books": Source(
        "https://github.com/impresso/PH-passim-tutorial",
        "1030452827584f5971855b1884cb49d910e389ea",
        ("eebo/data/txt", "eebo/passim_output_bible"),
    ),
    "king_james": Source("https://github.com/aruljohn/Bible-kjv", "a9aa4e55afbb3e095f57e4b14cd1f22c5ee8d7c9", ("*",)),
}


def bring(source: Source, folder: Path) -> None:
    """Write the files of a set into a folder; nothing else of the repository is brought.

    Raises:
        subprocess.CalledProcessError: git cannot fetch the commit, or it lacks a path.
    """
    with tempfile.TemporaryDirectory() as clone:
        for command in (
            ("init", "--quiet"),
            ("remote", "add", "origin", source.repository),
            ("sparse-checkout", "set", "--no-cone", *(f"/{path}" for path in source.paths)),
            ("fetch", "--quiet", "--depth", "1", "--filter=blob:none", "origin", source.commit),
            ("checkout", "--quiet", "FETCH_HEAD"),
            ("ls-files", "--error-unmatch", "--", *source.paths),
        ):
            subprocess.run(["git", *command], cwd=clone, check=True, stdout=subprocess.DEVNULL)
        # Not before: an empty folder would pass for the set.
        shutil.copytree(clone, folder, ignore=shutil.ignore_patterns(".git"), dirs_exist_ok=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Bring the sets that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.labelled.bring", description=__doc__)
    parser.add_argument("--into", type=Path, required=True, help="the folder with the folders of the sets")
    parser.add_argument("sets", nargs="*", choices=[[], *SOURCES], metavar="SET", help=f"of {', '.join(SOURCES)}")
    options = parser.parse_args(arguments)
    for name in options.sets or SOURCES:
        try:
            bring(SOURCES[name], options.into / name)
        except subprocess.CalledProcessError:
            parser.exit(1, f"{name} is not brought: git says above why\n")
        sys.stdout.write(f"{options.into / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
