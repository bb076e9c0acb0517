"""The compose file meets the specification and the rules of this project; Kafka itself checks its part."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import compose_spec
import pytest
from debian_packages import absent
from deploy_files import COMPOSE, ROOT, load, services
from jars import BrokerUnavailableError, find_java, kafka_version, resolve_jars

from neardup.errors import ConfigError
from neardup_workers.doing.http.access.tokens import tokens_of
from neardup_workers.outside.settings.serve import ServeSettings

WORKERS = ("signer", "matcher", "linker", "filter")
LOGGING = """
Configuration:
  Properties:
    Property:
      - {name: pattern, value: "%m%n"}
  Appenders:
    Console: {name: STDOUT, PatternLayout: {pattern: "%m%n"}}
  Loggers:
    Root: {level: INFO, AppenderRef: [{ref: STDOUT}]}
    Logger: [{name: kafka, level: INFO}]
"""


def interpolated():
    """The text with the default values of its variables."""
    return re.sub(r"\$\{\w+:-(\w*)\}", r"\1", COMPOSE.read_text())


def test_it_meets_the_compose_specification():
    """Each field has a valid name, type and value; the networks, volumes and secrets that services use exist."""
    found = compose_spec.PyOptions(apply_merge=True).from_yaml(interpolated())
    found.validate()
    assert set(found.service_names()) == {"kafka", "topics", *WORKERS, "serve", "view", "prometheus", "grafana"}


def test_a_field_that_does_not_exist_would_be_found():
    """The specification check rejects an unknown field."""
    wrong = interpolated().replace("restart: unless-stopped", "restart: sometimes")
    with pytest.raises(ValueError, match="sometimes"):
        compose_spec.PyOptions(apply_merge=True).from_yaml(wrong)


def test_compose_1_29_reads_it():
    """Its schema has these names at the top, and those that begin with x-; later ones have more names."""
    known = {"version", "services", "networks", "volumes", "secrets", "configs"}
    assert {name for name in load(COMPOSE) if not name.startswith("x-")} <= known


def test_ports_are_published_on_loopback_only():
    """Kafka, the services, Prometheus and Grafana publish ports for this machine; workers publish none."""
    published = {name: service.get("ports", []) for name, service in services().items()}
    assert {name for name, ports in published.items() if ports} == {"kafka", "serve", "view", "prometheus", "grafana"}
    every = [port for ports in published.values() for port in ports]
    assert all(port.startswith("127.0.0.1:") for port in every)
    assert len({port.split(":")[1] for port in every}) == len(every), "all can run at the same time"


def test_every_service_that_stays_has_a_health_check_and_starts_again():
    """The image defines the health check of the workers; the service that makes the topics ends."""
    for name, service in services().items():
        if name == "topics":
            assert service["healthcheck"] == {"disable": True}
            assert service["restart"] == "on-failure"
        else:
            assert service["restart"] == "unless-stopped"
            assert name in WORKERS or service["healthcheck"]["test"]


def test_workers_wait_for_their_topics_and_these_for_kafka():
    """The start order is broker, topics, workers."""
    every = services()
    assert every["topics"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
    for name in WORKERS:
        assert every[name]["depends_on"] == {"topics": {"condition": "service_completed_successfully"}}


def test_the_service_needs_a_token_and_nothing_of_kafka():
    """It starts only if it is named, keeps its window on a volume, and does not start without a token."""
    serve = services()["serve"]
    assert (serve["profiles"], serve["depends_on"]) == (["serve"], {})
    assert serve["environment"]["NEARDUP_TOKEN"] == "${SERVE_TOKEN:-}"
    folder = serve["command"][serve["command"].index("--state") + 1]
    assert [volume.split(":")[1] for volume in serve["volumes"]] == [str(Path(folder).parent)]
    with pytest.raises(ConfigError, match="NEARDUP_TOKEN"):
        tokens_of(ServeSettings(host=serve["environment"]["NEARDUP_HOST"]))


def test_the_view_belongs_to_the_stream_and_needs_a_token():
    """It has the settings of the workers, waits for their topics, and keeps its view on a volume of its own."""
    view, serve = services()["view"], services()["serve"]
    assert view["profiles"] == ["view"]
    assert view["depends_on"] == {"topics": {"condition": "service_completed_successfully"}}
    assert services()["matcher"]["environment"].items() <= view["environment"].items()
    added = view["environment"].keys() - services()["matcher"]["environment"].keys()
    assert {name: view["environment"][name] for name in added}.items() <= serve["environment"].items()
    assert {"NEARDUP_HOST", "NEARDUP_TOKEN"} <= added
    (volume,) = view["volumes"]
    assert volume.split(":")[0] not in serve["volumes"][0]
    assert view["command"][view["command"].index("--state") + 1].startswith(volume.split(":")[1])


def test_every_file_that_is_mounted_or_built_from_exists():
    """Paths are relative to the compose file."""
    for service in services().values():
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                assert (ROOT / volume.split(":")[0]).exists()
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_variables_of_the_shell_are_no_settings():
    """A neardup command in the same shell would refuse an unknown NEARDUP_ variable."""
    names = re.findall(r"(?<!\$)\$\{?(\w+)", COMPOSE.read_text())
    assert sorted(set(names)) == ["FILTERS", "LINKERS", "MATCHERS", "SERVE_TOKEN", "SIGNERS"]


def test_kafka_is_the_version_that_the_tests_run_with():
    """The image and the tests' pom name one version."""
    assert services()["kafka"]["image"] == f"apache/kafka:{kafka_version()}"


def test_kafka_takes_its_environment(tmp_path):
    """The set-up script of Kafka's image writes a configuration from these variables and formats the storage."""
    try:
        jars, java = resolve_jars(), find_java()
    except BrokerUnavailableError as error:
        absent(f"no Kafka: {error}")
    folders = {name: tmp_path / name for name in ("default", "mounted", "final", "data")}
    for folder in folders.values():
        folder.mkdir()
    for name in ("log4j2.yaml", "tools-log4j2.yaml"):
        (folders["default"] / name).write_text(LOGGING)
    (folders["default"] / "server.properties").write_text("")
    given = {**services()["kafka"]["environment"], "KAFKA_LOG_DIRS": str(folders["data"])}
    command = [java, "-cp", f"{jars}/*", "kafka.docker.KafkaDockerWrapper", "setup"]
    for option in ("default", "mounted", "final"):
        command += [f"--{option}-configs-dir", str(folders[option])]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    done = subprocess.run(command, env={**kept, **given}, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = (folders["final"] / "server.properties").read_text()
    assert written.count("=") == sum(name.startswith("KAFKA_") for name in given) - 1  # except the heap
    assert f"cluster.id={given['CLUSTER_ID']}" in Path(folders["data"] / "meta.properties").read_text()


def test_the_merged_services_share_their_settings():
    """All services share one block of settings; no service repeats it."""
    every = services()
    assert every["signer"]["environment"] == every["matcher"]["environment"] == every["topics"]["environment"]
    assert load(COMPOSE)["x-settings"] == every["signer"]["environment"]
