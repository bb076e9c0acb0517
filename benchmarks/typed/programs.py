"""The programs: the script of each, its environment, which is made where it is missing, one run of it, and tables.

Each program is what its user types (``benchmarks/typed/scripts``). It reads ``texts.jsonl`` and writes what it keeps.
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
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from benchmarks.labelled.__main__ import DATA, between
from neardup import Document

_HERE = Path(__file__).resolve().parent
ENVIRONMENTS = _HERE.parents[1] / "build" / "peers"
THRESHOLD = "0.8"  # of scripts that name one
_LOOK_SECONDS = 0.05  # between two looks at the memory


class Peer(NamedTuple):
    """A program: its script, and what pip installs for it.

    ``first``: of documents that are alike it keeps the first, not any of them. ``settings`` say in words what it
    sets. ``threshold`` stands in the place of ``THRESHOLD`` in the script.
    """

    title: str
    script: str
    packages: tuple[str, ...] = ()
    first: bool = True
    settings: str = ""
    threshold: str = THRESHOLD


_DATATROVE = ("datatrove[io,processing]", "spacy")
PEERS: dict[str, Peer] = {
    "neardup": Peer("neardup", "neardup.sh"),
    "neardup-exact": Peer("neardup, exact scores", "neardup_exact.sh"),
    "text-dedup": Peer("text-dedup, MinHash", "text_dedup.sh", ("text-dedup",), first=False),
    "datatrove": Peer("datatrove, MinHash", "dedup_datatrove.py.txt", _DATATROVE),
    "datatrove-sentences": Peer("datatrove, sentences", "sentences_datatrove.py.txt", _DATATROVE),
    "datasketch": Peer("datasketch", "dedup_datasketch.py.txt", ("datasketch",)),
    "rensa": Peer("rensa", "dedup_rensa.py.txt", ("rensa",)),
    "fastsketchlsh": Peer("FastSketchLSH", "dedup_fastsketchlsh.py.txt", ("fastsketchlsh",)),
    "duckdb": Peer("DuckDB, MinHash in SQL", "dedup_duckdb.py.txt", ("duckdb",)),
    "semhash": Peer("SemHash", "dedup_semhash.py.txt", ("semhash", "wordllama")),
}


class Run(NamedTuple):
    """What a program did: seconds by the clock, most bytes of its processes together, ids that it kept, seconds of
    processor time of all its processes."""

    seconds: float
    resident: int
    kept: set[str]
    processor: float = 0.0


def parsed(
    parser: argparse.ArgumentParser, programs: Mapping[str, Peer], arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Add the options of every table of programs to a parser, and parse; ``names`` are those of the programs."""
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the folders of the sets")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where the programs are installed")
    parser.add_argument("--seconds", type=float, default=1800.0, help="a program that takes longer is ended")
    parser.add_argument("--write", type=Path, help="put the table into this document, as make does")
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=f"of {', '.join(programs)}; all by default")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(programs):
        parser.error(f"no program {min(unknown)!r}: name some of {', '.join(programs)}")
    options.names = options.names or list(programs)
    return options


def print_table(options: argparse.Namespace, name: str, head: Sequence[str], rows: Iterable[str]) -> None:
    """Print rows as they come, and put the table into the document that is asked for, between the marks of a name."""
    lines = list(head)
    for row in rows:
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
        lines.append(row)
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        options.write.write_text(between(document, name, lines), encoding="utf-8")


def lines_typed(script: str) -> int:
    """Lines of a script that are neither empty nor its docstring."""
    lines = (_HERE / "scripts" / script).read_text(encoding="utf-8").splitlines()
    return sum(bool(line.strip()) and not line.startswith('"""') for line in lines)


def installed(peer: Peer, environments: Path) -> tuple[str, Path]:
    """The title of a program with its version, and the folder of the commands of its environment.

    Raises:
        RuntimeError: it cannot be installed; the message has the last line of pip.
    """
    environment = _environment(peer, environments)
    return f"{peer.title} {_version_of(peer, environment)}".strip(), environment


