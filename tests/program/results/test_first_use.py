"""What a new user of the library and of its examples tries first."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from command import COMMAND, ROOT, Run, clean_environment, without_compilation


class Site(BaseHTTPRequestHandler):
    """One page without links."""

    def do_GET(self) -> None:
        body = b"<html><title>harbour</title><p>The harbour is open again, and the ferries run as before.</p></html>"
        self.send_response(200 if self.path == "/" else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing is shown."""


def test_a_crawl_keeps_its_pages_when_the_service_is_away(tmp_path: Path) -> None:
    """The example lost every page if no service answered; its first lines promise the opposite."""
    with socket.socket() as closed, HTTPServer(("127.0.0.1", 0), Site) as server:
        closed.bind(("127.0.0.1", 0))  # and does not listen: no other process takes the port
        port = closed.getsockname()[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            example = ROOT / "docs" / "examples" / "crawl.py"
            command = [sys.executable, example, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{server.server_port}/"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
        finally:
            server.shutdown()
            thread.join()
    assert [json.loads(line)["title"] for line in done.stdout.splitlines()] == ["harbour"], done.stderr


def test_the_demo_is_one_screen_that_a_person_understands() -> None:
    """``make demo`` wrote 39 lines of refusals and then the paths of licences."""
    examples = ROOT / "docs" / "examples"
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ndemo:")[1].split("\n\n")[0]
    assert recipe.splitlines()[1:] == ["\t@$(BIN)/python docs/examples/demo.py"]
    done = subprocess.run(
        [sys.executable, examples / "demo.py"], capture_output=True, check=False, encoding="utf-8", timeout=600
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, without_compilation(done.stderr.splitlines())) == (0, [])
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 120
    rows = [json.loads(line) for line in (examples / "wire.jsonl").read_text(encoding="utf-8").splitlines()]
    stories = {(row["lang"], row["id"].split("/")[1]) for row in rows}
    assert f"{len(rows)} news texts in 14 languages came in, from 57 sources." in lines
    assert any(line.startswith(f"{len(stories)} were kept and {len(rows) - len(stories)} dropped") for line in lines)
    assert [line.split(":")[0] for line in lines if " sources: " in line] == [
        "  9 sources",
        "  7 sources",
        "  6 sources",
    ]
    assert "[-residents-] {+everybody who lives in one+} of [-both-] {+the two+} towns." in done.stdout


def test_signatures_of_named_tuples_have_types(python: Run) -> None:
    """The reference warned that it could not read them: they were text without the module that explains it."""
    done = python(
        "-c",
        "import inspect; from typing import ForwardRef; from neardup import Document, Explanation\n"
        "names = [p for kind in (Document, Explanation) for p in inspect.signature(kind).parameters.values()]\n"
        "print([p.name for p in names if isinstance(p.annotation, (str, ForwardRef))])",
    )
    assert done.stdout.split() == [b"[]"], done.stderr


def test_advice_names_packages_and_never_an_unregistered_name(python: Run, tmp_path: Path) -> None:
    """``pip install 'neardup[serve]'`` installs whatever a stranger registers as ``neardup``."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    done = python(
        "-c",
        "import importlib.util, os, sys\n"
        "absent = ('feedparser', 'pyarrow', 'starlette', 'w3lib')\n"
        "for name in absent: sys.modules[name] = None\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name in absent else find(name, *more)\n"
        "from neardup_workers.running.cli.app import main\n"
        "for words in ('serve --state s', 'feed http://x/', 'run a.parquet', 'run -'):\n"
        "    os.environ['NEARDUP_CANONICAL_URLS'] = 'on' if words == 'run -' else ''\n"
        "    sys.argv = ['neardup', *words.split()]\n"
        "    main()\n",
    )
    advice = [line.split("pip install ")[1] for line in done.stderr.decode().splitlines() if "pip install " in line]
    wanted = (("starlette", "uvicorn"), ("feedparser", "urllib3"), ("pyarrow",), ("trafilatura", "w3lib"))
    assert len(advice) == len(wanted), done.stderr
    for names, line in zip(wanted, advice, strict=True):
        assert "neardup" not in line
        assert [name for name in names if f"'{name}" not in line] == []
    docs = ROOT / "docs"
    pages = [ROOT / "README.md", *docs.rglob("*.md"), *docs.rglob("*.ipynb")]
    assert [page.name for page in pages if "install 'neardup" in page.read_text(encoding="utf-8")] == []


def test_wrong_arguments_of_the_library_say_so(python: Run) -> None:
    """They ended with an ``AttributeError`` from the inside, or a lock that cannot be pickled."""
    calls = {
        "process([{'id': 'a', 'text': 'b'}])": "a dict is given, but documents are an iterable of neardup.Document",
        "process(Document('a', 'b'))": "one Document is given, but documents are",
        "process(None)": "a NoneType is given, but documents are an iterable",
        "decide(['a'])": "a str is given, but documents are",
        "probe([None])": "a NoneType is given, but documents are",
        "nearest(Document('a', 'b'), 3)": "one Document is given, but documents are",
        "nearest([Document('a', 'b')], '3')": "a str is given, but the number of neighbours is a whole number",
        "remove(['a'])": "a list is given, but an id is a string: call remove for each id",
        "explain('a', 3)": "a int is given, but explain takes two ids or documents",
        "load('window.bin')": "a str is given, but a window is bytes: neardup.load_window takes a path",
        "signer.__class__({})": "a dict is given, but a configuration is a neardup.Config",
        "matcher.__class__(None)": "a NoneType is given, but a configuration is a neardup.Config",
        "matcher.match([Document('a', 'b')])": "a list is given, but a matcher takes what a signer signed",
        "signer.sign([None])": "a NoneType is given, but a signer takes a list of neardup.Document",
        "matcher.remove('a')": "a str is given, but an id of a matcher is UTF-8",
        "__class__(canaries_every='9')": "a str is given, but canaries_every is a whole number",
        "process_table([], text_field=5)": "a int is given, but text_field is the name of a column: text_field='text'",
        "decide_table([], id_field=None)": "a NoneType is given, but id_field is the name of a column: id_field='id'",
        "__class__(now=5)": "a int is given, but now is a function that returns seconds",
        "__class__(now=lambda: None).process([Document('a', 'b')])": "a NoneType is given, but now returns seconds",
        "__class__({'threshold': 0.8})": "a dict is given, but a configuration is a neardup.Config",
        "__reduce_ex__(4)": "cannot be pickled or copied: neardup.save_window writes its window",
    }
    done = python(
        "-c",
        "import sys; from neardup import Deduplicator, Document\n"
        "for call in sys.argv[1:]:\n"
        "    try: print(eval('Deduplicator().' + call))\n"
        "    except Exception as error: print(type(error).__name__, error)\n",
        *calls,
    )
    said = done.stdout.decode().splitlines()
    assert len(said) == len(calls), done.stderr
    wrong = [
        line for line, rule in zip(said, calls.values(), strict=True) if not ("TypeError" in line and rule in line)
    ]
    assert wrong == []


def test_a_command_without_arguments_shows_its_help(neardup: Run) -> None:
    """It was one line of 3 kB, behind the name of the program."""
    for words in ((), ("topics",)):
        done = neardup(*words)
        lines = done.stderr.decode().splitlines()
        assert len(lines) > 5
        assert max(map(len, lines)) <= 100
        assert done.returncode == 2


@pytest.mark.parametrize("command", ["dedup", "run"])
def test_the_bar_shows_in_a_terminal_if_the_output_is_a_file(tmp_path: Path, command: str) -> None:
    """Only results on the same terminal would cut it; it was left out whenever standard output was a terminal."""
    lines = "".join(json.dumps({"id": str(n), "text": f"{n} some words"}) + "\n" for n in range(2000))
    (tmp_path / "in.jsonl").write_text(lines)
    shown = []
    for output in (["-o", "out.jsonl"], []):
        keyboard, screen = os.openpty()
        words = [*COMMAND, command, "in.jsonl", *output]
        terminal = {**clean_environment(), "TERM": "xterm"}
        with subprocess.Popen(words, cwd=tmp_path, stdout=screen, stderr=screen, env=terminal) as run:
            os.close(screen)
            shown.append(b"\x1b[?25l" in b"".join(iter(partial(read, keyboard), b"")))
        os.close(keyboard)
        assert run.returncode == 0
    assert shown == [True, False]


def read(terminal: int) -> bytes:
    """What a terminal shows next; nothing once the program has ended."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def test_scores_in_tables_have_four_digits(python: Run, tmp_path: Path) -> None:
    """Lines had them, Parquet had all digits of a float."""
    code = (
        "import sys; import pyarrow as pa; from pyarrow import parquet\n"
        "words = [f'word{n}' for n in range(60)]\n"
        "texts = [' '.join(words), ' '.join([*words[:-1], 'last'])]\n"
        "parquet.write_table(pa.table({'id': ['a', 'b'], 'text': texts}), 'in.parquet')\n"
        "from neardup_workers.running.cli.app import main\n"
        "sys.argv = 'neardup dedup -q --removed out.parquet -o kept.parquet in.parquet'.split()\n"
        "main()\n"
        "print(*parquet.read_table('out.parquet')['neardup_similarity'].to_pylist())\n"
    )
    done = python("-c", code)
    (score,) = done.stdout.split()
    assert 0.8 < float(score) < 1, done.stderr
    assert len(score) <= len("0.9681")


def test_the_front_page_has_the_order_of_a_reader() -> None:
    """What it is and how it is used comes first; it broke off for tables of benchmarks before Kafka."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")] == [
        "Install", "A session", "Over HTTP", "On Kafka", "In Python", "How it works", "Schemes", "Limits",
        "Compared with other libraries",
    ]  # fmt: skip


def test_another_setting_is_named_where_a_fingerprint_differs(neardup: Run, python: Run, tmp_path: Path) -> None:
    """It showed two fingerprints of 32 digits, and not the setting to change."""
    line = b'{"id": "a", "text": "a text of some words"}\n'
    kept = neardup("run", "--threshold", ".7", "--window-seconds", "60", "--keep", "w", "-", stdin=line)
    done = neardup("run", "--window-from", "w", "--k", "6", "-", stdin=line)
    assert (kept.returncode, done.returncode) == (0, 9)
    assert b"(k is 6, but was the default; threshold is 0.8, but was 0.7)" in b" ".join(done.stderr.split())
    code = (
        "import sys; from pathlib import Path\n"
        "from neardup_workers.outside.store.log import Log\n"
        "from neardup_workers.outside.settings.serve import ServeSettings\n"
        "for seed in (1, 2):\n"
        "    config = ServeSettings(seed=seed)\n"
        "    Log(Path('state'), {'signing': config.signing_fingerprint}, 'normal', config=config).close()\n"
    )
    done = python("-c", code)
    assert b"with another signing (seed is 2, but was 1): start with the settings" in done.stderr
