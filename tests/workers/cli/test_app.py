"""The command line: help, exit codes, and one sentence for each impossible request."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from command import COMMAND, ROOT, clean_environment

from neardup.features.texts.normalize import FOLDS
from neardup.pairs.json_lines import UNITS
from neardup.schemes.config import _CHOICES
from neardup.schemes.declared import LibraryOptions
from neardup.schemes.rows import SCHEMES
from neardup.stories.sources.ledger import SOURCES_MAX
from neardup_workers.outside.process.exits import MEANINGS, Exit
from neardup_workers.outside.settings import option_name
from neardup_workers.outside.settings.declared import (
    GIVEN_OTHERWISE,
    GROUPS,
    ReadingOptions,
    helps_of_all_commands,
    setting_rows,
)
from neardup_workers.outside.settings.files import _VALUES, WINDOW_MOST, Settings, with_file_window
from neardup_workers.outside.settings.kafka import FeedSettings
from neardup_workers.outside.settings.serve import ViewSettings
from neardup_workers.running.cli.app import app
from neardup_workers.running.cli.options import OPTIONS_MAX, TYPED
from neardup_workers.running.cli.sections import LINE_CHARACTERS_MAX, SECTIONS

GROUP = typer.main.get_command(app)
COMMANDS = dict(GROUP.commands)
# A file whose last line is refused, which a command reports as soon as it reads.
NEWS = str(ROOT / "docs/examples/news.jsonl")


def params(name):
    command = COMMANDS[name]
    return command.get_params(command.make_context(name, [], resilient_parsing=True))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_has_its_help(name):
    """A sentence for the command, a description for each option."""
    assert COMMANDS[name].help
    assert [param.name for param in params(name) if not getattr(param, "help", None)] == []


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("run", (LibraryOptions, ReadingOptions)),
        ("probe", (LibraryOptions, ReadingOptions)),
        ("tune", (LibraryOptions,)),
    ],
)
def test_a_typed_setting_is_an_option_of_the_same_name(name, groups):
    """The option shows the setting's own sentence; a switch also has a negative form. Others have no option."""
    options = {option: param for param in params(name) for option in param.opts}
    for row in (row for group in groups for row in setting_rows(group)):
        assert row.help
        if row.name in TYPED:
            assert options[option_name(row.name)].help == row.help
            if row.kind == "switch":
                assert options[option_name(row.name)].secondary_opts == ["--no-" + option_name(row.name)[2:]]
    assert "--rows-max" not in options
    assert ("--bands" in options) == (name == "tune")


def test_every_setting_of_a_model_is_declared():
    """Others are secrets, and what has an option of another name; each value that a setting may have is in its help."""
    declared = {row.name: row for group in GROUPS for row in setting_rows(group)}
    models = ViewSettings.model_fields | FeedSettings.model_fields
    assert models.keys() - declared.keys() - GIVEN_OTHERWISE.keys() == {"start", "token", "webhook_secret"}
    assert declared.keys() <= models.keys()
    named = {**_CHOICES, **_VALUES, "fold": lambda: FOLDS}
    for name in named.keys() - {"languages"}:
        words = re.findall(r"[\w-]+", declared[name].help)
        assert [value for value in named[name]() if value is not None and str(value) not in words] == []
    assert models["sources_max"].default == SOURCES_MAX
    assert UNITS.keys() == set(_VALUES["timestamp_unit"]())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns_and_cuts_no_name(name):
    """It is one page: a command has at most forty options."""
    command = COMMANDS[name]
    shown = command.get_help(command.make_context(name, [], resilient_parsing=True, terminal_width=80))
    assert max(map(len, shown.splitlines())) <= 80
    assert "<bool>" not in shown
    options = [option for param in params(name) for option in param.opts if option.startswith("--")]
    assert [option for option in options if not re.search(rf"{option}\b(?!-)", shown)] == []
    assert len(options) <= OPTIONS_MAX


def test_every_typed_setting_is_one():
    """The table names settings; the scheme stands first in the help, because most others depend on it."""
    shown = [param.name for param in params("run") if param.name in TYPED]
    assert shown[0] == "scheme"
    assert {row.name for group in GROUPS for row in setting_rows(group)} >= TYPED


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--set", "rows_max=64", "--set", "fold=none"], Exit.SUCCESS, ""),
        (["--rows-max", "64"], Exit.USAGE, "give --set rows_max=VALUE, NEARDUP_ROWS_MAX, or rows_max in neardup.toml"),
        (["--no-line-ids"], Exit.USAGE, "--no-line-ids is a setting without an option: give --set line_ids=VALUE"),
        (["--set", "rows_mx=64"], Exit.USAGE, "unknown setting rows_mx in --set; did you mean rows_max?"),
        (["--set", "collection_field=c"], Exit.USAGE, "of the library alone: give --fields collection=NAME"),
        (["--set", "shards=64"], Exit.USAGE, "unknown setting shards in --set; neardup settings prints those"),
        (["--set", "rows_max"], Exit.USAGE, "--set rows_max gives no value: write NAME=VALUE"),
        (["--set", "rows_max=many"], Exit.USAGE, "rows_max"),
    ],
)  # fmt: skip
def test_a_setting_without_an_option_is_given_by_name(neardup, tmp_path, arguments, code, sentence):
    """Its former option is refused with the sentence that names the way."""
    done = neardup("run", "--quiet", *arguments, stdin=b'{"text": "one"}\n')
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr.decode()


