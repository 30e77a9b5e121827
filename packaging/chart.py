"""Makes the Helm chart of the kustomization in deploy/kubernetes: `packaging/chart.py DEST` (kustomize or kubectl).

The chart holds nothing of its own: each template is an object as kustomize renders it, with the site's values put in.
A component that adds objects is a condition around them, one that changes the agent is a variant of its DaemonSet. The
components tls and cert-manager need files of the site: for them use kustomize.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
ADDING = {
    "prometheusOperator": KUBERNETES / "components/prometheus-operator",
    "prometheusRules": KUBERNETES / "components/prometheus-rules",
    "dashboards": ROOT / "dashboards",
    "nodeCondition": KUBERNETES / "components/node-condition",
    "nodeTaint": KUBERNETES / "components/node-taint",
    "jobs": KUBERNETES / "components/jobs",
}
"""Value below `components` -> the component that adds objects."""
CHANGING = {"nvidia": KUBERNETES / "components/nvidia", "kernelLog": KUBERNETES / "components/kernel-log"}
"""Value below `components` -> the component that changes the agent."""

CONFIG = "fabricmon-central"
"""The ConfigMap; kustomize adds a hash of its content to the name, the chart an annotation to the server's pod."""

IMAGE = "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
CHECKSUM = '{{ include (print $.Template.BasePath "/configmap-fabricmon-central.yaml") . | sha256sum }}'
VALUES = """\
# Values of the chart. The kustomization that it is made of, and the reasons: docs/kubernetes.md
image:
  repository: registry.example/fabricmon   # a registry that the nodes reach
  tag: ""                                  # the chart's version
  pullPolicy: IfNotPresent
pullSecrets: []                            # [{name: my-registry}]
# Configuration of the central server, as in docs/fabricmon.yaml; values.schema.json checks it.
config:
  central:
    kubernetes:
      enabled: true
components:                                # what each gives and needs: docs/kubernetes.md#overlays
  prometheusOperator: false
  prometheusRules: false
  dashboards: false
  nodeCondition: false
  nodeTaint: false
  jobs: false
  nvidia: false
  kernelLog: false
# Labels by which your Prometheus selects monitors and rules: {release: kube-prometheus-stack}
monitorLabels: {}
"""
NOTES = """\
Agents and central server of fabricmon {{ .Chart.AppVersion }}. The namespace needs the label for host networking:

  kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=privileged
  kubectl -n {{ .Release.Namespace }} rollout status daemonset/fabricmon-agent statefulset/fabricmon-central
  kubectl -n {{ .Release.Namespace }} exec statefulset/fabricmon-central -- fabricmon notify test
  kubectl -n {{ .Release.Namespace }} port-forward service/fabricmon 9791:9791
"""


