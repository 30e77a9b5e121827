"""The Helm chart, rendered by a real helm, gives the objects of the kustomization it is made of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import need
from tests.rigs import helm, kustomize

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = {
    "prometheusOperator": "deploy/kubernetes/components/prometheus-operator",
    "prometheusRules": "deploy/kubernetes/components/prometheus-rules",
    "dashboards": "dashboards",
    "nodeCondition": "deploy/kubernetes/components/node-condition",
    "nodeTaint": "deploy/kubernetes/components/node-taint",
    "jobs": "deploy/kubernetes/components/jobs",
    "nvidia": "deploy/kubernetes/components/nvidia",
    "kernelLog": "deploy/kubernetes/components/kernel-log",
}
CHOICES = [(), ("nvidia",), ("kernelLog", "nodeCondition"), tuple(COMPONENTS)]


@pytest.fixture(scope="session", autouse=True)
def renderers() -> None:
    if kustomize.program() is None:
        need("kustomize", "to render deploy/kubernetes")
    if helm.program() is None:
        need("helm", "to render the chart")


@pytest.fixture(scope="session")
def chart(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("chart") / "fabricmon"
    subprocess.run([sys.executable, "packaging/chart.py", str(made)], cwd=ROOT, check=True, timeout=300)
    return made


def compared(objects: list[dict[str, Any]]) -> dict[str, str]:
    """Objects by kind and name, without what differs on purpose: the namespace object, which Helm does not make, the
    namespace, which it sets when it sends; the image; and how a changed configuration restarts the server."""
    found = {}
    for one in objects:
        if one["kind"] == "Namespace":
            continue
        one["metadata"].pop("namespace", None)
        if one["metadata"]["name"].startswith("fabricmon-central-") and one["kind"] == "ConfigMap":
            one["metadata"]["name"] = "fabricmon-central"
            one["data"] = {name: yaml.safe_load(text) for name, text in one["data"].items()}
        elif one["kind"] == "ConfigMap" and one["metadata"]["name"] == "fabricmon-central":
            one["data"] = {name: yaml.safe_load(text) for name, text in one["data"].items()}
        if one["kind"] in ("DaemonSet", "StatefulSet"):
            plain_pod(one["spec"]["template"])
        found[f"{one['kind']} {one['metadata']['name']}"] = json.dumps(one, sort_keys=True)
    return found


def plain_pod(template: dict[str, Any]) -> None:
    annotations = template["metadata"].get("annotations", {})
    if annotations.pop("checksum/config", None) and not annotations:
        del template["metadata"]["annotations"]
    if not template["spec"].get("imagePullSecrets"):
        template["spec"].pop("imagePullSecrets", None)
    for container in template["spec"]["containers"]:
        container.pop("imagePullPolicy", None)
        container["image"] = "fabricmon"
    for volume in template["spec"]["volumes"]:
        if "configMap" in volume:
            volume["configMap"]["name"] = volume["configMap"]["name"][: len("fabricmon-central")]


@pytest.mark.parametrize("choice", CHOICES, ids="-".join)
def test_the_chart_gives_what_the_kustomization_gives(chart, tmp_path, choice: tuple[str, ...]) -> None:
    overlay = {
        "namespace": "fabricmon",
        "resources": [os.path.relpath(ROOT / "deploy/kubernetes/base", tmp_path)],
        "components": [os.path.relpath(ROOT / COMPONENTS[value], tmp_path) for value in choice],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    wanted = compared(kustomize.rendered(tmp_path))
    assert compared(helm.rendered(chart, *(f"components.{value}=true" for value in choice))) == wanted


def test_helm_lints_the_chart_and_every_value_is_used(chart) -> None:
    done = helm.run("lint", "--strict", str(chart))
    assert done.returncode == 0, done.stdout
    text = "".join(path.read_text() for path in (chart / "templates").iterdir())
    values = yaml.safe_load((chart / "values.yaml").read_text())
    used = {f".Values.{name}" for name in values if name not in ("image", "components")}
    used |= {f".Values.{top}.{name}" for top in ("image", "components") for name in values[top]}
    assert values["components"].keys() == COMPONENTS.keys()
    assert [value for value in used if value not in text] == []


def test_the_values_of_a_site_are_in_the_objects(chart) -> None:
    made = helm.rendered(chart, "image.repository=r.example/f", "image.tag=7", "pullSecrets[0].name=key",
                         "config.central.external_url=https://f.example", "components.prometheusOperator=true",
                         "components.prometheusRules=true", "monitorLabels.release=kps")  # fmt: skip
    pods = [one["spec"]["template"]["spec"] for one in made if one["kind"] in ("DaemonSet", "StatefulSet")]
    assert {pod["containers"][0]["image"] for pod in pods} == {"r.example/f:7"}
    assert {pod["imagePullSecrets"][0]["name"] for pod in pods} == {"key"}
    (config,) = [one for one in made if one["kind"] == "ConfigMap"]
    assert yaml.safe_load(config["data"]["fabricmon.yaml"])["central"]["external_url"] == "https://f.example"
    monitors = [one for one in made if one["apiVersion"].startswith("monitoring")]
    assert [one["metadata"]["labels"]["release"] for one in monitors] == ["kps"] * 3


def test_a_changed_configuration_restarts_the_server(chart) -> None:
    def checksum(*settings: str) -> str:
        (server,) = [one for one in helm.rendered(chart, *settings) if one["kind"] == "StatefulSet"]
        return str(server["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert checksum() == checksum("components.jobs=true") != checksum("config.central.fabric=east")


@pytest.mark.parametrize(("setting", "named"), [
    ("config.central.kubernetes.enabeld=true", "enabeld"),
    ("components.nvidea=true", "nvidea"),
    ("config.central.interval=soon", "interval"),
])  # fmt: skip
def test_helm_refuses_a_misspelt_value_and_names_it(chart, setting: str, named: str) -> None:
    done = helm.run("template", "fabricmon", str(chart), "--set", setting)
    assert done.returncode != 0
    assert named in done.stderr
