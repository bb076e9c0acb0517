"""The command line: help, exit codes, one sentence for what cannot be."""

import subprocess
import sys

import pytest
import typer
from command import ROOT, clean_environment

from stream.config import Config
from workers.cli.app import app
from workers.process.exits import MEANINGS, Exit
from workers.settings import option_name
from workers.settings.files import Options

GROUP = typer.main.get_command(app)
COMMANDS = dict(GROUP.commands)


def params(name):
    command = COMMANDS[name]
    return command.get_params(command.make_context(name, [], resilient_parsing=True))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_has_its_help(name):
    """A sentence for the command, a description for each option."""
    assert COMMANDS[name].help
    assert [param.name for param in params(name) if not getattr(param, "help", None)] == []


@pytest.mark.parametrize(
    ("name", "models"), [("run", (Config, Options)), ("probe", (Config, Options)), ("tune", (Config,))]
)
def test_every_field_is_an_option_of_the_same_name(name, models):
    """With the field's own description; a switch can be put off too."""
    options = {option: param for param in params(name) for option in param.opts}
    for model in models:
        for field, info in model.model_fields.items():
            assert info.description
            assert options[option_name(field)].help.startswith(info.description)
            if info.annotation is bool:
                assert options[option_name(field)].secondary_opts == ["--no-" + option_name(field)[2:]]


def test_no_option_stands_twice():
    """Options of commands and settings do not collide."""
    for name in COMMANDS:
        options = [option for param in params(name) for option in (*param.opts, *param.secondary_opts)]
        assert len(options) == len(set(options))


def test_the_help_of_the_command_shows_commands_and_exit_codes_without_loading_kernels():
    """Who asks for help does not wait for a compiler."""
    code = (
        "import sys; from workers.cli.app import main\n"
        "try: main()\nfinally: sys.stderr.write(str('numba' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        capture_output=True,
        check=True,
        env=clean_environment(),
        cwd=ROOT,
        text=True,
    )
    assert done.stderr == "False"
    shown = " ".join(done.stdout.split())
    for name in COMMANDS:
        assert name in shown
    for exit_code, meaning in MEANINGS.items():
        assert f"{exit_code.value} {exit_code.name.lower()}: {meaning}" in shown


def test_every_exit_code_has_a_meaning():
    """And only those."""
    assert list(MEANINGS) == list(Exit)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["run", "missing"], Exit.INPUT, "cannot read missing: No such file or directory"),
        (["probe", "--index", "missing", "."], Exit.INPUT, "cannot read missing: No such file or directory"),
        (["run", ".", "--rejects", "no/where"], Exit.OUTPUT, "cannot write the rejects to no/where: No such file"),
        (["run", "--treshold", "1"], Exit.USAGE, "No such option: --treshold"),
        (["run", "--threshold", "7", "."], Exit.USAGE, "threshold=7.0: "),
        (["run", "--shingles", "chers", "."], Exit.USAGE, "did you mean 'chars'?"),
        (["run", "--follow", "."], Exit.USAGE, "--follow continues with the last path, but . is no plain file"),
        (["probe", "."], Exit.USAGE, "Missing option '--index'"),
        (["walk"], Exit.USAGE, "No such command 'walk'"),
        (["tune", "--plot", "x.gif"], Exit.USAGE, "--plot x.gif ends in .gif, but must end in .svg or .png"),
        (["tune", "--plot", "no/x.svg"], Exit.OUTPUT, "cannot write the picture to no/x.svg: No such file"),
    ],
)
def test_what_cannot_be_ends_at_once_with_one_sentence(neardup, arguments, code, sentence):
    """Nothing is written, and nothing read."""
    done = neardup(*arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.startswith(b"neardup: ")
    assert sentence in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_the_version_is_that_of_the_distribution(neardup):
    """A number that the package names as well."""
    assert neardup("--version").stdout.startswith(b"neardup 0.")
