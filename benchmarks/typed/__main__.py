"""``python -m benchmarks.typed [--set SET] [--write FILE] [PEER]...``: programs that drop near-duplicates.

Each program is what its user types (``benchmarks/typed/scripts``), in an environment of its own, which is made where it
is missing. It reads ``texts.jsonl`` and writes what it keeps. All of a set run one after another on the same documents;
each runs once before on a few, so that no first start, with what it compiles, is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from benchmarks.labelled.__main__ import DATA, between
from benchmarks.typed.data import FAR, SETS, THRESHOLD, Pairs, near_duplicates
from neardup import Document

_HERE = Path(__file__).resolve().parent
ENVIRONMENTS = _HERE.parents[1] / "build" / "peers"
_LOOK_SECONDS = 0.05  # between two looks at the memory
_WARM_DOCUMENTS = 100
_TABLES = ("texts", "titles")  # the others take hours, and text-dedup 28 GB of memory
_TRUTH_DOCUMENTS = 200_000  # of larger sets the exact join would take hours: only time and memory
HEAD = (
    "| program | s | MB | lines typed | kept | left, characters | left, words "
    "| dropped below .8 | below .6 | reasons |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


class Peer(NamedTuple):
    """A program: its script, what pip installs for it, and whether it says why it drops a document."""

    title: str
    script: str
    packages: tuple[str, ...] = ()
    reasons: str = "no"


_DATATROVE = ("datatrove[io,processing]", "spacy")
PEERS: dict[str, Peer] = {
    "neardup": Peer("neardup", "neardup.sh", reasons="yes"),
    "neardup-exact": Peer("neardup, exact scores", "neardup_exact.sh", reasons="yes"),
    "text-dedup": Peer("text-dedup, MinHash", "text_dedup.sh", ("text-dedup",)),
    "datatrove": Peer("datatrove, MinHash", "dedup_datatrove.py.txt", _DATATROVE),
    "datatrove-sentences": Peer("datatrove, sentences", "sentences_datatrove.py.txt", _DATATROVE),
    "datasketch": Peer("datasketch", "dedup_datasketch.py.txt", ("datasketch",)),
    "rensa": Peer("rensa", "dedup_rensa.py.txt", ("rensa",)),
    "fastsketchlsh": Peer("FastSketchLSH", "dedup_fastsketchlsh.py.txt", ("fastsketchlsh",)),
    "duckdb": Peer("DuckDB, MinHash in SQL", "dedup_duckdb.py.txt", ("duckdb",)),
}


class Run(NamedTuple):
    """What a program did: seconds by the clock, most bytes of its processes together, ids that it kept."""

    seconds: float
    resident: int
    kept: set[str]


def lines_typed(script: str) -> int:
    """Lines of a script that are neither empty nor its docstring."""
    lines = (_HERE / "scripts" / script).read_text(encoding="utf-8").splitlines()
    return sum(bool(line.strip()) and not line.startswith('"""') for line in lines)


def installed(name: str, environments: Path) -> Path:
    """The environment of a program, made where it is missing. Raises ``RuntimeError`` with the last line of pip."""
    if not PEERS[name].packages:
        return Path(sys.executable).parent
    folder = environments / PEERS[name].packages[0].split("[")[0]
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PEERS[name].packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"cannot be installed: {_last_line(done.stderr)}")
        (folder / "ready").touch()
    return folder / "bin"


