"""From probes to incidents: the part that loses is named, and no other."""

from __future__ import annotations

import pytest

from fabricmon.model import Presence
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


@pytest.mark.parametrize("published", [0, 1])
def test_what_a_late_agent_did_not_answer_in_time_blames_nobody(fleet, published):
    """Both cores busy: the agent of n3 is late in every second window, and says so at once or with its next one."""
    seen = set()
    for turn in range(18):
        late = turn % 2 == 0
        fleet.loss = lambda _, other, __, late=late: 0.2 if late and other == "n3" else 0.0
        fleet.void = {"n3"} if turn % 2 == published else set()
        seen |= set(words(fleet.step(1)))
    assert seen == set()
    fleet.loss, fleet.void = lambda one, other, _: 0.2 if "n3" in (one, other) else 0.0, set()
    ((kind, component),) = words(fleet.step(8))  # it is in time again, and its link loses
    assert kind == "packet_loss"
    assert "n3/mlx5_0" in component


def test_a_node_whose_responder_does_not_answer_is_unreachable_and_blames_no_link(fleet):
    fleet.loss = lambda one, other, _: 1.0 if other == "n3" else 0.0
    (incident,) = fleet.step(6)
    assert (incident.kind, incident.component) == ("unreachable", "host(n3)")
    assert "its responder does not answer" in " ".join(e.text for e in incident.evidence)


def test_an_adapter_that_reaches_nothing_says_so(fleet):
    fleet.loss = lambda one, other, _: 1.0 if "n3" in (one, other) else 0.0
    (incident,) = fleet.step(6)
    assert (incident.kind, incident.component) == ("unreachable", "host(n3)")
    assert "the adapter reaches nothing" in " ".join(e.text for e in incident.evidence)


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("late", [0.0, 0.3, 0.7])
def test_a_silence_that_begins_and_ends_within_windows_is_no_loss(fleet, both_ways, late):
    """The windows of every second agent end later than the others', so that two turns are partly silent."""
    fleet.step(6)
    seen = set()
    early = (0.5, 1.0, 1.0, 1.0, 1.0, 0.5, *(0.0 for _ in range(12)))
    other_half = (0.0, late or 1.0, 1.0, 1.0, 1.0, 1.0, late, *(0.0 for _ in range(11)))
    for shares in zip(early, other_half, strict=True):
        def loss(one, other, _, shares=shares):
            return shares[int(one[1:]) % 2] if other == "n3" or (both_ways and one == "n3") else 0.0

        fleet.loss = loss
        seen |= set(words(fleet.step(1)))
    assert seen == {("unreachable", "host(n3)")}
    assert fleet.step(1) == []


def test_a_silence_whose_first_window_one_agent_voids_is_no_lost_path(fleet):
    """Answers of before the silence come up to 24 s after its begin, from agents whose windows end late."""
    fleet.step(6)
    seen = set()
    for early, late, void in ((0.5, 0.0, {"n0"}), (1.0, 0.5, set()), *((1.0, 1.0, set()) for _ in range(4))):
        def loss(one, other, _, early=early, late=late):
            return (late if int(one[1:]) % 2 else early) if other == "n3" else 0.0

        fleet.loss, fleet.void = loss, void
        seen |= set(words(fleet.step(1)))
    assert seen == {("unreachable", "host(n3)")}


def test_a_node_that_is_gone_is_silent_and_not_unreachable(fleet):
    fleet.gone = {"n3"}
    fleet.engine.presence("n3", Presence.UNREACHABLE, "no answer", fleet.now)
    assert {kind for kind, _ in words(fleet.step(12))} <= {"agent_silent", "host_unreachable"}


def test_one_black_holed_source_port_is_one_path(fleet):
    name, target, udp = fleet._flows["n0"][-1]
    fleet.loss = lambda one, other, port: 1.0 if (one, port) == ("n0", udp) else 0.0
    (incident,) = fleet.step(6)
    assert (incident.kind, incident.component) == ("unreachable", "host(n0)")
    text = " ".join(e.text for e in incident.evidence)
    assert f"UDP port {udp}" in text
    assert f"other flows reach {target.full_name}" in text
    assert name


def test_a_pair_that_fails_both_ways_says_so(fleet):
    pairs = {(node, target.node) for node in fleet.nodes for _, target, _ in fleet._flows[node]}
    one, other = min(pair for pair in pairs if pair[::-1] in pairs)
    fleet.loss = lambda a, b, _: 1.0 if {a, b} == {one, other} else 0.0
    found = [incident for incident in fleet.step(6) if incident.kind == "unreachable"]
    assert {incident.component for incident in found} == {f"host({one})", f"host({other})"}
    assert all("fails both ways" in " ".join(e.text for e in incident.evidence) for incident in found)


def test_a_round_trip_far_above_its_usual_one_is_reported_and_ends(fleet):
    fleet.step(30)
    fleet.rtt = lambda one, other, _: 1e-3 if {one, other} & {"n3"} and leaf(one) == leaf(other) == 0 else 20e-6
    found = fleet.step(8)
    assert {incident.kind for incident in found} == {"latency"}
    assert "host(n3)" in {incident.component for incident in found}
    fleet.rtt = lambda *_: 20e-6
    assert fleet.step(8) == []


def test_round_trips_that_vary_within_their_limit_are_none(fleet):
    fleet.step(30)
    fleet.rtt = lambda *_: 45e-6
    assert fleet.step(12) == []
