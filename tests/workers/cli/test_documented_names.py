"""The settings, options and names that README and docs use are those of the program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import ROOT
from import_path import ROOTS
from typer.main import get_command

from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.settings.kafka import FeedSettings
from neardup_workers.outside.settings.serve import ViewSettings
from neardup_workers.running.cli.app import app

# The changelog names what there was.
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "CHANGELOG.md"),
]
# Pages about the code: their names are names of the code.
OF_CODE = ("CONTRIBUTING.md", "ARCHITECTURE.md", "GLOSSARY.md", "MACHINE_CODE.md")
# Options and variables of other programs that the pages start.
FOREIGN = {
    "--alter", "--build-arg", "--command-config", "--detach", "--into", "--kills", "--no-deps", "--only",
    "--partitions", "--profile", "--project-name", "--seconds", "--topic", "NEARDUP_KEY", "NEARDUP_KERNELS",
    "NEARDUP_MACHINE_CODE",
}  # fmt: skip
# Of Zstandard, and of the programs of Kafka that plan prints.
FOREIGN_IN_MESSAGES = {
    "--long",
    "--add-config",
    "--alter",
    "--bootstrap-server",
    "--entity-name",
    "--entity-type",
    "--members",
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Sets of data, and names of other programs.
DATA = {
    "favor_precision",
    "irplag_java",
    "itemsets_fimi",
    "html_articles",
    "itn_multilingual",
    "runbook_url",
    "client_internals",
}


@cache
def names() -> set[str]:
    """The strings of the code, of files of settings and of schemas that are names, and the functions that there are."""
    endings = (".py", ".json", ".js", ".yml", ".yaml", ".toml", ".html")
    folders = (*ROOTS, "tests", "deploy", "docs/schemas")
    files = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in endings)
    return {
        name
        for path in files
        if path != Path(__file__)
        for pair in re.findall(r"[\"'](\w+)[\"':]|\bdef (\w+)\(", path.read_text(encoding="utf-8"))
        for name in pair
    }


@cache
def settings() -> set[str]:
    return {name for model in (ViewSettings, FeedSettings) for name in model.model_fields} | options_of_schemes()


@cache
def options_of_schemes() -> set[str]:
    return {name for row in SCHEMES.values() for name in row.options.model_fields}


@cache
def options_by_command() -> dict[tuple[str, ...], set[str]]:
    """The options of each command, which has the name of its group before its own."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], set[str]]]:
        context = command.make_context("x", [], resilient_parsing=True)
        params = command.get_params(context)
        yield path, {option for param in params for option in (*param.opts, *param.secondary_opts)} | {"--help"}
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*path, name))

    return dict(walk(get_command(app), ()))


@cache
def options() -> set[str]:
    return set().union(*options_by_command().values())


def command_of(words: list[str]) -> tuple[str, ...]:
    """The longest beginning of the words that is a command."""
    return max((path for path in options_by_command() if tuple(words[: len(path)]) == path), key=len)


@cache
def advice() -> list[str]:
    """The sentences of the program that name an option; its documentation and one word alone are none."""
    texts = [path.read_text(encoding="utf-8") for folder in ROOTS for path in (ROOT / folder).rglob("*.py")]
    walks = [list(ast.walk(ast.parse(text))) for text in texts if "--" in text]
    bare = {id(node.value) for nodes in walks for node in nodes if isinstance(node, ast.Expr)}
    strings = (node for nodes in walks for node in nodes if isinstance(node, ast.Constant) and id(node) not in bare)
    found = (node.value for node in strings if isinstance(node.value, str))
    return [text for text in found if "--" in text and " " in text]


def written(page: Path) -> Iterator[str]:
    """What a page writes as code: words in backticks, and lines that begin with the command."""
    text = page.read_text(encoding="utf-8")
    yield from re.findall(r"`([^`\n]+)`", text)
    yield from re.findall(r"^ *(?:\$ )?(?:[A-Z_]+=\S+ )*neardup .*$", text, re.M)


def is_name_of_the_program(name: str) -> bool:
    """A setting, a string of the code (a reason, a field of a line), a function that can be called, or a metric."""
    plain = name.removeprefix("neardup_").removesuffix("_total")
    return name in settings() | names() | DATA or (plain != name and plain in names())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_options_and_settings_that_exist(page: Path) -> None:
    """A reader who types them gets no refusal."""
    for code in written(page):
        for option in OPTION.findall(code):
            assert option in options() | FOREIGN, f"{option} in {code!r} is no option of any command"
        for variable in re.findall(r"NEARDUP_[A-Z_]+[A-Z]", code):
            assert variable[8:].lower() in settings() or variable in FOREIGN, f"{variable} is no setting"
        if page.name not in OF_CODE and re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", code):
            assert is_name_of_the_program(code), f"{code} is no setting and nothing that the program writes"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_on_a_page_has_the_options_that_stand_behind_it(page: Path) -> None:
    """Also where it goes on in the next line."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"\bneardup ([a-z][^`\n|>]*)", text):
        command = command_of(line.split())
        for option in OPTION.findall(line) if command else ():
            assert option in options_by_command()[command], f"{' '.join(command)} has no {option}: {line!r}"
    assert set(re.findall(r"--set ([a-z]\w*)=", text)) <= settings()


def test_messages_of_the_program_name_options_that_exist() -> None:
    """What a message advises can be typed. A string that is one word is a part of a command, not a message."""
    advised = {option for text in advice() for option in OPTION.findall(text)}
    assert len(advised) > 30
    assert advised - options() == FOREIGN_IN_MESSAGES
    named = {name for text in advice() for name in re.findall(r"--set ([a-z]\w*)=", text)}
    assert named
    assert named <= settings()


def test_the_front_page_names_settings_and_schemes_only() -> None:
    """What a reader of the README may set; ``score_min`` is a figure of the service, not a setting."""
    names_of_page = {code for code in written(PAGES[0]) if re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", code)}
    assert names_of_page - settings() - set(SCHEMES) == set()
    assert "min_similarity" in names_of_page
    assert "score_min" not in settings()
