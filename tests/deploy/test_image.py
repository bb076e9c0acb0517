"""The image: BuildKit's parser checks its Dockerfile; the health check runs."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
import tomllib

import dockerfile
import pytest
from deploy_files import DOCKERFILE, ROOT

from neardup_workers.outside.telemetry.health import Health, HealthAnswer, serve
from neardup_workers.outside.telemetry.metrics import Metrics

COMMANDS = dockerfile.parse_file(str(DOCKERFILE))
STAGES = [place for place, command in enumerate(COMMANDS) if command.cmd == "FROM"]
LAST = COMMANDS[STAGES[-1] :]


def of(name, commands=LAST):
    return [command for command in commands if command.cmd == name]


def test_it_runs_as_a_user_without_rights():
    """The last stage sets a numeric unprivileged user, so that Kubernetes can verify that it is not root."""
    assert [command.value for command in of("USER")] == [("10001:10001",)]


def test_the_worker_is_the_first_process():
    """The command has the exec form, so no shell stands between the worker and the signals."""
    (entry,) = of("ENTRYPOINT")
    assert entry.json
    assert entry.value == ("neardup",)
    assert [command.value for command in of("STOPSIGNAL")] == [("SIGTERM",)]


def test_the_image_has_machine_code_and_no_compiler():
    """The first stage compiles and makes the wheel; the last one takes the installed wheel alone, and refuses to start
    without machine code."""
    assert len(STAGES) == 2
    assert len({COMMANDS[place].value[0] for place in STAGES}) == 1
    emitted, built, installed = (command.value[0] for command in of("RUN", COMMANDS[: STAGES[1]])[-3:])
    assert emitted == "/opt/build/bin/python wheel/emit.py made"
    assert (ROOT / "wheel" / "emit.py").exists()
    assert built == "NEARDUP_MADE=/src/made /opt/build/bin/python -m hatchling build --target wheel"
    assert installed.startswith("/opt/neardup/bin/pip install")
    assert [command.value for command in of("COPY")] == [("/opt/neardup", "/opt/neardup")]
    assert dict(pairs(of("ENV")))["NEARDUP_KERNELS"] == "built"
    assert not any(name in command.original for command in LAST for name in ("jit", "gcc", "NUMBA"))


def test_the_optional_parts_of_the_image_can_be_chosen():
    """By default all that a service or a crawler needs: no compiler, no pictures of ``tune``, no model of titles, no
    reader of pictures, and no Spark, which needs Java."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (given,) = (
        command.value[0] for command in of("ARG", COMMANDS[: STAGES[1]]) if command.value[0].startswith("EXTRAS")
    )
    default = given.partition("=")[2]
    assert set(default.split(",")) == extras.keys() - {"jit", "meaning", "pictures", "plot", "spark"}
    install = of("RUN", COMMANDS[: STAGES[1]])[-1].value[0]
    wheel = "dist/neardup-*.whl"
    for chosen, path in ((default, f"{wheel}[{default}]"), ("serve", f"{wheel}[serve]"), ("", wheel)):
        shown = subprocess.run(
            ["sh", "-c", install.replace("/opt/neardup/bin/pip", "printf '%s\\n'")],
            env={**os.environ, "EXTRAS": chosen}, capture_output=True, text=True, check=True, cwd=ROOT / "deploy",
        )  # fmt: skip
        assert shown.stdout.splitlines()[-1] == path


def test_a_builder_without_build_kit_takes_it():
    """Debian 12 has one; it knows no mounts of a step."""
    assert [command.original for command in COMMANDS if "--mount" in command.original] == []


def pairs(commands):
    for command in commands:
        words = [word for word in command.value if word != "="]
        yield from zip(words[::2], words[1::2], strict=True)


def test_everything_that_is_copied_exists_and_is_sent_to_the_builder():
    """Every copied path exists and passes .dockerignore."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line[1:] for line in lines if line.startswith("!")]
    dropped = [line for line in lines if line.startswith("**/")]
    for command in of("COPY", COMMANDS[: STAGES[1]]):
        for source in command.value[:-1]:
            assert (ROOT / source).exists()
            assert source in kept
            assert not any(fnmatch.fnmatch(f"/{source}", pattern[2:]) for pattern in dropped)


@pytest.mark.parametrize("alive", [True, False])
def test_the_health_check_tells_a_live_worker_from_a_dead_one(alive):
    """The command of the image runs against the health server of the workers."""
    (check,) = of("HEALTHCHECK")
    words = list(check.value)[1:]
    assert words[0] == "python"
    health = Health(60.0 if alive else -1.0)
    health.beat(HealthAnswer(True, "turning"))
    port = serve("127.0.0.1", 0, Metrics("sign").registry, health)
    environment = {**os.environ, "NEARDUP_HEALTH_PORT": str(port)}
    done = subprocess.run([sys.executable, *words[1:]], env=environment, capture_output=True, timeout=60, check=False)
    assert (done.returncode == 0) is alive