def _environment(peer: Peer, environments: Path) -> Path:
    """The folder of the commands of an environment, which is made where it is missing."""
    if not peer.packages:
        return Path(sys.executable).parent
    folder = environments / peer.packages[0].split("[")[0]
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *peer.packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"cannot be installed: {_last_line(done.stderr)}")
        (folder / "ready").touch()
    return folder / "bin"


def _version_of(peer: Peer, environment: Path) -> str:
    """The version of what pip installed for a program; empty for the one of this tree."""
    if not peer.packages:
        return ""
    code = f"import importlib.metadata as m; print(m.version({peer.packages[0].split('[')[0]!r}))"
    done = subprocess.run([str(environment / "python"), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run(peer: Peer, documents: Sequence[Document], environment: Path, seconds_max: float) -> Run:
    """Run a program over documents. Raises ``RuntimeError`` if it fails or takes too long."""
    script = _HERE / "scripts" / peer.script
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "texts.jsonl").write_text("".join(map(_line, documents)), encoding="utf-8")
        # Under another name: a script that is called as its library would import itself.
        typed = Path(folder, "typed").with_suffix(".sh" if script.suffix == ".sh" else ".py")
        code = script.read_text(encoding="utf-8").replace(THRESHOLD, peer.threshold)
        typed.write_text(code, encoding="utf-8")
        with Path(folder, "said").open("wb") as said:
            looked: dict[str, int] = {}
            begin, waited = time.perf_counter(), _waited()
            process = subprocess.Popen(
                ["sh" if typed.suffix == ".sh" else environment / "python", typed],
                cwd=folder, stdout=said, stderr=said, start_new_session=True,
                env=os.environ | {
                    "PATH": f"{environment}{os.pathsep}{os.environ['PATH']}", "HF_HOME": folder,
                    "HF_HUB_OFFLINE": "1",
                    "PYTHONDONTWRITEBYTECODE": "",  # users keep what is compiled
                },
            )  # fmt: skip
            resident = 0
            while process.poll() is None:
                resident = max(resident, _looked_at(process.pid, looked))
                if time.perf_counter() - begin > seconds_max:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    raise RuntimeError(f"ended after {seconds_max:,.0f} s without a result")
                time.sleep(_LOOK_SECONDS)
            seconds = time.perf_counter() - begin
            processor = max(_waited() - waited, sum(looked.values()) / os.sysconf("SC_CLK_TCK"))
        if process.returncode:
            raise RuntimeError(f"failed: {_last_line(Path(folder, 'said').read_text(errors='replace'))}")
        kept = {json.loads(line)["id"] for line in _kept(Path(folder))}
    return Run(seconds, resident, kept, processor)


def _waited() -> float:
    """Seconds of processor time of all processes that this one waited for, with those that they waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _line(document: Document) -> str:
    row = {"id": document.id, "text": document.text, "timestamp": document.timestamp}
    return json.dumps({name: value for name, value in row.items() if value is not None}, ensure_ascii=False) + "\n"


def _looked_at(session: int, used: dict[str, int]) -> int:
    """Resident bytes of all processes of a session, pages that they share counted for each; Linux only.

    ``used`` keeps of each process the ticks of processor time at the last look: a process whose parent ended before it
    is waited for by no process of the session.
    """
    pages = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # a process may end meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                pages += int(fields[21])
                used[stat.parent.name] = int(fields[11]) + int(fields[12])
    return pages * resource.getpagesize()


def _kept(folder: Path) -> Iterator[str]:
    files = [folder / "kept.jsonl"] if (folder / "kept.jsonl").exists() else sorted((folder / "kept").glob("*.jsonl"))
    parts = (file.read_text(encoding="utf-8").rstrip("\n").split("\n") for file in files)
    return filter(None, chain.from_iterable(parts))


def _last_line(text: str) -> str:
    line = next((line for line in reversed(text.splitlines()) if line.strip()), "no word")
    return textwrap.shorten(line, 72, placeholder=" ...")
