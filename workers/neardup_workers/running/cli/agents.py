"""The command ``mcp``. It imports its implementation only when it runs."""

from __future__ import annotations

from neardup_workers.outside.options.running import AgentOptions
from neardup_workers.running.cli.options import Given, check_installed, command_of


@command_of(AgentOptions)
def mcp_command(options: AgentOptions, given: Given) -> None:
    """Give an agent a running service as tools, over standard input and output: check, near, why, stories, passages.

    They read only, unless --allow-add.
    """
    check_installed("mcp", "mcp", "mcp")
    from neardup_workers.running.commands.agents import run

    run(options)
