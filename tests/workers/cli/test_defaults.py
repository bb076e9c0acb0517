"""The defaults that the help of a command shows are those that the command has when nothing is set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from typer.main import get_command

from neardup.features.texts.shingles import SHINGLES
from neardup.schemes.config import Config
from neardup.schemes.rows import SCHEMES
from neardup_workers.outside.options.shared import PATH_KINDS
from neardup_workers.outside.process import logs
from neardup_workers.outside.readers.formats import FORMATS
from neardup_workers.outside.settings import load as loading
from neardup_workers.outside.settings.declared import helps_of_all_commands
from neardup_workers.running.cli.app import app
from neardup_workers.running.cli.options import ConfigCommand

GROUP = get_command(app)
DEFAULT = re.compile(r" \(default ([^()]*)\)$")
# What a setting of a scheme needs besides it.
NEEDED = {
    "hyperplane": "hyperplane:dimension=64",
    "hyperplane_dot": "hyperplane_dot:dimension=64,norm_max=9",
    "p_stable": "p_stable:dimension=64,distance_scale=9",
    "bit_sampling": "bit_sampling:dimension=64",
    "signals": "signals:title=.6",
}


class Loaded(Exception):
    """The settings of a command, instead of its work."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings


def commands(command: Any = GROUP, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the commands that have settings."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))
    if isinstance(command, ConfigCommand):
        yield path


def command_at(path: tuple[str, ...]) -> Any:
    command: Any = GROUP
    for name in path:
        command = command.commands[name]
    return command


def shown(text: str) -> tuple[str, Mapping[str, str]]:
    """The default that a help names, and those of schemes."""
    found = DEFAULT.search(text)
    if found is None:
        return "", {}
    plain, of_schemes = "", {}
    for part in found[1].split("; "):
        value, named, schemes = part.partition(" with scheme ")
        if named:
            of_schemes |= dict.fromkeys(schemes.split(", "), value)
        elif not part.startswith(("of run", "else ")):
            plain = part
    return plain, of_schemes


def in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_each_default_of_the_help_is_that_of_the_command(path, monkeypatch, tmp_path):
    """``passages`` and ``learn-order`` have a scheme of their own, and so no option for it."""
    from neardup_workers.running.commands.tune import curve

    def loaded(given: Any, file: Any = None, kind: Any = loading.Settings, real: Any = loading.load) -> None:
        raise Loaded(real(given, file, kind))

    monkeypatch.setattr(loading, "load", loaded)
    monkeypatch.setattr(curve, "load", loaded)
    monkeypatch.setattr(logs, "start_log", lambda log_format, worker: None)  # of the whole process
    monkeypatch.chdir(tmp_path)
    command = command_at(path)
    params = command.get_params(command.make_context("x", [], resilient_parsing=True))
    needed = [word for param in params if param.required for word in [*[o for o in param.opts[:1] if o[0] == "-"], "1"]]
    needed += ["--window-seconds", "1d"] if any(param.name == "window_seconds" for param in params) else []
    needed += {"serve": ["--from-kafka"], "passages": ["--templates", "x"], "run": ["-"]}.get(path[0], [])
    with pytest.raises(Loaded) as caught:
        GROUP.main([*path, *needed], standalone_mode=False)
    settings = caught.value.settings
    for row in command.rows():
        plain, of_schemes = shown(row.help)
        default = of_schemes.get(settings.scheme, plain)
        if default:
            value = settings.probe_limit if row.name == "probe_candidates_max" else getattr(settings, row.name)
            assert in_words(value) == default, row.name


def test_the_defaults_of_schemes_are_in_the_help():
    """Of a threshold, of the bound on a probe, and of the number of rows of vectors."""
    helps = helps_of_all_commands()
    for scheme in SCHEMES:
        config = Config(scheme=NEEDED.get(scheme, scheme))
        for name in ("threshold", "bucket_candidates_max"):
            plain, of_schemes = shown(helps[name])
            assert str(getattr(config, name)) == of_schemes.get(scheme, plain)
        assert (config.probe_limit is None) == (scheme not in shown(helps["probe_candidates_max"])[1])
        if scheme in NEEDED and scheme not in ("grid", "signals"):
            assert 128 < config.tuning.bands * config.tuning.rows <= 512
    assert helps["probe_candidates_max"].endswith("; else all)")
    assert "of vectors 512 by default" in helps["rows_max"]


def test_the_help_of_k_has_the_length_of_each_shingling():
    """Tokens are not split, so no length is said for them."""
    text = helps_of_all_commands()["k"]
    lengths = {name: SHINGLES[name].k_default for name in ("chars", "scripts", "words", "stopwords", "urls")}
    assert lengths == {"chars": 5, "scripts": 5, "words": 3, "stopwords": 3, "urls": 2}
    assert text.endswith("by default 5 characters, 3 words, 2 parts")


def test_the_help_of_paths_names_each_format():
    """Also those that need an extra."""
    named = {"lines": "JSON Lines", "array": "JSON arrays", "documents": "other files and folders"}
    for name, form in FORMATS.items():
        assert named.get(name, form.endings[0] if form.endings else name) in PATH_KINDS
