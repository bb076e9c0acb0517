"""The manifests meet the schemas of Kubernetes and the needs of the workers."""

from __future__ import annotations

import copy
import re

import kubernetes_validate
import pytest
from deploy_files import DEPLOY, documents, load, manifests, pods

from neardup_workers.outside.settings.client_properties import TRANSACTION_TIMEOUT_SECONDS
from neardup_workers.outside.settings.files import ENVIRONMENT_PREFIX
from neardup_workers.outside.settings.kafka import StreamSettings

FOLDER = DEPLOY / "kubernetes"
NAMED = [pytest.param(document, id=f"{document['kind']}-{document['metadata']['name']}") for _, document in manifests()]
# The oldest version that clouds offer, and the newest version that the package knows.
VERSIONS = ("1.31", kubernetes_validate.latest_version())


def objects(kind):
    return {d["metadata"]["name"]: d for _, d in manifests() if d["kind"] == kind}


def containers():
    for name, pod in pods().items():
        for container in pod["spec"]["containers"]:
            yield name, pod, container


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", NAMED)
def test_each_object_meets_its_schema(document, version):
    """Each object has only known fields of the right types."""
    kubernetes_validate.validate(document, version, strict=True)


def test_a_field_that_does_not_exist_would_be_found():
    """The schema check rejects an unknown field."""
    (job,) = copy.deepcopy(objects("Job")).values()
    job["spec"]["template"]["spec"]["containers"][0]["arguments"] = ["topics"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, VERSIONS[-1], strict=True)


def test_all_but_the_example_is_applied():
    """The operator makes the secret by hand; the kustomization lists all other files, in one namespace."""
    files = {name for name, _ in manifests()}
    assert set(load(FOLDER / "kustomization.yaml")["resources"]) == files - {"secret.example.yml"}
    (namespace,) = objects("Namespace")
    assert {d["metadata"].get("namespace", namespace) for _, d in manifests()} == {namespace}


def test_the_example_of_the_secret_has_no_values():
    """The example has keys only: the files of the login to Kafka, and a variable that holds the token."""
    for document in documents(FOLDER / "secret.example.yml"):
        assert set(document["stringData"].values()) == {""}
    assert set(objects("Secret")["neardup"]["stringData"]) == {"client.properties", "ca.crt"}
    assert set(objects("Secret")["neardup-serve"]["stringData"]) == {f"{ENVIRONMENT_PREFIX}TOKEN"}


def test_no_other_file_has_a_secret():
    """Neither the public settings nor the pods contain the value of a password."""
    (settings,) = objects("ConfigMap").values()
    assert not [name for name in settings["data"] if "PASSWORD" in name or "USERNAME" in name]
    for name, pod, container in containers():
        mounted = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
        if {"configMapRef": {"name": "neardup"}} in container.get("envFrom", []) and name != "neardup-serve":
            assert settings["data"]["NEARDUP_KAFKA_CONFIG"] == f"{mounted['kafka']}/client.properties"
            assert [v["secret"]["secretName"] for v in pod["spec"]["volumes"] if v["name"] == "kafka"] == ["neardup"]
    for _, _, container in containers():
        secret = [each for each in container.get("env", []) if re.search("PASSWORD|TOKEN", each["name"])]
        assert all("value" not in variable and "secretKeyRef" in variable["valueFrom"] for variable in secret)


@pytest.mark.parametrize(("pod", "container"), [pytest.param(p, c, id=f"{n}-{c['name']}") for n, p, c in containers()])
def test_nothing_runs_as_root_or_writes_to_its_image(pod, container):
    """The namespace enforces the restricted profile; the root file system is read-only."""
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert pod["spec"]["securityContext"]["runAsUser"] >= 10_000
    assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert {"requests", "limits"} <= set(container["resources"])


def test_services_give_no_variables_to_the_pods():
    """Variables of a service neardup-... would begin with NEARDUP_, and workers refuse unknown settings."""
    assert all(pod["spec"]["enableServiceLinks"] is False for pod in pods().values())


def test_pods_start_without_copies_of_files_of_the_image():
    """The machine code stands in the image, and nothing is compiled."""
    assert "NEARDUP_KERNELS=built" in (DEPLOY / "Dockerfile").read_text()
    assert all("initContainers" not in pod["spec"] for pod in pods().values())


def test_each_worker_has_a_name_of_its_own():
    """The worker uses the pod's name, which is unique, stable, short enough and valid for the setting."""
    for name in ("neardup-signer", "neardup-matcher", "neardup-linker", "neardup-filter"):
        (container,) = pods()[name]["spec"]["containers"]
        given = {variable["name"]: variable for variable in container["env"]}
        assert given["NEARDUP_INSTANCE"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
        StreamSettings(instance=f"{name}-6f7c9d8b5d-x2x9z")
    assert sorted(objects("StatefulSet")) == ["neardup-filter", "neardup-linker", "neardup-matcher", "neardup-serve"]
    assert {each["spec"]["podManagementPolicy"] for each in objects("StatefulSet").values()} == {"Parallel"}


def test_probes_ask_for_life_and_readiness():
    """/healthz decides on a restart, /readyz on the pace of an update; the first start may have to load kernels."""
    workers = ("neardup-signer", "neardup-matcher", "neardup-linker", "neardup-filter")
    for name in (*workers, "neardup-serve", "neardup-view"):
        port = "health" if name in workers else "http"
        (container,) = pods()[name]["spec"]["containers"]
        paths = {key: probe["httpGet"] for key, probe in container.items() if key.endswith("Probe")}
        assert paths == {
            "startupProbe": {"path": "/healthz", "port": port},
            "livenessProbe": {"path": "/healthz", "port": port},
            "readinessProbe": {"path": "/readyz", "port": port},
        }
        assert [each["name"] for each in container["ports"]] == [port]


def test_a_pod_has_time_to_finish_its_step():
    """The grace period is longer than the longest transaction."""
    for name in ("neardup-signer", "neardup-matcher"):
        seconds = pods()[name]["spec"]["terminationGracePeriodSeconds"]
        assert seconds > 2 * TRANSACTION_TIMEOUT_SECONDS


def test_names_and_labels_that_refer_to_each_other_agree():
    """Selectors match their pods, mounts name volumes, pods name existing settings and secrets."""
    for kind in ("Deployment", "StatefulSet"):
        for name, workload in objects(kind).items():
            labels = workload["spec"]["template"]["metadata"]["labels"]
            assert workload["spec"]["selector"]["matchLabels"] == labels == workload["metadata"]["labels"]
            assert objects("Service")[name]["spec"]["selector"] == labels
            assert objects("PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"] == labels
    assert objects("StatefulSet")["neardup-matcher"]["spec"]["serviceName"] in objects("Service")
    for name, pod, container in containers():
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        claimed = objects("StatefulSet").get(name, {"spec": {}})["spec"].get("volumeClaimTemplates", [])
        claims = {claim["metadata"]["name"] for claim in claimed}
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= {*volumes, *claims}
        secrets = [volume["secret"]["secretName"] for volume in volumes.values() if "secret" in volume]
        references = [each["valueFrom"] for each in container.get("env", []) if "valueFrom" in each]
        secrets += [each["secretKeyRef"]["name"] for each in references if "secretKeyRef" in each]
        assert set(secrets) <= set(objects("Secret"))
        for source in container.get("envFrom", []):
            kind = {"configMapRef": "ConfigMap", "secretRef": "Secret"}[next(iter(source))]
            assert next(iter(source.values()))["name"] in objects(kind)
