"""The kustomizations render, are objects of a current Kubernetes, and run the daemons closed and with few rights."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fabricmon.cli import main
from tests.conftest import need
from tests.rigs import kustomize
from tests.rigs.certificates import Authority

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "kubernetes"
COMPONENTS = sorted(path.name for path in (DEPLOY / "components").iterdir())
IDENTITY = ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component")
VERSIONS = ("1.30", "1.34")


@pytest.fixture(scope="session", autouse=True)
def renderer():
    if kustomize.program() is None:
        need("kustomize", "to render deploy/kubernetes")


@pytest.fixture(scope="session")
def render(tmp_path_factory):
    """Objects of base with components, rendered as a site's overlay beside them."""
    made = {}

    def objects(*components):
        if components not in made:
            overlay = tmp_path_factory.mktemp("overlay")
            paths = [
                os.path.relpath(ROOT / "dashboards" if c == "dashboards" else DEPLOY / "components" / c, overlay)
                for c in components
            ]
            text = {"namespace": "fabricmon", "resources": [os.path.relpath(DEPLOY / "base", overlay)]}
            (overlay / "kustomization.yaml").write_text(yaml.safe_dump(text | {"components": paths}))
            made[components] = kustomize.rendered(overlay)
        return made[components]

    return objects


@pytest.fixture(scope="session")
def base(render):
    return render()


@pytest.fixture(scope="session")
def everything(render):
    return render(*COMPONENTS, "dashboards")


def only(objects, kind, name=None):
    (found,) = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    return found


def workloads(objects):
    return [o for o in objects if o["kind"] in ("DaemonSet", "StatefulSet")]


def pod(workload):
    return workload["spec"]["template"]["spec"]


def container(workload):
    (found,) = pod(workload)["containers"]
    return found


def rules(objects, account="fabricmon-central"):
    """(namespaced, resource, verbs) of all that a service account may do."""
    roles = {(o["kind"], o["metadata"]["name"]): o for o in objects if o["kind"] in ("Role", "ClusterRole")}
    found = []
    for binding in (o for o in objects if o["kind"] in ("RoleBinding", "ClusterRoleBinding")):
        if [s["name"] for s in binding["subjects"]] == [account]:
            role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
            for rule in role["rules"]:
                assert rule["apiGroups"] == [""]
                found += [(binding["kind"] == "RoleBinding", r, tuple(rule["verbs"])) for r in rule["resources"]]
    return sorted(found)


# --- they render, and are what Kubernetes knows


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_passes_the_strict_schema_of_kubernetes(everything, version):
    import kubernetes_validate

    custom = []
    for thing in everything:
        group = thing["apiVersion"].partition("/")[0]
        if "." in group and not group.endswith("k8s.io"):
            custom.append(thing["kind"])
        else:
            kubernetes_validate.validate(thing, version, strict=True)
    assert set(custom) == {"PodMonitor", "ServiceMonitor", "PrometheusRule", "Certificate", "Issuer"}


@pytest.mark.parametrize("component", [*COMPONENTS, "dashboards"])
def test_every_component_can_be_taken_by_itself(render, component):
    assert len(render(component)) >= len(render())


