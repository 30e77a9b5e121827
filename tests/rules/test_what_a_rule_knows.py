"""What each rule about ports evaluates: of a port that is up, absent, down or not read; at work, idle or not read.

A port that is not known to a rule neither raises nor ends its symptom: what nobody reads is not healthy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from fabricmon.model import Kind
from fabricmon.rules import RULES
from tests.rules.bench_of_ports import Ports
from tests.rules.bench_of_pressure import Pressed

OF_PORTS = {rule.name for rule in RULES if rule.table is Kind.PORT}
LINK = {
    "link_down", "link_flapping", "link_errors", "link_degrading", "link_degraded", "nic_fault", "telemetry_quality",
}  # fmt: skip
AT_WORK = LINK | {"incast", "straggler"}
PRESSURE = {"slow_receiver", "credits_withheld", "incast", "congestion", "straggler"}


def absent(ports: Ports) -> None:
    ports.nics[0].remove(3)
    ports.enter(0)


def down(ports: Ports) -> None:
    ports.down(0, 3)
    if ports.layer == "Ethernet":
        ports.port[0, 3] |= {"carrier": 0.0, "operstate": 2.0, "netdev_rate": math.nan}


@pytest.mark.parametrize("layer", ["InfiniBand", "Ethernet"])
@pytest.mark.parametrize(
    ("happens", "evaluated"),
    [
        (lambda ports: None, AT_WORK),
        (absent, {"nic_fault"}),
        (down, {"link_down", "link_flapping", "nic_fault", "telemetry_quality"}),
        (lambda ports: ports.silent.add(0), set()),
    ],
    ids=["up", "absent", "down", "not read"],
)
def test_of_a_port_that_is(layer: str, happens: Callable[[Ports], None], evaluated: set[str]) -> None:
    ports = Ports(hosts=2, layer=layer)
    ports.polls(40)
    happens(ports)
    ports.polls(6)
    known = {rule for rule in OF_PORTS if ports.known(rule, 0, 3)}
    assert known == evaluated
    assert {rule for rule in OF_PORTS if ports.known(rule, 1, 3)} == AT_WORK


@pytest.mark.parametrize("layer", ["Ethernet", "InfiniBand"])
@pytest.mark.parametrize("state", ["at work", "idle", "not read"])
def test_of_a_port_under_pressure_that_is(layer: str, state: str) -> None:
    ports = Pressed(hosts=12, layer=layer)
    ports.polls(24)
    if state == "idle":
        ports.work([(0, 2)], 0.0)
        ports.polls(120)
    if state == "not read":
        ports.now += 40.0
        ports.engine.tick(ports.now)
    known = {rule for rule in PRESSURE | {"pfc_storm"} if ports.known(rule, 0, 2)}
    everything = PRESSURE | ({"pfc_storm"} if layer == "Ethernet" else set())
    idle = everything - {"congestion", "credits_withheld"}
    assert known == {"at work": everything, "idle": idle, "not read": set()}[state]
