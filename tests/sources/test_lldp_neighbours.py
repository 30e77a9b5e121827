"""What lldpd tells of a host's neighbours, in the forms it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fabricmon import sources
from fabricmon.sources.formats.ports import port_number
from fabricmon.topology.graph import End


def entry(interface: str, switch: str, mac: str, port: dict[str, Any], **chassis: Any) -> dict[str, Any]:
    return {interface: {"chassis": {switch: {"id": {"type": "mac", "value": mac}, **chassis}}, "port": port}}


def ifname(name: str) -> dict[str, Any]:
    return {"id": {"type": "ifname", "value": name}, "ttl": "120"}


ETH0 = entry("eth0", "leaf-1", "02:00:00:00:00:01", ifname("swp12s0"))
ETH1 = entry("eth1", "leaf-2", "02:00:00:00:00:02", ifname("Ethernet7"))


def test_a_file_is_named_after_its_host(tmp_path: Path) -> None:
    path = tmp_path / "lldpctl-node-01.json"
    path.write_text(json.dumps({"lldp": {"interface": [ETH0, ETH1]}}))
    graph = sources.load(str(path))
    assert {a.id: (a.host, a.name) for a in graph.adapters.values()} == {
        "node-01/eth0": ("node-01", "eth0"), "node-01/eth1": ("node-01", "eth1"),
    }  # fmt: skip
    assert {graph.title(c) for c in graph.cables} == {
        "node-01/eth0/1, leaf-1/swp12s0", "node-01/eth1/1, leaf-2/7",
    }  # fmt: skip
    assert {(c.a, c.b) for c in graph.cables} == {
        (End("02:00:00:00:00:01", 12000), End("node-01/eth0", 1)),
        (End("02:00:00:00:00:02", 7), End("node-01/eth1", 1)),
    }


@pytest.mark.parametrize("lines", [False, True])
def test_many_hosts_in_one_file(tmp_path: Path, lines: bool) -> None:
    answers = {f"n{i}": {"lldp": {"interface": entry("eth0", "tor", "02:00:00:00:00:01", ifname(f"swp{i}"))}}
               for i in range(1, 5)}  # fmt: skip
    path = tmp_path / "all.json"
    path.write_text(
        "\n".join(json.dumps({host: answer}) for host, answer in answers.items()) if lines else json.dumps(answers)
    )
    graph = sources.load(str(path))
    assert sorted(graph.hosts) == ["n1", "n2", "n3", "n4"]
    assert len(graph.cables) == 4
    assert graph.shapes[0].kind == "star"


def test_a_mac_as_port_id_gives_way_to_the_description(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    port = {"id": {"type": "mac", "value": "02:00:00:00:00:99"}, "descr": "Ethernet1/12"}
    path.write_text(json.dumps({"lldp": {"interface": entry("eth0", "tor", "02:00:00:00:00:01", port)}}))
    graph = sources.load(str(path))
    assert graph.title(graph.cables[0]) == "n/eth0/1, tor/Ethernet1/12"


def test_neighbours_that_are_no_switches_or_tell_nothing(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    host = entry("eth1", "bmc", "02:00:00:00:00:03", ifname("eth0"), capability={"type": "Station", "enabled": True})
    nameless = {"eth2": {"chassis": {"id": {"type": "mac", "value": "02:00:00:00:00:04"}}, "port": ifname("swp1")}}
    twice = entry("eth3", "leaf-1", "02:00:00:00:00:01", ifname("swp12s0"))
    path.write_text(json.dumps({"lldp": {"interface": [ETH0, host, nameless, twice, {"eth4": {}}]}}))
    graph = sources.load(str(path))
    assert sorted(graph.adapters) == ["n/eth0", "n/eth2"]
    assert graph.findings[0].components == ("n/eth1", "n/eth3", "n/eth4")


def test_a_host_without_neighbours_is_a_host(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    path.write_text('{"lldp": {}}')
    graph = sources.load(str(path))
    assert (list(graph.hosts), graph.cables) == (["n"], ())


@pytest.mark.parametrize(
    ("text", "number"),
    [("swp3", 3), ("Ethernet12", 12), ("swp12s0", 12000), ("Ethernet1/12", 1012), ("ethernet12a", 12001), ("12", 12)],
)
def test_ports_have_a_number(text: str, number: int) -> None:
    assert port_number(text) == number


def test_ports_without_a_number_get_one_that_stays() -> None:
    assert port_number("uplink") == port_number("uplink") > 1 << 30
    assert port_number("uplink") != port_number("other")


def test_what_is_no_answer_of_lldpctl_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    path.write_text('{"a": {"lldp": {}}, "b": 3}')
    with pytest.raises(sources.SourceError, match="b: expected the output"):
        sources.load(str(path))


def test_a_real_answer(shared_dir: Path) -> None:
    graph = sources.load(str(shared_dir / "captures/lldp/lldpctl-dracog24.json"))
    (link,) = graph.cables
    assert graph.title(link) == "dracog24/eth1/1, TJWQHY_D2_401-C-01-47.VEGS0-0-50/ethernet12a"


def test_a_plan_in_the_switches_own_port_names(tmp_path: Path) -> None:
    plan, answer = tmp_path / "plan.yaml", tmp_path / "node-01.json"
    plan.write_text(
        "switches: {leaf-1: {}, leaf-2: {}}\nhosts: {node-01: {}}\nlinks:\n"
        "- {from: node-01/eth0, to: leaf-1/swp12s1}\n- {from: node-01/eth1, to: leaf-2/Ethernet7}\n"
    )
    answer.write_text(json.dumps({"lldp": {"interface": [ETH0, ETH1]}}))
    graph = sources.load_all([str(plan), str(answer)])
    (finding,) = graph.findings
    assert finding.kind == "miswired"
    assert finding.components == ("leaf-1/swp12s0", "leaf-1/swp12s1", "node-01/eth0/1")
