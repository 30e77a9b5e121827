"""Errors of PCIe links (AER) through the real engine: what is a fault, and how many incidents it makes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.engine.test_scenarios_of_gpus_and_pcie import Nodes

NONFATAL, CORRECTABLE = "pcie_aer_nonfatal_errors", "pcie_aer_correctable_errors"
ABOVE, CORRECTED_ABOVE = "pcie_above_uncorrected_errors", "pcie_above_corrected_errors"
SICK = "host-001"


def counting(rates: Mapping[str, float], seconds: float, adapters: int = 1, **labels: str) -> Nodes:
    nodes = Nodes(labels=labels)
    for n in range(adapters):
        nodes.nic_rates[SICK, n] = dict(rates)
    nodes.run(seconds)
    return nodes


@pytest.mark.parametrize("column", [NONFATAL, ABOVE, "pcie_aer_fatal_errors"])
def test_one_uncorrected_error_is_an_incident_for_five_minutes(column: str) -> None:
    nodes = Nodes()
    nodes.nic[SICK, 2][column] += 1.0
    nodes.run(20)
    (incident,) = nodes.firing()
    assert (incident.kind, incident.component) == ("pcie_errors", f"nic({SICK}/mlx5_2)")
    assert incident.severity == "warning"
    assert "counted 1 PCIe errors that were not corrected since" in incident.evidence[0].text
    nodes.run(270)
    assert nodes.firing(), "within five minutes of the last one"
    nodes.run(40)
    assert nodes.firing() == []


@pytest.mark.parametrize(("column", "a_minute", "told"), [
    (CORRECTABLE, 40.0, True), (CORRECTED_ABOVE, 40.0, True), (CORRECTABLE, 20.0, False),
])  # fmt: skip
def test_corrected_errors_count_above_what_a_good_link_has(column: str, a_minute: float, told: bool) -> None:
    """31 a minute at 32 GT/s with 16 lanes, on average."""
    nodes = counting({column: a_minute / 60.0}, 300.0)
    assert bool(nodes.told()) == told


def test_a_burst_of_corrected_errors_is_averaged_over_a_minute() -> None:
    nodes = Nodes()
    nodes.nic[SICK, 2][CORRECTABLE] += 25.0
    nodes.run(60)
    assert nodes.told() == set()


def test_counts_from_before_the_first_reading_and_cleared_ones_are_no_errors() -> None:
    nodes = Nodes()
    for host in nodes.hosts:
        nodes.nic[host, 1][NONFATAL] = 400.0
    nodes.run(20)
    nodes.run(320)  # calm again
    nodes.changed.clear()
    for host in nodes.hosts:
        nodes.nic[host, 1][NONFATAL] = 0.0
        nodes.enter(host)
    nodes.run(60)
    assert nodes.told() == set()


def test_a_link_that_is_slow_and_has_errors_is_one_incident() -> None:
    nodes = Nodes()
    nodes.nic[SICK, 1] |= {"pcie_width": 4.0, "pcie_path_width": 0.25}
    nodes.nic_rates[SICK, 1] = {NONFATAL: 0.2, CORRECTABLE: 2.0}
    nodes.run(120)
    (incident,) = nodes.firing()
    assert (incident.kind, incident.component) == ("pcie_degraded", f"nic({SICK}/mlx5_1)")
    assert any("not corrected" in evidence.text for evidence in incident.evidence)
