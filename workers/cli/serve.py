"""The command ``serve``. It imports its implementation only when it runs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from workers.cli.arguments import SettingsFile
from workers.cli.options import given
from workers.process.exits import Exit, Failure


def serve_command(
    ctx: typer.Context,
    state: Annotated[
        str, typer.Option("--state", metavar="FOLDER", help="where the window is kept; made if it does not exist")
    ],
    config: SettingsFile = None,
) -> None:
    """Answer over HTTP whether a document is new or a near-duplicate, with a window that survives restarts.

    POST /v1/check takes a document as JSON; GET /openapi.json describes all requests.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise Failure(
            Exit.USAGE, f"serve needs {' and '.join(missing)}, not installed here: pip install 'neardup[serve]'"
        )
    from workers.http.server import serve
    from workers.settings.load import load
    from workers.settings.serve import ServeSettings

    raise typer.Exit(serve(load(given(ctx), config, ServeSettings), state))
