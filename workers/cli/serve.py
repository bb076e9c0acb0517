"""The command ``serve``. It imports its implementation only when it runs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from neardup.workers.cli.arguments import SettingsFile
from neardup.workers.cli.options import given
from neardup.workers.process.exits import Exit, Failure


def serve_command(
    ctx: typer.Context,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="FOLDER", help="where the window is kept; made if it does not exist"),
    ] = None,
    from_kafka: Annotated[
        bool,
        typer.Option(
            "--from-kafka",
            help="show the verdicts of a deployment on Kafka; its settings come from the environment or --config",
        ),
    ] = False,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="of a damaged window, keep the sound rows; the file before stays")
    ] = False,
    config: SettingsFile = None,
) -> None:
    """Answer over HTTP whether a document is new or a near-duplicate, with a window that survives restarts.

    POST /v1/check takes a document as JSON; GET /openapi.json describes all requests.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        from neardup.stream.errors import install_command

        raise Failure(
            Exit.USAGE, f"serve needs {' and '.join(missing)}, not installed here: {install_command('serve')}"
        )
    from neardup.workers.settings.load import load
    from neardup.workers.settings.serve import ServeSettings, ViewSettings

    if from_kafka and salvage:
        raise Failure(Exit.USAGE, "--salvage is for a window: delete a damaged view, the topics fill it again")
    if from_kafka:
        from neardup.workers.http.view.server import serve_view
        from neardup.workers.transport.kafka.connect import connect

        view = load(given(ctx), config, ViewSettings)
        raise typer.Exit(serve_view(view, state, connect(view)))
    if state is None:
        raise Failure(
            Exit.USAGE, "no --state is given: name the folder of the window, or show a deployment --from-kafka"
        )
    others = sorted(given(ctx).keys() - ServeSettings.model_fields.keys())
    if others:
        raise Failure(Exit.USAGE, f"{', '.join(others)} belong to a deployment: leave them out, or add --from-kafka")
    from neardup.workers.http.server import serve

    raise typer.Exit(serve(load(given(ctx), config, ServeSettings), state, salvage=salvage))
