"""The image: BuildKit's parser checks its Dockerfile; a worker checks that no kernel is left to compile."""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
import tomllib

import dockerfile
import pytest
from deploy_files import DEPLOY, DOCKERFILE, ROOT
from import_path import SOURCES, folders

from neardup_workers.outside.telemetry.health import Health, HealthAnswer, serve
from neardup_workers.outside.telemetry.metrics import Metrics

COMMANDS = dockerfile.parse_file(str(DOCKERFILE))
STAGES = [place for place, command in enumerate(COMMANDS) if command.cmd == "FROM"]
LAST = COMMANDS[STAGES[-1] :]
# Runs in its own process: compile all kernels of the image, then let both roles work, and list what they compile in
# addition.
WORK = """
import gc, json, sys
import numba.core.registry
import warm_kernels
from neardup_workers.outside.topics.names import MATCH, SIGN
from neardup_workers.outside.telemetry.observer import SILENT
from neardup_workers.running.service.roles import ROLES
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.settings.kafka import LIMITS
from neardup_workers.outside.settings.load import load_stream
from neardup_workers.doing.stages.member import WorkerMember
from memory_transport import MemoryCluster, MemoryTransport

def compiled():
    kinds = numba.core.registry.CPUDispatcher
    kernels = [each for each in gc.get_objects() if isinstance(each, kinds)]
    return {(k.py_func.__module__, k.py_func.__qualname__, str(s)) for k in kernels for s in k.signatures}

assert warm_kernels.main() == 0
before = compiled()
settings = load_stream({"window_seconds": 60.0, "lateness_seconds": 60.0, "shards": 3, "start": "earliest"})
ROLES[SIGN].warm(settings)
cluster, names = MemoryCluster(), names_of(settings)
for topic, partitions in zip(names.topics, (2, 1, 1, 1, 3)):
    cluster.create(topic, partitions)
for second in range(0, 600, 30):
    for number, (key, value) in enumerate(warm_kernels.documents(settings)):
        cluster.append(names.topics.documents, number % 2, value, key, 1000 * (1 + second))
transport = MemoryTransport(cluster)
for _ in range(2):  # the second time, windows are restored
    for role in (ROLES[SIGN], ROLES[MATCH]):
        consumer = transport.consumer(role.topic(names.topics), names.group(role.name), "")
        member = WorkerMember(transport, consumer, transport.producer(role.name), SILENT)
        made = role.make(member, settings, LIMITS)
        for _ in range(20):
            made.worker.turn(0.0, 50)
        made.observe()
        made.trim()
        consumer.close()
pairs = len(cluster.records(names.topics.candidates))
print(json.dumps({"kernels": len(before), "pairs": pairs, "others": sorted(compiled() - before)}))
"""


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


def test_both_stages_have_the_same_python_and_compile_for_the_same_processor():
    """Numba looks kernels up by processor and by the path of their sources."""
    assert len(STAGES) == 2
    assert len({COMMANDS[place].value[0] for place in STAGES}) == 1
    stages = [dict(pairs(of("ENV", part))) for part in (COMMANDS[: STAGES[1]], LAST)]
    assert stages[0]["NUMBA_CPU_NAME"] == stages[1]["NUMBA_CPU_NAME"] == "${KERNEL_CPU}"
    assert stages[0]["NUMBA_CPU_FEATURES"] == stages[1]["NUMBA_CPU_FEATURES"] == '""'
    assert stages[0]["NUMBA_CACHE_DIR"] == stages[1]["NUMBA_CACHE_DIR"]
    copied = {command.value[0]: command.flags for command in of("COPY")}
    assert "--chown=10001:10001" in copied[stages[1]["NUMBA_CACHE_DIR"]]


def test_the_optional_parts_of_the_image_can_be_chosen():
    """By default all that a service or a crawler needs: not the pictures of ``tune``, nor Spark, which needs Java. The
    compiler is always there."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (given,) = (
        command.value[0] for command in of("ARG", COMMANDS[: STAGES[1]]) if command.value[0].startswith("EXTRAS")
    )
    default = given.partition("=")[2]
    assert set(default.split(",")) == extras.keys() - {"jit", "plot", "spark"}
    (install,) = (command.value[0] for command in of("RUN", COMMANDS) if "pip install" in command.value[0])
    for chosen, path in ((default, f".[jit,{default}]"), ("serve", ".[jit,serve]"), ("", ".[jit]")):
        shown = subprocess.run(
            ["sh", "-c", install.replace("/opt/neardup/bin/pip", "printf '%s\\n'")],
            env={**os.environ, "EXTRAS": chosen}, capture_output=True, text=True, check=True,
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


def test_workers_compile_no_kernel_that_is_missing_in_the_image():
    """After the warm-up, signing, matching, restoring, measuring and trimming compile no new kernel."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NEARDUP_", "NUMBA_"))}
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        env={**kept, "PYTHONPATH": os.pathsep.join([SOURCES, str(DEPLOY), *folders("support")])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kernels"] > 10
    assert found["pairs"] > 0
    assert found["others"] == []