def version_of(name: str, environment: Path) -> str:
    """The version of what pip installed for a program; empty for the one of this tree."""
    if not PEERS[name].packages:
        return ""
    code = f"import importlib.metadata as m; print(m.version({PEERS[name].packages[0].split('[')[0]!r}))"
    done = subprocess.run([str(environment / "python"), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run(name: str, documents: Sequence[Document], environment: Path, seconds_max: float) -> Run:
    """Run a program over documents. Raises ``RuntimeError`` if it fails or takes too long."""
    script = _HERE / "scripts" / PEERS[name].script
    with tempfile.TemporaryDirectory() as folder:
        rows = (json.dumps({"id": one.id, "text": one.text}, ensure_ascii=False) + "\n" for one in documents)
        Path(folder, "texts.jsonl").write_text("".join(rows), encoding="utf-8")
        # Under another name: a script that is called as its library would import itself.
        typed = Path(folder, "typed").with_suffix(".sh" if script.suffix == ".sh" else ".py")
        typed.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
        with Path(folder, "said").open("wb") as said:
            begin = time.perf_counter()
            process = subprocess.Popen(
                ["sh" if typed.suffix == ".sh" else environment / "python", typed],
                cwd=folder, stdout=said, stderr=said, start_new_session=True,
                env=os.environ | {
                    "PATH": f"{environment}{os.pathsep}{os.environ['PATH']}", "HF_HUB_OFFLINE": "1", "HF_HOME": folder,
                    "PYTHONDONTWRITEBYTECODE": "",  # users keep what is compiled
                },
            )  # fmt: skip
            resident = 0
            while process.poll() is None:
                resident = max(resident, _resident(process.pid))
                if time.perf_counter() - begin > seconds_max:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    raise RuntimeError(f"ended after {seconds_max:,.0f} s without a result")
                time.sleep(_LOOK_SECONDS)
            seconds = time.perf_counter() - begin
        if process.returncode:
            raise RuntimeError(f"failed: {_last_line(Path(folder, 'said').read_text(errors='replace'))}")
        kept = {json.loads(line)["id"] for line in _kept(Path(folder))}
    return Run(seconds, resident, kept)


def _resident(session: int) -> int:
    """Resident bytes of all processes of a session, pages that they share counted for each; Linux only."""
    pages = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # a process may end meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            pages += int(fields[21]) if int(fields[3]) == session else 0
    return pages * resource.getpagesize()


def _kept(folder: Path) -> Iterator[str]:
    files = [folder / "kept.jsonl"] if (folder / "kept.jsonl").exists() else sorted((folder / "kept").glob("*.jsonl"))
    parts = (file.read_text(encoding="utf-8").rstrip("\n").split("\n") for file in files)
    return filter(None, chain.from_iterable(parts))


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no word")[:120]


def row_of(name: str, version: str, documents: Sequence[Document], truth: dict[str, Pairs], done: Run) -> str:
    """The row of a program: its cost, and what it kept and dropped against the exact pairs of each kind, if given.

    A pair of near-duplicates is *left* if both are kept. A dropped document is *below* a similarity if no kept document
    has it with this one, by either kind of shingle.
    """
    peer = PEERS[name]
    kept = [document.id in done.kept for document in documents]
    near = [[pair for pair, similarity in pairs.items() if similarity >= THRESHOLD] for pairs in truth.values()]
    best = list(map(float, kept))
    for pairs in truth.values():
        for (a, b), similarity in pairs.items():
            for one, other in ((a, b), (b, a)):
                best[one] = max(best[one], similarity * kept[other])
    found = [
        *(f"{sum(kept[a] and kept[b] for a, b in pairs):,} of {len(pairs):,}" for pairs in near),
        *(f"{sum(similarity < bound for similarity in best):,}" for bound in (THRESHOLD, FAR)),
    ] if truth else [""] * 4  # fmt: skip
    cells = (
        f"{peer.title} {version}".strip(), f"{done.seconds:.1f}", f"{done.resident / 1e6:,.0f}",
        lines_typed(peer.script), f"{sum(kept):,}", *found, peer.reasons,
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def rows_of(names: Sequence[str], documents: list[Document], environments: Path, seconds_max: float) -> Iterator[str]:
    """The rows of programs over the same documents; one that cannot run has a row that says why."""
    truth = near_duplicates(documents) if len(documents) <= _TRUTH_DOCUMENTS else {}
    for name in names:
        peer = PEERS[name]
        try:
            environment = installed(name, environments)
            run(name, documents[:_WARM_DOCUMENTS], environment, seconds_max)
            done = run(name, documents, environment, seconds_max)
        except RuntimeError as error:
            said = str(error).replace("|", "/")
            yield f"| {peer.title} | {said} | | {lines_typed(peer.script)} | | | | | | |"
        else:
            yield row_of(name, version_of(name, environment), documents, truth, done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and write them into a document if it is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.typed", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the folders of the sets")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where the programs are installed")
    parser.add_argument("--set", action="append", choices=SETS, help=f"{' and '.join(_TABLES)} by default")
    parser.add_argument("--documents", type=int, help="of each set at most")
    parser.add_argument("--seconds", type=float, default=1800.0, help="a program that takes longer is ended")
    parser.add_argument("--write", type=Path, help="put the tables into this document, as make peers does")
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)}; all by default")
    options = parser.parse_args(arguments)
    if unknown := set(options.peers) - set(PEERS):
        parser.error(f"no program {min(unknown)!r}: name some of {', '.join(PEERS)}")
    for name in options.set or _TABLES:
        lines = list(HEAD)
        documents = SETS[name](options.data)[: options.documents]
        for row in rows_of(options.peers or list(PEERS), documents, options.environments, options.seconds):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            lines.append(row)
        if options.write:
            document = options.write.read_text(encoding="utf-8")
            options.write.write_text(between(document, f"peers-{name}", lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
