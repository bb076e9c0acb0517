"""An agent asks a running service: the client of the official SDK, over standard input and output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from command import clean_environment
from plug_blocks import block_of, needs
from service_world import NEAR, TEXT

from neardup_workers.outside.options.running import AgentOptions

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]
OTHER = "The harvest of apples was smaller than in the year before, says the union of the farmers of the valley."


@pytest.fixture
def url(start: Any) -> Iterator[str]:
    """The address of a service with two documents of one story, whose texts it keeps."""
    needs("mcp")
    process = start(
        "serve", "--state", "window", "--port", "0", "--keep-texts", "--clock", "arrival", "--threshold", "0.6"
    )
    line = next(line for line in process.stderr if b"serving on" in line)
    yield line.decode().split()[-1]
    process.terminate()
    process.wait()


def asked(
    url: str, *calls: tuple[str, dict[str, Any]], options: tuple[str, ...] = ()
) -> tuple[dict[str, Any], list[Any]]:
    """The tools that there are, by name; and the answer to each call, or the sentence of its error."""
    import anyio
    from mcp import Client, StdioServerParameters, stdio_client

    (command, words) = json.loads(block_of("mcpServers", "json"))["mcpServers"]["neardup"].values()
    assert (command, words[:2]) == ("neardup", ["mcp", "--url"])
    arguments = ["-m", command, *words[:2], url, *options]
    program = StdioServerParameters(command=sys.executable, args=arguments, env=clean_environment())

    async def answers() -> tuple[dict[str, Any], list[Any]]:
        async with Client(stdio_client(program)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            found = [await client.call_tool(name, values) for name, values in calls]
            texts = [one.content[0].text for one in found]  # type: ignore[union-attr]
            return tools, [text if one.is_error else json.loads(text) for one, text in zip(found, texts, strict=True)]

    return anyio.run(answers)


def test_an_agent_looks_up_what_is_there_and_adds_only_if_allowed(url: str) -> None:
    """Each tool answers as the request of the service does; a sentence says why one cannot."""
    add = [("check", {"text": text, "id": id_, "add": True}) for id_, text in (("a", TEXT), ("b", NEAR))]
    tools, answers = asked(url, *add, options=("--allow-add",))
    assert [(one["added"], one["status"], one["duplicate_of"]) for one in answers] == [
        (True, "original", None), (True, "duplicate", "a"),
    ]  # fmt: skip
    assert not tools["check"].annotations.read_only_hint
    tools, answers = asked(
        url,
        ("check", {"text": TEXT + " Really."}),
        ("check", {"text": OTHER, "add": True}),
        ("near", {"id": "a"}),
        ("why", {"a": "a", "b": "b"}),
        ("stories", {"query": "rain"}),
        ("stories", {"cluster": 0}),
        ("passages", {"text": OTHER + TEXT, "id": "a"}),
        ("near", {"id": "nowhere/else"}),
        ("check", {"text": OTHER}),
    )
    looked, _, near, why, stories, story, passages, unknown, other = answers
    assert set(tools) == {"check", "near", "why", "stories", "passages"}
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools.values())
    assert "add" not in tools["check"].input_schema["properties"]
    assert (looked["added"], sorted(pair["id"] for pair in looked["pairs"])) == (False, ["a", "b"])
    assert [pair["id"] for pair in near["pairs"]] == ["b"]
    assert why["reason"] == "pair"
    assert [(one["cluster"], one["size"]) for one in stories["clusters"]] == [(0, 2)]
    assert [one["id"] for one in story["members"]] == ["a", "b"]
    assert any(piece["kind"] == "both" and "ferries" in piece["text"] for piece in passages["passages"])
    assert "404" in unknown
    assert (other["added"], other["pairs"]) == (False, [])


def test_a_service_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent sees the sentence, and goes on."""
    needs("mcp")
    from mcp.server.mcpserver.exceptions import ToolError

    from neardup_workers.running.commands.agents import asked as ask

    with pytest.raises(ToolError, match=r"does not answer: .* is neardup serve running"):
        ask("http://127.0.0.1:9", "GET", "/v1/clusters")
    assert not AgentOptions().allow_add
