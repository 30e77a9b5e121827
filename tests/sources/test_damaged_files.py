"""A damaged file of any format is a graph with findings or a SourceError that names it; nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon import sources
from fabricmon.sim import shapes
from fabricmon.sim.dump import write
from fabricmon.sources.text import load_yaml
from fabricmon.topology import findings, infer
from fabricmon.topology.graph import Graph
from fabricmon.topology.names import NodeNames

NEIGHBOUR = {
    "chassis": {"leaf": {"id": {"type": "mac", "value": "02:00:00:00:00:01"}, "capability": [{"type": "Bridge"}]}},
    "port": {"id": {"type": "ifname", "value": "swp1"}, "descr": "x"},
}
NODE = {"kind": "Node", "metadata": {"name": "n1", "labels": {
    "topology.k8s.aws/network-node-layer-3": "a", "topology.k8s.aws/network-node-layer-2": "b",
    "nvidia.com/gpu.clique": "u.1",
}}}  # fmt: skip
SAMPLES = {
    "ibnetdiscover": write(shapes.rail_optimised(1, 2, 2, 1)),
    "ibnetdiscover-p": "SW 11 1 0x01 4x NDR - CA 101 1 0x02 ( 'leaf' - 'n1 mlx5_0' )\nSW 11 2 0x01 4x SDR 'leaf'\n",
    "lldp": json.dumps({"n1": {"lldp": {"interface": [{"eth0": NEIGHBOUR}]}}}),
    "kubernetes": json.dumps({"kind": "List", "items": [NODE, NODE]}),
    "nccl": '<system version="1"><cpu numaid="0"><pci busid="0000:12:00.0" class="0x020700"><nic><net name="mlx5_0"/>'
    "</nic></pci></cpu></system>",
    "trays": json.dumps([{"DomainUUID": "u", "Name": "n", "LocationInfo": {"SlotID": 5}, "GpuIDList": ["a"]}]),
    "ndt": "StartDevice,StartPort,EndDevice,EndPort\na,Port 1,b,Blade 1_Port 1/2\nn1,HCA-1,a,Port 2\n",
    "slurm": "# s1=leaf\nSwitchName=s1 Nodes=n[1-3]\nSwitchName=s2 Switches=s1\nBlockName=b Nodes=n1\nBlockSizes=2\n",
    "slurm-yaml": "- topology: a\n  tree: {switches: [{switch: s1, nodes: 'n[1-3]'}, {switch: t, children: s1}]}\n"
    "- topology: b\n  torus3d: {toruses: [{name: t1, dims: {x: 2, y: 2, z: 2}, nodes: 'n[1-3]'}]}\n",
    "torus-2qos": "torus 3 3 3\nxp_link 0x1 0x2\nyp_link 0x1 0x3\n",
    "topograph": "switches:\n  a: {switches: [b]}\nblocks:\n- {switch: b, nodes: ['n[1-2]']}\n",
    "yaml": "switches: {l1: {level: 0}}\nhosts: {n1: {adapters: [mlx5_0]}}\nlinks: [{from: n1/mlx5_0, to: l1/1}]\n",
}


def parsed(kind: str, text: str) -> Graph:
    return findings.check(infer.annotate(sources.SOURCES[kind].parse(text, "file", NodeNames())))


def graph_or_error(kind: str, text: str) -> None:
    try:
        parsed(kind, text)
    except sources.SourceError as error:
        told = str(error)
    else:
        told = "file"
    assert told.startswith("file")


def test_every_source_has_a_sample_and_knows_its_own_only() -> None:
    assert SAMPLES.keys() == sources.SOURCES.keys()
    for kind, text in SAMPLES.items():
        first = next(name for name, source in sources.SOURCES.items() if source.sniff(text))
        assert first == kind
        graph = parsed(kind, text)
        assert graph.switches or graph.hosts


@pytest.mark.parametrize("kind", SAMPLES)
@settings(max_examples=30)
@given(st.data())
def test_damage_is_told(kind: str, data: st.DataObject) -> None:
    text = SAMPLES[kind]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        until = min(len(text), at + data.draw(st.integers(0, 12)))
        text = text[:at] + data.draw(st.text('0123456789abx{}[]()",:-=/\n \t#\\', max_size=5)) + text[until:]
    graph_or_error(kind, text)


WRONG = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**30) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def places(data: object) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in it."""
    if isinstance(data, dict | list):
        for key in list(data) if isinstance(data, dict) else range(len(data)):
            yield data, key
            yield from places(data[key])


@pytest.mark.parametrize("kind", ["lldp", "kubernetes", "trays", "slurm-yaml", "topograph", "yaml"])
@settings(max_examples=60)
@given(st.integers(0, 99), WRONG)
def test_a_value_of_another_type_is_told(kind: str, place: int, wrong: object) -> None:
    whole = load_yaml(SAMPLES[kind], "sample")  # JSON is YAML
    every = list(places(whole))
    holder, key = every[place % len(every)]
    holder[key] = wrong
    graph_or_error(kind, json.dumps(whole))
