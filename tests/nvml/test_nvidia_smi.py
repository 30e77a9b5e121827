"""What nvidia-smi printed on real machines: read, played to the collectors, compared value by value."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from fabricmon.cli import main
from fabricmon.collect import COLLECTORS
from fabricmon.host.archive import FORMAT, VERSION, Archive, nvidia_smi
from fabricmon.host.archive.nvidia_smi import SmiError, nvlink_status, recorded
from fabricmon.host.recorded import RecordedHost
from tests.conftest import shared

gpu = COLLECTORS["gpu"]
nvlink = COLLECTORS["nvlink"]

QUERIES = ("qx-h100.xml", "qx-gb200.xml", "qx-t4.xml")


def captured(require: Callable[..., str], name: str) -> str:
    require("captures")
    return (shared() / "captures" / name).read_text()


def host(query: str, links: str = "") -> RecordedHost:
    return RecordedHost(recorded(Archive(FORMAT, VERSION, "", "host", 0.0, 0.0), query, links))


def rows(machine: RecordedHost, module: object) -> dict[str, tuple[dict[str, str], dict[str, float]]]:
    found: dict[str, tuple[dict[str, str], dict[str, float]]] = {}
    for session in module.open(machine, module.config()).sessions().values():  # type: ignore[attr-defined]
        reading = session.read()
        at = 0
        for part in reading.parts:
            for component in part.components:
                _, values = found.setdefault(component.name, (dict(component.labels), {}))
                values.update(zip(part.columns, reading.values[at : at + len(part.columns)], strict=True))
                at += len(part.columns)
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_every_gpu_of_a_captured_query(name: str, require: Callable[..., str]) -> None:
    text = captured(require, f"nvidia-smi/{name}")
    root = ET.fromstring(text)
    gpus = root.findall("gpu")
    found = rows(host(text), gpu)
    assert list(found) == [f"gpu{n}" for n in range(len(gpus))]

    def said(element: ET.Element, path: str) -> str:
        value = element.findtext(path)
        assert value is not None, path
        return "" if value == "N/A" else value

    for element, (labels, values) in zip(gpus, found.values(), strict=True):
        assert labels["uuid"] == said(element, "uuid")
        assert labels["model"] == said(element, "product_name")
        assert labels["driver"] == root.findtext("driver_version")
        assert labels["pci"] == element.attrib["id"][4:].lower()
        for label, path in (("chassis", "chassis_serial_number"), ("slot", "slot_number"), ("tray", "tray_index"),
                            ("module", "module_id")):  # fmt: skip
            assert labels.get(label, "") == said(element, f"platformInfo/{path}")
        link = "pci/pci_gpu_link_info"
        for column, path in {
            "gpu_pcie_generation": f"{link}/pcie_gen/current_link_gen",
            "gpu_pcie_max_generation": f"{link}/pcie_gen/max_link_gen",
            "gpu_pcie_width": f"{link}/link_widths/current_link_width",
            "gpu_pcie_max_width": f"{link}/link_widths/max_link_width",
            "gpu_pcie_replays": "pci/replay_counter",
            "gpu_pcie_replay_rollovers": "pci/replay_rollover_counter",
        }.items():
            assert values[column] == float(said(element, path).removesuffix("x")), column
        assert values["gpu_recovery_action"] == 0
        assert said(element, "gpu_recovery_action") == "None"
        state = said(element, "fabric/state")
        if not state:
            assert "gpu_fabric_state" not in values
            continue
        assert (state, values["gpu_fabric_state"]) == ("Completed", 3)
        assert (said(element, "fabric/status"), values["gpu_fabric_status"]) == ("Success", 0)
        cluster = said(element, "fabric/clusterUuid")
        single = set(cluster) <= set("0-")
        assert labels.get("cluster", "") == ("" if single else cluster)
        assert labels.get("clique", "") == ("" if single else said(element, "fabric/cliqueId"))
        assert values["gpu_fabric_health_verdict"] == {"": 0, "Healthy": 1}[said(element, "fabric/health/summary")]
        for column, path in {
            "gpu_fabric_degraded_bandwidth": "bandwidth",
            "gpu_fabric_route_recovery": "route_recovery_in_progress",
            "gpu_fabric_route_unhealthy": "route_unhealthy",
            "gpu_fabric_access_timeout_recovery": "access_timeout_recovery",
        }.items():
            word = said(element, f"fabric/health/{path}")
            assert word in ("", "Full", "False")
            assert values[column] == 0 if word else math.isnan(values[column])


def test_the_devices_of_a_recorded_query_are_unknown_and_not_missing() -> None:
    query = '<nvidia_smi_log><gpu id="00000000:01:00.0"/></nvidia_smi_log>'
    ((_, values),) = rows(host(query), COLLECTORS["inventory"]).values()
    assert all(math.isnan(values[f"node_{device}_found"]) for device in ("hcas", "gpus"))


def test_a_captured_query_is_checked_and_what_it_does_not_have_is_no_error(
    tmp_path: Path, require: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    require("captures")
    archive, query = str(tmp_path / "smi.gz"), str(shared() / "captures/nvidia-smi/qx-h100.xml")
    assert main(["capture", "-o", archive, "--nvidia-smi", query]) == 0
    capsys.readouterr()
    assert main(["check", "--host", archive]) == 0
    assert "checked 8 GPUs" in capsys.readouterr().out


def test_every_link_of_a_captured_status(require: Callable[..., str]) -> None:
    text = captured(require, "nvlink/nvidia-smi-nvlink-status-a100.txt")
    found = nvlink_status(text)
    lines = re.findall(r"Link (\d+): (\d+) GB/s", text)
    assert [(str(link), f"{speed / 1e9:.0f}") for one in found for link, speed in one.links.items() if speed] == lines
    assert [one.index for one in found] == list(range(8))
    assert all(one.uuid in text and one.model == "NVIDIA A100-SXM4-80GB" for one in found)
    # the same, played to the collector beside a query with those GPUs
    query = "<nvidia_smi_log>" + "".join(
        f'<gpu id="00000000:{n:02X}:00.0"><uuid>{one.uuid}</uuid></gpu>' for n, one in enumerate(found)
    )
    played = rows(host(f"{query}</nvidia_smi_log>", text), nvlink)
    for one in found:
        assert played[f"gpu{one.index}"][1]["gpu_nvlinks_active"] == 12
        for link, speed in one.links.items():
            values = played[f"gpu{one.index}/link{link}"][1]
            assert (values["nvlink_state"], values["nvlink_speed"]) == (1, speed)


def test_a_gpu_whose_links_are_all_inactive(require: Callable[..., str]) -> None:
    (one,) = nvlink_status(captured(require, "nvlink/nvidia-smi-nvlink-status-all-inactive.txt"))
    assert (one.index, one.links, one.inactive) == (6, {}, True)


def test_an_inactive_link_has_no_speed() -> None:
    uuid = "GPU-00000000-0000-0000-0000-000000000001"
    status = f"GPU 0: NVIDIA H100 (UUID: {uuid})\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
    query = f'<nvidia_smi_log><gpu id="00000000:1B:00.0"><uuid>{uuid}</uuid></gpu></nvidia_smi_log>'
    played = rows(host(query, status), nvlink)
    assert played["gpu0"][1]["gpu_nvlinks_active"] == 1
    assert played["gpu0"][1]["gpu_nvlinks_inactive_mask"] == 2
    assert played["gpu0/link0"][1]["nvlink_speed"] == pytest.approx(26.562e9)
    assert math.isnan(played["gpu0/link1"][1]["nvlink_speed"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no GPU"), ("Link 0: 25 GB/s\n", "line 1"), ("GPU 0: x (UUID: y)\nsomething else\n", "line 2"),
        ("GPU 0: x (UUID: y)\n\t Link 0: 26.56. GB/s\n", "line 2"),
    ],
)  # fmt: skip
def test_what_is_no_status(text: str, said: str) -> None:
    with pytest.raises(SmiError, match=said):
        nvlink_status(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not XML"), ("<a>", "line 1"), ("<log/>", "expected <nvidia_smi_log>"),
        ('<!DOCTYPE x [<!entity a "b">]><nvidia_smi_log/>', "entities"),
        (" " * (nvidia_smi.MOST_BYTES + 1), "more than"),
    ],
)  # fmt: skip
def test_what_is_no_query(text: str, said: str) -> None:
    with pytest.raises(SmiError, match=said):
        host(text)


def test_the_command_makes_a_machine_of_it(
    tmp_path: Path, require: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    require("captures")
    query = str(shared() / "captures/nvidia-smi/qx-gb200.xml")
    assert main(["capture", "--nvidia-smi", query, "--anonymise", "-o", str(tmp_path / "host.gz")]) == 0
    assert "4 GPUs" in capsys.readouterr().out
    found = rows(RecordedHost(str(tmp_path / "host.gz")), gpu)
    assert len({labels["cluster"] for labels, _ in found.values()}) == 1
    assert "1820000000001" not in {labels["chassis"] for labels, _ in found.values()}
    assert main(["capture", "--nvidia-smi", str(tmp_path / "none.xml"), "-o", str(tmp_path / "x.gz")]) == 1
    assert "none.xml" in capsys.readouterr().err
