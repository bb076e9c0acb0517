"""The Helm chart makes the objects that kustomize applies, and its values reach them."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from command import PROCESS_SECONDS_MAX, ROOT
from deploy_files import DEPLOY, load, manifests

from neardup_workers.outside.settings.kafka import StreamSettings

pytestmark = pytest.mark.processes
CHART = DEPLOY / "helm"
RENDERER = ROOT / "tests" / "support" / "plugs" / "render_chart.go"
Objects = dict[tuple[str, str], Any]


def values(**changed: Any) -> dict[str, Any]:
    """The values of the chart; of ``changed``, a dictionary goes into the one of the chart, and null takes away."""
    merged = copy.deepcopy(load(CHART / "values.yaml"))
    _merge(merged, changed)
    return merged  # type: ignore[no-any-return]


def _merge(into: dict[str, Any], changed: dict[str, Any]) -> None:
    for name, value in changed.items():
        if value is None:
            into.pop(name)
        elif isinstance(value, dict):
            _merge(into[name], value)
        else:
            into[name] = value


def by_name(documents: Any) -> Objects:
    """Objects by kind and name."""
    return {(each["kind"], each["metadata"]["name"]): each for each in documents if each}


def _run(words: list[Any], **given: Any) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PROCESS_SECONDS_MAX, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def by_go(folder: Path, changed: dict[str, Any]) -> Objects:
    """What Go's templates make."""
    if shutil.which("go") is None:
        pytest.skip("no go on the path")
    built_in = {"Values": values(**changed), "Release": {"Name": "neardup", "Namespace": "neardup", "Revision": 1}}
    names = sorted(path.name for path in (CHART / "templates").glob("*.yaml"))
    return by_name(yaml.safe_load_all(_run(["go", "run", RENDERER, CHART, *names], input=json.dumps(built_in))))


def by_helm(folder: Path, changed: dict[str, Any]) -> Objects:
    """What Helm makes, after its lint."""
    if shutil.which("helm") is None:
        pytest.skip("no helm on the path")
    (folder / "values.json").write_text(json.dumps(changed))
    given = ["--values", folder / "values.json"]
    _run(["helm", "lint", "--strict", CHART, *given])
    return by_name(yaml.safe_load_all(_run(["helm", "template", "neardup", CHART, "--namespace", "neardup", *given])))


@pytest.fixture(params=[by_go, by_helm])
def render(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Renders the chart with some values changed."""
    return lambda **changed: request.param(tmp_path, changed)


def test_the_chart_makes_what_kustomize_applies(render: Any) -> None:
    """Object by object, in every field, but for the namespace; the name of the job of topics has the revision."""
    (image,) = load(DEPLOY / "kubernetes" / "kustomization.yaml")["images"]
    applied = json.dumps([each for name, each in manifests() if name not in ("secret.example.yml", "namespace.yml")])
    expected = by_name(
        json.loads(applied.replace('"image": "neardup"', f'"image": "{image["newName"]}:{image["newTag"]}"'))
    )
    rendered = render()
    topics = rendered.pop(("Job", "neardup-topics-1"))
    topics["metadata"]["name"] = "neardup-topics"
    rendered["Job", "neardup-topics"] = topics
    assert rendered.keys() == expected.keys()
    for key, each in expected.items():
        assert rendered[key] == each, key


def test_values_reach_the_objects(render: Any) -> None:
    """Image, settings, topics, replicas, resources, secrets; a role without replicas leaves nothing behind."""
    rendered = render(
        image={"tag": "9"}, settings={"shards": "16", "standbys": "1", "topic_prefix": "other.", "kafka_config": None},
        kafkaSecret="login",
        roles={"matcher": {"replicas": 4, "resources": {"limits": {"memory": "9Gi"}}}, "view": {"replicas": 0},
               "serve": {"storage": "7Gi"}},
    )  # fmt: skip
    settings = rendered["ConfigMap", "neardup"]["data"]
    assert (settings["NEARDUP_SHARDS"], settings["NEARDUP_STANDBYS"]) == ("16", "1")
    assert settings["NEARDUP_TOPIC_PREFIX"] == "other."
    assert "NEARDUP_KAFKA_CONFIG" not in settings
    matcher = rendered["StatefulSet", "neardup-matcher"]["spec"]
    (container,) = matcher["template"]["spec"]["containers"]
    assert (matcher["replicas"], container["resources"]["limits"]) == (4, {"memory": "9Gi"})
    assert container["image"].endswith(":9")
    assert matcher["template"]["spec"]["volumes"][0]["secret"]["secretName"] == "login"
    (claim,) = rendered["StatefulSet", "neardup-serve"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "7Gi"
    assert not [name for _, name in rendered if name == "neardup-view"]
    for each in rendered.values():
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


def test_values_are_checked() -> None:
    """Against a schema: a number would be written as 1e+06; and each setting of the chart is one."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(values(), schema)
    for wrong in ({"settings": {"window_documents": 1_000_000}}, {"roles": {"matcher": {"kind": "Job"}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(values(**wrong), schema)
    assert values()["settings"].keys() <= StreamSettings.model_fields.keys()