def test_settings_prints_each_setting_with_its_value_and_origin(neardup, tmp_path):
    """As a file of settings in which only what is set counts."""
    (tmp_path / "neardup.toml").write_text('preset = "news"\nrecall = 0.9\n')
    shown = neardup("settings", environment={"NEARDUP_THRESHOLD": ".7", "NEARDUP_TOKEN": "hidden"}).stdout.decode()
    lines = shown.splitlines()
    assert {"threshold = 0.7  # the environment, default 0.8", "recall = 0.9  # neardup.toml, default 0.95"} <= set(
        lines
    )
    assert "window_seconds = 172800.0  # preset news" in lines
    assert "# bands =  # no value" in lines
    assert "hidden" not in "".join(line for line in lines if "token" in line)
    names = set(ViewSettings.model_fields | FeedSettings.model_fields) - GIVEN_OTHERWISE.keys()
    sentence = lines[lines.index("# window_documents = 1000000  # default") - 1]
    assert sentence.endswith("(default 1000000; of run, dedup and probe, what half of the free memory holds)")
    assert {found[1] for line in lines if (found := re.match(r"(?:# )?(\w+) = ", line))} >= names
    assert tomllib.loads(shown)["recall"] == 0.9
    only = neardup("settings", "rows-max").stdout.decode().splitlines()
    assert [line.split(" = ")[0] for line in only[1::2]] == ["# rows_max"]


def test_settings_shows_what_commands_read(neardup, tmp_path):
    """Durations in seconds, options of a scheme from all sources together, a wrong value as it is."""
    (tmp_path / "neardup.toml").write_text('scheme = "records:bands=16,keys=email"\n')
    environment = {
        "NEARDUP_LATENESS_SECONDS": "6h",
        "NEARDUP_SCHEME": "records:keys=phone,name",
        "NEARDUP_PORT": "many",
    }
    shown = neardup("settings", environment=environment).stdout.decode().splitlines()
    assert {line for line in shown if " = " in line and line[0] != "#"} == {
        'scheme = "records:keys=phone,name,bands=16"  # neardup.toml, the environment, default "one_permutation"',
        "lateness_seconds = 21600.0  # the environment, default 0.0",
        'port = "many"  # the environment, default 8470',
    }
    named = neardup("settings", "near-duplicates", environment={"NEARDUP_SCHEME": "minhash"}).stdout.decode()
    assert 'scheme = "minhash"' in named
    clock = neardup("settings", "clock").stdout.decode().splitlines()[0]
    assert re.search("^# Service: .*default arrival.*; Feeds: the time of an item", clock)
    assert neardup("settings", "health_port").stdout.decode().splitlines()[1] == "# health_port = 9464  # default"


def test_no_option_is_repeated():
    """Options of commands and settings do not collide."""
    for name in COMMANDS:
        options = [option for param in params(name) for option in (*param.opts, *param.secondary_opts)]
        assert len(options) == len(set(options))


@pytest.mark.processes
@pytest.mark.parametrize("arguments", [["--help"], ["run", "-h"], ["up", "--help"], ["settings", "--help"]])
def test_help_loads_neither_compiler_nor_library(arguments):
    """Help does not wait for a compiler."""
    code = (
        "import sys; from neardup_workers.running.cli.app import main\n"
        "main(); sys.stderr.write(str('numba' in sys.modules or 'neardup.deduplicator' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        check=True,
        env=clean_environment(),
        cwd=ROOT,
        text=True,
    )
    assert done.stderr == "False"


def test_the_help_lists_each_command_with_a_line_that_is_whole(neardup):
    """In sections, what people use each day first; no line is cut or wrapped."""
    rows = {name: line for section in SECTIONS.values() for name, line in section.items()}
    assert set(rows) == set(COMMANDS)
    shown = neardup("--help").stdout.decode()
    for name, line in rows.items():
        assert len(line) <= LINE_CHARACTERS_MAX
        assert re.search(rf"^  {name} +{re.escape(line)}$", shown, re.M)
    assert "..." not in shown.partition("Commands:")[2]


def test_the_exit_codes_have_a_page_of_their_own(neardup):
    """``neardup help exit-codes`` explains each; the help of a command names the page."""
    shown = " ".join(neardup("help", "exit-codes").stdout.decode().split())
    for exit_code, meaning in MEANINGS.items():
        assert f"{exit_code.value} {exit_code.name.lower()}: {meaning}" in shown
    for arguments in (["--help"], ["run", "--help"]):
        shown = neardup(*arguments).stdout.decode()
        assert "neardup help exit-codes" in shown
        assert Exit.FENCED.name.lower() not in shown


