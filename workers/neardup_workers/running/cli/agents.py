"""The command ``mcp``. It imports its implementation only when it runs."""

from __future__ import annotations

from importlib.util import find_spec

from neardup_workers.outside.options.running import AgentOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.running.cli.options import Given, command_of


@command_of(AgentOptions)
def mcp_command(options: AgentOptions, given: Given) -> None:
    """Give an agent a running service as tools, over standard input and output: check, near, why, stories, passages.

    They read only, unless --allow-add.
    """
    if find_spec("mcp") is None:
        from neardup.errors import install_command

        raise Failure(Exit.USAGE, f"mcp needs the package mcp, not installed here: {install_command('mcp')}")
    from neardup_workers.running.commands.agents import run

    run(options)