def test_the_example_is_a_whole_site_whose_configuration_the_server_accepts(tmp_path):
    objects = kustomize.rendered(DEPLOY / "overlays" / "example")
    assert {container(w)["image"] for w in workloads(objects)} == {"registry.example/fabricmon:1"}
    assert only(objects, "PodMonitor")["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    config = only(objects, "ConfigMap")
    mounted = next(v for v in pod(only(objects, "StatefulSet"))["volumes"] if v["name"] == "config")
    assert mounted["configMap"]["name"] == config["metadata"]["name"]
    accepted(config["data"]["fabricmon.yaml"], tmp_path)


def test_the_example_renders_with_everything_that_it_offers_switched_on(tmp_path):
    example = DEPLOY / "overlays" / "example"
    text, switched = re.subn(r"^  # - (?=\.\./)", "  - ", (example / "kustomization.yaml").read_text(), flags=re.M)
    assert switched
    offered = yaml.safe_load(text)
    assert sorted(Path(path).name for path in offered["components"]) == sorted([*COMPONENTS, "dashboards"])
    for part in ("resources", "components"):
        offered[part] = [os.path.relpath((example / path).resolve(), tmp_path) for path in offered[part]]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(offered))
    (tmp_path / "fabricmon.yaml").write_text((example / "fabricmon.yaml").read_text())
    objects = kustomize.rendered(tmp_path)
    selected = [o for o in objects if o["apiVersion"].startswith("monitoring.coreos.com/")]
    assert {o["kind"] for o in selected} == {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
    assert {o["metadata"]["labels"]["release"] for o in selected} == {"kube-prometheus-stack"}


def test_the_namespace_is_the_sites_choice(tmp_path):
    overlay = {"namespace": "telemetry", "resources": [os.path.relpath(DEPLOY / "base", tmp_path)]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    objects = kustomize.rendered(tmp_path)
    assert only(objects, "Namespace")["metadata"]["name"] == "telemetry"
    subjects = [s for o in objects if o["kind"].endswith("Binding") for s in o["subjects"]]
    assert {s["namespace"] for s in subjects} == {"telemetry"}


def test_the_configuration_of_the_base_is_one_the_server_accepts(base, tmp_path):
    accepted(only(base, "ConfigMap")["data"]["fabricmon.yaml"], tmp_path)


def test_the_configuration_of_the_component_tls_is_one_the_daemons_accept(render, require, tmp_path):
    require("openssl", "makes certificates")
    authority = Authority(tmp_path)
    issued = authority.issue("agent", "DNS:fabricmon-agent")
    for name, file in {"tls.crt": issued.cert, "tls.key": issued.key, "ca.crt": authority.ca}.items():
        file.replace(tmp_path / name)
    maps = [o for o in render("tls") if o["kind"] == "ConfigMap" and "web.yml" in o["data"]]
    assert len(maps) == 2, "the agents' and the server's"
    for thing in maps:
        for name, text in thing["data"].items():
            (tmp_path / name).write_text(re.sub(r"/etc/fabricmon[^/\s]*", str(tmp_path), text))
        central = f"central: {{web: {{config_file: {tmp_path}/web.yml}}}}"
        accepted(thing["data"].get("fabricmon.yaml", central).replace("/etc/fabricmon", str(tmp_path)), tmp_path)


def accepted(text, folder):
    path = folder / "fabricmon.yaml"
    path.write_text(text)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(["config", "check", str(path)])
    assert code == 0, said.getvalue()


def test_exported_rules_are_those_of_this_version(tmp_path):
    labels = [f"app.kubernetes.io/{name}=fabricmon" for name in ("name", "instance", "part-of")]
    flags = [word for label in labels for word in ("--label", label)]
    command = ["rules", "export", "--format", "kubernetes", "--dashboards", *flags, "-o"]
    assert main([*command, str(tmp_path / "rules.yaml")]) == 0
    kept = DEPLOY / "components/prometheus-rules/rules.yaml"
    again = f"fabricmon {' '.join(command)} {kept.relative_to(ROOT)}"
    assert kept.read_text() == (tmp_path / "rules.yaml").read_text(), f"write it anew: {again}"
    head = re.sub(r"\s*\\?\n#\s*", " ", kept.with_name("kustomization.yaml").read_text())
    assert f"fabricmon {' '.join(command)} {kept.name}" in head


def test_every_dashboard_is_a_config_map_for_the_sidecar(render):
    maps = [o for o in render("dashboards") if o["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
    held = {name: text for o in maps for name, text in o["data"].items()}
    assert set(held) == {path.name for path in (ROOT / "dashboards").glob("*.json")}
    for text in held.values():
        assert json.loads(text)["uid"]
        assert len(text) < 1 << 20, "a ConfigMap holds 1 MiB"


# --- labels and selectors


def test_every_object_carries_the_recommended_labels(base):
    for thing in base:
        expected = set(IDENTITY) - ({IDENTITY[2]} if thing["kind"] in ("Namespace", "PriorityClass") else set())
        assert expected <= set(thing["metadata"]["labels"]), thing["metadata"]["name"]


def test_selectors_use_only_what_never_changes_and_find_their_pods(everything):
    pods = [workload["spec"]["template"]["metadata"]["labels"] for workload in workloads(everything)]
    for workload in workloads(everything):
        assert set(workload["spec"]["selector"]["matchLabels"]) == set(IDENTITY)
    selectors = [only(everything, "Service")["spec"]["selector"]]
    selectors += [o["spec"]["podSelector"]["matchLabels"] for o in everything if o["kind"] == "NetworkPolicy"]
    selectors.append(only(everything, "PodMonitor")["spec"]["selector"]["matchLabels"])
    assert all(any(s.items() <= labels.items() for labels in pods) for s in selectors)
    service = only(everything, "Service")["metadata"]["labels"]
    assert only(everything, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items() <= service.items()


def test_the_server_looks_for_agents_by_the_labels_they_have(base):
    from fabricmon.central.targets.kubernetes_settings import AGENTS

    labels = only(base, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert {tuple(pair.split("=")) for pair in AGENTS.split(",")} <= set(labels.items())


# --- how they run


def test_one_agent_a_node_and_one_server(base):
    assert [(w["kind"], w["metadata"]["name"]) for w in workloads(base)] == [
        ("StatefulSet", "fabricmon-central"),
        ("DaemonSet", "fabricmon-agent"),
    ]


def test_pods_run_closed(base):
    for workload in workloads(base):
        security = container(workload)["securityContext"]
        assert pod(workload)["securityContext"]["runAsNonRoot"] is True
        assert pod(workload)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container(workload)["resources"]["limits"]
        assert pod(workload)["priorityClassName"] == only(base, "PriorityClass")["metadata"]["name"]
    assert only(base, "PriorityClass")["preemptionPolicy"] == "Never", "monitoring pushes no job aside"


def test_volumes_of_the_host_are_read_only_and_all_mounts_exist(everything):
    for workload in workloads(everything):
        volumes = {volume["name"]: volume for volume in pod(workload)["volumes"]}
        claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
        for mount in container(workload)["volumeMounts"]:
            assert mount["name"] in volumes.keys() | claims
            if "hostPath" in volumes.get(mount["name"], {}):
                assert mount["readOnly"] is True


def test_agents_run_on_every_node_whatever_its_taints(base):
    agent = only(base, "DaemonSet")
    assert {"operator": "Exists"} in pod(agent)["tolerations"]
    assert (pod(agent)["hostNetwork"], pod(agent)["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")


def test_arguments_exist_and_probes_ask_the_port_they_listen_on(everything):
    for workload in workloads(everything):
        verb, *flags = container(workload)["args"]
        command = [sys.executable, "-m", "fabricmon.cli", verb, "--help"]
        usage = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        assert [flag for flag in flags if flag.split("=")[0] not in usage] == []
        listen = next(flag for flag in flags if flag.startswith("--listen="))
        (port,) = container(workload)["ports"]
        assert listen.endswith(f":{port['containerPort']}")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = container(workload)[probe]["httpGet"]
            assert (asked["port"], asked["scheme"]) == (port["name"], "HTTPS"), "the component tls is among everything"
            assert asked["path"] in ("/-/ready", "/-/live")


def test_the_kernel_log_takes_a_privileged_container_and_says_so_whole(render):
    agent = only(render("kernel-log"), "DaemonSet")
    mount = next(m for m in container(agent)["volumeMounts"] if m["mountPath"] == "/dev/kmsg")
    assert mount["readOnly"] is True
    # the API server refuses a privileged container that may not escalate, and root where it says not root
    security = container(agent)["securityContext"]
    assert (security["privileged"], security["allowPrivilegeEscalation"]) == (True, True)
    assert pod(agent)["securityContext"]["runAsNonRoot"] is False
    assert pod(agent)["securityContext"]["runAsUser"] == 0


# --- rights


def test_agents_have_no_token_and_no_right(everything):
    agent = only(everything, "DaemonSet")
    assert pod(agent)["automountServiceAccountToken"] is False
    assert rules(everything, pod(agent)["serviceAccountName"]) == []


READ = [(False, "nodes", ("list", "watch")), (True, "pods", ("list", "watch"))]


@pytest.mark.parametrize(
    ("components", "more"),
    [
        ((), []),
        (("node-condition",), [(False, "nodes/status", ("patch",))]),
        (("node-taint",), [(False, "nodes", ("patch",))]),
        (("jobs",), [(False, "pods", ("list", "watch"))]),
    ],
)
def test_the_server_may_do_what_it_asks_for_and_nothing_else(render, components, more):
    assert rules(render(*components)) == sorted(READ + more)