def test_the_schemes_have_a_page_with_their_options(neardup):
    """``neardup help schemes`` has each scheme with its guarantee, and each option as it is typed; settings name it."""
    shown = neardup("help", "schemes").stdout.decode().split("\n\n")
    pages = {paragraph.partition(":")[0]: paragraph for paragraph in shown}
    for name, scheme in SCHEMES.items():
        first, *rows = pages[name].splitlines()
        assert first == f"{name}: {scheme.guarantee}"
        assert [re.match(r"  (\w+)(=\S+)?  (.+)", row)[1] for row in rows] == list(scheme.options.model_fields)
    assert "  bands=16  bands of a field" in pages["records"]
    assert "  templates=FILE  texts that" in pages["passages"]
    assert b"neardup help schemes" in neardup("settings", "scheme").stdout


def test_help_of_a_command_is_what_its_option_shows(neardup):
    """Also of a command within a group; an unknown name is refused."""
    assert neardup("help", "topics", "create").stdout == neardup("topics", "create", "--help").stdout
    assert neardup("help").stdout == neardup("--help").stdout
    assert neardup("help", "walk").returncode == Exit.USAGE


def test_a_default_of_the_help_says_where_files_have_another():
    """A command that reads files changes the defaults of ``WINDOW_MOST``, and no others."""
    settings = Settings()
    lifted = with_file_window(settings)
    changed = {name for name in Settings.model_fields if getattr(settings, name) != getattr(lifted, name)}
    assert changed == set(WINDOW_MOST)
    assert {name for name, text in helps_of_all_commands().items() if "half of the free memory" in text} == changed


def test_every_exit_code_has_a_meaning():
    """The list contains no other code."""
    assert list(MEANINGS) == list(Exit)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["run", "missing"], Exit.INPUT, "cannot read missing: No such file or directory"),
        (["run", ""], Exit.INPUT, "cannot read '': No such file or directory"),
        (["probe", "--index", "missing", "."], Exit.INPUT, "cannot read missing: No such file or directory"),
        (["run", ".", "--rejects", "no/where"], Exit.OUTPUT, "cannot write the rejects to no/where: No such file"),
        (["run", NEWS, "--keep", "no/where"], Exit.OUTPUT, "cannot write the window to no/where: No such file"),
        (["dedup", NEWS, "--summary-json", "."], Exit.OUTPUT, "cannot write the summary to .: Is a directory"),
        (["batch", ".", "--engine", "x"], Exit.USAGE, "Invalid value 'x' for '--engine': 'x' is not one of"),
        (["run", "--treshold", "1"], Exit.USAGE, "No such option: --treshold"),
        (["run", "--threshold", "7", "."], Exit.USAGE, "threshold=7.0: "),
        (["run", "--threshold", "80%", "."], Exit.USAGE, "Invalid value '80%' for '--threshold': it should be a valid"),
        (["size", "--rate", "inf", "--window", "1h"], Exit.USAGE, "'--rate': it should be less"),
        (["topics", "shards", "many"], Exit.USAGE, "topics shards --help shows what there is"),
        (["up", "--signers", "0", "--matchers", "0"], Exit.USAGE, "up has no worker to run, for each role has 0: "),
        (["run", "--shingles", "chers", "."], Exit.USAGE, "did you mean 'chars'?"),
        (["run", "--follow", "."], Exit.USAGE, "--follow continues with the last path, but . is no plain file"),
        (["probe", "."], Exit.USAGE, "Missing option '--index'"),
        (["walk"], Exit.USAGE, "No such command 'walk'"),
        (["tune", "--plot", "x.gif"], Exit.USAGE, "--plot x.gif ends in .gif, but must end in .svg or .png"),
        (["tune", "--plot", "no/x.svg"], Exit.OUTPUT, "cannot write the picture to no/x.svg: No such file"),
    ],
)
def test_an_impossible_request_ends_at_once_with_one_sentence(neardup, arguments, code, sentence):
    """The command reads and writes nothing."""
    done = neardup(*arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.startswith(b"neardup: ")
    assert sentence in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_the_version_is_the_version_of_the_distribution(neardup):
    """The package has the same version number."""
    assert neardup("--version").stdout.startswith(b"neardup 0.")


@pytest.mark.processes
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [["settings"], ["--version"], ["run", "--help"], ["tune"], ["tune", "--json"]])
def test_what_is_printed_to_a_full_disk_ends_with_one_sentence(words):
    """Also what the parser prints, and tables: it is no bug of the program."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, env=clean_environment(), check=False
        )
    assert done.returncode == Exit.OUTPUT
    assert done.stderr == b"neardup: cannot write to standard output: No space left on device\n"


@pytest.mark.processes
@pytest.mark.parametrize("words", [["settings"], ["tune", "--json"], ["help", "exit-codes"]])
def test_a_reader_who_leaves_ends_what_is_printed_with_success(words):
    """As in ``neardup settings | head``."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        done = subprocess.run(
            [*COMMAND, *words], stdout=closed, stderr=subprocess.PIPE, env=clean_environment(), check=False
        )
    assert (done.returncode, done.stderr) == (Exit.SUCCESS, b"")
