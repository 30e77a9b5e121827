"""From probes to incidents: the part that loses is named, and no other."""

from __future__ import annotations

import pytest

from tests.probe.fleet_of_probes import ProbedFleet, words


def leaf(node, hosts=12):
    return int(node[1:]) // hosts


@pytest.fixture
def fleet():
    return ProbedFleet()


def test_a_healthy_fabric_has_no_incident(fleet):
    assert fleet.step(12) == []


def test_a_leaf_that_loses_one_percent_is_one_incident_within_a_minute(fleet):
    fleet.loss = lambda one, other, _: 0.02 if 0 in (leaf(one), leaf(other)) else 0.0
    assert words(fleet.step(6)) == [("fault_domain", "leaf(leaf-0)")]
    assert words(fleet.step(6)) == [("fault_domain", "leaf(leaf-0)")]
    fleet.loss = lambda *_: 0.0
    assert fleet.step(12) == []


def test_an_adapter_that_loses_is_one_incident_of_its_link_or_adapter(fleet):
    fleet.loss = lambda one, other, _: 0.1 if "n3" in (one, other) else 0.0
    ((kind, component),) = words(fleet.step(6))
    assert kind == "packet_loss"
    assert "n3/mlx5_0" in component


def test_void_windows_are_unknown(fleet):
    fleet.void = {"n5"}
    assert fleet.step(12) == []
