"""What a new user of the library and of its examples tries first."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from program import Program


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


def test_a_crawl_keeps_its_pages_when_the_service_is_away(program: Program, tmp_path: Path) -> None:
    """The example lost every page if no service answered; its first lines promise the opposite."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with HTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            example = program.tree / "docs" / "examples" / "crawl.py"
            command = [program.python, example, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{server.server_port}/"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
        finally:
            server.shutdown()
            thread.join()
    assert [json.loads(line)["title"] for line in done.stdout.splitlines()] == ["harbour"], done.stderr


def test_the_package_says_its_names_and_its_version(program: Program) -> None:
    """``dir(neardup)`` showed none of the public names, and there was no ``__version__``."""
    done = program.code("print(set(neardup.__all__) <= set(dir(neardup)), neardup.__version__[:2])")
    assert done.stdout.split() == [b"True", b"0."], done.stderr


def test_signatures_of_named_tuples_have_types(program: Program) -> None:
    """``make api`` warned that it could not read them: they were text without the module that explains it."""
    done = program.code(
        "import inspect; from typing import ForwardRef; from neardup import Document, Explanation\n"
        "names = [p for kind in (Document, Explanation) for p in inspect.signature(kind).parameters.values()]\n"
        "print([p.name for p in names if isinstance(p.annotation, (str, ForwardRef))])"
    )
    assert done.stdout.split() == [b"[]"], done.stderr
