"""An incident says what else its symptoms would suggest, and why it is none of that."""

import pytest

from fabricmon.sim.scenarios.run import watch
from fabricmon.simulate.scenario_file import parse

TEXT = """
name: ruled-out
about: One fault on a small fabric.
fabric: {{shape: rail-optimised, sizes: {{units: 2, hosts: 8, rails: 4, spines: 2}}}}
duration: 90s
warmup: 30s
timeline:
  - fault: {fault}
    where: {where}
expect:
  only: false
"""


def told(fault, where):
    seen = watch(parse(TEXT.format(fault=fault, where=where), "ruled-out"), 1)
    last = {version.incident.id: version.incident for version in seen.versions}
    return {incident.kind: incident for incident in last.values()}


def test_a_single_link_is_not_its_host_nor_its_leaf_because_the_others_are_well():
    incident = told("link_down", "host-003/mlx5_1/1")["link_down"]
    reasons = {other.component: other.reason for other in incident.ruled_out}
    assert reasons["host(host-003)"] == "4 of its 5 observed members show no sign of it"  # the fifth is for storage
    assert reasons["leaf(su0/rail1)"] == "7 of its 8 observed members show no sign of it"
    assert not set(reasons) & {incident.component, *incident.candidates}


def test_a_leaf_is_not_many_broken_cables_because_each_would_have_to_fail_by_itself():
    incident = told("leaf_down", "su0/rail2")["fault_domain"]
    apart = incident.ruled_out[0]
    assert apart.component == "8 separate faults"
    assert apart.behind == pytest.approx(8 * 7.6 - 9.2 + 7 * 4.1, abs=8)  # and seven began within the same poll
    assert "times less likely" in apart.reason


def test_a_group_among_alternatives_is_behind_by_nats():
    incident = told("leaf_down", "su0/rail2")["fault_domain"]
    assert all(other.behind is None or other.behind > 2.3 for other in incident.ruled_out)
    assert len(incident.ruled_out) <= 6


CONGESTED = """
name: congested
about: A rail that waits, before the first reading or from later on.
fabric: {{shape: rail-optimised, sizes: {{units: 2, hosts: 16, rails: 4, spines: 2}}}}
duration: 3m
warmup: {warmup}
timeline:
  - fault: rail_congestion
    where: su0/rail2
    with: {{ratio: 0.35, share: 0.9, lasts: 5m}}
expect:
  only: false
"""


@pytest.mark.parametrize(("warmup", "severity"), [("0s", "info"), ("60s", "info"), ("120s", "warning")])
def test_what_may_be_normal_work_is_information_where_it_was_there_at_the_first_reading(warmup, severity):
    seen = watch(parse(CONGESTED.format(warmup=warmup), "congested"), 1)
    found = {v.incident.component: v.incident for v in seen.versions if v.incident.kind == "fault_domain"}
    assert {name: incident.severity for name, incident in found.items()} == {"rail(su0/2)": severity}
    assert found["rail(su0/2)"].confidence == pytest.approx(2 / 3, abs=1e-3)