def rendered(*components: Path) -> list[dict[str, Any]]:
    """The objects of the base with components."""
    command = ["kustomize", "build"] if shutil.which("kustomize") else ["kubectl", "kustomize"]
    with tempfile.TemporaryDirectory() as folder:
        overlay = {
            "namespace": "fabricmon",
            "resources": [os.path.relpath(KUBERNETES / "base", folder)],
            "components": [os.path.relpath(component, folder) for component in components],
        }
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        done = subprocess.run([*command, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"chart: {done.stderr.strip()}")
    found = yaml.load_all(done.stdout, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return [one for one in found if one and one["kind"] != "Namespace"]


def name_of(found: dict[str, Any]) -> str:
    """A file's name: "daemonset-fabricmon-agent", without the hash of the configuration."""
    name = CONFIG if found["metadata"]["name"].startswith(f"{CONFIG}-") else found["metadata"]["name"]
    return f"{found['kind'].lower()}-{name}"


def valued(found: dict[str, Any]) -> dict[str, Any]:
    """An object with the site's values in it. Helm sets the namespace."""
    found["metadata"].pop("namespace", None)
    for subject in found.get("subjects", ()):
        subject["namespace"] = "{{ .Release.Namespace }}"
    if name_of(found) == f"configmap-{CONFIG}":
        found["metadata"]["name"] = CONFIG
        found["data"] = {"fabricmon.yaml": "<<config>>"}
    if found["apiVersion"].startswith("monitoring.coreos.com/"):
        found["metadata"]["labels"]["<<monitorLabels>>"] = ""
    if found["kind"] in ("DaemonSet", "StatefulSet"):
        template = found["spec"]["template"]
        template["spec"]["imagePullSecrets"] = "<<pullSecrets>>"
        for container in template["spec"]["containers"]:
            container["image"], container["imagePullPolicy"] = IMAGE, "{{ .Values.image.pullPolicy }}"
        for volume in template["spec"]["volumes"]:
            if volume.get("configMap", {}).get("name", "").startswith(CONFIG):
                volume["configMap"]["name"] = CONFIG
                template["metadata"].setdefault("annotations", {})["checksum/config"] = CHECKSUM
    return found


def text_of(found: dict[str, Any]) -> str:
    """An object as a template."""
    text = yaml.safe_dump(found, sort_keys=False, width=10_000)
    text = re.sub(r"'(\{\{.*\}\})'", r"\1", text)
    text = text.replace("'<<config>>'", "<<config>>")
    text = text.replace("<<config>>", "|\n    {{- toYaml .Values.config | nindent 4 }}")
    text = re.sub(r"imagePullSecrets: .*", "imagePullSecrets: {{- toYaml .Values.pullSecrets | nindent 8 }}", text)
    return re.sub(
        r"( +)'?<<monitorLabels>>'?: ''\n",
        lambda found: "    {{- with .Values.monitorLabels }}{{ toYaml . | nindent 4 }}{{ end }}\n", text)  # fmt: skip


def write(dest: Path, found: dict[str, Any], condition: str = "", suffix: str = "") -> None:
    """The template of an object. What has braces of its own (alerts, dashboards) lies in a file beside it."""
    name = name_of(found) + suffix
    found = valued(found)
    rest = {key: found[key] for key in ("spec", "data") if key in found and "{{" in json.dumps(found[key])}
    text = ""
    if rest and found["kind"] not in ("DaemonSet", "StatefulSet"):
        (dest / "files" / f"{name}.yaml").write_text(yaml.safe_dump(rest, sort_keys=False, width=10_000))
        found = {key: value for key, value in found.items() if key not in rest}
        text = f'{{{{ .Files.Get "files/{name}.yaml" }}}}\n'
    text = text_of(found) + text
    if condition:
        text = f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
    (dest / "templates" / f"{name}.yaml").write_text(text)


def make(dest: Path) -> None:
    """Write the chart."""
    version = re.findall(r'^__version__ = "(.+)"', (ROOT / "fabricmon/__init__.py").read_text(), re.MULTILINE)[0]
    shutil.rmtree(dest, ignore_errors=True)
    for folder in ("templates", "files"):
        (dest / folder).mkdir(parents=True)
    chart = {
        "apiVersion": "v2", "name": "fabricmon", "version": version, "appVersion": version, "type": "application",
        "description": "Fabric telemetry and health monitoring for GPU clusters", "kubeVersion": ">=1.25.0-0",
    }  # fmt: skip
    (dest / "Chart.yaml").write_text(yaml.safe_dump(chart, sort_keys=False))
    (dest / "values.yaml").write_text(VALUES)
    (dest / "templates/NOTES.txt").write_text(NOTES)
    config = (ROOT / "docs/schemas/fabricmon.schema.json").read_text()
    switches = json.dumps({name: {"type": "boolean"} for name in (*ADDING, *CHANGING)})
    components = f'{{"type": "object", "additionalProperties": false, "properties": {switches}}}'
    schema = f'{{"type": "object", "properties": {{"components": {components}, "config": {config}}}}}'
    (dest / "values.schema.json").write_text(schema)
    base = {name_of(found): found for found in rendered()}
    for name, found in base.items():
        if name != "daemonset-fabricmon-agent":
            write(dest, found)
    for parts in (parts for n in range(len(CHANGING) + 1) for parts in itertools.combinations(CHANGING, n)):
        agent = next(one for one in rendered(*(CHANGING[part] for part in parts)) if one["kind"] == "DaemonSet")
        words = (f".Values.components.{v}" if v in parts else f"(not .Values.components.{v})" for v in CHANGING)
        write(dest, agent, f"and {' '.join(words)}", "".join(f"-{part.lower()}" for part in parts))
    for value, component in ADDING.items():
        for found in rendered(component):
            if name_of(found) not in base:
                write(dest, found, f".Values.components.{value}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    make(Path(sys.argv[1]))
