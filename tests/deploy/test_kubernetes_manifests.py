"""The manifests run the daemons as the image and the commands are, without root and closed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    document
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
WORKLOADS = [document for document in DOCUMENTS if "template" in document.get("spec", {})]
IDENTITY = ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component")


def pod(workload):
    return workload["spec"]["template"]["spec"]


def container(workload):
    (only,) = pod(workload)["containers"]
    return only


def name(document):
    return f"{document['kind']}-{document['metadata']['name']}"


def test_one_agent_a_node_and_one_centre():
    assert sorted(name(workload) for workload in WORKLOADS) == [
        "DaemonSet-fabricmon-agent",
        "StatefulSet-fabricmon-central",
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_object_carries_the_recommended_labels(document):
    assert set(IDENTITY) <= set(document["metadata"]["labels"])


@pytest.mark.parametrize("workload", WORKLOADS, ids=name)
def test_selectors_use_only_what_never_changes(workload):
    selector = workload["spec"]["selector"]["matchLabels"]
    assert set(selector) == set(IDENTITY)
    assert selector.items() <= workload["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("workload", WORKLOADS, ids=name)
def test_pod_runs_closed(workload):
    security = container(workload)["securityContext"]
    assert pod(workload)["securityContext"]["runAsNonRoot"] is True
    assert pod(workload)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(workload)["automountServiceAccountToken"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert "memory" in container(workload)["resources"]["limits"]


@pytest.mark.parametrize("workload", WORKLOADS, ids=name)
def test_volumes_of_the_host_are_read_only_and_all_mounts_exist(workload):
    volumes = {volume["name"]: volume for volume in pod(workload).get("volumes", [])}
    claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
    for mount in container(workload)["volumeMounts"]:
        assert mount["name"] in volumes.keys() | claims
        if "hostPath" in volumes.get(mount["name"], {}):
            assert mount["readOnly"] is True


def test_agent_runs_on_every_node_whatever_its_taints():
    (agent,) = [workload for workload in WORKLOADS if workload["kind"] == "DaemonSet"]
    assert {"operator": "Exists"} in pod(agent)["tolerations"]
    assert pod(agent)["hostNetwork"] is True
    assert pod(agent)["dnsPolicy"] == "ClusterFirstWithHostNet"


@pytest.mark.parametrize("workload", WORKLOADS, ids=name)
def test_arguments_exist_and_probes_ask_the_port_they_listen_on(workload):
    verb, *flags = container(workload)["args"]
    usage = subprocess.run(
        [sys.executable, "-m", "fabricmon.cli", verb, "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert [flag for flag in flags if flag.split("=")[0] not in usage] == []
    listen = next(flag for flag in flags if flag.startswith("--listen="))
    (port,) = container(workload)["ports"]
    assert listen.endswith(f":{port['containerPort']}")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container(workload)[probe]["httpGet"]["port"] == port["name"]
        assert container(workload)[probe]["httpGet"]["path"] in ("/-/ready", "/-/live")


def test_configuration_in_the_manifest_is_one_the_centre_accepts(tmp_path):
    (config,) = [document for document in DOCUMENTS if document["kind"] == "ConfigMap"]
    path = tmp_path / "fabricmon.yaml"
    path.write_text(config["data"]["fabricmon.yaml"])
    run = subprocess.run(
        [sys.executable, "-m", "fabricmon.cli", "config", "check", path], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_services_select_pods_that_exist():
    pods = [workload["spec"]["template"]["metadata"]["labels"] for workload in WORKLOADS]
    for service in (document for document in DOCUMENTS if document["kind"] == "Service"):
        assert any(service["spec"]["selector"].items() <= labels.items() for labels in pods)


def test_image_runs_without_root_and_installs_by_hash_only():
    text = (ROOT / "Dockerfile").read_text()
    stages = text.split("\nFROM ")
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", stages[-1], re.MULTILINE)
    for line in re.sub(r"\\\n", " ", text).split("&&"):
        if "pip install" in line:
            assert "--require-hashes" in line or "--no-deps" in line


def test_the_patch_for_the_kernel_log_fits_the_agents_manifest_and_mounts_to_read_only():
    (agent,) = [workload for workload in WORKLOADS if workload["kind"] == "DaemonSet"]
    patch = yaml.safe_load((ROOT / "deploy/kubernetes/kernel-log/agent-daemonset.patch.yaml").read_text())
    assert container(patch)["name"] == container(agent)["name"]
    (mount,), (volume,) = container(patch)["volumeMounts"], pod(patch)["volumes"]
    assert (mount["name"], mount["mountPath"], mount["readOnly"]) == (volume["name"], "/dev/kmsg", True)
    assert volume["name"] not in {known["name"] for known in pod(agent)["volumes"]}
    # the API server refuses a privileged container that may not escalate, and root where it says not root
    assert container(patch)["securityContext"] == {"allowPrivilegeEscalation": True, "privileged": True}
    assert pod(patch)["securityContext"] == {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0}
